// Package event is the vocabulary of facts: the envelope that every event has,
// one typed payload for each event type, their codec with versions and
// upcasting, and the hash chain.
//
// An event says what happened, never what should happen. Nothing here decides,
// stores or shows anything; the package must not know the core, a store or a
// clock.
//
// # Evolution
//
// Type names and JSON field names are stored for ever. A new optional field is
// added in place. A change of meaning raises the type's version and adds an
// upcaster from the version before. An event of a type or version that this
// binary does not know decodes to Unknown, keeps its bytes, and makes the core
// refuse to advance the goal.
//
// # Size
//
// A payload over SpillThreshold is stored as an artifact, whole; the record
// keeps its head and its address. Reading is transparent. The hash chain
// covers the address and so the content.
package event
