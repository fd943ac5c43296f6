package core_test

import (
	"encoding/json"
	"testing"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
)

// lane drives one goal by its inputs alone; every event counts as committed
// when Step returns it.
type lane struct {
	t     *testing.T
	s     core.State
	n     byte
	last  core.Ready
	all   []event.Event
	fence uint64
}

func (l *lane) in(by event.Actor, fence uint64, b core.Body) core.Ready {
	l.t.Helper()
	l.n++
	r, err := core.Step(l.s, core.Input{Now: 1000, Seed: [16]byte{l.n}, By: by, Fence: fence, StoreFence: max(l.s.Fence, fence), Body: b})
	if err != nil {
		l.t.Fatalf("%T: %v", b, err)
	}
	l.s, l.last, l.all = core.Fold(l.s, r.Events), r, append(l.all, r.Events...)
	if l.s.Refuse != "" {
		l.t.Fatalf("%T: %s", b, l.s.Refuse)
	}
	return r
}

func (l *lane) worker(name string, b core.Body) core.Ready {
	l.t.Helper()
	return l.in(event.Worker(name), l.fence, b)
}

// claim hands the goal to a new worker, as after a crash of the last one.
func (l *lane) claim(name string) core.Ready {
	l.t.Helper()
	takeover := l.fence > 0
	l.fence = l.s.Fence
	if takeover {
		l.fence++
	}
	return l.worker(name, core.Claimed{Worker: name, Takeover: takeover})
}

// observe answers a wish to look at the workspace, which has not changed.
func (l *lane) observe(name string) {
	l.t.Helper()
	for _, e := range l.last.Effects {
		if _, ok := e.(core.Observe); ok {
			l.worker(name, core.Observed{Observation: core.Observation{Tree: "T0", From: "T0"}})
			return
		}
	}
}

// propose has the model make one call.
func (l *lane) propose(name, call, tool string, c event.EffectClass, args string) {
	l.t.Helper()
	l.observe(name)
	l.worker(name, core.Composed{Head: composeHead(l.t, l.last), Tokens: 10, Window: 1 << 20})
	l.worker(name, core.Replied{Request: l.s.Request.ID,
		Response:  event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: call, Tool: tool, Arguments: args}}},
		Proposals: []core.Proposal{{CallID: call, Tool: tool, Effect: c, Args: json.RawMessage(args), Access: access(c)}}})
}

func access(c event.EffectClass) event.Access {
	if c == event.Keyed {
		return event.Access{Remote: "branch x of origin"}
	}
	return event.Access{}
}

func composeHead(t *testing.T, r core.Ready) uint64 {
	t.Helper()
	for _, e := range r.Effects {
		if c, ok := e.(core.Compose); ok {
			return c.Head
		}
	}
	t.Fatalf("no request is wanted: %v", r.Effects)
	return 0
}

func newLane(t *testing.T) *lane {
	t.Helper()
	l := &lane{t: t}
	l.in(event.ActorUser, 0, core.Start{Goal: "g", Repo: "/w", Spec: event.GoalSpec{Text: "push it"},
		Settings: event.Settings{Approve: event.ApproveAuto, Plan: event.PlanNever, Model: "script:s"}})
	l.claim("w1")
	l.worker("w1", core.Attached{Workspace: event.WorkspaceAttached{Root: "/w", Git: "repository", Tree: "T0", Sandbox: "none"}})
	return l
}

// pushing is a goal whose first worker has begun a push and is gone.
func pushing(t *testing.T) *lane {
	t.Helper()
	l := newLane(t)
	l.propose("w1", "c1", "git_push", event.Keyed, `{"branch":"x","message":"m"}`)
	l.observe("w1")
	l.worker("w1", core.Prepared{Op: "op1", Key: "g/op1 commit=abc", Observation: core.Observation{Tree: "T0", From: "T0"}})
	if !l.last.Durable {
		t.Fatal("a push would begin before its intent is on disk")
	}
	return l
}

func starts(es []event.Event) (out []event.OperationStarted) {
	for _, e := range es {
		if p, ok := e.Payload.(event.OperationStarted); ok && e.Op == "op1" {
			out = append(out, p)
		}
	}
	return out
}

// A push that surely never happened is made by the next attempt under the key
// of the first, so that a remote takes both for one.
func TestASecondAttemptOfAKeyedOperationHasTheFirstOnesKey(t *testing.T) {
	t.Parallel()
	l := pushing(t)
	r := l.claim("w2")
	if len(r.Effects) != 1 {
		t.Fatalf("%v", r.Effects)
	}
	p, ok := r.Effects[0].(core.Probe)
	if !ok || p.Op.Intent.Key != "g/op1 commit=abc" {
		t.Fatalf("the new holder wants %+v before it looks", r.Effects[0])
	}
	r = l.worker("w2", core.NeverHappened{Op: "op1", Attempt: 1})
	run, ok := r.Effects[0].(core.Run)
	if !ok || run.Attempt != 2 || run.Op.Intent.Key != p.Op.Intent.Key || !r.Durable {
		t.Fatalf("%+v", r.Effects)
	}
	s := starts(l.all)
	if len(s) != 2 || s[0].Intent.Key != s[1].Intent.Key || s[0].Intent.Hash != s[1].Intent.Hash {
		t.Errorf("%+v", s)
	}
}

// doubted is a goal with a push whose outcome is unknown, and the model about
// to be asked.
func doubted(t *testing.T) *lane {
	t.Helper()
	l := pushing(t)
	l.claim("w2")
	l.worker("w2", core.Ended{Op: "op1", Attempt: 1, Outcome: event.OutcomeUnknown, Recovered: "probe"})
	if _, ok := l.s.Doubt("op1"); !ok {
		t.Fatal("it is not in doubt")
	}
	return l
}

