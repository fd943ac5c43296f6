package core

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

// TestEachSetupCommandSucceedsOnceAndBeforeTheModel: whatever fails, is lost with
// its worker or stays unknown, a command follows only the one before it, none
// that has succeeded runs again, none runs again while its outcome is unknown,
// and the model is asked only when all have succeeded.
func TestEachSetupCommandSucceedsOnceAndBeforeTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &traveller{t: t, place: "a", now: 1_800_000_000_000_000}
		var setup []string
		for i := range rapid.IntRange(0, 4).Draw(rt, "commands") {
			setup = append(setup, fmt.Sprintf("make step%d", i))
		}
		mode := rapid.SampledFrom([]event.PlanMode{event.PlanNever, event.PlanAlways}).Draw(rt, "plan")
		w.step(Start{Goal: "g", Repo: "/w", Worktree: &event.Worktree{Of: "/r", Dir: "/w", Setup: setup}, Spec: event.GoalSpec{Text: "x"},
			Settings: event.Settings{Model: "m", Plan: mode, Approve: event.ApproveAsk}})
		w.handTo("a")
		w.step(Attached{Workspace: event.WorkspaceAttached{Root: "/w", Tree: "t0", Sandbox: "none"}})
		done := 0
		for n := 0; done < len(setup) && n < 60; n++ {
			done = playSetup(rt, w, done)
		}
		for n := 0; done < len(setup) && n < 60; n++ {
			done = endSetup(w, done, event.Succeeded, false)
		}
		if done != len(setup) || w.s.SetUp != len(setup) || w.s.toSetUp() {
			rt.Fatalf("%d of %d succeeded, it knows of %d", done, len(setup), w.s.SetUp)
		}
		w.wake(rt)
		if !strings.Contains(w.keys(), "compose") {
			rt.Fatalf("the model is not asked: %s", w.keys())
		}
	})
}

// playSetup goes one thing further and returns how many have succeeded.
func playSetup(rt *rapid.T, w *traveller, done int) int {
	killed := rapid.Bool().Draw(rt, "killed")
	switch rapid.SampledFrom([]string{"end", "end", "crash", "pause", "fail", "unknown"}).Draw(rt, "what") {
	case "crash":
		if w.s.Turn != nil {
			w.handTo(w.place + "'")
		}
	case "pause":
		if w.s.Status == lifecycle.Active {
			w.step(Pause{})
		}
	case "fail":
		return endSetup(w, done, event.Failed, killed)
	case "unknown":
		return endSetup(w, done, event.OutcomeUnknown, killed)
	default:
		return endSetup(w, done, event.Succeeded, killed)
	}
	return done
}

// wake has the goal looked at, by the user's word if it stands still.
func (w *traveller) wake(t fataler) {
	for _, o := range w.s.InDoubt {
		if len(w.s.Open) > 0 {
			t.Fatalf("%s is open while %s is in doubt", w.s.Open[0].ID, o.ID)
		}
		r, err := Step(w.s, Input{Now: w.now, By: event.ActorUser, Body: Reconcile{Op: o.ID, Outcome: event.Failed}, Seed: [16]byte{9}})
		if err != nil {
			t.Fatalf("%v", err)
		}
		w.s = Fold(w.s, r.Events)
	}
	for range 4 { // a look can stop it over what failed
		if w.s.Status == lifecycle.Paused {
			w.step(Resume{})
		}
		if w.s.Turn == nil {
			w.handTo(w.place)
		}
		if w.s.looking() {
			w.step(Observed{Observation: Observation{Tree: "t0", From: "t0"}})
		}
	}
}

// handTo has another worker of the same place take the goal.
func (w *traveller) handTo(name string) {
	w.place = name
	w.s.Fence = max(w.s.Fence, 1)
	w.step(Claimed{Worker: "w-" + name, Takeover: w.s.Turn != nil})
}

type fataler interface{ Fatalf(string, ...any) }

// endSetup runs the command that is due to an outcome.
func endSetup(w *traveller, done int, outcome event.Outcome, killed bool) int {
	w.t.Helper()
	w.wake(w.t)
	if w.s.Status != lifecycle.Active || len(w.s.Open) != 1 {
		w.t.Fatalf("%s with %d open operations", w.s.Status, len(w.s.Open))
	}
	o := w.s.Open[0]
	if o.Setup != done+1 || o.Access.Command != w.s.Worktree.Setup[done] || strings.Contains(w.keys(), "compose") {
		w.t.Fatalf("after %d it wants %+v (%s)", done, o, w.keys())
	}
	if o.Phase == operation.Proposed {
		w.step(Prepared{Op: o.ID, Observation: Observation{Tree: "t0", From: "t0"}})
	}
	if o, _ = w.s.Find(o.ID); o.Phase != operation.Started {
		w.t.Fatalf("nobody lets it run: %+v", o)
	}
	e := Ended{Op: o.ID, Attempt: o.Attempt, Outcome: outcome}
	if killed {
		w.handTo(w.place + "'")
		if len(w.s.Open) != 1 || len(w.wants) != 1 {
			w.t.Fatalf("it is not looked for: %s", w.keys())
		}
		if _, looks := w.wants[0].(Probe); !looks {
			w.t.Fatalf("it is not looked for but run again: %+v", w.wants)
		}
		e.Recovered = "reattached"
	}
	if outcome != event.OutcomeUnknown {
		e.Result.Command = &event.CommandResult{DurationMS: 1}
	}
	if outcome != event.Succeeded {
		e.Result.Fault = fault.New(fault.ExitStatus, fault.Environment, "no", "")
	}
	w.step(e)
	if outcome == event.Succeeded {
		return done + 1
	}
	return done
}

// TestTheModelMayNotRunASetupCommandForIt: the user's word is for the one time.
func TestTheModelMayNotRunASetupCommandForIt(t *testing.T) {
	t.Parallel()
	s := State{Repo: "/w", Worktree: &event.Worktree{Setup: []string{"./install.sh"}}}
	o := operation.Op{Tool: "run_command", Effect: event.Supervised, Access: event.Access{Command: "./install.sh"}, Setup: 1}
	if v := s.judge(o); v.Decision != "allow" || v.Scope != "" {
		t.Errorf("the user's: %+v", v)
	}
	o.Setup = 0
	if v := s.judge(o); v.Decision != "ask" {
		t.Errorf("the model's: %+v", v)
	}
}

func TestCheckSetup(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]string{{""}, {"a", " \n"}, {"a\x00b"}, make([]string, MaxSetup+1)} {
		if CheckSetup(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := CheckSetup([]string{"make", "npm ci"}); err != nil {
		t.Error(err)
	}
}
