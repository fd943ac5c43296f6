package report_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
	"belay/internal/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run is a legal goal, one second between two events: a plan-less fix with one
// failing and one passing run, a denied and a granted question, a refused
// claim, an unknown outcome that a person settled, and a provider error.
func run() []event.Event {
	var es []event.Event
	fence, turn := uint64(1), "t1"
	add := func(op string, by event.Actor, p event.Payload) {
		n := uint64(len(es) + 1)
		if lifecycle.RaisesFence(p.EventType()) && n > 1 {
			fence++
		}
		es = append(es, event.Event{Goal: "g1", Seq: n, ID: "e", Type: p.EventType(), Version: 1, Time: moment.Time(n) * 1_000_000,
			Turn: turn, Op: op, Actor: by, Fence: fence, Payload: p})
	}
	counts := func(passed, failed int64) *event.TestCounts {
		return &event.TestCounts{Runner: "go", Passed: passed, Failed: failed}
	}
	request := func(id string) {
		add("", "worker:w", event.ModelRequested{Request: id, Attempt: 1, Reserved: event.Amount{Steps: 1, Tokens: 100}})
	}
	respond := func(id string) {
		add("", event.ActorModel, event.ModelResponded{Request: id, Usage: event.Usage{Input: 40, Output: 10, CachedInput: 20}, CostMicros: 1500, DurationMS: 700})
	}
	test := func(op, before string, exit int, c *event.TestCounts) {
		add(op, event.ActorModel, event.OperationProposed{Tool: "run_test", Effect: event.Supervised, Access: event.Access{Command: "go test ./...", Test: true}})
		add(op, "worker:w", event.OperationStarted{Attempt: 1, Tree: before})
		outcome, f := event.Succeeded, (*fault.Fault)(nil)
		if exit != 0 {
			outcome, f = event.Failed, fault.New(fault.ExitStatus, fault.Model, "exit code 1", "")
		}
		add(op, "worker:w", event.OperationFinished{Tool: "run_test", Attempt: 1, Outcome: outcome,
			Result: event.Result{Fault: f, Test: c, Command: &event.CommandResult{ExitCode: exit, DurationMS: 900}}})
		add(op, event.ActorRuntime, event.TestCompleted{Command: "go test ./...", ExitCode: exit, Counts: *c, Test: true, TreeBefore: before, TreeAfter: before})
	}
	add("", event.ActorUser, event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "Fix | the *title*",
		Acceptance: []event.Criterion{{ID: "tests", Kind: event.CriterionTest, Command: "go test ./..."}}},
		Settings: event.Settings{Model: "script:x"}, Repo: "/r"})
	add("", "worker:w", event.TurnStarted{Worker: "w"})
	add("", "worker:w", event.WorkspaceAttached{Root: "/r", Tree: "tree-0", Sandbox: "none: x"})
	request("r1")
	add("", "worker:w", event.ModelFailed{Request: "r1", Fault: *fault.New(fault.Overloaded, fault.Provider, "busy", "").Retry(), RetryAt: moment.Time(5_500_000)})
	request("r2")
	respond("r2")
	add("op1", event.ActorModel, event.TodosUpdated{Todos: []event.Todo{{ID: "1", Content: "find it", Status: event.TodoInProgress}}})
	test("op1", "tree-0", 1, counts(2, 1))
	add("op2", event.ActorModel, event.OperationProposed{Tool: "run_command", Effect: event.Supervised, Access: event.Access{Command: "rm x"}})
	add("op2", event.ActorPolicy, event.ApprovalRequested{Tool: "run_command", Intent: event.Intent{Hash: "i2"}, Why: []string{"removes x"}})
	add("op2", event.ActorUser, event.ApprovalDenied{Tool: "run_command", Intent: "i2", By: event.ActorUser, Reason: "keep it"})
	add("op3", event.ActorModel, event.OperationProposed{Tool: "file_patch", Effect: event.Verifiable})
	add("op3", event.ActorPolicy, event.ApprovalRequested{Tool: "file_patch", Intent: event.Intent{Hash: "i3"}, Why: []string{"writes a.go"}})
	add("op3", event.ActorUser, event.ApprovalGranted{Tool: "file_patch", Intent: "i3", By: event.ActorUser})
	add("op3", "worker:w", event.OperationStarted{Attempt: 1, Intent: event.Intent{Hash: "i3"}, Tree: "tree-0"})
	add("op3", "worker:w", event.OperationFinished{Tool: "file_patch", Attempt: 1, Outcome: event.OutcomeUnknown,
		Result: event.Result{Fault: fault.New(fault.InDoubt, fault.Runtime, "neither before nor after", "")}})
	change := []event.Change{{Path: "a.go", Status: "modified", Added: 3, Deleted: 1}}
	add("op3", event.ActorRuntime, event.RepoStateMutated{From: "tree-0", Revision: event.Revision{N: 1, Tree: "tree-1"}, Changes: change, By: "op3"})
	add("op3", event.ActorRuntime, event.DiffUpdated{Revision: event.Revision{N: 1, Tree: "tree-1"}, Changes: change})
	add("op3", event.ActorUser, event.OperationReconciled{Outcome: event.Succeeded, By: event.ActorUser})
	add("op4", event.ActorModel, event.TodosUpdated{Todos: []event.Todo{{ID: "1", Content: "find it", Status: event.TodoCompleted, Evidence: "op1"}}})
	add("", event.ActorModel, event.DecisionRecorded{Decision: "split on white space", Reason: "the test says so"})
	claim := func(id string, v event.Verdict) {
		add("", event.ActorModel, event.CompletionClaimed{Summary: "done", ByText: true})
		add("", event.ActorRuntime, event.VerificationStarted{Verification: id, Version: 1})
		add("", event.ActorRuntime, event.WorkspaceObserved{Tree: "tree-1"})
		add("", event.ActorRuntime, event.VerificationFinished{Verification: id, Version: 1, Verdict: v})
	}
	claim("v1", event.Verdict{Verdict: event.Incomplete, Missing: []string{"tests: not run on this tree"}})
	test("op5", "tree-1", 0, counts(3, 0))
	good := event.Verdict{Verdict: event.Complete, Tree: "tree-1"}
	claim("v2", good)
	add("", event.ActorRuntime, event.GoalCompleted{How: event.Verified, Verdict: good, Version: 1})
	add("", event.ActorRuntime, event.TurnEnded{Reason: event.StopFinished})
	return es
}

