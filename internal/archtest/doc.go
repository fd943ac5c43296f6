// Package archtest fails the build when the code leaves the shape that DESIGN
// section 3 gives it. Its one job is to turn the rules of the house into
// failures that name the rule, the place and what to do.
//
// The rules are plain functions over a description of the source (Source), so
// that each of them is itself tested on a small tree that breaks it. The
// description comes from `go list -deps` for the packages and from go/ast for
// what stands in their files. Files behind build tags are read too: a rule
// that a build tag can switch off is no rule.
//
// The rules:
//
//   - floors: every package has a row in the table of rooms, and imports only
//     from floors below its own. Same-floor imports are listed one by one, each
//     with its reason. Adapters never import each other; only cmd/belay sees
//     them.
//   - purity: the packages that decide import nothing with which one could do
//     I/O, read a clock, draw a random number, start a goroutine or log, and
//     only such packages of our own.
//   - documents: every package says its job in its doc comment.
//   - sizes: production files of at most 600 lines, functions of at most 80.
//   - weight: no module enters the program that was measured to be too heavy.
//   - test helpers stay out of production code.
//
// The package must not know what any of the code does.
package archtest
