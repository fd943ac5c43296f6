// Package local is the workspace on the local file system. It must not know
// goals, models or the ledger, and it never writes to the user's .git.
//
// # The revision
//
// A revision is a git tree object (SHA-256 format) over every file that counts:
// what the user's repository tracks, also where it is ignored by now, and what
// is untracked but not ignored. Nested repositories and submodules are
// directories like any other, by content; a submodule is not its commit. Modes
// are git's three (plain, executable, link). Empty directories, named pipes,
// sockets and devices are no part of it.
//
// git says which files count: it alone knows its ignore rules. It is asked
// with `ls-files` and `check-ignore` on the user's repository, which read
// names and never write, with optional locks, file-system monitors and hooks
// off and with neither the system's nor the user's configuration (except the
// name of the user's global ignore file). Where there is no repository, a
// private git directory asks in its place.
//
// belay reads the content and writes the objects itself. Thus no conversion
// can take place (line endings, filters, ident), whatever attributes and
// configuration a repository has, and no program that it names can run:
// byte-exactness is no setting that a newer git may read in another way, but
// the absence of the machinery.
//
// # The store
//
// Objects live in a private bare git directory under Options.State, loose for
// a few, in one pack when many are new. They are ours alone. Borrowing the
// user's objects (alternates) would make a first observation somewhat cheaper,
// but then a `git gc`, a branch deletion or a removed clone there could take a
// checkpoint away. What protects correctness against a gc in the user's
// repository is that nothing here refers to it. Objects are synced before
// Observe returns, so a tree that an event names survives a power cut.
//
// # The fast path
//
// Between observations a snapshot keeps, for every counted file and every
// directory that is not ignored, what lstat says: mode, size, inode, change
// and modification time. An observation walks it with lstat alone. A file
// whose stamp changed is read again. A directory whose stamp changed has its
// names read again: if they and their types are as before (an edit by rename
// changes only the stamp), nothing was added or removed. Only when names, an
// ignore file or one of git's inputs (index, exclude files, configuration)
// changed is git asked for a new list.
//
// A stamp proves nothing about a change in the same tick of the file system's
// clock. So a stamp within a short time before an observation's start is
// racy: the next observation looks at the content whatever the stamp says. The
// times of a network file system are its server's; a clock that is behind ours
// by more than that window weakens this.
//
// git reads directories at another moment than we do. A directory or ignore
// file that was young when git read it counts as understood only if it was
// seen to be the same before and after; else the snapshot is unsettled and the
// next observation makes the list again.
//
// Directories that are ignored are never entered, except where a tracked file
// stands in one.
//
// # Confinement
//
// Paths are resolved by hand, link by link, so that it is known where they
// lead, and used through os.Root, which holds them below the root even when a
// link is planted between the two. See paths.go.
//
// # Writing
//
// See apply.go for a single edit, journal.go for all or nothing over several
// and for what is left after a crash. Hard links to an edited file are broken:
// the name gets new bytes, as with every editor that replaces files.
package local
