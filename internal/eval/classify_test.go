package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/fault"
)

// tape writes a ledger by hand.
type tape struct {
	es    []event.Event
	fence uint64
	ops   int
	tree  string
	rev   int64
	v     int
}

var testCriterion = event.Criterion{ID: "tests", Kind: event.CriterionTest, Command: "sh check.sh"}

func newTape(cs ...event.Criterion) *tape {
	t := &tape{fence: 1, tree: "t0"}
	return t.add("", event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "repair it", Acceptance: cs}, Repo: "/r"}).
		add("", event.TurnStarted{Worker: "w"}).
		add("", event.WorkspaceAttached{Root: "/r", Tree: "t0"})
}

func (t *tape) add(op string, p event.Payload) *tape {
	switch p.(type) {
	case event.GoalPaused, event.GoalCancelled, event.VerificationStarted:
		t.fence++
	}
	t.es = append(t.es, event.Event{Goal: "g", Seq: uint64(len(t.es) + 1), ID: fmt.Sprint(len(t.es) + 1), Type: p.EventType(), Version: 1,
		Op: op, Fence: t.fence, Payload: p, Turn: "turn1"})
	return t
}

func (t *tape) propose(tool string, effect event.EffectClass, command string) string {
	t.ops++
	op := fmt.Sprintf("op%d", t.ops)
	t.add(op, event.OperationProposed{Tool: tool, Effect: effect, Arguments: json.RawMessage(`{}`), Access: event.Access{Command: command}})
	return op
}

// rejected is n calls that are refused.
func (t *tape) rejected(n int, kind fault.Kind) *tape {
	for range n {
		op := t.propose("file_patch", event.Verifiable, "")
		t.add(op, event.OperationRejected{Outcome: event.Rejected, Fault: *fault.New(kind, fault.Model, string(kind), "")})
	}
	return t
}

// edit changes the tree.
func (t *tape) edit() *tape {
	op := t.propose("file_patch", event.Verifiable, "")
	t.add(op, event.OperationStarted{Attempt: 1, Tree: t.tree}).
		add(op, event.OperationFinished{Tool: "file_patch", Attempt: 1, Outcome: event.Succeeded})
	from := t.tree
	t.rev++
	t.tree = fmt.Sprintf("t%d", t.rev)
	return t.add(op, event.RepoStateMutated{From: from, Revision: event.Revision{N: t.rev, Tree: t.tree}, By: op})
}

// test is a run of a command on the present tree.
func (t *tape) test(command string, code int, c event.TestCounts) *tape {
	op := t.propose("run_test", event.Supervised, command)
	return t.add(op, event.OperationStarted{Attempt: 1, Tree: t.tree}).
		add(op, event.OperationFinished{Tool: "run_test", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{ExitCode: code}}}).
		add(op, event.TestCompleted{Command: command, ExitCode: code, Counts: c, Test: true, TreeBefore: t.tree, TreeAfter: t.tree})
}

// refusedClaim is a claim that misses some criteria; after the third one the
// goal is parked.
func (t *tape) refusedClaims(missing ...string) *tape {
	for i := range 3 {
		t.v++
		v := event.Verdict{Verdict: event.Incomplete, Tree: t.tree}
		for _, id := range missing {
			v.Criteria = append(v.Criteria, event.CriterionResult{ID: id, Result: event.Fail, Reason: "no"})
		}
		id := fmt.Sprintf("v%d", t.v)
		t.add("", event.CompletionClaimed{ByText: true}).add("", event.VerificationStarted{Verification: id, Version: 1}).
			add("", event.WorkspaceObserved{Tree: t.tree}).add("", event.VerificationFinished{Verification: id, Version: 1, Verdict: v})
		if i == 2 {
			t.add("", event.ProgressAlarm{Signal: "refused_claims", Count: 3})
		}
	}
	return t.parked(event.PausedNoProg, fault.Unverified)
}

