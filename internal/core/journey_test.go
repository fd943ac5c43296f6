package core

import (
	"errors"
	"strings"
	"testing"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

func TestAGoalThatWasGivenUpIsMovedByNothingButItsImport(t *testing.T) {
	t.Parallel()
	w := atRest(t)
	fence := w.s.Fence
	if err := w.person(GiveUp{To: "f", Observation: Observation{Tree: "t1", From: "t0"}}); !errors.Is(err, ErrChanged) {
		t.Errorf("another revision: %v", err)
	}
	if err := w.person(GiveUp{To: "f", Observation: Observation{Tree: "t1", From: "t1"}}); err != nil {
		t.Fatal(err)
	}
	if w.s.Fence <= fence || Row(w.s).Runnable || len(Wanted(w.s, w.s.Fence, "worker:w-a")) > 0 {
		t.Errorf("fence %d after %d, runnable %v", w.s.Fence, fence, Row(w.s).Runnable)
	}
	for _, b := range []Body{Resume{}, Say{Mode: event.Message, Text: "x"}, Cancel{}, Approve{}, GiveUp{To: "g", Observation: Observation{From: "t1"}}, ApplyResult{}, Rollback{}, Adopt{Place: "b"}} {
		if err := w.person(b); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "given up to f") {
			t.Errorf("%T: %v", b, err)
		}
	}
	if _, err := Step(w.s, Input{Now: w.now, By: event.Worker("w-b"), Fence: w.s.Fence, Body: Claimed{Worker: "w-b"}}); !errors.Is(err, ErrState) {
		t.Errorf("a worker: %v", err)
	}
	if err := w.person(Import{Place: "b", Repo: "/there", Mine: Mine{Rules: []event.Rule{{ID: "mine"}}, Sandbox: "bwrap"}}); err != nil {
		t.Fatal(err)
	}
	s := w.s
	if s.Left != nil || s.Place != "b" || s.Repo != "/there" || s.Worktree != nil || s.Settings.Approve != event.ApproveAsk || s.Settings.Sandbox != "bwrap" || len(s.Settings.Rules) != 1 {
		t.Errorf("%+v", s.Settings)
	}
	w.step(Resume{})
	w.claim("b")
	w.step(Observed{Observation: Observation{Tree: "t1", From: "t1"}})
	if !w.s.modelsTurn() {
		t.Error("it does not go on there")
	}
}

func TestARunningGoalIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	if err := w.person(GiveUp{To: "f", Observation: Observation{Tree: "t0", From: "t0"}}); !errors.Is(err, ErrState) {
		t.Errorf("%v", err)
	}
	if err := w.person(Import{Place: "b"}); !errors.Is(err, ErrInput) {
		t.Errorf("an import of what was not given up: %v", err)
	}
}

func TestAChildIsNotGivenUpAndItsForkIsNobodysChild(t *testing.T) {
	t.Parallel()
	w := atRest(t)
	w.s.Parent, w.s.ParentOp = "p", "op1"
	if err := w.person(GiveUp{To: "f", Observation: Observation{Tree: "t1", From: "t1"}}); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "goal p started it") {
		t.Errorf("%v", err)
	}
	if err := w.person(Fork{From: "g", At: w.s.Head, Hash: "h", Tree: "t1", Place: "a", Repo: "/w", Worktree: &event.Worktree{Of: "/r", Dir: "/w"}}); err != nil {
		t.Fatal(err)
	}
	if w.s.Parent != "" || w.s.ParentOp != "" || len(w.s.Children.Open()) > 0 {
		t.Errorf("parent %q %q", w.s.Parent, w.s.ParentOp)
	}
}

func TestACopyIsOnlyLookedAt(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	op := w.run() // exported while a command ran
	if err := w.person(Import{Place: "b", Copy: true}); err != nil {
		t.Fatal(err)
	}
	if Row(w.s).Runnable || len(Wanted(w.s, w.s.Fence, "worker:w-a")) > 0 {
		t.Error("a worker would take it")
	}
	if err := w.person(Resume{}); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("%v", err)
	}
	if o, ok := w.s.Find(op); !ok || !o.Open() {
		t.Error("a copy changed what was on record")
	}
}