func TestAReportIsReadOffTheLedger(t *testing.T) {
	t.Parallel()
	es := run()
	if s := core.Fold(core.State{}, es); s.Refuse != "" {
		t.Fatalf("the run is not legal: %s", s.Refuse)
	}
	md, err := report.Markdown(report.Build(es))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/run.md"
	if *update {
		if err := os.WriteFile(golden, []byte(md), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if md != string(want) {
		t.Errorf("the report is\n%s\nwant (-update rewrites)\n%s", md, want)
	}
}

func TestTimesCyclesAndMoneyAddUp(t *testing.T) {
	t.Parallel()
	r := report.Build(run())
	if r.Cycles != 2 || len(r.Runs) != 2 || r.Runs[0].Evidence || !r.Runs[1].Evidence {
		t.Errorf("cycles %d, runs %+v", r.Cycles, r.Runs)
	}
	if r.Usage.Requests != 2 || r.Usage.FailedRequests != 1 || r.Usage.CostMicros != 1500 {
		t.Errorf("usage %+v", r.Usage)
	}
	if r.Times.Turns+r.Times.Waiting != r.Times.Total || r.Times.Tools != 1800 || r.Times.Model != 700 {
		t.Errorf("times %+v", r.Times)
	}
	if len(r.TodoTimes) != 1 || r.TodoTimes[0].DurationMS <= 0 {
		t.Errorf("todos %+v", r.TodoTimes)
	}
	if len(r.Unknowns) != 1 || r.Unknowns[0].Settled != "succeeded by user" {
		t.Errorf("unknowns %+v", r.Unknowns)
	}
	if r.Approvals[0].Answer != "denied" || r.Approvals[1].Answer != "granted" {
		t.Errorf("approvals %+v", r.Approvals)
	}
}

func TestEveryPrefixOfALedgerCanBeReported(t *testing.T) {
	t.Parallel()
	es := run()
	for n := range len(es) + 1 {
		r := report.Build(es[:n])
		if _, err := report.Markdown(r); err != nil {
			t.Fatalf("%d events: %v", n, err)
		}
		if _, err := report.HTML(r); err != nil {
			t.Fatalf("%d events: %v", n, err)
		}
	}
}

func TestForeignTextIsNoMarkup(t *testing.T) {
	t.Parallel()
	r := report.Build(run())
	r.Text = "<script>alert(1)</script>\n# not a heading | [x](javascript:1)"
	r.Missing = []string{"<img src=x onerror=1>\n- not an item"}
	html, err := report.HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	md, err := report.Markdown(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>", "<img"} {
		if strings.Contains(html, bad) || strings.Contains(md, bad) {
			t.Errorf("%q stands in the report unescaped", bad)
		}
	}
	for _, bad := range []string{"\n# not a heading", "\n- not an item", "[x](java"} {
		if strings.Contains(md, bad) {
			t.Errorf("%q became markup", bad)
		}
	}
}
