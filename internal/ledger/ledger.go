// Package ledger is the port to the store of events, the only source of truth.
//
// It holds the interface and its types, nothing else; stores live in the
// folders below and pass the one conformance suite in ledgertest. A store must
// not know what any event means: it keeps streams, artifacts and the goal
// rows, all or none of them in one transaction.
package ledger

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"belay/internal/event"
	"belay/internal/moment"
)

// The errors a caller decides on. Any other error of Append means that the
// outcome of the append is not known to be good: the goal's driver stops and
// names the storage (fail-stop).
var (
	// ErrNotFound: no such goal, artifact or state.
	ErrNotFound = errors.New("ledger: not found")
	// ErrConflict: the stream has another head than expected. Re-read and step
	// again.
	ErrConflict = errors.New("ledger: the stream has moved on")
	// ErrFenced: the goal has a newer fence. Step down.
	ErrFenced = errors.New("ledger: fenced by a newer holder")
	// ErrHeld: another worker holds a live lease on the goal.
	ErrHeld = errors.New("ledger: the goal is held by another worker")
	// ErrNothing: no goal is runnable now.
	ErrNothing = errors.New("ledger: nothing to claim")
	// ErrExists: the goal id is taken. An append with Head 0 to a goal that has
	// events gets it, whatever its fence.
	ErrExists = errors.New("ledger: the goal exists")
	// ErrClosed: this handle on the store was closed.
	ErrClosed = errors.New("ledger: closed")
)

// Ledger is a store. All methods may be called from many goroutines, and many
// processes may share one store.
type Ledger interface {
	// Append adds events to one goal's stream, stores artifacts and replaces
	// the goal's row, all in one transaction. It returns the events with Seq,
	// Time and Hash set.
	Append(context.Context, Append) ([]event.Event, error)
	// Read returns up to limit events with Seq > after, in order; limit <= 0
	// means all. A damaged record comes back with an event.Damaged payload, and
	// so does one that is missing between two others; what follows it stays
	// readable. A goal without events has nothing to read: that is no error.
	Read(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error)
	// Records returns up to limit records with Seq > after as they are stored,
	// with their chain hashes, for a copy that is the same byte for byte. One
	// that cannot be read is an error.
	Records(ctx context.Context, goal string, after uint64, limit int) ([]Stored, error)
	// Follow yields every event with Seq > after, then one caught-up marker,
	// then events as they are appended by any process, until ctx ends (it then
	// ends without an error). Nothing is skipped or repeated. A goal may be
	// followed before it exists.
	Follow(ctx context.Context, goal string, after uint64) iter.Seq2[Item, error]
	// Goal returns one row, ErrNotFound when there is none.
	Goal(ctx context.Context, goal string) (Row, error)
	// Goals lists rows, newest first.
	Goals(ctx context.Context, f Filter) ([]Row, error)

	// Claim takes the right to advance a goal, in one transaction.
	Claim(context.Context, Claim) (Ticket, error)
	// Renew extends the lease of a ticket. ErrFenced when it is no longer ours:
	// another owner has the goal, or its fence is not the ticket's. A holder
	// whose own append raised the fence sets the ticket's Fence to the new one.
	Renew(ctx context.Context, t Ticket, lease time.Duration) (Ticket, error)
	// Release ends the lease that the ticket's owner has on the goal, whatever
	// the fence is by now, so that a pause does not keep the goal held. A
	// ticket whose goal has another owner, or none, is no error.
	Release(context.Context, Ticket) error

	// PutArtifact stores bytes outside an append (a long log, before the event
	// that refers to it). It survives a kill of the process when it returns, and
	// is on disk with the next durable append at the latest: never later than an
	// event that refers to it.
	PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error)
	// OpenArtifact reads an artifact by its SHA-256, ErrNotFound when there is
	// none. The reader fails if the content does not match its address.
	OpenArtifact(ctx context.Context, sha256 string) (io.ReadCloser, error)

	// SaveCache keeps a cache under the id of the goal whose state it is, or
	// under the name of a projection over many goals: opaque bytes, the seq they
	// fold through, and the schema they are of. Losing it costs time.
	SaveCache(ctx context.Context, goal string, c Cache) error
	// LoadCache returns the newest cache, ErrNotFound when there is none.
	LoadCache(ctx context.Context, goal string) (Cache, error)

	// Audit re-computes the hash chain of a goal and checks every artifact that
	// its records refer to.
	Audit(ctx context.Context, goal string) (Audit, error)
	// Rebuild recreates the goal row from row, for a goal whose row was lost or
	// garbled; ErrNotFound when the goal has no events. The fence never falls
	// below what the events or a row still there say. Who held a goal whose row
	// was lost is not known, so the next claim by name or by urgency takes it
	// over from RebuiltOwner and raises the fence.
	Rebuild(ctx context.Context, row Row) error
	// Streams lists the ids of all goals that have events, row or not.
	Streams(ctx context.Context) ([]string, error)
	// Now is the store's clock.
	Now(ctx context.Context) (moment.Time, error)
	Close() error
}

// Finder is a store that finds an operation's events without reading the stream.
// Stores need not be one.
type Finder interface {
	// OpSeqs returns the seqs of the events of one operation, in order. It may
	// fail where Read would not, on a damaged index for instance.
	OpSeqs(ctx context.Context, goal, op string) ([]uint64, error)
}

