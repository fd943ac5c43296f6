package core

import (
	"encoding/json"
	"fmt"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

// ToolRollback is how a person takes back what happened to the workspace: an
// operation like any other, which the model does not have.
const ToolRollback = "rollback"

// RollbackOf is what a rollback is to do, and the arguments of its operation.
type RollbackOf struct {
	// Target is what the person named: a checkpoint, a todo or an event.
	Target string `json:"target"`
	// From is the tree that the person was shown the changes from, Tree the one
	// that the workspace is to hold: the target's, but for the paths in Kept.
	From string `json:"from"`
	Tree string `json:"tree"`
	// Kept are paths that are left alone: others have changed them since, or
	// something that is no part of the workspace stands there.
	Kept []string `json:"kept,omitempty"`
	// Index is what is to be staged again, FromIndex what was staged when the
	// changes were shown; both "" where that is left as it is.
	Index     string `json:"index,omitempty"`
	FromIndex string `json:"from_index,omitempty"`
	// KeptStaged are paths of which what is staged is left alone.
	KeptStaged []string `json:"kept_staged,omitempty"`
}

// RollbackArgs reads what a rollback is to do.
func RollbackArgs(o operation.Op) (RollbackOf, error) {
	var r RollbackOf
	if err := json.Unmarshal(o.Args, &r); err != nil {
		return r, fmt.Errorf("core: the arguments of %s: %w", o.ID, err)
	}
	return r, nil
}

// rollback is the open operation of a person (a rollback, or an apply), if there
// is one.
func (s State) rollback() (operation.Op, bool) {
	for _, o := range s.Open {
		if forPerson(o.Tool) {
			return o, true
		}
	}
	return operation.Op{}, false
}

// RollingBack reports whether a rollback is open.
func (s State) RollingBack() bool {
	_, open := s.rollback()
	return open
}

// rollBack records that a person wants the workspace as it was. It needs a goal
// at rest: under a running one the ground would move.
func (w *step) rollBack(b Rollback) error {
	s := &w.s
	_, open := s.rollback()
	switch {
	case s.Workspace == nil:
		return fmt.Errorf("%w: the goal has not looked at its workspace yet", ErrState)
	case s.Status != lifecycle.Paused && !s.Status.Final():
		return fmt.Errorf("%w: the goal is %s; pause it first", ErrState, s.Status)
	case s.unsettled():
		return fmt.Errorf("%w: a worker still settles what it had begun", ErrState)
	case open:
		return fmt.Errorf("%w: a rollback is open already", ErrState)
	case b.Of.Tree == "" || b.Of.From != b.Observation.Tree:
		return fmt.Errorf("%w: a rollback without a tree, or from another one than the present", ErrInput)
	case b.Observation.From != s.Revision.Tree:
		return fmt.Errorf("%w: the goal's revision is another than when the changes were shown; look again", ErrChanged)
	case b.Of.FromIndex != b.Observation.Index && b.Of.Index != "":
		return fmt.Errorf("%w: what is staged is another than when the changes were shown; look again", ErrChanged)
	case b.Of.Tree == b.Of.From && b.Of.Index == b.Of.FromIndex:
		return fmt.Errorf("%w: the workspace is as it was then", ErrInput)
	}
	w.noteObservation(b.Observation, "external")
	op := fmt.Sprintf("op%d", s.Ops+1)
	w.emit(event.CheckpointCreated{Checkpoint: "before-" + op, Tree: b.Of.From, Index: s.Index, Why: "before the rollback to " + b.Of.Target,
		Trigger: event.CheckpointRollback, Size: s.diffSize()})
	args, err := json.Marshal(b.Of)
	if err != nil {
		return err
	}
	w.emitOp(op, event.OperationProposed{Tool: ToolRollback, Effect: event.Verifiable, Arguments: args})
	return nil
}

// startRollback makes the intent durable, for the worker that holds the goal.
func (w *step) startRollback(o operation.Op) {
	if w.s.away() {
		w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Rejected,
			Fault: *fault.New(fault.Outside, fault.Environment, "the workspace is at "+w.s.Place, "roll back there")})
		return
	}
	w.emitOp(o.ID, event.OperationStarted{Attempt: o.Attempt + 1, Intent: event.Intent{Hash: o.ArgsHash}, Tree: w.s.Revision.Tree,
		Place: w.s.Holder.Place})
	w.commit()
}

// rolledBack records what the workspace is after a rollback.
func (w *step) rolledBack(o operation.Op, b Ended) {
	if b.After == nil {
		return
	}
	w.noteObservation(*b.After, o.ID)
	of, err := RollbackArgs(o)
	if err != nil || b.Outcome != event.Succeeded {
		return
	}
	w.emitBy(event.ActorRuntime, o.ID, event.WorkspaceRestored{Checkpoint: of.Target, Tree: b.After.Tree, Kept: of.Kept, KeptStaged: of.KeptStaged})
}
