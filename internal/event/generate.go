package event

// docs/events.md is written from this package's own source; a test in gen
// fails when the two differ.
//go:generate go run ./gen -out ../../docs/events.md
