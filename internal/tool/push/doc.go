// Package push puts the present content of a workspace onto a branch of a
// remote, as one commit that carries the identity of the operation, and finds
// out later whether it did. It must not know models, policy or the ledger:
// whether a push may happen, and happen again, is decided elsewhere.
//
// # The user's repository is only read
//
// Everything is written to a private git directory that borrows the user's
// objects. HEAD, index, branches, stash, hooks and configuration of the
// repository stay byte for byte as they are (of an object that is met again git
// renews the time, so that it is not pruned under the push). The index is copied, because its
// recorded stamps say which files are as they were committed; only the others
// are read. Conversions that are functions of bytes (line endings, encodings)
// are made as git makes them, so that the commit has the repository's normal
// form; programs that a repository names as filters never run: a changed file
// that needs one is refused by name.
//
// # One operation, one commit
//
// A commit's id covers its tree, parent, message, identity and date. All of
// them follow from the workspace and from what Plan recorded (the date, the
// state in which the branch was found), so each attempt makes the same commit,
// and the remote can be asked for it by name. The branch is moved by compare
// and exchange from the state that was recorded, never by force and never
// backwards: an attempt that is late, or made twice, changes nothing.
//
// Where nothing differs from HEAD, HEAD itself is pushed.
//
// # What counts as an answer
//
// A *fault.Fault says that nothing was pushed. Any other error of Send says
// that the remote may have taken it: a connection that breaks after the pack
// was sent is no answer. A rehearsal (git push --dry-run) goes first, so that
// bad credentials and missing rights are told apart from that.
package push
