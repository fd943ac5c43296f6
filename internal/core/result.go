package core

import (
	"encoding/json"
	"fmt"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

// ToolApply is how a person brings what a goal did in a checkout of its own to
// their directory or repository: an operation that the model does not have.
const ToolApply = "apply"

// The ways to bring a result.
const (
	ApplyPatch  = "patch"  // into the files of the directory
	ApplyBranch = "branch" // as a commit on a new branch
)

// ApplyOf is what is to be brought where, and the arguments of its operation.
type ApplyOf struct {
	How string `json:"how"`
	// Into is the directory, or a directory of the repository, that gets it.
	Into string `json:"into"`
	// Base is the tree that the goal found, Result the one that it left.
	Base   string `json:"base"`
	Result string `json:"result"`
	// From is the tree that the person was shown the changes from, Tree the one
	// that the directory is to hold.
	From string `json:"from,omitempty"`
	Tree string `json:"tree,omitempty"`
	// Marked are the files that get git's conflict marks, or stay as they are,
	// because both sides changed them in ways that do not fit.
	Marked []string `json:"marked,omitempty"`
	// Branch is the new branch, Parent the commit that its last commit stands
	// on, At the instant that it carries: doing it again makes the same commit.
	Branch  string      `json:"branch,omitempty"`
	Parent  string      `json:"parent,omitempty"`
	Message string      `json:"message,omitempty"`
	At      moment.Time `json:"at,omitempty"`
	// Commits says that the commits which the goal made in its checkout come
	// along, with Parent as the last of them.
	Commits bool `json:"commits,omitempty"`
}

// ApplyArgs reads what is to be applied.
func ApplyArgs(o operation.Op) (ApplyOf, error) {
	var a ApplyOf
	if err := json.Unmarshal(o.Args, &a); err != nil {
		return a, fmt.Errorf("core: the arguments of %s: %w", o.ID, err)
	}
	return a, nil
}

// forPerson reports whether a tool is one that a person uses, also of a goal
// that has ended, and that the model does not have.
func forPerson(tool string) bool { return tool == ToolRollback || tool == ToolApply }

// applyResult records that a person wants the result of a goal. What they were
// shown must still be it.
func (w *step) applyResult(b ApplyResult) error {
	s := &w.s
	_, open := s.rollback()
	switch {
	case s.Workspace == nil:
		return fmt.Errorf("%w: the goal has not looked at its workspace yet", ErrState)
	case s.Status != lifecycle.Paused && !s.Status.Final():
		return fmt.Errorf("%w: the goal is %s; wait for its end, or pause it first", ErrState, s.Status)
	case s.unsettled() || open:
		return fmt.Errorf("%w: a worker still settles what it had begun", ErrState)
	case b.Of.Result != b.Observation.Tree || b.Of.Base != s.BaselineTree():
		return fmt.Errorf("%w: a result that is not the goal's", ErrInput)
	case b.Observation.From != s.Revision.Tree:
		return fmt.Errorf("%w: the goal's revision is another than when the changes were shown; look again", ErrChanged)
	case b.Of.How == ApplyPatch && (b.Of.Tree == "" || b.Of.Tree == b.Of.From), b.Of.How == ApplyBranch && b.Of.Branch == "",
		b.Of.How != ApplyPatch && b.Of.How != ApplyBranch:
		return fmt.Errorf("%w: there is nothing to apply", ErrInput)
	}
	w.noteObservation(b.Observation, "external")
	args, err := json.Marshal(b.Of)
	if err != nil {
		return err
	}
	w.emitOp(fmt.Sprintf("op%d", s.Ops+1), event.OperationProposed{Tool: ToolApply, Effect: event.Verifiable, Arguments: args})
	return nil
}

// applied records where a result is now.
func (w *step) applied(o operation.Op, b Ended) {
	of, err := ApplyArgs(o)
	if err != nil || o.Tool != ToolApply || b.Outcome != event.Succeeded {
		return
	}
	w.emitBy(event.ActorRuntime, o.ID, event.ResultApplied{How: of.How, Into: of.Into, Base: of.Base, Result: of.Result, From: of.From, Tree: of.Tree,
		Marked: of.Marked, Branch: of.Branch, Commit: b.Commit})
}

// Unapplied reports whether a goal with a checkout of its own has a result that
// is nowhere else.
func (s State) Unapplied() bool {
	return s.Worktree != nil && s.Workspace != nil && s.Revision.Tree != s.BaselineTree() && s.Applied != s.Revision.Tree
}

// removeWorktree records that a checkout is removed by the user's word. What was
// not applied goes only if they say so.
func (w *step) removeWorktree(b RemoveWorktree) error {
	s := &w.s
	switch {
	case s.Worktree == nil:
		return fmt.Errorf("%w: the goal has no worktree of its own", ErrState)
	case s.Removed:
		return fmt.Errorf("%w: its worktree is removed already", ErrState)
	case !s.Status.Final():
		return fmt.Errorf("%w: the goal is %s and may go on there; cancel it first", ErrState, s.Status)
	case s.unsettled():
		return fmt.Errorf("%w: a worker still settles what it had begun", ErrState)
	case b.Observation.From != s.Revision.Tree:
		return fmt.Errorf("%w: the goal's revision is another than when it was looked at; look again", ErrChanged)
	}
	if b.Observation.Tree != "" {
		w.noteObservation(b.Observation, "external")
	}
	if s.Unapplied() && !b.Discard {
		return fmt.Errorf("%w: its result was not applied (belay apply %s; --discard drops it)", ErrState, s.Goal)
	}
	w.emit(event.WorktreeRemoved{Dir: s.Worktree.Dir, Tree: s.Revision.Tree, Discarded: s.Unapplied()})
	return nil
}

func (s *State) applyResult(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.ResultApplied:
		s.Applied = p.Result
	case event.WorktreeRemoved:
		s.Removed = true
	default:
		return s.applyMoved(e)
	}
	return true
}

// Gone is the reason why there is no workspace any more, or nil.
func (s State) Gone() *fault.Fault {
	if !s.Removed {
		return nil
	}
	return fault.New(fault.NotFound, fault.User, "the worktree of goal "+s.Goal+" was removed by the user", "start a new goal")
}

// deedWords says what an open operation of a person does.
func (s State) deedWords() string {
	if o, open := s.rollback(); open && o.Tool == ToolApply {
		return "bringing the result to the user's repository"
	}
	return "rolling the workspace back"
}

func appliedLine(p event.ResultApplied) string {
	if p.How == ApplyBranch {
		return fmt.Sprintf("as commit %.12s on branch %s in %s", p.Commit, p.Branch, p.Into)
	}
	if len(p.Marked) > 0 {
		return fmt.Sprintf("into %s, with conflicts in %d files", p.Into, len(p.Marked))
	}
	return "into " + p.Into
}