func reconciled(es []event.Event) (out []event.OperationReconciled) {
	for _, e := range es {
		if p, ok := e.Payload.(event.OperationReconciled); ok {
			out = append(out, p)
		}
	}
	return out
}

// check has the model look at op1; found is what the look settles.
func (l *lane) check(found *event.Reconciliation) core.Ready {
	l.t.Helper()
	l.propose("w2", "c2", "check_operation", event.Read, `{"op":"op1"}`)
	return l.worker("w2", core.Ended{Op: "op2", Attempt: 1, Outcome: event.Succeeded,
		Result: event.Result{Output: event.Text{Head: "looked"}, Reconciles: found}})
}

func TestALookSettlesADoubtByWhatIsCertainAndRunsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		found   *event.Reconciliation
		settles event.Outcome
	}{
		{"it was done", &event.Reconciliation{Op: "op1", Outcome: event.Succeeded, Reason: "seen", Output: event.Text{Head: "pushed"}, Remote: "r"}, event.Succeeded},
		{"it never happened", &event.Reconciliation{Op: "op1", Outcome: event.Failed, Reason: "not seen"}, event.Failed},
		{"still unknown", nil, ""},
		{"another operation", &event.Reconciliation{Op: "op9", Outcome: event.Succeeded, Reason: "seen"}, ""},
		{"no outcome at all", &event.Reconciliation{Op: "op1", Outcome: event.OutcomeUnknown, Reason: "seen"}, ""},
	} {
		l := doubted(t)
		r := l.check(c.found)
		got := reconciled(l.all)
		_, still := l.s.Doubt("op1")
		if c.settles == "" {
			if len(got) != 0 || !still {
				t.Errorf("%s: %+v", c.name, got)
			}
		} else if len(got) != 1 || got[0].Outcome != c.settles || got[0].Retry || got[0].By != event.ActorRuntime || got[0].Reason != c.found.Reason || still {
			t.Errorf("%s: %+v, in doubt %v", c.name, got, still)
		} else if c.found.Remote != "" && (got[0].Result == nil || got[0].Result.Remote != "r") {
			t.Errorf("%s: the result is lost: %+v", c.name, got[0])
		}
		if n := len(starts(l.all)); n != 1 || len(l.s.Open) != 0 || l.s.Status != lifecycle.Active {
			t.Errorf("%s: %d attempts, open %+v, %s", c.name, n, l.s.Open, l.s.Status)
		}
		for _, e := range r.Effects {
			switch e.(type) {
			case core.Run, core.Prepare, core.Probe:
				t.Errorf("%s: it wants %T", c.name, e)
			}
		}
	}
}

// Only settled, and only by a new proposal, is the action possible again.
func TestWhatDidNotHappenMayBeProposedAnewAndWhatIsInDoubtMayNot(t *testing.T) {
	t.Parallel()
	l := doubted(t)
	l.check(nil)
	l.propose("w2", "c3", "git_push", event.Keyed, `{"branch":"x","message":"m"}`)
	if len(l.s.Open) != 0 {
		t.Fatalf("in doubt, and yet %+v", l.s.Open)
	}
	l = doubted(t)
	l.check(&event.Reconciliation{Op: "op1", Outcome: event.Failed, Reason: "not seen"})
	l.propose("w2", "c3", "git_push", event.Keyed, `{"branch":"x","message":"m"}`)
	if len(l.s.Open) != 1 || l.s.Open[0].ID != "op3" || l.s.Open[0].Phase != operation.Proposed {
		t.Fatalf("%+v", l.s.Open)
	}
}

// A side effect that claims to have seen something settles nothing, and neither
// does a worker that no longer holds the goal.
func TestOnlyALookOfTheHolderSettles(t *testing.T) {
	t.Parallel()
	found := &event.Reconciliation{Op: "op1", Outcome: event.Succeeded, Reason: "seen"}
	l := doubted(t)
	l.propose("w2", "c2", "mystery", event.Keyed, `{}`)
	l.worker("w2", core.Prepared{Op: "op2", Key: "k", Observation: core.Observation{Tree: "T0", From: "T0"}})
	l.worker("w2", core.Ended{Op: "op2", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Reconciles: found}})
	if got := reconciled(l.all); len(got) != 0 {
		t.Errorf("a side effect settled %+v", got)
	}
	l = doubted(t)
	l.propose("w2", "c2", "check_operation", event.Read, `{"op":"op1"}`)
	l.in(event.ActorUser, 0, core.Pause{})
	l.worker("w2", core.Ended{Op: "op2", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Reconciles: found}})
	if got := reconciled(l.all); len(got) != 0 {
		t.Errorf("a stale worker settled %+v", got)
	}
}

// A person who asks for the look gets the same: by the runtime, once.
func TestALookOfAPersonSettlesOnce(t *testing.T) {
	t.Parallel()
	l := doubted(t)
	l.in(event.ActorUser, 0, core.Sighted{Found: event.Reconciliation{Op: "op1", Outcome: event.Succeeded, Reason: "seen"}})
	got := reconciled(l.all)
	if len(got) != 1 || got[0].By != event.ActorRuntime || l.all[len(l.all)-1].Actor != event.ActorRuntime {
		t.Errorf("%+v", got)
	}
	_, err := core.Step(l.s, core.Input{Now: 2000, Seed: [16]byte{200}, By: event.ActorUser, StoreFence: l.s.Fence,
		Body: core.Sighted{Found: event.Reconciliation{Op: "op1", Outcome: event.Failed, Reason: "seen"}}})
	if err == nil {
		t.Error("what is settled was settled again")
	}
}
