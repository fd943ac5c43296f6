package event_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

// golden-v1.jsonl is a ledger as the first version wrote it: one record of
// every type with every field set, in three goals that are legal histories. It
// is never written again; types that come later get a file of their own. The
// core folds the same files in its own tests.
const golden = "testdata/golden-v1.jsonl"

// goldenTravel holds what came with goals that travel between places.
const goldenTravel = "testdata/golden-travel.jsonl"

// goldenCheckpoints holds what came with the index and with automatic
// checkpoints.
const goldenCheckpoints = "testdata/golden-checkpoints.jsonl"

// goldenChildren holds what came with child goals.
const goldenChildren = "testdata/golden-children.jsonl"

var writeGolden = flag.Bool("write-golden", false, "write the golden ledgers that do not exist")

type goldenLine struct {
	Record    event.Record    `json:"record"`
	Hash      string          `json:"hash"`
	Artifacts []goldenContent `json:"artifacts,omitempty"`
}

type goldenContent struct {
	SHA256  string `json:"sha256"`
	Content []byte `json:"content"`
}

func readGolden(t *testing.T) []goldenLine {
	t.Helper()
	return slices.Concat(readLines(t, golden), readLines(t, goldenTravel), readLines(t, goldenCheckpoints), readLines(t, goldenMemory), readLines(t, goldenInstructions), readLines(t, goldenChildren), readLines(t, goldenWorktree))
}

func readLines(t *testing.T, path string) []goldenLine {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var lines []goldenLine
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l goldenLine
		d := json.NewDecoder(bytes.NewReader(in.Bytes()))
		d.DisallowUnknownFields() // an envelope field that disappears would be lost silently
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%s line %d: %v", path, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestTheLedgerOfVersion1IsStillUnderstood(t *testing.T) {
	t.Parallel()
	if *writeGolden {
		write(t)
	}
	seen := map[event.Type]bool{}
	prev, goal := event.Genesis, ""
	for i, l := range readGolden(t) {
		if l.Record.Goal != goal {
			goal, prev = l.Record.Goal, event.Genesis
		}
		if got := event.Chain(prev, l.Record); got != l.Hash {
			t.Errorf("line %d (%s): the chain gives %s, the ledger holds %s", i+1, l.Record.Type, got, l.Hash)
		}
		prev = l.Hash
		arts := store{}
		for _, a := range l.Artifacts {
			arts[a.SHA256] = a.Content
		}
		e := event.Decode(l.Record, l.Hash, arts.fetch)
		switch p := e.Payload.(type) {
		case event.Unknown, event.Damaged:
			t.Errorf("line %d (%s) is read as %T: %+v", i+1, l.Record.Type, p, p)
			continue
		}
		if l.Record.Version == event.CurrentVersion(l.Record.Type) {
			again, _, err := event.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			lost(t, string(l.Record.Type), l.Record.Payload, again.Payload)
		}
		seen[e.Type] = true
	}
	if len(seen) < 55 {
		t.Errorf("the golden ledgers hold %d types; version 1 had 46, travelling brought two, the index one, children six", len(seen))
	}
}

