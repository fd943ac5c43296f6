package core

import (
	"fmt"

	"belay/internal/core/approval"
	"belay/internal/core/budget"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

// A goal goes to another machine as a file, and another goal begins where one
// stood at an instant. In both, what is on record is history: nothing of it runs
// again, no approval in it counts, and what may be done is what the user's
// configuration says here.

// leaves refuses what would move a goal that goes on elsewhere, or a copy of one
// that does.
func (s State) leaves(b Body) error {
	if _, arrives := b.(Import); arrives || s.Left == nil && !s.Copy {
		return nil
	}
	if s.Copy {
		return fmt.Errorf("%w: this is a copy of goal %s, which goes on where it was exported (belay fork %s goes on from it as a goal of its own)", ErrState, s.Goal, s.Goal)
	}
	return fmt.Errorf("%w: goal %s was given up to %s and goes on where that is imported", ErrState, s.Goal, s.Left.To)
}

// giveUp ends the right to advance the goal here. It is paused first: whoever
// imports it resumes it.
func (w *step) giveUp(b GiveUp) error {
	s := &w.s
	switch {
	case s.Workspace == nil:
		return fmt.Errorf("%w: the goal has not looked at its workspace yet", ErrState)
	case s.ParentOp != "":
		return fmt.Errorf("%w: goal %s started it and waits for it here; give that up when it has ended", ErrState, s.Parent)
	case len(s.Children.Open()) > 0:
		return fmt.Errorf("%w: its child goals are not at their end; wait for them, or cancel them", ErrState)
	case s.unsettled():
		return fmt.Errorf("%w: a worker works on the goal or still settles what it had begun; pause it first", ErrState)
	case b.Observation.From != s.Revision.Tree:
		return fmt.Errorf("%w: the goal's revision is another than when it was looked at; try again", ErrChanged)
	}
	w.noteObservation(b.Observation, external)
	if s.Status == lifecycle.Active || s.Status == lifecycle.Verifying {
		w.giveUpVerification("the goal was given up to another machine before it ended")
		w.emit(event.GoalPaused{Reason: event.PausedByUser, Detail: "given up to " + b.To})
	}
	w.emit(event.GoalGivenUp{To: b.To, Place: s.Place, Tree: s.Revision.Tree})
	return nil
}

// importGoal makes the goal one of this place. One that was not given up stays a
// copy.
func (w *step) importGoal(b Import) error {
	s := &w.s
	if s.Workspace == nil && !b.Copy {
		return fmt.Errorf("%w: the goal has no workspace that could be restored", ErrInput)
	}
	if s.Left == nil && !b.Copy {
		return fmt.Errorf("%w: the goal was not given up by its exporter", ErrInput)
	}
	if !b.Copy {
		w.closeHistory("the goal went to another machine")
	}
	w.emit(event.GoalImported{From: s.Place, Place: b.Place, Repo: b.Repo, Tree: s.Revision.Tree, Copy: b.Copy, Rules: b.Rules, Protected: b.Protected, Sandbox: b.Sandbox})
	return nil
}

// fork begins a goal where another stood. The events before are copies of its
// own.
func (w *step) fork(b Fork) error {
	s := &w.s
	if s.Workspace == nil || b.Tree != s.Revision.Tree {
		return fmt.Errorf("%w: the goal had no workspace then, or another one", ErrInput)
	}
	w.closeHistory("it belongs to goal " + b.From + ", from which this one was forked")
	w.emit(event.GoalForked{From: b.From, At: b.At, Hash: b.Hash, Tree: b.Tree, Place: b.Place, Repo: b.Repo, Worktree: b.Worktree, Limits: s.Spec.Limits,
		Foreign: b.Foreign, Rules: b.Rules, Protected: b.Protected, Sandbox: b.Sandbox})
	if b.Text != "" {
		w.emit(event.UserMessage{Mode: event.Message, Text: b.Text})
	}
	return nil
}

// closeHistory gives everything that was open its end: it does not happen here.
func (w *step) closeHistory(why string) {
	s := &w.s
	if r := s.Request; r != nil {
		w.emit(event.ModelFailed{Request: r.ID, Fault: *fault.New(fault.Interrupted, fault.Runtime, why, "")})
	}
	if s.Status == lifecycle.Verifying {
		w.giveUpVerification(why)
	}
	for _, o := range append([]operation.Op(nil), s.Open...) {
		f := fault.New(fault.Cancelled, fault.Runtime, why+"; nothing of it was done here", "propose it again if it is still right")
		if o.Phase == operation.Started {
			w.emitBy(event.ActorRuntime, o.ID, event.OperationFinished{Tool: o.Tool, Attempt: o.Attempt, Outcome: event.Cancelled,
				Result: event.Result{Fault: f, Output: event.Text{Head: f.Error()}}})
			continue
		}
		w.emitBy(event.ActorRuntime, o.ID, event.OperationRejected{Outcome: event.Cancelled, Fault: *f})
	}
	if s.Turn != nil {
		w.emitBy(event.ActorRuntime, "", event.TurnEnded{Reason: event.StopSuperseded, Detail: why})
	}
}

// Mine is what the user's own configuration says at this place. A goal that came
// in a file may do that, and nothing that the file says.
type Mine struct {
	Rules     []event.Rule
	Protected []string
	Sandbox   string
}

// narrow takes away what was allowed elsewhere; what was denied stays denied.
func (s *State) narrow(m Mine) {
	s.Settings.Rules, s.Settings.Protected, s.Settings.Sandbox, s.Settings.AcceptUnverified = m.Rules, m.Protected, m.Sandbox, false
	if s.Settings.Approve == event.ApproveAuto {
		s.Settings.Approve = event.ApproveAsk
	}
	s.Spec.Acceptance, s.Confirmed = withoutNetwork(s.Spec.Acceptance), withoutNetwork(s.Confirmed)
	s.Imported = true
	if s.Workspace != nil {
		at := *s.Workspace
		at.Sandbox = "" // it was another one; the next look says which
		s.Workspace = &at
	}
}

// withoutNetwork are the criteria with no network granted to their commands.
func withoutNetwork(cs []event.Criterion) []event.Criterion {
	out := append([]event.Criterion(nil), cs...)
	for i := range out {
		out[i].Network = ""
	}
	return out
}

func (s *State) applyJourney(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.GoalGivenUp:
		s.Left = &p
	case event.GoalImported:
		s.Left, s.Copy, s.Imported = nil, p.Copy, true
		if p.Copy {
			if p.Repo != "" {
				s.Place, s.Repo, s.Worktree = p.Place, p.Repo, nil // where its trees are, for a fork
			}
			break
		}
		s.arrive(p.Place, p.Repo, nil)
		s.narrow(Mine{p.Rules, p.Protected, p.Sandbox})
	case event.GoalForked:
		s.Left, s.Copy, s.Removed, s.Applied = nil, false, false, ""
		s.arrive(p.Place, p.Repo, p.Worktree)
		s.Status, s.How, s.Fault, s.HandOff = lifecycle.Active, "", nil, nil
		s.Pause, s.Wait, s.Claim, s.Verification, s.Verdict = nil, nil, nil, nil, nil
		s.Budget = budget.Ledger{Limits: p.Limits}.Clone()
		s.Takeovers, s.Blocked, s.Strikes, s.Retry = 0, 0, 0, nil
		// It is nobody's child, and the children of the other are not its own.
		s.Parent, s.ParentOp, s.ParentTold, s.Children, s.Share = "", "", false, nil, event.Limits{}
		if p.Foreign {
			s.narrow(Mine{p.Rules, p.Protected, p.Sandbox})
		}
		s.ForkedFrom = &Origin{Goal: p.From, At: p.At}
		s.afresh()
	default:
		return false
	}
	return true
}

// Origin is where a forked goal comes from.
type Origin struct {
	Goal string `json:"goal"`
	At   uint64 `json:"at"`
}

// arrive makes a place the goal's. No approval counts there.
func (s *State) arrive(place, repo string, t *event.Worktree) {
	s.Place, s.Repo, s.Worktree = place, repo, t
	s.SetUp, s.SetupFailed = 0, nil // another checkout, in which nothing was prepared
	s.InDoubt = append([]operation.Op(nil), s.InDoubt...)
	for i := range s.InDoubt {
		s.InDoubt[i].Setup = 0 // what became of it prepares nothing here
	}
	if s.Workspace != nil {
		at := *s.Workspace
		at.Root, at.Place = repo, place
		s.Workspace = &at
	}
	s.Approvals = approval.Book{Denied: s.Approvals.Denied}.Clone()
	s.Holder, s.Git, s.Moved, s.Fresh = Holder{}, nil, nil, false
	s.Unseen, s.UnseenRun, s.Index = "", nil, ""
}
