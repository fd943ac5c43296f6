// Package anthropic speaks the Anthropic Messages protocol.
//
// It must not know goals, tools' behaviour, other adapters or retries: it
// turns one neutral request into one HTTP exchange and the reply into one
// neutral response.
//
// # What goes back unchanged
//
// Thinking is signed and redacted thinking is encrypted: both are kept as the
// provider's own block in a part's data and sent back as they came, in their
// place. A block type that this package does not know is kept the same way.
//
// # Where the cache is told to look
//
// A breakpoint stands on the instructions (which covers the tools before
// them), and one on the last block that later requests repeat, before the
// state block. The provider looks back only about twenty blocks from a
// breakpoint for what it has cached; when one response with its results is
// longer than that, the place of the previous request's breakpoint gets one
// again. Breakpoints are no part of what is cached, but they are bytes: the
// stable part of a request ends before the first one among the messages.
//
// # Whole or cut
//
// A stream is whole when message_stop came. An error event inside it is the
// provider's error, whatever came before.
package anthropic
