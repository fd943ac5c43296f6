// Package failpoint names the instants at which a crash is hardest to survive,
// so that a test can crash the real program at each of them. It must know
// nothing of what the rest of belay does there.
//
// # How it is used
//
// Production code marks an instant with one line, failpoint.Hit(name). Without
// the build tag "failpoints" that is an empty function which the compiler
// removes together with the name. With the tag, the environment decides:
//
//	BELAY_FAILPOINTS     name=action@N;…: at the N-th time, do the action
//	BELAY_FAILPOINT_DIR  where hits are counted, required with the above
//
// The actions are
//
//	kill    the process ends as by kill -9
//	both    the parent, if it is this same program, and then this process
//	error   Err returns an error, once
//
// Hits are counted in files of the directory, one byte for each, and so across
// all processes of a run: each action is taken once, by the process that made
// the N-th hit, and a restarted program gets past it. An action at @0 is never
// taken; such an entry only counts. What is taken leaves a file name@N.taken
// there.
package failpoint

// Name is a failpoint. The names stand in command lines and reports.
type Name string

// The driver and the service: between what is decided, what is recorded, and
// what is done.
const (
	ClaimBefore    Name = "driver.claim.before"
	ClaimAfter     Name = "driver.claim.after" // the ticket is held, nothing is loaded yet
	RenewBefore    Name = "driver.renew.before"
	RenewAfter     Name = "driver.renew.after"
	ReleaseBefore  Name = "driver.release.before"
	ReleaseAfter   Name = "driver.release.after"
	SoftBefore     Name = "driver.append.soft.before"
	SoftAfter      Name = "driver.append.soft.after" // committed, nothing of it has begun
	DurableBefore  Name = "driver.append.durable.before"
	DurableAfter   Name = "driver.append.durable.after" // committed, nothing of it has begun
	CacheBefore    Name = "driver.cache.before"
	CacheAfter     Name = "driver.cache.after"
	LaunchEffect   Name = "driver.effect.launched" // on its goroutine, not begun
	EffectReturned Name = "driver.effect.returned" // done in the world, not recorded
	StartBefore    Name = "service.start.before"
	StartAfter     Name = "service.start.after" // the goal is recorded, nobody was told
	CommandBefore  Name = "service.command.before"
	CommandAfter   Name = "service.command.after" // a person's word is recorded, nobody was told
)

// The executors, by what they do.
const (
	AttachKept    Name = "effect.attach.kept" // checkpoint 0 is kept, not recorded
	ObserveBefore Name = "effect.observe.before"
	ObserveAfter  Name = "effect.observe.after"
	PrepareAfter  Name = "effect.prepare.after"
	RunBefore     Name = "effect.run.before" // started in the ledger, not in the world
	RunAfter      Name = "effect.run.after"  // done in the world, started in the ledger
	ProbeBefore   Name = "effect.probe.before"
	ProbeAfter    Name = "effect.probe.after"
	AskBefore     Name = "effect.ask.before"
	AskAfter      Name = "effect.ask.after" // answered and paid, not recorded
)

// The SQLite ledger.
const (
	TxBegun       Name = "sqlite.tx.begun"
	CommitBefore  Name = "sqlite.commit.before" // everything is written, nothing committed; Err
	CommitAfter   Name = "sqlite.commit.after"  // committed, nobody was told
	ArtifactWrite Name = "sqlite.artifact.written"
	ArtifactNamed Name = "sqlite.artifact.named" // its file has its name, its row is missing
	CheckpointWAL Name = "sqlite.close.before"
)

// The PostgreSQL ledger.
const (
	PgLocked       Name = "postgres.tx.locked"       // the goal's row is locked, nothing is written
	PgCommitBefore Name = "postgres.commit.before"   // nothing of it was sent; Err
	PgCommitAfter  Name = "postgres.commit.after"    // committed, nobody was told
	PgChunkWritten Name = "postgres.artifact.chunk"  // a part of a large artifact is kept, nothing names it
	PgArtifactKept Name = "postgres.artifact.stored" // the artifact is kept, no event names it
	PgNotifyBefore Name = "postgres.notify.before"   // appended, the other processes were not told
)

// The client of the shim.
const (
	RecordPrepared Name = "shim.client.prepared"  // beside the spool
	RecordNamed    Name = "shim.client.published" // in the spool, no shim has it
	HandedOver     Name = "shim.client.accepted"  // a shim holds it, "go" is not said
	LaunchedShim   Name = "shim.client.launched"  // "go" is answered
	VoidBefore     Name = "shim.client.void.before"
	VoidAfter      Name = "shim.client.void.after" // the key is taken for good, nobody was told
	RecordTrashed  Name = "shim.client.trashed"
	ResultRead     Name = "shim.client.result.read"
)

