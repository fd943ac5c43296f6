// Package shim runs a command so that it outlives the process that asked for
// it: the spool, the small supervising process (`belay shim`, the same
// binary), and the client that starts commands and finds them again. Backends
// of the sandbox port wrap it with a Confine function and need nothing else of
// it. It must not know goals, policy, models or how any backend confines.
//
// # Who holds what
//
// The worker writes a record, hands it to a shim, and from then on only
// watches. The shim runs in a session of its own without a terminal, so that
// neither a closed terminal nor a kill of the worker reaches it. It is the
// parent of the command and the reaper of everything the command leaves
// behind, so it can end the whole tree on every path. There is no second fork
// between worker and shim: a new session already detaches, and the fork would
// cost one more start of a large binary.
//
// # The record
//
// <state>/spool/<key>/ holds:
//
//	spec.json    what is to be run, the boot it was written in, a random id
//	output       stdout and stderr in the order they came, up to MaxOutput
//	shim.json    pid, start time and boot of the shim; exists before the spawn
//	result.json  how it ended; appears by rename, whole
//	alive        FIFO that the shim holds open for as long as it has no result
//	control      FIFO on which stop requests arrive
//	shim.log     the shim's own last words, normally empty
//	scratch      what the command takes for /tmp; removed after its end
//	proof        where a backend says that it got as far as the command
//	void         alone in a record: nothing ran under this key, and a worker
//	             that asked has been told so; a late Start is refused
//
// A record is prepared beside the spool and renamed into it, so two starters
// of one key cannot both win, and nobody ever sees half a record. Whoever
// publishes it holds alive open from before the rename until the shim has
// opened it too; and the shim spawns only after the worker, still holding it,
// said "go". Hence, at every instant:
//
//   - result.json is there: it ended, and this is how.
//   - alive has a writer: it runs, or is about to.
//   - neither, and shim.json is missing in the boot that wrote the spec: it
//     never ran, and never will under this record.
//   - anything else: it was started and nobody knows how it ended (ErrGone).
//
// Waiting is a read on alive: it returns when the shim let go, whether with a
// result or by dying. No polling, no thread, no pid that could be reused. The
// pid, start time and boot in shim.json are for people and for tests.
//
// # What is made durable, and why
//
// A process crash needs no fsync at all: the page cache survives it. Against
// power loss there are three, and no more:
//
//   - the spool directory, before "go": if the entry could vanish, a command
//     that had effects would look like one that never started, and be run
//     again. It overlaps with the start of the shim. The content of spec.json
//     needs none: after a reboot no record without a result says more than
//     "unknown" anyway.
//   - output (when there is any) and the result, side by side, before the
//     rename: a result that can be read is whole, and so is its output.
//   - the record directory, after the rename and after waiters were woken: it
//     only saves a finished result from becoming "unknown", and the waiter is
//     about to record that result in the ledger itself.
//
// # The end of the tree
//
// The shim is a child subreaper: what daemonises or loses its parent becomes
// its child, and "no child left" is then a fact told by wait4, not a guess.
// When the command ends by itself, what it left running gets a short moment to
// finish (a `tee` at the end of a process substitution), then a signal, then
// the kill. At a deadline or a stop the whole tree gets SIGTERM, the grace,
// then SIGKILL by rounds that also address process groups, which cannot be
// outrun by forking.
//
// If the shim itself is killed, the kernel kills the command's first process
// (parent-death signal). Its other processes are found by the marker
// BELAY_ATTEMPT_ID in their environment, with their descendants, as soon as a
// worker waits for or attaches to the attempt. A process that both outlived
// its marked ancestors and emptied its own environment is missed here; a
// backend with a PID namespace closes that gap.
//
// Where this user may make control groups, a backend that asks for bounds has
// the idle shim enter groups of its own: they hold memory and processes for the
// whole tree, and list every process of it whatever it did to its environment,
// for the rounds of SIGKILL and for the worker that finds the shim dead.
//
// # Helpers
//
// What a backend must do inside the process that becomes the command (namespaces
// to fill, filters, a descriptor to hand on) its helper does: this binary once
// more, between the shim's fork and the command's exec. The helper also sets the
// resource limits; see Help and becomeCommand.
//
// # Speed
//
// Starting the large binary anew costs several milliseconds, mostly its
// package initialisers and page faults. Two things keep that out of a step:
// the shim takes over in this package's init, which runs before those of the
// heavy packages, and the client keeps one started, idle shim in reserve. The
// idle one dies with its worker.
//
// Taking over in init also makes misuse impossible: whatever binary can start
// a shim (a test binary too) can be one, and cannot run its own main, or its
// tests, a second time by mistake.
package shim
