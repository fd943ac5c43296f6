// Package modeltest is for tests alone: one conformance suite that every
// adapter passes, and a provider that speaks the real wires over HTTP, strict
// as the real ones and as unreliable as they can be.
//
// It must not be imported by production code.
package modeltest
