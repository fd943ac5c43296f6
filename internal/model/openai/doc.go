// Package openai speaks the OpenAI-compatible Chat Completions protocol: the
// wire of OpenAI itself and of Ollama, vLLM, llama.cpp, OpenRouter and many
// others.
//
// It must not know goals, tools' behaviour, other adapters or retries: it
// turns one neutral request into one HTTP exchange and the reply into one
// neutral response.
//
// # What servers really send
//
// The protocol is spoken with accents, and all of these are read: calls in
// pieces or whole, with or without an index or an id, an id repeated in every
// chunk or split over chunks, one index for several calls, arguments as an
// object instead of a string; usage in a chunk of its own, in every chunk, or
// not at all; reasoning as reasoning_content, reasoning or reasoning_details;
// content as a string or as a list; a whole reply where a stream was asked
// for; [DONE] left out after a finish reason; errors inside the stream.
//
// A reply is whole when a finish reason or [DONE] came. Anything less is a cut
// stream.
//
// # What goes back
//
// Reasoning goes back only to servers other than OpenAI's own, and only with
// messages that call tools: there it belongs to the calls' context and some
// servers demand it. A thought signature on a call always goes back with it.
//
// # Bytes
//
// A request is model, stream options, tools, messages, and after them the
// output limit. State is the end of the last user message, or a user message
// of its own after tool results.
package openai
