package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"belay/internal/event"
)

// killSteps is a goal with everything in it that a kill can interrupt: a plan,
// parallel reads, an approved command with a side effect, an edit, tests, a
// refused claim.
const killSteps = "steps:\n" +
	"  - {calls: [{tool: update_plan, args: {steps: [repair it], scope: [code.txt]}}, {tool: read_file, args: {path: code.txt}}, {tool: read_file, args: {path: check.sh}}, {tool: list_files, args: {}}]}\n" +
	"  - {calls: [{tool: run_command, args: {command: \"echo begun; echo effect >> ../effects.log; sleep 0.05; echo over\"}}, {tool: update_todos, args: {todos: [{content: repair, status: in_progress}]}}]}\n" +
	stepFix + stepDone + stepTest + stepDone

func killRun(wire string) []string {
	return []string{"run", "repair code.txt", "--model", wire + ":test-model", "--test", "sh check.sh", "--approve", "auto"}
}

// afterKill resumes a goal whose worker was killed and checks what must hold:
// nothing that was recorded is lost or changed, the goal is reached, the side
// effect happened once, and no request was one that a provider refuses (which
// would be, had a call no result, or two).
func afterKill(w *world, p *provider, goal string) {
	t := w.t
	t.Helper()
	before := decodeEvents(t, w.must(0, "events", goal).out)
	r := w.belay("resume", goal)
	es := decodeEvents(t, w.must(0, "events", goal).out)
	for i, e := range before {
		if es[i].ID != e.ID || es[i].Hash != e.Hash {
			t.Fatalf("event %d was %s and is %s", i+1, e.ID, es[i].ID)
		}
	}
	p.valid()
	stableBeginning(t, p)
	if a := w.must(0, "audit", goal); !strings.Contains(a.out, "the chain holds") {
		t.Errorf("%v", a)
	}
	outcomes := map[string]int{}
	for _, e := range es {
		if e.Type == event.TypeOperationFinished || e.Type == event.TypeOperationRejected || e.Type == event.TypeApprovalDenied {
			outcomes[e.Op]++
		}
	}
	for op, n := range outcomes {
		if n != 1 {
			t.Errorf("%s has %d outcomes", op, n)
		}
	}
	if n := len(of[event.OperationProposed](t, es)); n != len(outcomes) {
		t.Errorf("%d operations, %d with an outcome", n, len(outcomes))
	}
	if r.code != 0 {
		t.Errorf("the goal is not reached: %v\nkilled after event %d", r, len(before))
	}
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q, killed after event %d", got, len(before))
	}
	if got := w.read("code.txt"); got != "fixed\n" {
		t.Errorf("code.txt is %q", got)
	}
}

// TestKilledAtAnyEventItGoesOn kills the worker as soon as an event of each
// kind is on disk.
func TestKilledAtAnyEventItGoesOn(t *testing.T) {
	t.Parallel()
	kinds := []event.Type{event.TypeGoalReceived, event.TypeTurnStarted, event.TypeWorkspaceAttached, event.TypeModelRequested,
		event.TypeModelResponded, event.TypeOperationProposed, event.TypePlanUpdated, event.TypePlanModeExited, event.TypeApprovalGranted,
		event.TypeOperationStarted, event.TypeOperationFinished, event.TypeTodosUpdated, event.TypeRepoStateMutated, event.TypeDiffUpdated,
		event.TypeCompletionClaimed, event.TypeVerificationStarted, event.TypeVerificationFinished, event.TypeOperationRejected,
		event.TypeTestCompleted}
	for i, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			p := w.serve(killSteps, nil)
			b := w.start(append(killRun(wires[i%2]), "--json")...)
			b.await(`"type":"` + string(kind) + `"`)
			b.kill()
			if r := b.wait(); r.code == 0 {
				t.Logf("it had ended before it could be killed")
			}
			afterKill(w, p, w.goal())
		})
	}
}

// TestKilledAtRandomInstantsItGoesOn kills it, and the one that resumes it,
// and the next, at instants that nobody chose.
func TestKilledAtRandomInstantsItGoesOn(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			w := newWorld(t, toy())
			p := w.serve(killSteps, nil)
			b := w.start(append(killRun(wires[i%2]), "--json")...)
			b.await(`"type":"goal_received"`)
			goal := w.goal()
			for range 2 {
				// An instant is what is wanted here, not a state.
				time.Sleep(time.Duration(rng.IntN(250)) * time.Millisecond)
				b.kill()
				b.wait()
				b = w.start("resume", goal)
			}
			time.Sleep(time.Duration(rng.IntN(250)) * time.Millisecond)
			b.kill()
			b.wait()
			afterKill(w, p, goal)
		})
	}
}

