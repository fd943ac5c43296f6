package core

import (
	"fmt"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

// traveller steps a goal by hand, as workers of several places would.
type traveller struct {
	t     *testing.T
	s     State
	place string
	now   moment.Time
	wants []Effect
}

func newTraveller(t *testing.T) *traveller {
	w := &traveller{t: t, place: "a", now: 1_800_000_000_000_000}
	w.step(Start{Goal: "g", Repo: "/r", Spec: event.GoalSpec{Text: "x"},
		Settings: event.Settings{Model: "m", Plan: event.PlanNever, Approve: event.ApproveAuto, Travel: true}})
	w.claim("a")
	w.step(Attached{Workspace: event.WorkspaceAttached{Root: "/r", Tree: "t0", Sandbox: "none"}})
	return w
}

func (w *traveller) step(b Body) []event.Event {
	w.t.Helper()
	w.now = w.now.AddMS(1000)
	in := Input{Now: w.now, By: event.Worker("w-" + w.place), Fence: w.s.Fence, Body: b, Seed: [16]byte{byte(w.s.Head), byte(w.s.Head >> 8)}}
	switch b.(type) {
	case Start, Adopt, Pause, Resume, Cancel:
		in.By, in.Fence = event.ActorUser, 0
	}
	r, err := Step(w.s, in)
	if err != nil {
		w.t.Fatalf("%T: %v", b, err)
	}
	w.s, w.wants = Fold(w.s, r.Events), r.Effects
	if w.s.Refuse != "" {
		w.t.Fatal(w.s.Refuse)
	}
	return r.Events
}

// claim takes the goal, from a worker that is gone if one has it.
func (w *traveller) claim(place string) {
	w.t.Helper()
	w.place = place
	w.s.Fence = max(w.s.Fence, 1)
	w.step(Claimed{Worker: "w-" + place, Place: place, Takeover: w.s.Turn != nil})
}

// run lets the model run a command up to its start.
func (w *traveller) run() string {
	w.t.Helper()
	w.step(Composed{Head: w.s.Mark, Tokens: 10})
	w.step(Replied{Request: w.s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: "run_command", Arguments: `{"command":"make"}`}}},
		Proposals: []Proposal{{CallID: "c", Tool: "run_command", Effect: event.Supervised, Args: []byte(fmt.Sprintf(`{"command":"make %d"}`, w.s.Ops)), Access: event.Access{Command: "make"}}}})
	op := w.s.Open[0].ID
	w.step(Prepared{Op: op, Observation: Observation{Tree: w.s.Revision.Tree, From: w.s.Revision.Tree}})
	if !w.s.AnyStarted() {
		w.t.Fatalf("it was not started: %+v", w.s.Open)
	}
	return op
}

func (w *traveller) keys() string {
	var ks []string
	for _, e := range w.wants {
		ks = append(ks, e.Key())
	}
	return strings.Join(ks, " ")
}

func (w *traveller) pack(tree string, size int64) {
	w.t.Helper()
	for _, e := range w.wants {
		if p, ok := e.(Pack); ok {
			if p.Tree != tree {
				w.t.Fatalf("it packs %s, the tree is %s", p.Tree, tree)
			}
			w.step(Packed{Tree: p.Tree, Base: p.Base, Pack: event.Ref{SHA256: tree, Size: size}})
			return
		}
	}
	w.t.Fatalf("no pack is wanted: %s", w.keys())
}

// TestAnAttemptSaysWhereItRuns: also the one that follows when the first never
// happened.
func TestAnAttemptSaysWhereItRuns(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	op := w.run()
	if o, _ := w.s.Find(op); o.Place != "a" || w.s.Place != "a" {
		t.Errorf("it runs at %q, the workspace is at %q", o.Place, w.s.Place)
	}
	w.claim("a2") // another state directory: the workspace is not there
	if w.keys() != fmt.Sprintf("move:%d", w.s.Mark) {
		t.Errorf("wanted: %s; the workspace comes first", w.keys())
	}
	w.step(Moved{Root: "/r", Tree: "t0"})
	if w.keys() != "run:"+op+":1 pack:t0" {
		t.Errorf("wanted: %s", w.keys())
	}
	w.step(NeverHappened{Op: op, Attempt: 1})
	if o, _ := w.s.Find(op); o.Place != "a2" || o.Attempt != 2 {
		t.Errorf("the next attempt is %d at %q", o.Attempt, o.Place)
	}
}