// The shim itself.
const (
	ShimTaken     Name = "shim.holds"        // it holds the record
	ShimTold      Name = "shim.told"         // "go" was heard
	ShimMarked    Name = "shim.marked"       // from here on the command may have run
	ShimSpawned   Name = "shim.spawned"      // the command runs, nobody was told
	ShimStarted   Name = "shim.started"      // the worker was told
	SpoolBefore   Name = "shim.spool.before" // output was read, not written
	SpoolAfter    Name = "shim.spool.after"
	ShimTreeEnded Name = "shim.tree.ended"     // no process is left, the result is only here
	ResultWritten Name = "shim.result.written" // on disk, without its name
	ResultNamed   Name = "shim.result.named"   // to be read, but nobody was woken
	ShimLetGo     Name = "shim.let-go"
)

// A push, around what the remote sees of it.
const (
	PushBuilt     Name = "push.built"     // the commit is made, the remote knows nothing
	PushRehearsed Name = "push.rehearsed" // the remote would take it
	PushSent      Name = "push.sent"      // the remote has it, nobody was told
)

// The workspace.
const (
	JournalWritten  Name = "workspace.apply.journal"
	FolderMade      Name = "workspace.apply.folder"
	EditStaged      Name = "workspace.apply.staged"  // the new content under its temporary name
	EditBefore      Name = "workspace.apply.before"  // all are staged, before each exchange
	EditMade        Name = "workspace.apply.made"    // after each exchange
	EditsMade       Name = "workspace.apply.durable" // all made and on disk
	TempRemoved     Name = "workspace.apply.removed" // after each removal of an original
	JournalRemoved  Name = "workspace.apply.done"
	CleanBefore     Name = "workspace.clean.settle"
	CleanAfter      Name = "workspace.clean.settled"
	ObjectStaged    Name = "workspace.object.staged"
	ObjectNamed     Name = "workspace.object.named" // after each object
	PackNamed       Name = "workspace.pack.named"   // the pack has its name, its index has not
	SnapshotWritten Name = "workspace.snapshot.written"
	StoreMade       Name = "workspace.store.made" // the git directory is whole, without its name
	KeepBefore      Name = "workspace.keep.before"
	KeepAfter       Name = "workspace.keep.after"
	PackTaken       Name = "workspace.pack.taken" // a pack of another place is in, nothing of it written
	MoveRemoved     Name = "workspace.move.removed"
	MoveStaged      Name = "workspace.move.staged"
	MoveNamed       Name = "workspace.move.named"
	IndexStaged     Name = "workspace.index.staged" // the user's new index stands under our name
	IndexLocked     Name = "workspace.index.locked" // and holds git's lock
	StorePacked     Name = "gc.store.packed"        // what is kept is in one new pack, nothing is removed
	StoreForgot     Name = "gc.store.forgot"        // no memory names what goes
	RowsDropped     Name = "gc.rows.dropped"        // artifacts have no row any more, and still files
	StoreSwept      Name = "gc.store.swept"         // after each removal
	IndexNamed      Name = "workspace.index.named"  // and is the index, our name is still there
)

// Names lists every failpoint.
func Names() []Name {
	return []Name{
		ClaimBefore, ClaimAfter, RenewBefore, RenewAfter, ReleaseBefore, ReleaseAfter, SoftBefore, SoftAfter, DurableBefore, DurableAfter,
		CacheBefore, CacheAfter, LaunchEffect, EffectReturned, StartBefore, StartAfter, CommandBefore, CommandAfter,
		AttachKept, ObserveBefore, ObserveAfter, PrepareAfter, RunBefore, RunAfter, ProbeBefore, ProbeAfter, AskBefore, AskAfter,
		TxBegun, CommitBefore, CommitAfter, ArtifactWrite, ArtifactNamed, CheckpointWAL,
		PgLocked, PgCommitBefore, PgCommitAfter, PgChunkWritten, PgArtifactKept, PgNotifyBefore,
		RecordPrepared, RecordNamed, HandedOver, LaunchedShim, VoidBefore, VoidAfter, RecordTrashed, ResultRead,
		ShimTaken, ShimTold, ShimMarked, ShimSpawned, ShimStarted, SpoolBefore, SpoolAfter, ShimTreeEnded, ResultWritten, ResultNamed, ShimLetGo,
		PushBuilt, PushRehearsed, PushSent,
		JournalWritten, FolderMade, EditStaged, EditBefore, EditMade, EditsMade, TempRemoved, JournalRemoved, CleanBefore, CleanAfter,
		ObjectStaged, ObjectNamed, PackNamed, SnapshotWritten, StoreMade, KeepBefore, KeepAfter,
		PackTaken, MoveRemoved, MoveStaged, MoveNamed, IndexStaged, IndexLocked, IndexNamed,
		StorePacked, StoreForgot, StoreSwept, RowsDropped,
	}
}

// Either is a when it holds, else b: for an instant that has two names.
func Either(holds bool, a, b Name) Name {
	if holds {
		return a
	}
	return b
}
