// Package compat holds belay's own model wires against the official SDKs and a
// real vocabulary. It is a module of its own because building those takes
// minutes; the program itself never does.
//
// Run it with `go test -mod=mod ./...` in this folder after a change to a wire;
// -mod=mod follows what the program itself requires by now.
package compat
