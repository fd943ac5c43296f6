package core

import (
	"fmt"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool/control"
)

// Names of the control tools, which the core answers itself.
const (
	ToolUpdatePlan     = control.UpdatePlan
	ToolUpdateTodos    = control.UpdateTodos
	ToolRecordDecision = control.RecordDecision
	ToolAskUser        = control.AskUser
	ToolFinish         = control.Finish
)

// advance moves the goal as far as it goes without an effect. Each round emits
// at least one event, and each event brings the goal closer to waiting for an
// effect or to the end of the turn.
func (w *step) advance() {
	for w.err == nil && w.s.Refuse == "" && w.s.Turn != nil && w.holder() && w.advanceOnce() {
	}
}

// advanceOnce reports whether it changed anything.
func (w *step) advanceOnce() bool {
	s := &w.s
	if o, open := s.rollback(); open {
		// Nothing else moves while the ground does.
		if o.Phase == operation.Proposed {
			w.startRollback(o)
			return true
		}
		return false
	}
	if s.Status.Final() || s.Status == lifecycle.Paused {
		if !s.AnyStarted() && !s.errands() && !s.owesParent() {
			w.endTurn(w.stopReason(), "")
		}
		return false
	}
	if s.away() {
		if s.Unseen != "" {
			w.stranded(*unobserved(s.Unseen, s.Place))
		}
		return false
	}
	if s.Workspace == nil || s.Request != nil || s.looking() {
		return false
	}
	if s.Wait != nil && s.Wait.Reason == event.WaitRetry {
		if w.in.Now < s.Wait.Until {
			return false
		}
		w.emitBy(event.ActorRuntime, "", event.GoalWoken{Reason: event.WaitRetry})
		return true
	}
	if s.Moved != nil && s.Status == lifecycle.Active {
		return w.askMoved()
	}
	if s.Status == lifecycle.Verifying {
		return w.verify()
	}
	if line := s.inLine(); len(line) > 0 && !w.claimIs(line[0]) {
		return w.advanceOp(line[0])
	}
	if s.Claim != nil && len(s.Children.Open()) == 0 {
		return w.advanceClaim()
	}
	if s.Claim != nil || s.awaits() {
		return w.waitForChildren()
	}
	return w.beforeRequest()
}

// claimIs reports whether an operation is the finish whose claim is open.
func (w *step) claimIs(o operation.Op) bool {
	return w.s.Claim != nil && w.s.Claim.Op != "" && o.ID == w.s.Claim.Op
}

// advanceOp moves the operation at the head of the line.
func (w *step) advanceOp(o operation.Op) bool {
	switch {
	case o.Phase == operation.Awaiting:
		until := w.s.askedUntil()
		if !until.IsZero() && w.in.Now >= until {
			w.timeOut()
			return true
		}
		w.emitBy(event.ActorRuntime, "", event.GoalWaiting{Reason: event.WaitApproval, Until: until, Detail: o.Tool + " (" + o.ID + ")"})
		w.endTurn(event.StopNeedsApproval, o.ID)
		return false
	case o.Effect == event.Control:
		return w.control(o)
	case o.Tool == ToolCheckRun && o.Phase == operation.Proposed:
		return w.startCheck(o)
	}
	return false // an effect is wanted for it
}

// beforeRequest checks what has to hold before the model is asked again.
func (w *step) beforeRequest() bool {
	s := &w.s
	if s.toSetUp() {
		return w.prepareWorktree()
	}
	switch {
	case s.hasMessage() && s.Turn.Replies > 0 && s.Turn.Calls == 0:
		return w.nextTurn("a user message begins a turn of its own")
	case s.Turn.Steps >= stepsPerTurn(s.Settings):
		return w.nextTurn("turn limit")
	}
	if d := s.Budget.Short(event.Amount{Steps: 1}, w.in.Now); d != "" {
		w.exhausted(d)
		return false
	}
	if a := s.Way.Look(s.Settings.Patience); a != nil {
		return w.alarm(*a)
	}
	return false
}

func (s State) hasMessage() bool {
	for _, m := range s.Inbox {
		if m.Mode == event.Message {
			return true
		}
	}
	return false
}