// lost reports every field of the old payload that the new one does not hold
// with the same value. A field that was added is no loss.
func lost(t *testing.T, path string, old, now json.RawMessage) {
	t.Helper()
	var a, b any
	for raw, into := range map[*json.RawMessage]*any{&old: &a, &now: &b} {
		d := json.NewDecoder(bytes.NewReader(*raw))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	lostIn(t, path, a, b)
}

func lostIn(t *testing.T, path string, old, now any) {
	t.Helper()
	switch o := old.(type) {
	case map[string]any:
		n, ok := now.(map[string]any)
		if !ok {
			t.Errorf("%s was an object", path)
			return
		}
		for k, v := range o {
			if _, ok := n[k]; !ok {
				t.Errorf("%s.%s of version 1 is read and lost", path, k)
				continue
			}
			lostIn(t, path+"."+k, v, n[k])
		}
	case []any:
		n, ok := now.([]any)
		if !ok || len(n) != len(o) {
			t.Errorf("%s has another length", path)
			return
		}
		for i := range o {
			lostIn(t, path+"[]", o[i], n[i])
		}
	default:
		if !reflect.DeepEqual(old, now) {
			t.Errorf("%s was %v, is read as %v", path, old, now)
		}
	}
}

// TestTheGoldenLedgerSetsEveryField guards the guard: a field that the golden
// ledger leaves empty could disappear unnoticed.
func TestTheGoldenLedgerSetsEveryField(t *testing.T) {
	t.Parallel()
	set := map[event.Type]map[string]bool{}
	for _, l := range readGolden(t) {
		var m map[string]json.RawMessage
		if l.Record.Spilled {
			if err := json.Unmarshal(l.Artifacts[0].Content, &m); err != nil {
				t.Fatal(err)
			}
		} else if err := json.Unmarshal(l.Record.Payload, &m); err != nil {
			t.Fatal(err)
		}
		if set[l.Record.Type] == nil {
			set[l.Record.Type] = map[string]bool{}
		}
		for k, v := range m {
			if s := string(v); s != "null" && s != `""` && s != "0" && s != "false" && s != "{}" && s != "[]" {
				set[l.Record.Type][k] = true
			}
		}
	}
	for typ, fields := range set {
		full, err := json.Marshal(filler{}.payload(typ))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(full, &m); err != nil {
			t.Fatal(err)
		}
		for k := range m {
			if !fields[k] && !after1[string(typ)+"."+k] {
				t.Errorf("no %s of the golden ledger sets %s; a field added after version 1 is listed in after1", typ, k)
			}
		}
	}
}

// after1 are the fields that were added after the golden ledger was written.
var after1 = map[string]bool{
	"turn_started.place": true, "operation_started.place": true, "workspace_attached.place": true, "workspace_attached.instructions_path": true,
	"operation_started.reserved": true, "operation_started.max_output": true, "test_completed.criterion": true, "verification_finished.given_up": true,
	"progress_alarm.advice":  true,
	"goal_received.worktree": true,
	"goal_forked.foreign":    true, "goal_forked.rules": true, "goal_forked.protected": true, "goal_forked.sandbox": true,
	"operation_proposed.setup": true,
	"workspace_attached.doing": true,
	"context_compacted.level":  true,
	"context_compacted.prose":  true, "model_requested.compaction": true,
}

// write makes the golden ledgers that are missing: payloads filled by
// reflection, with what a legal history needs put in by hand.
func write(t *testing.T) {
	for path, fill := range map[string]func(*writer){golden: (*writer).first, goldenTravel: (*writer).travel, goldenCheckpoints: (*writer).checkpoints, goldenMemory: (*writer).memory, goldenInstructions: (*writer).instructions,
		goldenChildren: (*writer).children, goldenWorktree: (*writer).worktree} {
		if _, err := os.Stat(path); err == nil {
			continue // never written again
		}
		w := &writer{t: t, now: 1_796_000_000_000_000}
		fill(w)
		if err := os.WriteFile(path, w.out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// travel is a goal whose workspace is packed, moves to another place, and is
// taken for the goal's at the first again.
func (w *writer) travel() {
	w.goal, w.fence, w.prev = "goal-4", 1, event.Genesis
	w.add(received(false))
	for i, place := range []string{"host-a", "host-b"} {
		w.turn = []string{"t1", "t2"}[i]
		w.add(with(func(p *event.TurnStarted) { p.Place = place }))
		if i == 0 {
			w.add(with(func(p *event.WorkspaceAttached) { p.Tree, p.Place = "tree0", place }))
			w.add(with(func(p *event.WorkspacePacked) { p.Tree, p.Base, p.Failed = "tree0", "", "" }))
			w.add(with(func(p *event.WorkspacePacked) { p.Tree, p.Base, p.Failed = "tree1", "tree0", "" }))
			w.add(event.WorkspacePacked{Tree: "tree2", Failed: "the disk is full"})
		} else {
			w.add(with(func(p *event.WorkspaceMoved) { p.From, p.Place, p.Tree, p.Adopted = "host-a", "host-b", "tree0", false }))
			w.add(with(func(p *event.WorkspaceMoved) { p.From, p.Place, p.Tree, p.Adopted = "host-b", "host-a", "tree0", true }))
		}
		w.add(with[event.TurnEnded](nil))
	}
}

// checkpoints is a goal whose index moves and whose checkpoints say why.
func (w *writer) checkpoints() {
	w.goal, w.fence, w.prev = "goal-5", 1, event.Genesis
	w.add(received(false))
	w.turn = "t1"
	w.add(with[event.TurnStarted](nil))
	w.add(with(func(p *event.WorkspaceAttached) { p.Tree = "tree0" }))
	w.add(with(func(p *event.CheckpointCreated) { p.Tree = "tree0" }))
	w.add(filler{}.payload(event.TypeIndexChanged))
	w.add(filler{}.payload(event.TypeWorkspaceRestored))
	w.add(with[event.TurnEnded](nil))
}

// children is a goal with one child, and the child's own stream.
func (w *writer) children() {
	share := event.Amount{Turns: 9, Steps: 90, Tokens: 900, CostMicros: 9000, ToolMS: 900}
	w.goal, w.fence, w.prev, w.turn = "goal-6", 1, event.Genesis, ""
	w.add(with(func(p *event.GoalReceived) {
		*p = received(false).(event.GoalReceived)
		p.Parent, p.ParentOp, p.Depth, p.Share = "", "", 0, event.Amount{}
	}))
	w.turn = "t1"
	w.add(with[event.TurnStarted](nil))
	w.add(with(func(p *event.WorkspaceAttached) { p.Tree = "tree0" }))
	w.on("op1", with(func(p *event.OperationProposed) { p.Tool, p.Effect, p.Criterion = "delegate", event.Control, "" }),
		with(func(p *event.ChildReserved) {
			p.Child, p.Reserved, p.Tree, p.Depth = "goal-7", share, "tree0", 1
			p.Spec.Limits = event.Limits{Amount: share}
		}),
		event.ChildStarted{Child: "goal-7"})
	w.add(with(func(p *event.GoalWaiting) { p.Reason, p.Blocked = event.WaitChild, false }))
	w.add(with(func(p *event.TurnEnded) { p.Reason = event.StopYielded }))
	w.on("op1", event.ChildOrdered{Child: "goal-7", Order: event.OrderPause, Seq: 1},
		with(func(p *event.ChildEnded) {
			p.Child, p.Status = "goal-7", "failed"
			p.Used = event.Amount{Steps: 3, Tokens: 300}
		}),
		with(func(p *event.OperationFinished) {
			p.Tool, p.Outcome, p.Result = "delegate", event.Failed, event.Result{}
		}))
	w.add(event.GoalWoken{Reason: event.WaitChild})

	w.goal, w.seq, w.fence, w.prev, w.turn = "goal-7", 0, 1, event.Genesis, ""
	w.add(with(func(p *event.GoalReceived) {
		*p = received(false).(event.GoalReceived)
		p.Parent, p.ParentOp, p.Depth, p.Share = "goal-6", "op1", 1, share
		p.Spec.Limits = event.Limits{Amount: share}
	}))
	w.add(event.ParentOrdered{Order: event.OrderPause, Seq: 10})
	w.fence++
	w.add(event.GoalPaused{Reason: event.PausedByParent, Detail: "goal goal-6 was paused"})
	w.add(event.ParentOrdered{Order: event.OrderResume, Seq: 11})
	w.add(event.GoalResumed{})
	w.add(event.ParentOrdered{Order: event.OrderCancel, Seq: 12})
	w.fence++
	w.add(event.GoalCancelled{Reason: "goal goal-6 was cancelled"})
	w.add(event.ParentTold{Parent: "goal-6"})
}

func (w *writer) first() {
	w.long()
	w.goal, w.seq, w.fence, w.prev = "goal-2", 0, 1, event.Genesis
	w.add(received(false))
	w.fence++
	w.add(filler{}.payload(event.TypeGoalCancelled))
	w.goal, w.seq, w.fence, w.prev = "goal-3", 0, 1, event.Genesis
	w.add(received(false))
	w.add(filler{}.payload(event.TypeGoalFailed))
}

type writer struct {
	t          *testing.T
	out        bytes.Buffer
	goal       string
	seq, fence uint64
	prev       string
	now        moment.Time
	op, turn   string
}

func (w *writer) add(p event.Payload) {
	w.t.Helper()
	w.seq++
	w.now += 1_000_000
	r, a, err := event.Encode(event.Event{Goal: w.goal, Seq: w.seq, ID: event.NewID(w.now, [16]byte{byte(w.seq)}, 0), Type: p.EventType(),
		Version: event.CurrentVersion(p.EventType()), Time: w.now, Turn: w.turn, Op: w.op, Cause: "cause", Actor: "worker:w1", Fence: w.fence, Payload: p})
	if err != nil {
		w.t.Fatal(err)
	}
	w.prev = event.Chain(w.prev, r)
	l := goldenLine{Record: r, Hash: w.prev}
	if a != nil {
		l.Artifacts = []goldenContent{{a.SHA256, a.Content}}
	}
	b, err := json.Marshal(l)
	if err != nil {
		w.t.Fatal(err)
	}
	w.out.Write(append(b, '\n'))
}

func (w *writer) on(op string, ps ...event.Payload) {
	w.op = op
	for _, p := range ps {
		w.add(p)
	}
	w.op = ""
}

// with fills a payload and then changes it.
func with[T event.Payload](change func(*T)) T {
	var zero T
	p := filler{}.payload(zero.EventType()).(T)
	if change != nil {
		change(&p)
	}
	return p
}

func received(plan bool) event.Payload {
	return with(func(p *event.GoalReceived) {
		p.Version = 1
		p.Spec.Acceptance = []event.Criterion{{ID: "looks", Kind: event.CriterionManual, Text: "Does it look right?"}}
		p.Spec.Limits = event.Limits{Amount: event.Amount{Turns: 90, Steps: 900, Tokens: 9_000_000, CostMicros: 9_000_000, ToolMS: 9_000_000}, Deadline: 1_900_000_000_000_000}
		p.Settings.Approve, p.Settings.Plan = event.ApproveAsk, event.PlanNever
		if plan {
			p.Settings.Plan = event.PlanAlways
		}
	})
}

func (w *writer) long() {
	f := filler{}
	w.goal, w.fence, w.prev = "goal-1", 1, event.Genesis
	w.add(received(true))
	w.add(event.PlanModeEntered{})
	w.turn = "t1"
	w.add(f.payload(event.TypeTurnStarted))
	w.add(with(func(p *event.WorkspaceAttached) { p.Tree = "tree0" }))
	w.add(f.payload(event.TypeCheckpointCreated))
	w.add(f.payload(event.TypeEnvironmentCaptured))
	w.add(with(func(p *event.WorkspaceObserved) { p.Tree = "tree0" }))
	w.add(with(func(p *event.UserMessage) { p.Mode = event.Steer }))
	w.add(with(func(p *event.ModelRequested) { p.Request, p.Attempt, p.Taken = "r1", 1, []uint64{8} }))
	w.add(with(func(p *event.ModelFailed) { p.Request = "r1" }))
	w.add(with(func(p *event.GoalWaiting) { p.Reason = event.WaitRetry }))
	w.add(event.GoalWoken{Reason: event.WaitRetry})
	w.add(with(func(p *event.ModelRequested) { p.Request, p.Attempt, p.Taken = "r2", 2, []uint64{8} }))
	w.add(with(func(p *event.ModelResponded) { p.Request = "r2" }))
	w.operations()
	w.add(with(func(p *event.RepoStateMutated) { p.From, p.Revision = "tree0", event.Revision{N: 1, Tree: "tree1"} }))
	w.add(with(func(p *event.DiffUpdated) {
		p.Diff.Head = string(bytes.Repeat([]byte("+ a line of a long diff\n"), 600))
	}))
	w.on("op2", with(func(p *event.TestCompleted) { p.TreeBefore, p.TreeAfter = "tree1", "tree1" }))
	w.add(f.payload(event.TypeProgressAlarm))
	w.add(f.payload(event.TypeActionForbidden))
	w.add(with(func(p *event.ContextCompacted) { p.Through = 14 }))
	w.add(f.payload(event.TypeLateFact))
	w.add(f.payload(event.TypeWorkspaceRestored))
	w.add(with(func(p *event.BudgetExtended) { p.Limits.Tokens = 10_000_000 }))
	w.fence++
	w.add(with(func(p *event.GoalRevised) {
		p.Version = 2
		p.Spec.Acceptance = []event.Criterion{{ID: "looks", Kind: event.CriterionManual, Text: "Does it look right now?"}}
	}))
	w.add(f.payload(event.TypeGoalHandedOff))
	w.fence++
	w.add(with(func(p *event.GoalPaused) { p.Reason = event.PausedByHandoff }))
	w.add(event.GoalResumed{})
	w.verification()
	w.add(with(func(p *event.TurnEnded) { p.Reason = event.StopFinished }))
}

func (w *writer) operations() {
	f := filler{}
	propose := func(tool string, effect event.EffectClass) event.Payload {
		return with(func(p *event.OperationProposed) { p.Tool, p.Effect = tool, effect })
	}
	intent := func(hash string) event.Intent {
		return with(func(p *event.ApprovalRequested) { p.Intent.Hash = hash }).Intent
	}
	asked := func(hash string) event.Payload {
		return with(func(p *event.ApprovalRequested) { p.Intent.Hash = hash })
	}
	w.on("op1", propose("update_plan", event.Control), f.payload(event.TypePlanUpdated), f.payload(event.TypePlanModeExited),
		with(func(p *event.OperationFinished) { p.Outcome = event.Succeeded }))
	w.add(with(func(p *event.TodosUpdated) { p.Todos[0].Status = event.TodoCompleted }))
	w.add(f.payload(event.TypeDecisionRecorded))
	w.on("op2", propose("write_file", event.Verifiable), asked("intent2"),
		with(func(p *event.ApprovalGranted) { p.Intent = "intent2" }),
		with(func(p *event.OperationStarted) { p.Attempt, p.Intent = 1, intent("intent2") }),
		with(func(p *event.OperationFinished) { p.Attempt, p.Outcome = 1, event.OutcomeUnknown }),
		with(func(p *event.OperationReconciled) { p.Retry = true }),
		with(func(p *event.OperationStarted) { p.Attempt, p.Intent = 2, intent("intent2") }),
		with(func(p *event.OperationFinished) { p.Attempt, p.Outcome = 2, event.OutcomeUnknown }),
		with(func(p *event.OperationReconciled) { p.Retry, p.Outcome = false, event.Succeeded }))
	w.on("op3", propose("run_command", event.Supervised), asked("intent3"),
		with(func(p *event.ApprovalDenied) { p.Intent = "intent3" }))
	w.on("op4", propose("mystery", event.Opaque), with(func(p *event.OperationRejected) {
		p.Outcome, p.Fault.Kind = event.Rejected, fault.PolicyDenied
	}))
}

func (w *writer) verification() {
	w.add(with(func(p *event.CompletionClaimed) { p.ByText = true }))
	w.fence++
	w.add(with(func(p *event.VerificationStarted) { p.Verification, p.Version = "v1", 2 }))
	w.add(with(func(p *event.VerificationFinished) { p.Verification, p.Version = "v1", 2 })) // refused
	w.add(with(func(p *event.CriterionAnswered) { p.Criterion, p.Tree = "looks", "tree1" }))
	verdict := event.Verdict{Verdict: event.Complete, Tree: "tree1", Missing: []string{"nothing"},
		Criteria: []event.CriterionResult{{ID: "looks", Result: event.Pass, Reason: "it does", Evidence: []string{"user"}}}}
	w.add(with(func(p *event.VerificationFinished) {
		p.Verification, p.Version, p.Verdict, p.Refused = "v1", 2, verdict, ""
	}))
	w.add(with(func(p *event.GoalCompleted) { p.How, p.Verdict, p.Version = event.Attested, verdict, 2 }))
}
