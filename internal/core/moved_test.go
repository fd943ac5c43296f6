package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

var (
	onMain  = event.Standing{Head: "aaa", Branch: "main"}
	onOther = event.Standing{Head: "bbb", Branch: "other"}
)

// inGit is a goal that was attached on a branch and may ask the model.
func inGit(t *testing.T) *traveller {
	w := &traveller{t: t, place: "a", now: 1_800_000_000_000_000}
	w.step(Start{Goal: "g", Repo: "/r", Spec: event.GoalSpec{Text: "x"}, Settings: event.Settings{Model: "m", Plan: event.PlanNever, Approve: event.ApproveAuto}})
	w.claim("a")
	w.step(Attached{Workspace: event.WorkspaceAttached{Root: "/r", Tree: "t0", Sandbox: "none", Git: "repository", Head: "aaa", Branch: "main"}})
	return w
}

// propose has the model call a tool, up to the point where a look is wanted.
func (w *traveller) propose(tool string, effect event.EffectClass) string {
	w.t.Helper()
	w.step(Composed{Head: w.s.Mark, Tokens: 10})
	w.step(Replied{Request: w.s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: tool, Arguments: "{}"}}},
		Proposals: []Proposal{{CallID: "c", Tool: tool, Effect: effect, Args: []byte(fmt.Sprintf(`{"n":%d}`, w.s.Ops)), Access: event.Access{Command: "make"}}}})
	return w.s.Open[0].ID
}

func seen(at event.Standing) Observation { return Observation{Tree: "t0", From: "t0", Git: &at} }

func TestAHeadThatSomebodyElseMovedStopsTheGoalWithAQuestion(t *testing.T) {
	t.Parallel()
	w := inGit(t)
	op := w.propose("run_command", event.Supervised)
	w.step(Prepared{Op: op, Observation: seen(onOther)})
	if w.s.AnyStarted() || w.s.Turn != nil || w.s.Wait == nil || w.s.Wait.Reason != event.WaitUserInput {
		t.Fatalf("started %v, turn %v, wait %+v", w.s.AnyStarted(), w.s.Turn, w.s.Wait)
	}
	if d := w.s.Wait.Detail; !strings.Contains(d, "branch other is checked out instead of branch main") || !strings.Contains(d, "HEAD is at bbb instead of aaa") {
		t.Errorf("asked: %s", d)
	}
	if Row(w.s).Runnable {
		t.Error("a worker would take it")
	}
	w.claim("b") // one that comes all the same asks again, and does nothing
	w.step(Observed{Observation: seen(onOther)})
	if w.s.Turn != nil || w.s.Wait == nil || w.s.Moved == nil {
		t.Fatalf("turn %v, wait %+v", w.s.Turn, w.s.Wait)
	}
	if err := w.person(Approve{}); err != nil {
		t.Fatal(err)
	}
	w.claim("b")
	w.step(Observed{Observation: seen(onOther)})
	w.step(Prepared{Op: op, Observation: seen(onOther)})
	if !w.s.AnyStarted() {
		t.Error("the goal does not go on from where the user wants it to")
	}
}

func TestTheAnswersToAMovedHead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		say    Body
		status lifecycle.Status
		mail   int
	}{
		{Approve{}, lifecycle.Active, 0}, {Deny{}, lifecycle.Paused, 0},
		{Say{Mode: event.Answer, Text: "Go on."}, lifecycle.Active, 0}, {Say{Mode: event.Message, Text: "stop"}, lifecycle.Paused, 0},
		{Say{Mode: event.Answer, Text: "go on, but leave a.txt alone"}, lifecycle.Active, 1}, {Say{Mode: event.Steer, Text: "use the new branch"}, lifecycle.Active, 1},
	} {
		w := inGit(t)
		w.step(Prepared{Op: w.propose("run_command", event.Supervised), Observation: seen(onOther)})
		if err := w.person(tc.say); err != nil {
			t.Errorf("%+v: %v", tc.say, err)
			continue
		}
		if w.s.Moved != nil || w.s.Status != tc.status || len(w.s.Inbox) != tc.mail || w.s.Wait != nil {
			t.Errorf("%+v: %s, moved %v, wait %v, inbox %v", tc.say, w.s.Status, w.s.Moved, w.s.Wait, w.s.Inbox)
		}
	}
}

func TestWhatAnOperationOfTheGoalMovedIsRecordedAndNotAsked(t *testing.T) {
	t.Parallel()
	w := inGit(t)
	op := w.run()
	w.step(Ended{Op: op, Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{}}})
	es := w.step(Observed{Observation: seen(onOther)})
	if w.s.Moved != nil || *w.s.Git != onOther || !slices.ContainsFunc(es, func(e event.Event) bool { m, ok := e.Payload.(event.HeadMoved); return ok && m.By == op && !m.Asked }) {
		t.Errorf("%+v %+v", w.s.Moved, es)
	}
	// An edit of a file cannot move HEAD: that was somebody else.
	w = inGit(t)
	op = w.propose("write_file", event.Verifiable)
	w.step(Prepared{Op: op, Observation: seen(onMain)})
	w.step(Ended{Op: op, Attempt: 1, Outcome: event.Succeeded})
	w.step(Observed{Observation: seen(event.Standing{Head: "aaa", Branch: "main", Doing: "a merge"})})
	if w.s.Moved == nil || w.s.Wait == nil || !strings.Contains(w.s.Wait.Detail, "a merge is in progress") {
		t.Errorf("%+v", w.s.Wait)
	}
}

func TestWhoeverResumesAGoalKnowsTheGround(t *testing.T) {
	t.Parallel()
	w := inGit(t)
	w.step(Pause{})
	w.step(Released{})
	w.step(Resume{})
	w.claim("a")
	w.step(Observed{Observation: seen(onOther)})
	if w.s.Moved != nil || *w.s.Git != onOther {
		t.Errorf("asked %+v, at %+v", w.s.Moved, w.s.Git)
	}
	w.step(Prepared{Op: w.propose("run_command", event.Supervised), Observation: seen(onMain)})
	if w.s.Moved == nil {
		t.Error("a later move is not asked about")
	}
}

// TestMovedAndBackIsNoQuestion: whatever way HEAD takes, the question is open
// exactly while git stands elsewhere than when it was first asked.
func TestMovedAndBackIsNoQuestion(t *testing.T) {
	t.Parallel()
	places := []event.Standing{onMain, onOther, {Head: "aaa", Branch: "main", Doing: "a rebase"}, {Head: "ccc"}}
	rapid.Check(t, func(rt *rapid.T) {
		var s State
		s.Git = &places[0]
		for range rapid.IntRange(1, 12).Draw(rt, "moves") {
			to := rapid.SampledFrom(places).Draw(rt, "to")
			if to == *s.Git {
				continue
			}
			s.applyMoved(event.Event{Payload: event.HeadMoved{From: *s.Git, To: to, By: external, Asked: true}})
			if *s.Git != to || (s.Moved == nil) != (to == places[0]) || s.Moved != nil && (s.Moved.From != places[0] || s.Moved.To != to) {
				rt.Fatalf("at %+v: %+v", to, s.Moved)
			}
		}
	})
}
