package core

import (
	"errors"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
)

// atRest is a goal in a checkout of its own that has changed something and was
// paused.
func atRest(t *testing.T) *traveller {
	w := newTraveller(t)
	w.s.Worktree = &event.Worktree{Of: "/user", Dir: "/w"}
	op := w.run()
	w.step(Ended{Op: op, Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{}}})
	w.step(Observed{Observation: Observation{Tree: "t1", From: "t0"}})
	w.step(Pause{})
	w.step(Released{})
	return w
}

func (w *traveller) person(b Body) error {
	w.t.Helper()
	r, err := Step(w.s, Input{Now: w.now, By: event.ActorUser, StoreFence: w.s.Fence, Body: b, Seed: [16]byte{1, byte(w.s.Head)}})
	if err == nil {
		w.s = Fold(w.s, r.Events)
	}
	return err
}

func TestAResultIsAppliedOnlyAsItWasShown(t *testing.T) {
	t.Parallel()
	good := ApplyOf{How: ApplyPatch, Into: "/user", Base: "t0", Result: "t1", From: "u0", Tree: "u1"}
	now := Observation{Tree: "t1", From: "t1"}
	for _, tc := range []struct {
		name string
		of   func(*ApplyOf, *Observation)
		want error
	}{
		{"as shown", func(*ApplyOf, *Observation) {}, nil},
		{"another result", func(of *ApplyOf, _ *Observation) { of.Result = "t2" }, ErrInput},
		{"another base", func(of *ApplyOf, _ *Observation) { of.Base = "t1" }, ErrInput},
		{"nothing to do", func(of *ApplyOf, _ *Observation) { of.Tree = "u0" }, ErrInput},
		{"a branch without a name", func(of *ApplyOf, _ *Observation) { of.How = ApplyBranch }, ErrInput},
		{"a way that nobody knows", func(of *ApplyOf, _ *Observation) { of.How = "mail" }, ErrInput},
		{"the revision has moved on", func(_ *ApplyOf, o *Observation) { o.From = "t0" }, ErrChanged},
	} {
		w := atRest(t)
		of, o := good, now
		tc.of(&of, &o)
		if err := w.person(ApplyResult{Of: of, Observation: o}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	w := newTraveller(t)
	if err := w.person(ApplyResult{Of: good, Observation: now}); !errors.Is(err, ErrState) {
		t.Errorf("of a goal that runs: %v", err)
	}
}

func TestAWorktreeGoesOnlyWithItsResultElsewhereOrByTheUsersWord(t *testing.T) {
	t.Parallel()
	look := Observation{Tree: "t1", From: "t1"}
	w := atRest(t)
	if err := w.person(RemoveWorktree{Observation: look, Discard: true}); !errors.Is(err, ErrState) {
		t.Errorf("of a goal that may go on: %v", err)
	}
	w.step(Cancel{})
	if err := w.person(RemoveWorktree{Observation: look}); !errors.Is(err, ErrState) || !w.s.Unapplied() {
		t.Errorf("of a result that is nowhere else: %v", err)
	}
	if err := w.person(ApplyResult{Of: ApplyOf{How: ApplyPatch, Into: "/user", Base: "t0", Result: "t1", From: "u0", Tree: "u1"}, Observation: look}); err != nil {
		t.Fatal(err)
	}
	if err := w.person(RemoveWorktree{Observation: look}); !errors.Is(err, ErrState) {
		t.Errorf("in the middle of an apply: %v", err)
	}
	w.claim("a")
	op := w.s.Open[0].ID
	w.step(Ended{Op: op, Attempt: 1, Outcome: event.Failed, Result: event.Result{Fault: fault.New(fault.Foreign, fault.Environment, "no", "")}})
	if !w.s.Unapplied() {
		t.Error("an apply that failed counts")
	}
	if err := w.person(ApplyResult{Of: ApplyOf{How: ApplyPatch, Into: "/user", Base: "t0", Result: "t1", From: "u0", Tree: "u1"}, Observation: look}); err != nil {
		t.Fatal(err)
	}
	w.claim("a")
	w.step(Ended{Op: w.s.Open[0].ID, Attempt: 1, Outcome: event.Succeeded})
	if w.s.Unapplied() || w.s.Turn != nil {
		t.Errorf("applied: %v, turn %v", w.s.Applied, w.s.Turn)
	}
	if err := w.person(RemoveWorktree{Observation: Observation{Tree: "t2", From: "t1"}}); !errors.Is(err, ErrState) {
		t.Errorf("with what was changed since: %v", err)
	}
	if err := w.person(RemoveWorktree{Observation: Observation{Tree: "t2", From: "t1"}, Discard: true}); err != nil || w.s.Gone() == nil {
		t.Errorf("by the user's word: %v", err)
	}
	if err := w.person(RemoveWorktree{Observation: Observation{Tree: "t2", From: "t2"}}); !errors.Is(err, ErrState) {
		t.Errorf("twice: %v", err)
	}
}