func (t *tape) parked(why event.PauseReason, kind fault.Kind) *tape {
	return t.add("", event.GoalHandedOff{Why: "parked", Fault: fault.New(kind, fault.Model, "parked", "")}).
		add("", event.GoalPaused{Reason: why, Detail: "parked"}).add("", event.TurnEnded{Reason: event.StopNoProgress})
}

func (t *tape) completed(how event.CompletedHow) *tape {
	v := event.Verdict{Verdict: event.Complete, Tree: t.tree, Criteria: []event.CriterionResult{{ID: "tests", Result: event.Pass, Evidence: []string{"op1"}}}}
	return t.add("", event.CompletionClaimed{ByText: true}).add("", event.VerificationStarted{Verification: "v1", Version: 1}).
		add("", event.WorkspaceObserved{Tree: t.tree}).add("", event.VerificationFinished{Verification: "v1", Version: 1, Verdict: v}).
		add("", event.GoalCompleted{How: how, Verdict: v, Version: 1}).add("", event.TurnEnded{Reason: event.StopFinished})
}

func (t *tape) asked(kind fault.Kind) *tape {
	return t.add("", event.ModelRequested{Request: "r1"}).add("", event.ModelFailed{Request: "r1", Fault: *fault.New(kind, fault.Provider, "no", "")})
}

var (
	onePass  = event.TestCounts{Runner: "pytest", Passed: 1}
	oneFails = event.TestCounts{Runner: "pytest", Failed: 1}
	scope    = event.Criterion{ID: "scope", Kind: event.CriterionScope, Allow: []string{"a"}}
	intact   = event.Criterion{ID: "intact", Kind: event.CriterionTestsIntact}
)

