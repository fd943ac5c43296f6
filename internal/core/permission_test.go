package core

import (
	"encoding/json"
	"errors"
	"testing"

	"belay/internal/event"
	"belay/internal/moment"
)

// desk is a goal whose worker has asked a person about one write.
type desk struct {
	t   *testing.T
	s   State
	now moment.Time
	n   byte
}

func newDesk(t *testing.T, set event.Settings) *desk {
	set.Plan, set.Model = event.PlanNever, "m"
	d := &desk{t: t, now: moment.Time(1_700_000_000_000_000)}
	d.must(Input{By: event.ActorUser, Body: Start{Goal: "g", Spec: event.GoalSpec{Text: "x"}, Settings: set, Repo: "/w"}})
	d.worker(Claimed{Worker: "w"})
	d.worker(Attached{Workspace: event.WorkspaceAttached{Root: "/w", Tree: "T0"}})
	return d
}

func (d *desk) step(in Input) (Ready, error) {
	d.n++
	in.Now, in.Seed[0] = d.now, d.n
	r, err := Step(d.s, in)
	if err == nil {
		d.s = r.State
	}
	return r, err
}

func (d *desk) must(in Input) Ready {
	d.t.Helper()
	r, err := d.step(in)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *desk) worker(b Body) Ready {
	d.t.Helper()
	return d.must(Input{By: event.Worker("w"), Fence: d.s.Fence, StoreFence: d.s.Fence, Body: b})
}

func (d *desk) user(b Body) error {
	_, err := d.step(Input{By: event.ActorUser, StoreFence: d.s.Fence, Body: b})
	return err
}

// ask lets the model propose a write of a path, up to the question.
func (d *desk) ask(path string) string {
	d.t.Helper()
	d.worker(Composed{Head: d.s.Head, Tokens: 1})
	args, _ := json.Marshal(map[string]string{"path": path, "content": "x"})
	d.worker(Replied{Request: d.s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: "write_file", Arguments: string(args)}}},
		Proposals: []Proposal{{CallID: "c", Tool: "write_file", Effect: event.Verifiable, Args: args, Access: event.Access{Writes: []string{path}}}}})
	op := d.s.Open[0].ID
	d.worker(Prepared{Op: op, Files: []event.FilePrint{{Path: path, Result: "r"}}, Observation: Observation{Tree: "T0", From: "T0"}})
	return op
}

func TestOnlyAPersonChangesWhatAGoalMayDo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, event.Settings{Approve: event.ApproveAsk, Rules: []event.Rule{{ID: "r1", Decision: "deny", Path: "x/**", Tool: "write", Layer: "repository"}}})
	rule := event.Rule{ID: "u1", Decision: "allow", Tool: "write", Path: "a.txt", Layer: "user"}
	for _, in := range []Input{
		{By: event.ActorModel, Body: ChangePolicy{Add: []event.Rule{rule}}},
		{By: event.ActorRuntime, Body: ChangePolicy{Approve: event.ApproveAuto}},
		{By: event.Worker("w"), Fence: d.s.Fence, StoreFence: d.s.Fence, Body: ChangePolicy{Add: []event.Rule{rule}}},
		{By: event.ActorUser, Fence: d.s.Fence, StoreFence: d.s.Fence, Body: ChangePolicy{Add: []event.Rule{rule}}},
		{By: event.ActorUser, Body: ChangePolicy{Remove: []string{"r1"}}},
		{By: event.ActorUser, Body: ChangePolicy{Add: []event.Rule{{Decision: "allow", Tool: "run_command"}}}},
		{By: event.ActorUser, Body: ChangePolicy{Approve: "yes"}},
	} {
		if _, err := d.step(in); !errors.Is(err, ErrInput) {
			t.Errorf("%s, fence %d, %+v: %v", in.By, in.Fence, in.Body, err)
		}
	}
	op := d.ask("a.txt")
	if _, asked := d.s.Approvals.Find(op); !asked {
		t.Fatal("nothing was asked")
	}
	if err := d.user(ChangePolicy{Add: []event.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	// The rule answers the open question, and the next of its kind is none.
	if o, ok := d.s.Find(op); !ok || o.Phase != "approved" || len(d.s.Approvals.Pending) != 0 || d.s.Wait != nil {
		t.Errorf("%+v %+v", o, d.s.Approvals)
	}
	if err := d.user(ChangePolicy{Add: []event.Rule{rule}}); !errors.Is(err, ErrState) {
		t.Errorf("the same once more: %v", err)
	}
	if err := d.user(ChangePolicy{Remove: []string{"u1"}, Approve: event.ApproveNever}); err != nil || len(d.s.Settings.Rules) != 1 || d.s.Settings.Approve != event.ApproveNever {
		t.Errorf("%v %+v", err, d.s.Settings)
	}
}

func TestAQuestionThatNobodyAnswersIsDeniedInTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, event.Settings{Approve: event.ApproveAsk, ApprovalTimeoutMS: 60_000})
	op := d.ask("a.txt")
	if d.s.Wait == nil || d.s.Wait.Until != d.now.AddMS(60_000) || Row(d.s).WakeAt != d.s.Wait.Until || Row(d.s).Runnable {
		t.Fatalf("%+v %+v", d.s.Wait, Row(d.s))
	}
	d.now = d.now.AddMS(59_999)
	if d.s.Runnable(d.now) {
		t.Error("it may run before its time")
	}
	d.now = d.now.AddMS(1)
	if !d.s.Runnable(d.now) {
		t.Fatal("it may not run when its time has come")
	}
	d.worker(Claimed{Worker: "w"})
	d.worker(Observed{Observation: Observation{Tree: "T0", From: "T0"}})
	if _, open := d.s.Find(op); open || len(d.s.Approvals.Pending) != 0 || len(d.s.Approvals.Denied) != 1 {
		t.Fatalf("%+v", d.s.Approvals)
	}
	if err := d.user(Approve{Op: op}); !errors.Is(err, ErrNoQuestion) {
		t.Errorf("a late answer: %v", err)
	}
	// The denial sticks: the same action is refused without a question.
	d.worker(Composed{Head: d.s.Head, Tokens: 1})
	args := json.RawMessage(`{"path":"a.txt","content":"x"}`)
	d.worker(Replied{Request: d.s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c2", Tool: "write_file"}}},
		Proposals: []Proposal{{CallID: "c2", Tool: "write_file", Effect: event.Verifiable, Args: args, Access: event.Access{Writes: []string{"a.txt"}}}}})
	d.worker(Prepared{Op: d.s.Open[0].ID, Files: []event.FilePrint{{Path: "a.txt", Result: "r"}}, Observation: Observation{Tree: "T0", From: "T0"}})
	if len(d.s.Open) != 0 || len(d.s.Approvals.Pending) != 0 {
		t.Errorf("%+v", d.s.Approvals)
	}
}