// TestARunningCommandIsFoundAgain: killed while its command runs, the goal
// gets the command's whole output and its exit code, and does not run it twice.
func TestARunningCommandIsFoundAgain(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"it still runs at the resume", "it ended in between"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w, g, p, goal := blocked(t, "  - {expect: {last_result_contains: [\"began\", \"ended\", \"exit code 5\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"+stepFix+stepTest+stepDone)
			p.kill()
			p.wait()
			var r result
			if when == "it ended in between" {
				g.close()
				waitFor(t, "the effect", func() bool { return w.readAt("effects.log") != "" })
				r = w.belay("resume", goal)
			} else {
				b := w.start("resume", goal)
				b.await("turn_started")
				g.close()
				r = b.wait()
			}
			if r.code != 0 {
				t.Errorf("%v", r)
			}
			if got := w.readAt("effects.log"); got != "effect\n" {
				t.Errorf("effects: %q", got)
			}
			var first event.OperationFinished
			for _, e := range w.events() {
				if e.Type == event.TypeOperationFinished && e.Op == "op1" {
					if err := json.Unmarshal(e.Payload, &first); err != nil {
						t.Fatal(err)
					}
				}
			}
			if first.Recovered != "reattached" || first.Result.Command == nil || first.Result.Command.ExitCode != 5 || first.Attempt != 1 {
				t.Errorf("recorded as %+v", first)
			}
			if log := w.must(0, "log", goal, "op1"); log.out != "began\nended\n" {
				t.Errorf("its output is %q", log.out)
			}
		})
	}
}

// TestAWorkerThatLivesIsNotDisturbed: resume beside a running worker says so.
func TestAWorkerThatLivesIsNotDisturbed(t *testing.T) {
	t.Parallel()
	w, g, p, goal := blocked(t, stepRead+stepFix+stepTest+stepDone)
	if r := w.must(0, "resume", goal); !strings.Contains(r.err, "holds goal") {
		t.Errorf("%v", r)
	}
	g.close()
	if r := p.wait(); r.code != 0 {
		t.Errorf("%v", r)
	}
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
}

// TestAnInterruptLeavesTheCommandRunning: the first signal is polite, and what
// runs goes on under its shim.
func TestAnInterruptLeavesTheCommandRunning(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w, g, p, goal := blocked(t, "  - {expect: {last_result_contains: [\"ended\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"+stepFix+stepTest+stepDone)
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if r := p.wait(); r.code != 130 || !strings.Contains(r.err, "belay resume goes on") {
				t.Errorf("%v", r)
			}
			if s := w.snapshot(); s.Status != "active" || len(s.OpenOperations) != 1 || s.Turn != "" {
				t.Errorf("left as %s, turn %q, %+v", s.Status, s.Turn, s.OpenOperations)
			}
			g.close()
			w.must(0, "resume", goal)
			if got := w.readAt("effects.log"); got != "effect\n" {
				t.Errorf("effects: %q", got)
			}
		})
	}
}