func TestTheClassIsReadOffTheLedger(t *testing.T) {
	t.Parallel()
	const check = "sh check.sh"
	mk := func() *tape { return newTape(testCriterion) }
	unknown := func() *tape {
		t := mk()
		op := t.propose("run_command", event.Opaque, "x")
		return t.add(op, event.OperationStarted{Attempt: 1}).
			add(op, event.OperationFinished{Tool: "run_command", Attempt: 1, Outcome: event.OutcomeUnknown}).
			add("", event.GoalWaiting{Reason: event.WaitUserInput, Detail: "settle it"})
	}
	for _, c := range []struct {
		name   string
		want   Class
		checks []string
		tape   *tape
	}{
		{"nothing", NotBegun, nil, &tape{}},
		{"completed", None, nil, mk().edit().test(check, 0, onePass).completed(event.Verified)},
		{"completed, but a hidden check fails", FalseClaim, []string{"the hidden test"}, mk().edit().completed(event.Verified)},
		{"cancelled", Stopped, nil, mk().add("", event.GoalCancelled{})},
		{"paused by a person", Stopped, nil, mk().add("", event.GoalPaused{Reason: event.PausedByUser})},
		{"budget", Budget, nil, mk().edit().parked(event.PausedBudget, fault.BudgetExhausted)},
		{"never read", EditWithoutRead, nil, mk().rejected(4, fault.NotRead).parked(event.PausedNoProg, fault.NotRead)},
		{"never read, the last refused as forbidden", EditWithoutRead, nil, mk().rejected(3, fault.NotRead).rejected(1, fault.Forbidden).parked(event.PausedNoProg, fault.Forbidden)},
		{"not there", EditMismatch, nil, mk().rejected(3, fault.NoMatch).parked(event.PausedNoProg, fault.NoMatch)},
		{"twice there", EditMismatch, nil, mk().rejected(3, fault.Ambiguous).parked(event.PausedNoProg, fault.Ambiguous)},
		{"changed meanwhile", EditMismatch, nil, mk().rejected(3, fault.StaleEdit).parked(event.PausedNoProg, fault.StaleEdit)},
		{"denied by policy", PolicyDenied, nil, mk().rejected(3, fault.PolicyDenied).parked(event.PausedNoProg, fault.PolicyDenied)},
		{"denied by the plan gate", PolicyDenied, nil, mk().rejected(3, fault.PlanGate).parked(event.PausedNoProg, fault.PlanGate)},
		{"unknown tool", BadCall, nil, mk().rejected(3, fault.UnknownTool).parked(event.PausedNoProg, fault.UnknownTool)},
		{"the same failure", Loop, nil, mk().rejected(3, fault.NotFound).parked(event.PausedNoProg, fault.NotFound)},
		{"a circle after an edit that was refused", Loop, nil, mk().rejected(1, fault.NotRead).add("", event.ProgressAlarm{Signal: "same_action", Count: 7}).parked(event.PausedNoProg, fault.NoProgress)},
		{"denied, with a warning of something else on the way", PolicyDenied, nil, mk().rejected(3, fault.PolicyDenied).add("", event.ProgressAlarm{Signal: "tree_unchanged", Count: 8}).parked(event.PausedNoProg, fault.Forbidden)},
		{"one error by many ways", EditWithoutRead, nil, mk().rejected(9, fault.NotRead).add("", event.ProgressAlarm{Signal: "repeated_error", Count: 14}).parked(event.PausedNoProg, fault.NoProgress)},
		{"tests fail on the change", BadPatch, nil, mk().edit().test(check, 1, oneFails).refusedClaims("tests")},
		{"never tested", NoTestRun, nil, mk().edit().refusedClaims("tests")},
		{"tested something else", NoTestRun, nil, mk().edit().test("sh other.sh", 0, onePass).refusedClaims("tests")},
		{"tested before the last edit", StaleTest, nil, mk().edit().test(check, 0, onePass).edit().refusedClaims("tests")},
		{"no test in the run", EmptyTest, nil, mk().edit().test(check, 0, event.TestCounts{Runner: "pytest"}).refusedClaims("tests")},
		{"masked", MaskedExit, nil, mk().edit().test(check, 0, oneFails).refusedClaims("tests")},
		{"flaky", Flaky, nil, mk().edit().test(check, 1, oneFails).test(check, 0, onePass).refusedClaims("tests")},
		{"nothing done", GaveUp, nil, mk().refusedClaims("tests")},
		{"nothing done, but looked", GaveUp, nil, mk().test(check, 1, oneFails).refusedClaims("tests")},
		{"scope before tests", WrongScope, nil, newTape(testCriterion, scope).edit().refusedClaims("tests", "scope")},
		{"weakened tests before all", TestWeakened, nil, newTape(testCriterion, scope, intact).edit().refusedClaims("tests", "scope", "intact")},
		{"not reproduced", NotReproduced, nil, newTape(event.Criterion{ID: "r", Kind: event.CriterionReproduces, Command: check}).edit().refusedClaims("r")},
		{"an artifact is missing", Unproven, nil, newTape(event.Criterion{ID: "a", Kind: event.CriterionArtifact}).edit().refusedClaims("a")},
		{"refused by a person", NeedsUser, nil, newTape(event.Criterion{ID: "m", Kind: event.CriterionManual}).edit().refusedClaims("m")},
		{"waits for an approval", NeedsApproval, nil, mk().add("", event.GoalWaiting{Reason: event.WaitApproval})},
		{"waits for an answer", NeedsUser, nil, mk().add("", event.GoalWaiting{Reason: event.WaitUserInput})},
		{"waits for somebody to settle", UnknownEffect, nil, unknown()},
		{"waits for the provider", ProviderFault, nil, mk().add("", event.GoalWaiting{Reason: event.WaitRetry})},
		{"no directory to work in", Environment, nil, mk().add("", event.GoalWaiting{Reason: event.WaitRetry, Blocked: true})},
		{"wrong key", ProviderFault, nil, mk().asked(fault.BadCredentials).parked(event.PausedByHandoff, fault.BadCredentials)},
		{"died with a failed request", ProviderFault, nil, mk().asked(fault.Overloaded)},
		{"no sandbox", Environment, nil, mk().parked(event.PausedByHandoff, fault.SandboxMissing)},
		{"the worker died", Unfinished, nil, mk().edit()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if s := core.Fold(core.State{}, c.tape.es); s.Refuse != "" {
				t.Fatalf("the test's own ledger is not legal: %s", s.Refuse)
			}
			got, why := Classify(c.tape.es, c.checks)
			if got != c.want {
				t.Errorf("%s (%s), want %s", got, why, c.want)
			}
			if Classes[got] == "" {
				t.Errorf("the class %s is not documented", got)
			}
			if broken := BrokenPromises(c.tape.es); len(broken) > 0 {
				t.Errorf("promises: %v", broken)
			}
		})
	}
}