func (d *desk) prepare(op string) Ready {
	d.t.Helper()
	return d.worker(Prepared{Op: op, Action: Action{Dir: "/w", Sandbox: "bwrap"}, Observation: Observation{Tree: "T0", From: "T0"}})
}

func (d *desk) startedNetwork(r Ready) string {
	d.t.Helper()
	for _, e := range r.Events {
		if p, ok := e.Payload.(event.OperationStarted); ok {
			return p.Intent.Network
		}
	}
	d.t.Fatalf("nothing was started: %+v", r.Events)
	return ""
}

// TestAnIntentHoldsWhatPolicyGivesOfTheNetwork: what starts reaches what rules
// grant or a person approved, the answer is bound to it, and rules that a
// person takes back void it.
func TestAnIntentHoldsWhatPolicyGivesOfTheNetwork(t *testing.T) {
	t.Parallel()
	rule := event.Rule{ID: "u1", Decision: "allow", Command: "fetch *", Network: "full", Layer: "user"}
	plain := event.Rule{ID: "u2", Decision: "allow", Command: "fetch *", Layer: "user"}
	start := func(access event.Access, rules ...event.Rule) (*desk, Ready) {
		d := newDesk(t, event.Settings{Approve: event.ApproveAsk, Rules: rules})
		d.worker(Composed{Head: d.s.Head, Tokens: 1})
		args := json.RawMessage(`{"command":"` + access.Command + `"}`)
		d.worker(Replied{Request: d.s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: "run_command", Arguments: string(args)}}},
			Proposals: []Proposal{{CallID: "c", Tool: "run_command", Effect: event.Supervised, Args: args, Access: access}}})
		return d, d.prepare(d.s.Open[0].ID)
	}
	for _, c := range []struct {
		rules []event.Rule
		want  string
	}{{[]event.Rule{plain}, ""}, {[]event.Rule{rule}, "full"}, {[]event.Rule{rule, {Decision: "deny", Network: "loopback", Layer: "repository"}}, ""}} {
		d, r := start(event.Access{Command: "fetch x"}, c.rules...)
		if got := d.startedNetwork(r); got != c.want {
			t.Errorf("%+v: started with %q, want %q", c.rules, got, c.want)
		}
	}
	d, r := start(event.Access{Command: "fetch x", Network: "full"}, plain)
	if len(d.s.Approvals.Pending) != 1 || d.s.Approvals.Pending[0].Intent.Network != "full" {
		t.Fatalf("nobody is asked: %+v", r.Events)
	}
	q := d.s.Approvals.Pending[0]
	if err := d.user(Approve{Op: q.Op, Intent: q.Intent.Hash}); err != nil {
		t.Fatal(err)
	}
	d.worker(Claimed{Worker: "w"})
	if got := d.startedNetwork(d.prepare(q.Op)); got != "full" {
		t.Errorf("approved, it started with %q", got)
	}
	// The same words with another network are another action.
	other, _ := start(event.Access{Command: "fetch x", Network: "loopback"}, plain)
	if h := other.s.Approvals.Pending[0].Intent.Hash; h == q.Intent.Hash {
		t.Error("an answer for one network is an answer for another")
	}
	// A grant that is taken back between the question and the start is not used.
	ask := event.Rule{ID: "u3", Decision: "ask", Command: "fetch *", Layer: "user"}
	back, _ := start(event.Access{Command: "fetch x"}, rule, ask)
	p := back.s.Approvals.Pending[0]
	if err := back.user(Approve{Op: p.Op, Intent: p.Intent.Hash}); err != nil {
		t.Fatal(err)
	}
	if err := back.user(ChangePolicy{Remove: []string{"u1"}}); err != nil {
		t.Fatal(err)
	}
	back.worker(Claimed{Worker: "w"})
	back.prepare(p.Op)
	if again, ok := back.s.Approvals.Find(p.Op); !ok || !again.Renewed || again.Intent.Network != "" {
		t.Errorf("the answer outlived the grant that it was given under: %+v", again)
	}
}
