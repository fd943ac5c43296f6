package operation_test

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/operation"
	"belay/internal/event"
)

// model is the machine written a second time, as little as possible: one word
// for where it stands, and the numbers that decide.
type model struct {
	at       string // new, asked, granted, running, done, doubt, settled
	control  bool
	attempt  int
	intent   string
	outcomes int // given and not taken back by a retry
}

var (
	intents  = []string{"i1", "i2"}
	outcomes = []event.Outcome{event.Succeeded, event.Failed, event.Rejected, event.Cancelled, event.OutcomeUnknown, ""}
	classes  = []event.EffectClass{event.Read, event.Verifiable, event.Supervised, event.Keyed, event.Opaque, event.Control}
)

func closedOutcome(o event.Outcome) string {
	if o == event.OutcomeUnknown {
		return "doubt"
	}
	return "done"
}

// machine drives the real operation and the model side by side.
type machine struct {
	op operation.Op
	m  model
}

// apply takes a transition of the real one; legal says what the model expects.
func (x *machine) apply(t *rapid.T, name string, legal bool, n operation.Op, err error) bool {
	if (err == nil) != legal {
		t.Fatalf("%s at %q (attempt %d): err %v, the model says legal=%t", name, x.m.at, x.m.attempt, err, legal)
	}
	if err != nil {
		var illegal *operation.IllegalError
		if !errors.As(err, &illegal) || illegal.Op != x.op.ID || illegal.From != x.op.Phase || illegal.Why == "" {
			t.Fatalf("%s: the refusal %v does not say what and why", name, err)
		}
		if !reflect.DeepEqual(n, x.op) {
			t.Fatalf("%s was refused and changed the operation all the same", name)
		}
		return false
	}
	if n.ID != x.op.ID || n.Tool != x.op.Tool || n.Effect != x.op.Effect || string(n.Args) != string(x.op.Args) {
		t.Fatalf("%s changed what the operation is", name)
	}
	x.op = n
	return true
}

func (x *machine) requestApproval(t *rapid.T) {
	in := rapid.SampledFrom(intents).Draw(t, "intent")
	n, err := x.op.RequestApproval(event.Intent{Hash: in})
	if x.apply(t, "request approval", x.m.at == "new" || x.m.at == "granted", n, err) {
		x.m.at, x.m.intent = "asked", in
	}
}

func (x *machine) grant(t *rapid.T) {
	in := rapid.SampledFrom(intents).Draw(t, "intent")
	n, err := x.op.Grant(in)
	if x.apply(t, "grant", x.m.at == "asked" && x.m.intent == in, n, err) {
		x.m.at = "granted"
	}
}

func (x *machine) reject(t *rapid.T) {
	o := rapid.SampledFrom(outcomes).Draw(t, "outcome")
	n, err := x.op.Reject(o)
	unstarted := x.m.at == "new" || x.m.at == "asked" || x.m.at == "granted"
	if x.apply(t, "reject", unstarted && (o == event.Rejected || o == event.Cancelled), n, err) {
		x.m.at, x.m.outcomes = "done", x.m.outcomes+1
	}
}

func (x *machine) start(t *rapid.T) {
	in, n := rapid.SampledFrom(intents).Draw(t, "intent"), rapid.IntRange(0, 5).Draw(t, "attempt")
	next, err := x.op.Start(n, event.Worker("w"), event.Intent{Hash: in}, "tree", 10)
	ready := x.m.at == "new" || x.m.at == "running" || x.m.at == "granted" && x.m.intent == in
	if x.apply(t, "start", ready && n == x.m.attempt+1, next, err) {
		x.m.at, x.m.attempt, x.m.intent = "running", n, in
	}
}

func (x *machine) finish(t *rapid.T) {
	o, n := rapid.SampledFrom(outcomes).Draw(t, "outcome"), rapid.IntRange(0, 5).Draw(t, "attempt")
	next, err := x.op.Finish(n, o)
	if x.apply(t, "finish", x.m.at == "running" && n == x.m.attempt && o != event.Rejected && o != "", next, err) {
		x.m.at, x.m.outcomes = closedOutcome(o), x.m.outcomes+1
	}
}

func (x *machine) answer(t *rapid.T) {
	n, err := x.op.Answer(event.Succeeded)
	open := x.m.at == "new" || x.m.at == "asked" || x.m.at == "granted" || x.m.at == "running"
	if x.apply(t, "answer", x.m.control && open, n, err) {
		x.m.at, x.m.outcomes = "done", x.m.outcomes+1
	}
}

func (x *machine) reconcile(t *rapid.T) {
	o, retry := rapid.SampledFrom(outcomes).Draw(t, "outcome"), rapid.Bool().Draw(t, "retry")
	n, err := x.op.Reconcile(o, retry)
	if !x.apply(t, "reconcile", x.m.at == "doubt" && (retry || o == event.Succeeded || o == event.Failed), n, err) {
		return
	}
	if retry {
		x.m.at, x.m.outcomes = "new", x.m.outcomes-1
		return
	}
	x.m.at = "settled"
}

