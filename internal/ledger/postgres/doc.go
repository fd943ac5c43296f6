// Package postgres keeps the ledger in a PostgreSQL database: the store of a
// fleet, shared by workers on many machines. It must not know what any event
// means, nor any other store; what stores have in common is in ledger/rules.
//
// # Tables
//
// All in one schema ("belay" unless the address says belay_schema=…), named in
// full in every statement, so that neither search_path nor a pooler between
// belay and the server matters. Payloads are bytea: the hash chain covers
// bytes, and jsonb would keep only their meaning. Migrations go forward alone
// and run under an advisory lock; a newer schema is refused.
//
// # Writing
//
// An append is one READ COMMITTED transaction in two round trips. The first
// takes the lock of the goal's row and then, in statements of their own whose
// snapshots are younger than the lock, reads the tail and the clock. The second
// writes and commits. A goal that does not exist has no row to lock: there the
// primary key of the events decides between two creators.
//
// Durable is synchronous_commit=on, or what stronger setting the database has
// (remote_apply), so that with a synchronous standby a durable commit is on two
// machines. Soft is synchronous_commit=local: on this server's disk, without
// the wait for the standby. It is not off, which loses the last half second
// with the server's processes and not only with its power: a worker that lived
// through such a crash, and everyone who follows it, would know events that the
// ledger has forgotten and whose seqs it gives away again. Only what nobody
// relies on is off: releases, caches, notices.
//
// Claims and renewals are durable here, unlike in SQLite, where every holder
// dies with the machine: a server that came back without knowing who holds a
// goal would give it away a second time under the same fence. Releases may be
// lost; the lease then ends by itself.
//
// # The commit whose answer does not come
//
// When the connection breaks after COMMIT was sent, the commit was made, will
// be made, or will never be. Trying again blindly would append twice or report
// a conflict with oneself; looking too early would miss a commit that the
// server still works on. So the next try takes the same lock first. The
// transaction in doubt holds it until it ends, so whoever has the lock looks at
// the final outcome: if the stream holds our event ids where we put them, the
// append was made and its events are returned as they stand; otherwise it was
// not, nor will it be, and it is checked and made as if for the first time. For
// a new goal the place of the lock is taken by the unique index, on which the
// second insert waits for the first. A claim in doubt is found by its owner and
// lease in the row; everything else may be repeated without harm.
//
// If the server cannot be asked in time the error is ErrInDoubt, and nothing is
// tried without knowing. None of this can see through a failover to a standby
// that has not received the last commits: use synchronous replication where
// the server's machine may be lost.
//
// # Trying again
//
// For Options.Patience (30 s) a call tries again, with growing random pauses,
// what fails for the moment: lost and refused connections, a server that shuts
// down or starts, one that has become read-only (25006, after which all
// connections are made anew, so that an address with several hosts and
// target_session_attrs=read-write finds the new primary), deadlocks,
// serialization failures, too many connections. Opening gives up after 5 s.
//
// # Claiming
//
// Ready goals are in one partial index in their order; a claim takes the first
// that is free with FOR UPDATE SKIP LOCKED, so claimers pass each other by.
// Goals asleep are in another one by wake_at and cost nothing until they wake.
// SKIP LOCKED alone would report "nothing" while the only free goal is locked
// for a moment by an append; then the claim waits for that lock, so
// ErrNothing is exact.
//
// # Following
//
// An append wakes the followers of its goal in the same handle at once, and
// others by NOTIFY, sent after the commit by a goroutine that gathers what has
// come together meanwhile (see sender). Behind it a poller looks at the heads
// of all followed goals in one query every 2 s, ten times as often without a
// connection to listen on. A wake-up carries nothing; followers read what is
// new by seq, so a lost or doubled one is harmless.
//
// # Artifacts
//
// Up to 256 KiB, compressed, lie in the artifact's row; more is cut into chunks
// of that size under an upload id, since the address is known only at the end.
// Writers and readers keep one chunk in memory and hold no connection between
// two. Chunks that no artifact came to name are swept after a day.
package postgres