// TestAPlaceThatCannotHaveTheWorkspaceLooksAtNothing: what was started where the
// workspace is stays open until a worker there looks at it; it does not become
// unknown because it cannot be seen from elsewhere.
func TestAPlaceThatCannotHaveTheWorkspaceLooksAtNothing(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	op := w.run()
	w.claim("b")
	w.step(Unmoved{Fault: *fault.New(fault.NotFound, fault.Environment, "it is not here", "")})
	if w.s.Turn != nil || w.s.Wait == nil || w.keys() != "" {
		t.Errorf("it goes on: turn %+v, waits %+v, wanted %s", w.s.Turn, w.s.Wait, w.keys())
	}
	// Back where it is, it is looked at.
	w.now, w.place = w.s.Wait.Until, "again"
	w.step(Claimed{Worker: "w-again", Place: "a"})
	if !strings.Contains(w.keys(), "run:"+op+":1") {
		t.Errorf("back at its place: %s", w.keys())
	}
	// A goal that goes no further does not wait for a place that may never come
	// back.
	w.claim("b")
	w.step(Unmoved{Fault: *fault.New(fault.NotFound, fault.Environment, "it is not here", "")})
	w.step(Pause{})
	if es := Wanted(w.s, w.s.Fence, event.Worker("w-b")); len(es) != 1 {
		t.Errorf("a paused goal wants %v", es)
	}
}

// TestAPackDisturbsNothing: it is recorded beside a composing and an
// observation, which go on under the same names.
func TestAPackDisturbsNothing(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	before := w.keys()
	w.pack("t0", 100)
	if got := w.keys(); "pack:t0 "+got != before && got+" pack:t0" != before {
		t.Errorf("before the pack %s was wanted, after it %s", before, got)
	}
	w.step(Composed{Head: w.s.Mark, Tokens: 10})
	if w.s.Request == nil {
		t.Error("the composing was thrown away")
	}
}

// TestPacksBuildOnOneAnotherWithinBounds: a whole one begins the chain anew
// before it becomes long or large, and the first one is kept.
func TestPacksBuildOnOneAnotherWithinBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, next int64
		whole       int // after this many that build on it
	}{
		"many small ones":  {1 << 30, 100, MaxPacks - 1},
		"few large ones":   {100, 600 << 10, 2},
		"one that is huge": {100, 64 << 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p Packs
			for i := range 2 * MaxPacks {
				size := c.next
				if p.base() == "" {
					size = c.first
				}
				p.add(event.WorkspacePacked{Tree: fmt.Sprint("t", i), Base: p.base(), Pack: event.Ref{Size: size}})
				all := p.All()
				if all[0].Tree != "t0" || len(all) > MaxPacks+1 {
					t.Fatalf("%d packs, from %s on", len(all), all[0].Tree)
				}
				for k, e := range all {
					if k > 0 && e.Base != "" && e.Base != all[k-1].Tree {
						t.Fatalf("pack of %s builds on %s, not on %s", e.Tree, e.Base, all[k-1].Tree)
					}
				}
				if i == c.whole && p.base() != "" || i < c.whole && p.base() == "" {
					t.Fatalf("after %d packs the next builds on %q", i+1, p.base())
				}
			}
		})
	}
}

