// Package sqlite keeps the ledger in one SQLite file: the embedded default,
// shared by all belay processes of one machine. It must not know what any
// event means, nor any other store; what stores have in common is in
// ledger/rules.
//
// # Files
//
// In the state directory: ledger.db, with its log (-wal) and the log's index
// (-shm) while a process has it open; artifacts/ab/cdef…, one file for each
// artifact of more than 256 KiB compressed; ledger.db.v<schema>-<time>.bak, a
// copy made before a migration. Files are 0600 and directories 0700. The file
// must lie on a local disk: the log's index is shared memory.
//
// Never open and close ledger.db in this process other than through SQLite:
// POSIX locks of a process end when it closes any descriptor of the file.
//
// # Writing
//
// All writes of a process go through one goroutine that owns the one writing
// connection (writer.go). It takes what waits, up to a bound, and commits it
// together: many goals that wait for the disk share one sync. Each job has a
// savepoint, so it is done or undone alone. A refusal (conflict, fence) undoes
// one job; an error of the storage undoes the transaction, and then each job
// gets a transaction of its own, so that only those fail that must.
//
// Between processes the write lock of SQLite decides. A process that does not
// get it tries again after a short random pause, for 30 seconds; what queues
// up meanwhile joins the same commit. Readers never wait for writers.
//
// # Durability
//
// A commit of an append that is Durable runs under synchronous=FULL: it writes
// the log and syncs it, once. Any other commit runs under synchronous=NORMAL:
// it writes the log and syncs nothing, so it survives a kill of the process
// but not a loss of power. The order cannot be lost: the log is one file and a
// sync covers the file, so a durable commit takes every earlier commit to disk
// with it, whichever process made it; and recovery stops at the first frame
// that is not whole, so what is lost is a tail and never a piece in the
// middle. Where the log is carried into the database in between, the
// checkpoint syncs the log before and the database after. This is why the soft
// level is NORMAL and never OFF, which would leave out those two syncs.
//
// This was looked at and not only read: under strace, a soft append makes no
// sync, a durable one exactly one fdatasync of the log, and a checkpoint syncs
// the log, then the database, then the new header of the log. fdatasync
// instead of fsync is SQLite's own choice where its build finds it; Open
// switches it on.
//
// A commit that writes nothing syncs nothing, and so would promise what it
// does not do. Every append writes; PutArtifact promises no more than a soft
// commit, which the next durable one covers.
//
// When the sync of a commit fails, the kernel may have dropped the very pages
// that were not written, and a later sync that succeeds proves nothing. The
// handle then takes no more writes.
//
// # Following
//
// An append wakes the followers of its goal in the same handle at once. For
// other processes one watcher, which lives only while there are followers,
// asks PRAGMA data_version: every 2 ms while there are commits, slower and
// slower down to 100 ms while there are none. A wake-up carries nothing;
// followers read what is new by seq, so a lost or doubled one is harmless.
//
// # Damage
//
// Where a page of the file cannot be read, Read and Audit go on one record at
// a time: what is lost comes back as event.Damaged in its place, what stands
// behind it whole. Check runs SQLite's own check of the whole file, on demand.
// Open reads only the header, so that opening does not depend on the size.
package sqlite
