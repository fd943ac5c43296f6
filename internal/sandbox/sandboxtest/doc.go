// Package sandboxtest holds the suites that every backend of the sandbox port
// passes: what a command may still do (Conform), and what it may not (Escapes).
// It knows backends only by the port; which are run is its caller's matter.
//
// An attempt to escape counts as held only because the same attempt succeeds
// without a sandbox on the same machine: each has a control. A test binary
// that runs the suites calls Main first, for it is also the program that the
// attempts run.
package sandboxtest