// TestAPackThatIsNotTheNextOneIsDropped: one made for an older tree, twice, or
// by a worker that was replaced; and a failure is on record and not repeated.
func TestAPackThatIsNotTheNextOneIsDropped(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	if es := w.step(Packed{Tree: "t1", Base: "tX", Pack: event.Ref{SHA256: "1"}}); len(es) != 0 {
		t.Errorf("a pack on an unknown base is recorded: %+v", es)
	}
	w.pack("t0", 10)
	if es := w.step(Packed{Tree: "t0", Pack: event.Ref{SHA256: "0"}}); len(es) != 0 {
		t.Errorf("a second pack of one tree is recorded: %+v", es)
	}
	w.run()
	w.step(Ended{Op: "op1", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{}}})
	w.step(Observed{Observation: Observation{Tree: "t1", From: "t0"}})
	w.step(Packed{Tree: "t1", Base: "t0", Failed: "no space"})
	if strings.Contains(w.keys(), "pack:") || w.s.Packs.Why != "no space" {
		t.Errorf("wanted after a failure: %s; %+v", w.keys(), w.s.Packs)
	}
}

// TestAWorkspaceThatCannotBeHadWaits: with the reason, again and again but not
// for ever, without spending turns; and where it cannot be known what to
// restore, nothing is moved at all.
func TestAWorkspaceThatCannotBeHadWaits(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	turns := w.s.Budget.Used.Turns
	w.claim("b")
	for i := range MaxBlocked {
		w.step(Unmoved{Fault: *fault.New(fault.Foreign, fault.Environment, "thesis.txt is in the way", "move it")})
		if w.s.Wait == nil || !w.s.Wait.Blocked || w.s.Turn != nil || !strings.Contains(w.s.Wait.Detail, "thesis.txt") {
			t.Fatalf("round %d: wait %+v, turn %+v", i, w.s.Wait, w.s.Turn)
		}
		w.now = w.s.Wait.Until
		w.claim("b")
	}
	w.step(Unmoved{Fault: *fault.New(fault.Foreign, fault.Environment, "thesis.txt is in the way", "move it")})
	if w.s.HandOff == nil || !strings.Contains(w.s.HandOff.Why, "thesis.txt") {
		t.Errorf("it is not handed off: %+v", w.s.Wait)
	}
	if w.s.Budget.Used.Turns != turns {
		t.Errorf("%d turns were spent on waiting", w.s.Budget.Used.Turns-turns)
	}
	w.step(Resume{})
	w.claim("b")
	w.step(Moved{Root: "/r", Tree: "t0", Written: 2})
	if w.s.Place != "b" || w.s.Budget.Used.Turns != turns+1 || w.s.Blocked != 0 {
		t.Errorf("at %q, %d turns, blocked %d", w.s.Place, w.s.Budget.Used.Turns, w.s.Blocked)
	}

	w = newTraveller(t)
	w.run()
	w.step(Ended{Op: "op1", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{}}})
	w.claim("b")
	if len(w.wants) != 0 || w.s.Wait == nil || !strings.Contains(w.s.Wait.Detail, "op1") {
		t.Errorf("an effect that nobody observed: wanted %s, wait %+v", w.keys(), w.s.Wait)
	}
	// Its own place finds it.
	w.now = w.s.Wait.Until
	w.claim("a")
	if !strings.Contains(w.keys(), "observe:") {
		t.Errorf("back at its place: %s", w.keys())
	}
}

// TestAPersonMayTakeTheDirectoryAsItIs: what it holds is a change from
// outside, whoever left what there.
func TestAPersonMayTakeTheDirectoryAsItIs(t *testing.T) {
	t.Parallel()
	w := newTraveller(t)
	w.run()
	w.step(Ended{Op: "op1", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{}}})
	w.claim("b")
	w.step(Adopt{Place: "b", Root: "/r"})
	if w.s.Wait != nil || w.s.Place != "b" {
		t.Fatalf("wait %+v, at %q", w.s.Wait, w.s.Place)
	}
	w.claim("b")
	es := w.step(Observed{Observation: Observation{Tree: "t9", From: "t0"}})
	if m, ok := es[0].Payload.(event.RepoStateMutated); !ok || m.By != "external" {
		t.Errorf("%+v", es[0])
	}
	if _, err := Step(w.s, Input{Now: w.now, By: event.ActorUser, Body: Adopt{Place: "b", Root: "/r"}}); err == nil {
		t.Error("the directory was taken twice")
	}
}