// TestACommandWhoseSupervisorDiedIsUnknownUntilSettled: worker and shim killed,
// as when the machine restarts. The model is told in plain words, the same
// action is refused, nothing completes over it, and a person settles it.
func TestACommandWhoseSupervisorDiedIsUnknownUntilSettled(t *testing.T) {
	t.Parallel()
	again := stepCommand("echo began; cat ../gate; echo effect >> ../effects.log; echo ended; exit 5")
	w, _, p, goal := blocked(t, strings.Replace(again, "{", "{\"expect\": {\"last_result_contains\": [\"outcome unknown\"]}, ", 1)+
		"  - {expect: {last_result_contains: [\"in doubt\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"+stepFix+stepTest+stepDone+stepDone)
	p.kill()
	p.wait()
	specs, err := filepath.Glob(filepath.Join(w.dir, "state/spool/*/shim.json"))
	if err != nil || len(specs) != 1 {
		t.Fatalf("%v %v", specs, err)
	}
	var shim struct {
		PID int `json:"pid"`
	}
	b, err := os.ReadFile(specs[0])
	if err == nil {
		err = json.Unmarshal(b, &shim)
	}
	if err != nil || shim.PID < 2 {
		t.Fatalf("%v in %s", err, b)
	}
	if err := syscall.Kill(shim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The work is done, but nothing completes while that is open: a person is
	// needed.
	r := w.must(3, "resume", goal)
	s := w.snapshot()
	if len(s.InDoubt) != 1 || s.InDoubt[0].Op != "op1" || !strings.Contains(strings.Join(s.Missing, " "), "op1") {
		t.Fatalf("in doubt: %+v, missing %q: %v", s.InDoubt, s.Missing, r)
	}
	if got := w.readAt("effects.log"); got != "" {
		t.Errorf("effects: %q", got)
	}
	if r := w.must(0, "show", goal); !strings.Contains(r.out, "belay reconcile "+goal+" op1") {
		t.Errorf("does not say how to settle it: %v", r)
	}
	w.must(2, "reconcile", goal, "op1")
	w.must(2, "reconcile", goal, "op2", "--failed")
	w.must(0, "reconcile", goal, "op1", "--failed", "--reason", "I looked: no line was written")
	if r := w.must(0, "resume", goal); !strings.Contains(r.out, "completed: verified") {
		t.Errorf("%v", r)
	}
}

// TestManyRunsShareOneState: seventeen at once, each with a directory of its
// own, all complete, and no event is lost. Two of them must then share the
// first letter of their id.
func TestManyRunsShareOneState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	model := w.script(repair)
	const n = 17
	var ps []*process
	for i := range n {
		dir := filepath.Join(w.dir, fmt.Sprintf("repo%d", i))
		for name, content := range toy() {
			w.put(filepath.Join(dir, name), content)
		}
		ps = append(ps, w.start(append(runToy(model), "--repo", dir)...))
	}
	for _, p := range ps {
		if r := p.wait(); r.code != 0 {
			t.Errorf("%v", r)
		}
	}
	var rows []struct {
		Goal string `json:"goal"`
	}
	if err := json.Unmarshal([]byte(w.must(0, "goals", "--json").out), &rows); err != nil || len(rows) != n {
		t.Fatalf("%d goals: %v", len(rows), err)
	}
	letters, events := map[byte]int{}, map[int]int{}
	for _, r := range rows {
		letters[r.Goal[0]]++
		events[len(decodeEvents(t, w.must(0, "events", r.Goal).out))]++
	}
	if len(events) != 1 {
		t.Errorf("the same run has different numbers of events: %v", events)
	}
	for c, k := range letters {
		if k > 1 {
			if r := w.must(2, "show", string(c)); !strings.Contains(r.err, "fits more than one goal") {
				t.Errorf("%v", r)
			}
		}
	}
}

// TestASecondGoalInOneDirectoryIsRefused: nobody's work is mixed with
// another's.
func TestASecondGoalInOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	w, g, p, goal := blocked(t, stepRead+stepFix+stepTest+stepDone)
	// Also by another name of the directory, and from inside of it.
	link := filepath.Join(w.dir, "link")
	if err := os.Symlink(w.repo, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", link} {
		r := w.belay(append(runToy("script:"+filepath.Join(w.dir, "model.yaml")), "--repo", dir)...)
		if r.code == 0 || r.code == 3 || !strings.Contains(r.err, goal) {
			t.Errorf("a second goal in %s: %v", dir, r)
		}
	}
	g.close()
	if r := p.wait(); r.code != 0 {
		t.Errorf("%v", r)
	}
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
}

func (w *world) database() string { return filepath.Join(w.dir, "state", "ledger.db") }