// nextTurn ends this turn and opens the next one under the same ticket.
func (w *step) nextTurn(why string) bool {
	holder := w.s.Holder
	if d := w.s.Budget.Short(event.Amount{Turns: 1}, w.in.Now); d != "" {
		w.exhausted(d)
		return false
	}
	w.endTurn(event.StopYielded, why)
	w.emit(event.TurnStarted{Worker: holder.Worker, Place: holder.Place})
	return true
}

func (w *step) endTurn(reason event.StopReason, detail string) {
	w.emitBy(event.ActorRuntime, "", event.TurnEnded{Reason: reason, Detail: detail})
	w.commit()
}

// exhausted pauses the goal because a budget dimension has run out.
func (w *step) exhausted(dimension string) {
	why := "the budget of " + dimension + " is exhausted"
	if dimension == "deadline" {
		why = "the deadline has passed"
	}
	f := fault.New(fault.BudgetExhausted, fault.User, why, "extend it and resume, or cancel the goal")
	w.handOff(f.Message, f, event.PausedBudget, event.StopBudget)
}

// handOff stops the goal by belay's own decision, with a report.
func (w *step) handOff(why string, f *fault.Fault, pause event.PauseReason, stop event.StopReason) {
	h := event.GoalHandedOff{Why: why, Fault: f, HowResume: howResume(pause)}
	for _, t := range w.s.Todos {
		if t.Status == event.TodoCompleted {
			h.Done = append(h.Done, t.Content)
		}
	}
	for _, c := range w.s.Judgement().Criteria {
		if c.Result == event.Pass {
			h.Done = append(h.Done, "criterion "+c.ID+" holds")
		} else {
			h.Missing = append(h.Missing, c.ID+": "+c.Reason)
		}
	}
	for _, o := range w.s.Open {
		if o.Phase == operation.Started {
			h.Running = append(h.Running, o.ID+" "+o.Tool)
		}
	}
	for _, o := range w.s.InDoubt {
		h.Missing = append(h.Missing, o.ID+" ("+o.Tool+") has an unknown outcome")
	}
	for _, c := range w.s.Children.Open() {
		h.Running = append(h.Running, "child goal "+c.Goal)
	}
	w.giveUpVerification("the goal was handed off before it ended: " + why)
	if w.s.ParentOp != "" {
		// Whoever started it is handed the result: to them, it has failed.
		h.HowResume = "the goal that started it decides what to do"
		w.emitBy(event.ActorRuntime, "", h)
		w.emitBy(event.ActorRuntime, "", event.GoalFailed{Fault: *faultOr(f, why)})
		w.closeUnstarted(event.Cancelled, fault.New(fault.Cancelled, fault.Runtime, "the goal failed before this began", ""))
		stop = event.StopFailed
	} else {
		w.emitBy(event.ActorRuntime, "", h)
		w.emitBy(event.ActorRuntime, "", event.GoalPaused{Reason: pause, Detail: why})
	}
	if w.s.Turn != nil && !w.s.AnyStarted() && !w.s.errands() && !w.s.owesParent() {
		w.endTurn(stop, why)
	}
	w.commit()
}

func faultOr(f *fault.Fault, why string) *fault.Fault {
	if f != nil {
		return f
	}
	return fault.New(fault.Internal, fault.Runtime, why, "")
}

func howResume(p event.PauseReason) string {
	if p == event.PausedBudget {
		return "belay resume G --max-… with a larger budget"
	}
	return `belay say G "what to do differently", or belay resume G`
}

// judgeCount acts on the n-th equal failure of an action.
func (w *step) judgeCount(tool, action string, f *fault.Fault, n int64) {
	if w.s.Status != lifecycle.Active {
		return
	}
	switch judgeProgress(n, w.s.Settings.SameError) {
	case forbid:
		if w.s.Progress.Forbidden[action] == f.Signature {
			return // said before, in this same response
		}
		w.emitBy(event.ActorRuntime, "", event.ProgressAlarm{Signal: "repeated_error", Count: n,
			Detail: fmt.Sprintf("%s failed %d times in the same way: %s", tool, n, clip(f.Message, 200))})
		w.emitBy(event.ActorRuntime, "", event.ActionForbidden{Tool: tool, Action: action, Signature: f.Signature, Count: n})
	case giveUp:
		w.handOff(fmt.Sprintf("%s was tried again after it had failed %d times in the same way: %s", tool, n-1, clip(f.Message, 200)),
			f, event.PausedNoProg, event.StopNoProgress)
	}
}
