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
	for i := range 12 {
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
			if w.goal() != goal {
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
