// Package rules holds what every store of the ledger does alike: what an
// append must satisfy, how its events are sealed into hashed records, who may
// claim a goal, how a hash chain is audited, and the loop of Follow.
//
// A store brings the storage and the transaction; two stores that share these
// rules cannot disagree on them. The package must not know any store, hold any
// state, read a clock or start a goroutine: everything comes in as a value or
// a function.
package rules