// TestAuditNamesTheEventOfAFlippedByte flips one byte inside of one payload, in
// the file, as a failing disk or a forger would.
func TestAuditNamesTheEventOfAFlippedByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.must(0, runToy(w.script("steps:\n"+stepCall("record_decision", map[string]any{"decision": "FINDME-4711"})+stepRead+stepFix+stepTest+stepDone))...)
	goal := w.goal()
	if r := w.must(0, "audit", goal); !strings.Contains(r.out, "the chain holds") {
		t.Errorf("%v", r)
	}
	var seq uint64
	for _, e := range w.events() {
		if e.Type == event.TypeDecisionRecorded {
			seq = e.Seq
		}
	}
	// The log of SQLite is folded into the file first, as any program that
	// opens it does.
	db, err := sql.Open("sqlite", w.database())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	b, err := os.ReadFile(w.database())
	if err != nil {
		t.Fatal(err)
	}
	// The same text stands in the response, the proposal and the decision: each
	// of them is tried by itself.
	places := regexp.MustCompile(`\{"decision":"FINDME-4711"\}`).FindAllIndex(b, -1)
	if len(places) == 0 {
		t.Fatal("the payload is not in the file")
	}
	found := map[uint64]bool{}
	for _, pl := range places {
		c := slices.Clone(b)
		c[pl[0]+len(`{"decision":"FINDME-47`)] ^= 1
		if err := os.WriteFile(w.database(), c, 0o600); err != nil {
			t.Fatal(err)
		}
		r := w.belay("audit", goal, "--json")
		if r.code == 0 {
			continue // a copy that SQLite has left in the unused part of a page
		}
		var a struct {
			Broken *struct {
				Seq  uint64 `json:"seq"`
				Type string `json:"type"`
				ID   string `json:"id"`
			} `json:"broken"`
		}
		if err := json.Unmarshal([]byte(r.out), &a); err != nil || a.Broken == nil || a.Broken.ID == "" {
			t.Fatalf("%v: %v", err, r)
		}
		found[a.Broken.Seq] = true
		if r := w.must(1, "audit", goal); !strings.Contains(r.out, fmt.Sprintf("event %d (%s", a.Broken.Seq, a.Broken.Type)) {
			t.Errorf("%v", r)
		}
	}
	if !found[seq] {
		t.Errorf("the decision is event %d, audit named %v", seq, found)
	}
}

// TestLosingEveryListLosesNoGoal: rows and caches are projections.
func TestLosingEveryListLosesNoGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, harm string }{
		{"the rows are gone", "DELETE FROM goals"},
		{"the caches are garbled", "UPDATE caches SET body = x'00ff00ff'"},
		{"the caches lie", "INSERT OR REPLACE INTO caches SELECT goal, head, 1, x'7b7d' FROM goals"},
		{"both are gone", "DELETE FROM goals; DELETE FROM caches"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			w.must(3, "run", "repair code.txt", "--model", w.script(repair), "--test", "sh check.sh", "--plan", "never")
			goal := w.goal()
			before := w.must(0, "show", goal, "--json").out
			db, err := sql.Open("sqlite", w.database())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(c.harm); err != nil {
				t.Fatal(err)
			}
			if r := w.must(0, "show", goal[:5], "--json"); r.out != before {
				t.Errorf("shown otherwise:\n%s\n%s", before, r.out)
			}
			if w.listed() != goal {
				t.Error("the list names another goal")
			}
			w.must(0, "approve", goal)
			w.must(0, "resume", goal)
		})
	}
}

// TestTheListIsCompleteWhenOneRowIsLost: the others are still there, so nobody
// would notice by an empty list.
func TestTheListIsCompleteWhenOneRowIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	model := w.script("steps: [{text: x}]")
	for range 3 {
		w.must(3, "run", "look", "--model", model, "--plan", "never")
	}
	var rows []struct {
		Goal string `json:"goal"`
	}
	list := func() int {
		t.Helper()
		if err := json.Unmarshal([]byte(w.must(0, "goals", "--json").out), &rows); err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if list() != 3 {
		t.Fatalf("%d goals", len(rows))
	}
	lost := rows[1].Goal
	db, err := sql.Open("sqlite", w.database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM goals WHERE goal = ?", lost); err != nil {
		t.Fatal(err)
	}
	if n := list(); n != 3 {
		t.Errorf("the list has %d of three goals", n)
	}
	w.must(0, "show", lost)
}

func TestDoctorExplainsEveryFileAndFindsDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.must(0, runToy(w.script(repair))...)
	r := w.must(0, "doctor")
	entries, err := os.ReadDir(filepath.Join(w.dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		line := regexp.MustCompile(`(?m)^.*` + regexp.QuoteMeta(e.Name()) + `\b.*$`).FindString(r.out)
		if line == "" || strings.Contains(line, "unknown") {
			t.Errorf("%s is not explained: %q", e.Name(), line)
		}
	}
	w.put(filepath.Join(w.dir, "state", "strange.bin"), "x")
	if r := w.belay("doctor"); !strings.Contains(r.out, "strange.bin") || !strings.Contains(r.out, "unknown: not belay's") {
		t.Errorf("a file of somebody else: %v", r)
	}
	b, err := os.ReadFile(w.database())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.database(), b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	os.Remove(w.database() + "-wal")
	r = w.belay("doctor")
	if r.code == 0 || strings.Contains(r.err, "panic") {
		t.Errorf("a database cut in half: %v", r)
	}
}