func (x *machine) check(t *rapid.T) {
	closed := x.m.at == "done" || x.m.at == "doubt" || x.m.at == "settled"
	switch {
	case x.op.Open() == closed:
		t.Fatalf("at %q: open=%t", x.m.at, x.op.Open())
	case closed != (x.op.Outcome != ""):
		t.Fatalf("at %q with the outcome %q", x.m.at, x.op.Outcome)
	case x.op.Attempt != x.m.attempt:
		t.Fatalf("attempt %d, the model counts %d", x.op.Attempt, x.m.attempt)
	case x.m.outcomes != map[bool]int{true: 1, false: 0}[closed]:
		t.Fatalf("%d outcomes at %q", x.m.outcomes, x.m.at)
	case x.m.at == "settled" && (!x.op.Reconciled || x.op.Outcome == event.OutcomeUnknown):
		t.Fatalf("settled, but the outcome is %q", x.op.Outcome)
	}
}

func TestEveryTransitionIsThatOfAnIndependentModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.SampledFrom(classes).Draw(t, "class")
		x := &machine{op: operation.Op{ID: "op1", Tool: "tool", Effect: class, Args: []byte(`{}`), Phase: operation.Proposed},
			m: model{at: "new", control: class == event.Control}}
		t.Repeat(map[string]func(*rapid.T){
			"request": x.requestApproval, "grant": x.grant, "reject": x.reject, "start": x.start,
			"finish": x.finish, "answer": x.answer, "reconcile": x.reconcile, "": x.check,
		})
	})
}

// The paths of the picture in the package comment, each walked once: a random
// walk may miss one of them.
func TestThePicturedPaths(t *testing.T) {
	t.Parallel()
	i, j := event.Intent{Hash: "i"}, event.Intent{Hash: "j"}
	type change func(operation.Op) (operation.Op, error)
	ask := func(o operation.Op) (operation.Op, error) { return o.RequestApproval(i) }
	askAgain := func(o operation.Op) (operation.Op, error) { return o.RequestApproval(j) }
	grant := func(o operation.Op) (operation.Op, error) { return o.Grant(i.Hash) }
	reject := func(o operation.Op) (operation.Op, error) { return o.Reject(event.Rejected) }
	start := func(n int) change {
		return func(o operation.Op) (operation.Op, error) { return o.Start(n, "worker:w", i, "t", 0) }
	}
	end := func(n int, out event.Outcome) change {
		return func(o operation.Op) (operation.Op, error) { return o.Finish(n, out) }
	}
	settle := func(o operation.Op) (operation.Op, error) { return o.Reconcile(event.Failed, false) }
	retry := func(o operation.Op) (operation.Op, error) { return o.Reconcile("", true) }
	for name, p := range map[string]struct {
		steps []change
		legal bool
	}{
		"run":                   {[]change{start(1), end(1, event.Succeeded)}, true},
		"asked, granted, run":   {[]change{ask, grant, start(1), end(1, event.Failed)}, true},
		"asked and refused":     {[]change{ask, reject}, true},
		"granted and withdrawn": {[]change{ask, grant, reject}, true},
		"granted, then changed, then asked again": {[]change{ask, grant, askAgain}, true},
		"a second attempt":                        {[]change{start(1), start(2), end(2, event.Succeeded)}, true},
		"in doubt and settled":                    {[]change{start(1), end(1, event.OutcomeUnknown), settle}, true},
		"in doubt and run again":                  {[]change{start(1), end(1, event.OutcomeUnknown), retry, start(2), end(2, event.Succeeded)}, true},
		"granted for another intent":              {[]change{askAgain, grant}, false},
		"asked twice":                             {[]change{ask, ask}, false},
		"started while asked":                     {[]change{ask, start(1)}, false},
		"rejected after the start":                {[]change{start(1), reject}, false},
		"an old attempt ends":                     {[]change{start(1), start(2), end(1, event.Succeeded)}, false},
		"an attempt is skipped":                   {[]change{start(2)}, false},
		"ended twice":                             {[]change{start(1), end(1, event.Failed), end(1, event.Succeeded)}, false},
		"settled twice":                           {[]change{start(1), end(1, event.OutcomeUnknown), settle, settle}, false},
		"a known outcome is settled":              {[]change{start(1), end(1, event.Succeeded), settle}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := operation.Op{ID: "op1", Effect: event.Supervised, Phase: operation.Proposed}
			var err error
			for k, f := range p.steps {
				if err != nil {
					t.Fatalf("step %d is refused already: %v", k, err)
				}
				o, err = f(o)
			}
			if (err == nil) != p.legal {
				t.Fatalf("the last step: %v", err)
			}
		})
	}
}

func TestRecoveryFollowsTheEffectClassAlone(t *testing.T) {
	t.Parallel()
	want := map[event.EffectClass]operation.Recovery{ // the table of DESIGN section 7
		event.Read: operation.RunAgain, event.Control: operation.RunAgain,
		event.Verifiable: operation.Look, event.Supervised: operation.Look, event.Keyed: operation.Look,
		event.Opaque:               operation.TakeUnknown,
		"a class of a newer belay": operation.TakeUnknown,
	}
	for class, r := range want {
		if got := operation.Recover(class); got != r {
			t.Errorf("%s: %s, want %s", class, got, r)
		}
	}
}