func TestABrokenPromiseIsSeen(t *testing.T) {
	t.Parallel()
	good := newTape(testCriterion).edit().test("sh check.sh", 0, onePass).completed(event.Verified)
	noEvidence := newTape(testCriterion).edit()
	noEvidence.completed(event.Verified)
	for i, e := range noEvidence.es {
		if p, ok := e.Payload.(event.GoalCompleted); ok {
			p.Verdict.Criteria = []event.CriterionResult{{ID: "tests", Result: event.ResultUnknown}}
			noEvidence.es[i].Payload = p
		}
	}
	open := newTape(testCriterion)
	open.propose("run_command", event.Supervised, "x")
	twice := newTape(testCriterion).rejected(1, fault.NotRead)
	for name, es := range map[string][]event.Event{
		"a call without an outcome": open.completed(event.Verified).es,
		"completed without a pass":  noEvidence.es,
		"a request after the end":   append(good.es[:len(good.es):len(good.es)], newTape().add("", event.ModelRequested{Request: "r9"}).es[3]),
		"an event is missing":       append(good.es[:3:3], good.es[4:]...),
		"a conversation that is rewritten": newTape().add("", event.ModelRequested{Request: "r1", StableBytes: 900}).add("", event.ModelFailed{Request: "r1"}).
			add("", event.ModelRequested{Request: "r2", StableBytes: 300}).es,
		"two outcomes": append(twice.es[:len(twice.es):len(twice.es)], twice.es[len(twice.es)-1]),
	} {
		if len(BrokenPromises(es)) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}

// TestTheDocumentListsTheClasses: docs/evals.md says of each class what the
// code says.
func TestTheDocumentListsTheClasses(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/evals.md")
	if err != nil {
		t.Fatal(err)
	}
	for c, says := range Classes {
		if row := fmt.Sprintf("| `%s` | %s |\n", c, says); !strings.Contains(string(b), row) {
			t.Errorf("docs/evals.md lacks the row\n%s", row)
		}
	}
	for verb := range deeds {
		if !strings.Contains(string(b), "`"+verb) && !strings.Contains(string(b), "`{"+verb) {
			t.Errorf("docs/evals.md does not name the deed %s", verb)
		}
	}
}

func TestACommandThatCouldNotBeStartedIsTheMachines(t *testing.T) {
	t.Parallel()
	ran := newTape(testCriterion).test("sh check.sh", 1, oneFails)
	if why := NotStarted(ran.es); why != "" {
		t.Errorf("a run that failed is taken for one that did not begin: %s", why)
	}
	op := ran.propose("run_test", event.Supervised, "sh check.sh")
	ran.add(op, event.OperationStarted{Attempt: 1, Tree: ran.tree}).add(op, event.OperationFinished{Tool: "run_test", Attempt: 1, Outcome: event.Failed,
		Result: event.Result{Fault: fault.New(fault.SpawnFailed, fault.Environment, "no sandbox", ""), Command: &event.CommandResult{ExitCode: -1}}})
	if why := NotStarted(ran.es); why != op+": no sandbox" {
		t.Errorf("%q", why)
	}
}