// TestNothingThatAFileAllowsCounts: neither where it is imported, nor in a fork
// of it, whatever of its history the fork has.
func TestNothingThatAFileAllowsCounts(t *testing.T) {
	t.Parallel()
	wide := func() State {
		w := inGit(t)
		w.s.Settings = event.Settings{Approve: event.ApproveAuto, AcceptUnverified: true, Sandbox: "none", Rules: []event.Rule{{ID: "theirs", Decision: "allow"}}}
		w.s.Spec.Acceptance = []event.Criterion{{ID: "t", Kind: event.CriterionTest, Command: "curl x", Network: "full"}}
		w.s.Confirmed = []event.Criterion{{ID: "u", Kind: event.CriterionTest, Command: "wget x", Network: "full"}}
		w.step(Cancel{})
		return w.s
	}
	mine := Mine{Rules: []event.Rule{{ID: "mine"}}, Protected: []string{"/p"}, Sandbox: "bwrap"}
	left := wide()
	left.Left = &event.GoalGivenUp{To: "f"}
	for name, c := range map[string]struct {
		s State
		b Body
	}{
		"imported":        {left, Import{Place: "b", Repo: "/w", Mine: mine}},
		"forked, foreign": {wide(), Fork{From: "g", Tree: "t0", Place: "b", Repo: "/w", Foreign: true, Mine: mine}},
	} {
		if f, ok := c.b.(Fork); ok {
			f.At, f.Tree = c.s.Head, c.s.Revision.Tree
			c.b = f
		}
		r, err := Step(c.s, Input{Now: 9, By: event.ActorUser, StoreFence: c.s.Fence, Seed: [16]byte{9}, Body: c.b})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := Fold(c.s, r.Events)
		if s.Settings.Approve != event.ApproveAsk || s.Settings.AcceptUnverified || s.Settings.Sandbox != "bwrap" || len(s.Settings.Rules) != 1 || s.Settings.Rules[0].ID != "mine" ||
			len(s.Policy().TestNetwork) > 0 || !s.Imported {
			t.Errorf("%s: %+v, network %v, imported %v", name, s.Settings, s.Policy().TestNetwork, s.Imported)
		}
		if c.s.Spec.Acceptance[0].Network != "full" {
			t.Errorf("%s: the state before was changed", name)
		}
	}
}

// TestAForkClosesWhatWasOpenAndRunsNothing at whatever instant it is made.
func TestAForkClosesWhatWasOpenAndRunsNothing(t *testing.T) {
	t.Parallel()
	w := inGit(t)
	w.s.Settings.Approve = event.ApproveAsk
	var at []State
	note := func() { at = append(at, w.s) }
	note()
	op := w.propose("mystery", event.Opaque)
	note() // proposed
	w.step(Prepared{Op: op, Observation: seen(onMain)})
	note() // asked
	if err := w.person(Approve{Op: op}); err != nil {
		t.Fatal(err)
	}
	note() // granted
	w.claim("a")
	w.step(Observed{Observation: seen(onMain)})
	w.step(Prepared{Op: op, Observation: seen(onMain)})
	note() // started
	w.step(Ended{Op: op, Attempt: 1, Outcome: event.Succeeded})
	w.step(Observed{Observation: seen(onMain)})
	w.step(Composed{Head: w.s.Mark, Tokens: 10})
	note() // asking the model
	w.step(Cancel{})
	note() // ended
	for i, s := range at {
		r, err := Step(s, Input{Now: w.now, By: event.ActorUser, StoreFence: s.Fence, Seed: [16]byte{9},
			Body: Fork{From: "g", At: s.Head, Hash: "h", Tree: s.Revision.Tree, Place: "a", Repo: "/w", Worktree: &event.Worktree{Of: "/r", Dir: "/w"}, Text: "otherwise"}})
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		f := Fold(s, r.Events)
		if f.Refuse != "" || f.Status != lifecycle.Active || len(f.Open) > 0 || f.Turn != nil || f.Request != nil || len(f.Approvals.Pending)+len(f.Approvals.Granted) > 0 ||
			f.Budget.Used != (event.Amount{}) || len(f.Budget.Reserved) > 0 || len(f.Inbox) != 1 || f.Repo != "/w" || !Row(f).Runnable {
			t.Errorf("%d: refused %q, %s, open %v, turn %v, request %v, approvals %+v, used %+v, inbox %v", i, f.Refuse, f.Status, f.Open, f.Turn, f.Request, f.Approvals, f.Budget, f.Inbox)
		}
		for _, e := range r.Events {
			if e.Type == event.TypeOperationStarted {
				t.Errorf("%d: something was started", i)
			}
		}
	}
}
