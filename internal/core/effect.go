package core

import (
	"fmt"

	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/moment"
)

// Effect is one thing that should be in flight. Equal keys are the same
// effect: the driver never runs one twice at a time.
type Effect interface{ Key() string }

// The effects.
type (
	// Attach looks at the workspace for the first time and keeps it as
	// checkpoint 0.
	Attach struct{ Repo string }
	// Observe computes the present tree, the changes since From, and the diff
	// against Baseline.
	Observe struct {
		From, Baseline string
		After          string // the op_id whose effect is looked at, if any
		Head           uint64
		// Deep asks for the facts of the index of symbols too.
		Deep bool
	}
	// Compose builds the next request from the ledger through Head and counts
	// it. Taken are the user messages it takes in.
	Compose struct {
		Head  uint64
		Taken []uint64
	}
	// Ask sends the announced request.
	Ask struct {
		Request   string
		Attempt   int
		Through   uint64
		Taken     []uint64
		MaxOutput int64
		// Prose asks for words that go with a compaction, in the place of the
		// state block.
		Prose bool
	}
	// Prepare computes what an operation would do now.
	Prepare struct {
		Op operation.Op
		// From and Baseline are for the observation that goes with it.
		From, Baseline string
	}
	// Run executes an attempt of an operation.
	Run struct {
		Op      operation.Op
		Attempt int
	}
	// Probe establishes what an attempt of an earlier holder did.
	Probe struct {
		Op      operation.Op
		Attempt int
	}
	// Stop ends a running attempt.
	Stop struct {
		Op      operation.Op
		Attempt int
		Reason  string
	}
	// Pack keeps an observed tree as an artifact: whole, or as what it has more
	// than Base.
	Pack struct{ Tree, Base string }
	// Move makes the directory at the worker's place hold the goal's tree, which
	// it restores from the packs. From is the place that has the workspace.
	Move struct {
		Tree, From string
		Packs      []event.WorkspacePacked
		Head       uint64
	}
	// Spawn makes the stream of a child goal from the event that reserved it.
	Spawn struct {
		Child string
		Seq   uint64
	}
	// Command tells a child what this goal wants of it.
	Command struct {
		Child string
		Order event.ChildOrder
		Seq   uint64
	}
	// Tell tells the parent how this goal ended.
	Tell struct {
		Parent string
		Ended  event.ChildEnded
	}
	// Wake pokes at an instant.
	Wake struct{ At moment.Time }
)

// Key implements Effect.
func (e Attach) Key() string { return "attach" }

// Key implements Effect.
func (e Observe) Key() string { return fmt.Sprintf("observe:%d", e.Head) }

// Key implements Effect.
func (e Compose) Key() string { return fmt.Sprintf("compose:%d", e.Head) }

// Key implements Effect.
func (e Ask) Key() string { return "ask:" + e.Request }

// Key implements Effect.
func (e Prepare) Key() string { return fmt.Sprintf("prepare:%s:%s", e.Op.ID, e.Op.Phase) }

// Key implements Effect.
func (e Run) Key() string { return fmt.Sprintf("run:%s:%d", e.Op.ID, e.Attempt) }

// Key implements Effect.
func (e Probe) Key() string { return fmt.Sprintf("run:%s:%d", e.Op.ID, e.Attempt) }

// Key implements Effect.
func (e Stop) Key() string { return fmt.Sprintf("stop:%s:%d", e.Op.ID, e.Attempt) }

// Key implements Effect.
func (e Pack) Key() string { return "pack:" + e.Tree }

// Key implements Effect.
func (e Move) Key() string { return fmt.Sprintf("move:%d", e.Head) }

// Key implements Effect.
func (e Spawn) Key() string { return "spawn:" + e.Child }

// Key implements Effect.
func (e Command) Key() string { return fmt.Sprintf("command:%s:%d", e.Child, e.Seq) }

// Key implements Effect.
func (e Tell) Key() string { return "tell:" + e.Parent }

// Key implements Effect.
func (e Wake) Key() string { return fmt.Sprintf("wake:%d", e.At) }