// Waker is a store that tells workers when to look for a goal. Stores need not
// be one.
type Waker interface {
	// Wakeups yields a signal, never more than one in advance, soon after a goal
	// can be claimed because some process appended to it or released it. A signal
	// may come for nothing and may be lost, and none comes for a lease or a wake
	// time that runs out: whoever waits for one also looks now and then. The
	// signals end with ctx; the channel is never closed.
	Wakeups(ctx context.Context) <-chan struct{}
}

// Collector is a store that can drop what no event needs. Stores need not be
// one.
type Collector interface {
	// Collect drops the artifacts that no record of any goal names and that were
	// last put before a time, and state caches. Events stay. A record that cannot
	// be read is an error, and nothing is dropped.
	Collect(ctx context.Context, c Collect) (Collected, error)
}

// Collect says what to drop.
type Collect struct {
	Before moment.Time
	// Caches are the goals whose state caches go.
	Caches []string
	// Dry only counts.
	Dry bool
}

// Collected is what was dropped.
type Collected struct {
	Artifacts int   `json:"artifacts"`
	Bytes     int64 `json:"bytes"`
	Caches    int   `json:"caches"`
}

// Append is one transaction on one goal's stream.
type Append struct {
	Goal string
	// Head is the seq of the last event the caller has seen; 0 creates the
	// goal.
	Head uint64
	// Fence is the fence that the goal's row must have. It is checked before
	// Head: a stale holder learns that it is stale.
	Fence  uint64
	Events []event.Event
	// Copied is how many of the first events are copies of events that stood in
	// a stream before: they keep their times, which the caller has checked never
	// run backwards.
	Copied    int
	Artifacts []event.Artifact
	// Row is the goal's row after the events. The store sets Head, Created,
	// Updated and keeps the lease columns.
	Row Row
	// Durable asks for the commit to be on disk when Append returns. Without
	// it the commit survives a kill of the process but may be lost with the
	// power; a later durable commit covers it.
	Durable bool
}

// RebuiltOwner stands, with an expired lease, in a row that was lost and
// rebuilt.
const RebuiltOwner = "(rebuilt)"

// Row is the projection of a goal that lists, claims and fences work on. It is
// computed by the core; the store never interprets it beyond the claim rule.
type Row struct {
	Goal        string      `json:"goal"`
	Title       string      `json:"title"`
	Repo        string      `json:"repo"`
	Status      string      `json:"status"`
	WaitReason  string      `json:"wait_reason,omitempty"`
	PauseReason string      `json:"pause_reason,omitempty"`
	Version     int         `json:"goal_version"`
	Fence       uint64      `json:"fence"`
	Priority    int         `json:"priority,omitempty"`
	Runnable    bool        `json:"runnable"`
	WakeAt      moment.Time `json:"wake_at,omitzero"`
	Head        uint64      `json:"head"`
	Created     moment.Time `json:"created"`
	Updated     moment.Time `json:"updated"`
	// How is set for completed goals.
	How string `json:"completed_how,omitempty"`
	// Used, in short, for lists.
	Steps      int64 `json:"steps,omitempty"`
	Tokens     int64 `json:"tokens,omitempty"`
	CostMicros int64 `json:"cost_micros,omitempty"`
	// Parent is the goal that started this one, "" for none.
	Parent string `json:"parent,omitempty"`
	// Lease is read-only for callers.
	LeaseOwner string      `json:"lease_owner,omitempty"`
	LeaseUntil moment.Time `json:"lease_until,omitzero"`
}

// Filter narrows Goals. Zero values do not filter.
type Filter struct {
	Prefix string
	Repo   string
	Status []string
	// Parent lists the goals that this one has started, without theirs.
	Parent string
	// Leased keeps the goals that name a lease owner, whether or not the lease
	// has ended.
	Leased bool
	Limit  int
}

// Claim asks for a ticket.
type Claim struct {
	// Goal names one goal, claimed whether or not it is runnable; empty means
	// the most urgent goal that is Runnable or whose WakeAt has come.
	Goal string
	// Owner identifies the worker: unique per process and start. A goal named
	// in Goal that Owner holds already is claimed again under the same fence;
	// the search for the most urgent goal passes over what Owner holds.
	Owner string
	Lease time.Duration
	// Evict names a lease owner that is known to be dead (its process is gone
	// from this machine); its live lease counts as expired.
	Evict string
}

// Ticket is a worker's right to advance a goal.
type Ticket struct {
	Goal  string
	Owner string
	Fence uint64
	Until moment.Time
	// Takeover says that the goal was taken from a holder whose lease had
	// expired; the fence was raised.
	Takeover bool
	// Previous is the owner it was taken from.
	Previous string
}

// Stored is a record as it is stored, with its chain hash.
type Stored struct {
	Record event.Record
	Hash   string
}

// Item is one thing that Follow yields.
type Item struct {
	Event event.Event
	// CaughtUp marks, once, that every event that existed when Follow was
	// called has been yielded; Event is then empty.
	CaughtUp bool
}

// Cache is a state cache.
type Cache struct {
	Seq    uint64
	Schema int
	Blob   []byte
}

// Audit is the result of re-computing a hash chain.
type Audit struct {
	Goal   string `json:"goal"`
	Events uint64 `json:"events"`
	Head   string `json:"head_hash"`
	// Broken is nil when the chain holds.
	Broken *Broken `json:"broken,omitempty"`
}

// Broken names the first link that does not hold.
type Broken struct {
	Seq    uint64     `json:"seq"`
	ID     string     `json:"id"`
	Type   event.Type `json:"type"`
	Reason string     `json:"reason"`
}
