// Package prompt is the working view: it puts instructions, tools, the
// conversation and the live state in order for one request.
//
// It must not know wires, stores or clocks, and it decides nothing: the
// conversation is the transcript's, the state is the core's snapshot. What may
// change from one request to the next stands in the state block at the end and
// nowhere else, so that a provider's cache keeps everything before it.
//
// # What may stand where
//
//	System    the instructions, the same for every goal of this version, then
//	          the repository's own rules as they were when the goal started
//	Tools     in the order in which they are registered
//	Messages  what package transcript projects: append-only between compactions
//	State     the live block: rebuilt for every request, at most MaxState bytes
//
// Instructions and tools together stay under MaxFixed bytes; a test measures
// that with the real tools. The repository's rules come on top, at most
// MaxRules: they are the repository's words, marked as such, and widen nothing.
package prompt
