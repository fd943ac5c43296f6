// Package recall is the port for finding again what a goal went through and
// what its repository holds: events of the ledger and files of a tree, by text,
// by symbols and by likeness, fused into one list.
//
// It holds the interface and its types, and the rules that need no I/O: how a
// text falls into terms (terms.go), how a request in words is read (query.go),
// what of an event can be found (document.go), how an event reads (render.go),
// and how several rankings become one (fuse.go). It must not know how an index is
// kept; adapters live in the folders below.
//
// An index is a projection. Whatever it holds can be thrown away and made again
// from the ledger and the repository, and no goal ever waits for it.
package recall
