package core

import (
	"belay/internal/core/budget"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/moment"
)

// Wanted is the set of effects that should be in flight for a state, seen by a
// worker whose ticket has the given fence. It is the whole set: what is not in
// it should not run. Attempts that the worker has started stay in it until
// their outcome is recorded, also when its ticket is stale; attempts of others
// are only the holder's to look at. A worker's name must therefore be new for
// every driver: one that lost its memory is another worker.
func Wanted(s State, fence uint64, by event.Actor) []Effect {
	if s.Refuse != "" || s.Left != nil || s.Copy {
		return nil
	}
	if fence == s.Fence && s.away() && (s.Status == lifecycle.Active || s.Status == lifecycle.Verifying) {
		// First of all, because what is looked at next is the directory here.
		return []Effect{s.wantedMove()}
	}
	es := wantedAttempts(s, fence == s.Fence, by)
	if fence == s.Fence {
		es = append(es, s.wantedPack(by)...)
	}
	if fence == s.Fence {
		es = append(es, s.wantedFamily()...)
	}
	if fence != s.Fence || s.Turn == nil || s.Status.Final() || s.Status == lifecycle.Paused {
		return es
	}
	if s.Workspace == nil {
		return append(es, Attach{Repo: s.Repo})
	}
	if s.Request != nil {
		r := s.Request
		return append(es, Ask{Request: r.ID, Attempt: r.Attempt, Through: r.Through, Taken: r.Taken, MaxOutput: r.MaxOutput, Prose: r.Compaction != nil})
	}
	if s.AnyStarted() {
		return es // one thing with side effects at a time
	}
	if s.looking() {
		return append(es, Observe{From: s.Revision.Tree, Baseline: s.BaselineTree(), After: s.Unseen, Head: s.Mark, Deep: s.wantsDeep()})
	}
	if s.Wait != nil && s.Wait.Reason == event.WaitRetry {
		return append(es, Wake{At: s.Wait.Until})
	}
	if line := s.line(); len(line) > 0 {
		return append(es, wantedNext(s, line)...)
	}
	if s.modelsTurn() {
		return append(es, Compose{Head: s.Mark, Taken: s.mail()})
	}
	return es
}

// wantedAttempts are the open attempts: run by the worker that started them,
// probed by any other that holds the ticket.
func wantedAttempts(s State, holder bool, by event.Actor) []Effect {
	var es []Effect
	for _, o := range s.Open {
		if o.Phase != operation.Started {
			continue
		}
		switch {
		case o.AttemptBy == by:
			es = append(es, Run{Op: o, Attempt: o.Attempt})
		case holder && !s.stranded():
			es = append(es, Probe{Op: o, Attempt: o.Attempt})
		default:
			continue
		}
		switch {
		case forPerson(o.Tool): // a person wants it of a goal that has ended
		case s.Status == lifecycle.Cancelled || s.Status == lifecycle.Failed:
			es = append(es, Stop{Op: o, Attempt: o.Attempt, Reason: "the goal was " + string(s.Status)})
		case o.Criterion != "" && s.Status == lifecycle.Active && s.Claim == nil:
			es = append(es, Stop{Op: o, Attempt: o.Attempt, Reason: "the claim that it was to check is withdrawn"})
		}
	}
	return es
}

// wantedNext is what the head of the line needs: all leading reads at once,
// or the preparation of one operation with side effects.
func wantedNext(s State, line []operation.Op) []Effect {
	var es []Effect
	for _, o := range line {
		if o.Effect != event.Read || o.Phase != operation.Proposed || int64(len(es)) >= parallelReads(s.Settings) {
			break
		}
		es = append(es, Run{Op: o, Attempt: o.Attempt + 1})
	}
	if len(es) > 0 {
		return es
	}
	head := line[0]
	if head.Tool == ToolCheckRun {
		return nil // it is started without a look: it runs in a copy of its own
	}
	if head.Effect.SideEffect() && (head.Phase == operation.Proposed || head.Phase == operation.Approved) {
		es = append(es, Prepare{Op: head, From: s.Revision.Tree, Baseline: s.BaselineTree()})
	}
	return es
}

// modelsTurn reports whether nothing stands between the goal and the next
// request.
func (s State) modelsTurn() bool {
	return s.Status == lifecycle.Active && s.Turn != nil && s.Workspace != nil && len(s.inLine()) == 0 &&
		s.Request == nil && s.Claim == nil && s.Wait == nil && !s.looking() && !s.awaits()
}

func (w *step) modelsTurn() bool { return w.s.modelsTurn() }

// mail are the messages that the next request takes in: steering at any safe
// boundary, a message at the start of a turn.
func (s State) mail() []uint64 {
	var taken []uint64
	for _, m := range s.Inbox {
		if m.Mode != event.Message || s.Turn == nil || s.Turn.Replies == 0 {
			taken = append(taken, m.Seq)
		}
	}
	return taken
}

// Runnable reports whether a worker would have something to do.
func (s State) Runnable(now moment.Time) bool {
	if s.Refuse != "" || s.Left != nil || s.Copy {
		return false
	}
	if s.Status.Final() || s.Status == lifecycle.Paused {
		return s.unsettled()
	}
	if s.Wait == nil {
		return true
	}
	if s.Wait.Reason == event.WaitRetry {
		return now >= s.Wait.Until
	}
	return s.AnyStarted() || s.errands() || !s.Wait.Until.IsZero() && now >= s.Wait.Until
}

// unsettled reports whether a holder left something behind that a worker has to
// settle, also on a goal that goes no further.
func (s State) unsettled() bool {
	_, rolling := s.rollback()
	return s.AnyStarted() || s.Request != nil || s.Turn != nil || rolling || s.errands() || s.owesParent()
}

func askOf(set event.Settings, b Composed) budget.Ask {
	out := maxOutput(set)
	if b.MaxOutput > 0 {
		out = min(out, b.MaxOutput)
	}
	if b.Window > 0 {
		// Providers refuse what could outgrow the window with its answer.
		out = min(out, max(b.Window-b.Tokens, budget.MinOutput))
	}
	return budget.Ask{Input: b.Tokens, MaxOutput: out, InputPrice: b.InputPrice, OutputPrice: b.OutputPrice, PriceKnown: b.PriceKnown}
}
