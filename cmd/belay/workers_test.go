package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/model/modeltest"
)

// queue records a goal that no process works on, and returns its id.
func (w *world) queue(model string, more ...string) string {
	w.t.Helper()
	return goalLine(w.must(0, append(runToy(model, "--queue"), more...)...))
}

// lease shortens the lease of every worker of this world.
func (w *world) lease(d string) { w.env = append(w.env, envLease+"="+d) }

func (w *world) worker(more ...string) *process {
	w.t.Helper()
	p := w.start(append([]string{"worker"}, more...)...)
	return p
}

// told waits for a snapshot of a goal that is as wanted.
func (w *world) told(goal, what string, ok func(core.Snapshot) bool) core.Snapshot {
	w.t.Helper()
	var s core.Snapshot
	// What the goal did instead, if it does not come.
	w.t.Cleanup(func() {
		if w.t.Failed() && !ok(s) {
			w.t.Logf("waited for %q of %s\n%s", what, goal, w.belay("events", goal).out)
		}
	})
	waitFor(w.t, what, func() bool {
		s = w.snapshotOf(goal)
		return ok(s)
	})
	return s
}

func (w *world) snapshotOf(goal string) core.Snapshot {
	w.t.Helper()
	var s core.Snapshot
	r := w.must(0, "show", goal, "--json")
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		w.t.Fatalf("%v: %v", err, r)
	}
	return s
}

func (w *world) eventsOf(goal string) []record {
	w.t.Helper()
	return decodeEvents(w.t, w.must(0, "events", goal).out)
}

func is(status string) func(core.Snapshot) bool {
	return func(s core.Snapshot) bool { return string(s.Status) == status }
}

const gateCommand = "echo began; cat ../gate; echo effect >> ../effects.log; echo ended; exit 5"

// TestAWorkerDrainsAndTheNextOneGoesOn: on SIGTERM it claims nothing more,
// leaves the long command to its shim, and gives the goal back; the next worker
// finds the command's output and exit code.
func TestAWorkerDrainsAndTheNextOneGoesOn(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprintf("the command has ended: %v", ended), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			g := w.gate()
			model := w.script("steps:\n" + stepCommand(gateCommand) + "  - {expect: {last_result_contains: [began, ended, \"exit code 5\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
			goal := w.queue(model, "--sandbox", "none")
			p := w.worker()
			g.open(p)
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if r := p.wait(); r.code != 0 || !strings.Contains(r.err, "drained") {
				t.Fatalf("%v", r)
			}
			s := w.snapshotOf(goal)
			if s.Status != "active" || len(s.OpenOperations) != 1 || s.Turn != "" {
				t.Errorf("left as %s with turn %q and %+v", s.Status, s.Turn, s.OpenOperations)
			}
			if ended {
				g.close()
				waitFor(t, "the effect", func() bool { return w.readAt("effects.log") != "" })
			}
			next := w.worker()
			if !ended {
				w.told(goal, "a turn of the next worker", func(s core.Snapshot) bool { return s.Turn != "" })
				g.close()
			}
			w.told(goal, "completed", is("completed"))
			next.kill()
			if got := w.readAt("effects.log"); got != "effect\n" {
				t.Errorf("effects: %q", got)
			}
			es := w.eventsOf(goal)
			if f := of[event.OperationFinished](t, es); f[0].Recovered != "reattached" || f[0].Attempt != 1 || f[0].Result.Command.ExitCode != 5 {
				t.Errorf("recorded as %+v", f[0])
			}
			for i, ts := range of[event.TurnStarted](t, es) {
				if ts.Takeover {
					t.Errorf("turn %d was taken over, though the ticket was given back", i+1)
				}
			}
		})
	}
}

// TestAWorkerWakesForEverythingThatMakesAGoalRunnable: a new goal, an answer to
// an approval and to a question, a message, a resume, and a retry whose time
// has come, each told by another process.
func TestAWorkerWakesForEverythingThatMakesAGoalRunnable(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			if store == "postgres" {
				w, _ = onPostgres(t, toy())
			}
			refused := false
			p := w.serve("steps:\n"+stepRead+stepFix+stepCall("ask_user", map[string]any{"question": "Which name?"})+
				"  - {expect: {last_result_contains: [\"call it x\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"+stepTest+stepDone,
				func(r modeltest.Request) (modeltest.Answer, bool) {
					if refused {
						return modeltest.Answer{}, false
					}
					refused = true
					return modeltest.Answer{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}}, Body: "{}"}, true
				})
			worker := w.worker()
			goal := goalLine(w.must(0, "run", "repair code.txt", "--model", "openai:test-model", "--test", "sh check.sh", "--plan", "never", "--queue"))
			w.told(goal, "the question about the edit", func(s core.Snapshot) bool { return len(s.PendingApprovals) == 1 })
			w.must(0, "pause", goal)
			w.must(0, "approve", goal)
			w.must(0, "resume", goal, "--detach")
			w.told(goal, "the question", func(s core.Snapshot) bool { return s.WaitReason == event.WaitUserInput })
			w.must(0, "say", goal, "call it x")
			w.told(goal, "the question about the tests, or the end", func(s core.Snapshot) bool {
				if len(s.PendingApprovals) == 1 {
					w.must(0, "approve", goal)
				}
				return s.Status == "completed"
			})
			p.valid()
			inOrder(t, timelineNames(t, w, goal), "goal_waiting: retry_backoff", "goal_woken: retry_backoff", "approval_requested: file_patch",
				"approval_granted: file_patch", "tool_executed: file_patch", "goal_waiting: user_input", "goal_completed: verified")
			worker.kill()
		})
	}
}

func timelineNames(t *testing.T, w *world, goal string) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(w.must(0, "timeline", goal, "--json").out) {
		var e core.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		names = append(names, e.Name)
	}
	return names
}

// TestAGoalThatNobodyCanWorkOnWaitsAndNeverSpins: its directory is another
// goal's for the moment, or gone for good.
func TestAGoalThatNobodyCanWorkOnWaitsAndNeverSpins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	model := w.script("steps:\n" + stepCommand(gateCommand) + stepRead + stepFix + stepTest + stepDone)
	first := w.queue(model, "--sandbox", "none")
	worker := w.worker("--parallel", "3")
	g.open(worker)
	w.put(filepath.Join(w.dir, "other.yaml"), "steps:\n"+stepRead+stepTest+stepDone)
	second := w.queue("script:" + filepath.Join(w.dir, "other.yaml"))
	s := w.told(second, "it waits for the directory", func(s core.Snapshot) bool { return s.WaitReason == event.WaitRetry })
	if !strings.Contains(s.WaitDetail, first) {
		t.Errorf("it does not say for whom it waits: %q", s.WaitDetail)
	}
	w.put(filepath.Join(w.dir, "gone/code.txt"), "broken\n")
	third := w.queue(model, "--repo", filepath.Join(w.dir, "gone"), "--sandbox", "none")
	w.told(third, "a word on the third", func(s core.Snapshot) bool { return s.Turn != "" || s.WaitReason != "" || s.Status != "active" })
	g.close()
	w.told(first, "the first completes", is("completed"))
	w.told(second, "the second completes", is("completed"))
	worker.kill()
	worker.wait()
	for goal, most := range map[string]int{first: 0, second: 12} {
		if n := len(of[event.GoalWaiting](t, w.eventsOf(goal))); n > most {
			t.Errorf("goal %s waited %d times", goal, n)
		}
	}
}

// TestADirectoryThatIsGoneIsHandedOff: nothing mends itself there, and a
// person is told at once.
func TestADirectoryThatIsGoneIsHandedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	goal := w.queue(w.script(repair))
	b := w.at("state")
	w.aside("elsewhere")
	worker := b.worker()
	s := b.told(goal, "handed off", is("paused"))
	worker.kill()
	if s.PauseReason != event.PausedByHandoff || s.HandOff == nil || !strings.Contains(s.HandOff.Why, w.repo) {
		t.Errorf("paused for %s: %+v", s.PauseReason, s.HandOff)
	}
	if n := len(b.eventsOf(goal)); n > 6 {
		t.Errorf("%d events", n)
	}
}

// TestAGoalOverWhichWorkersDieIsHandedOff: the cap on recovery attempts.
func TestAGoalOverWhichWorkersDieIsHandedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	model := w.script("steps:\n  - {text: late, delay_ms: 600000}\n")
	goal := w.queue(model, "--max-tokens", "1000000000")
	for i := range core.MaxTakeovers + 1 {
		p := w.start("resume", goal, "--json")
		p.await(`"type":"model_requested"`)
		p.kill()
		if r := p.wait(); r.code == 0 {
			t.Fatalf("kill %d: %v", i, r)
		}
	}
	r := w.must(5, "resume", goal)
	hasLine(t, r, fmt.Sprintf("%d workers died", core.MaxTakeovers+1), "belay doctor")
	if s := w.snapshotOf(goal); s.Status != "paused" || s.Budget.Reserved.Tokens != 0 {
		t.Errorf("%s, reserved %+v", s.Status, s.Budget.Reserved)
	}
}

// TestADeadWorkersGoalIsTakenAtOnceOnTheSameMachine: nobody waits for the end
// of a lease whose holder is known to be gone.
func TestADeadWorkersGoalIsTakenAtOnceOnTheSameMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.lease("1h")
	g := w.gate()
	model := w.script("steps:\n" + stepCommand(gateCommand) + stepRead + stepFix + stepTest + stepDone)
	goal := w.queue(model, "--sandbox", "none")
	first := w.worker()
	g.open(first)
	second := w.worker()
	first.kill()
	w.told(goal, "a take-over", func(core.Snapshot) bool {
		ts := of[event.TurnStarted](t, w.eventsOf(goal))
		return len(ts) == 2 && ts[1].Takeover
	})
	g.close()
	w.told(goal, "completed", is("completed"))
	second.kill()
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
}

// stand stops a process where it stands; the result lets it go on.
func (p *process) stand() (goOn func()) {
	p.w.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.w.t.Fatal(err)
	}
	return func() {
		p.w.t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			p.w.t.Fatal(err)
		}
	}
}

// onceEach checks that every operation has one outcome and the chain holds.
func onceEach(t *testing.T, w *world, goal string) []record {
	t.Helper()
	es := w.eventsOf(goal)
	outcomes := map[string]int{}
	for _, e := range es {
		if e.Type == event.TypeOperationFinished {
			outcomes[e.Op]++
		}
	}
	for op, n := range outcomes {
		if n != 1 {
			t.Errorf("%s has %d outcomes", op, n)
		}
	}
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
	if a := w.must(0, "audit", goal); !strings.Contains(a.out, "the chain holds") {
		t.Errorf("%v", a)
	}
	return es
}

// TestAWorkerThatStoodStillIsReplaced: stopped past its lease, it loses the
// goal. On the same machine the directory is still its own, so the other one
// waits for that; when the first goes on, it records how its command ended and
// lets go. Nothing doubles.
func TestAWorkerThatStoodStillIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.lease("1s")
	g := w.gate()
	model := w.script("steps:\n" + stepCommand(gateCommand) + "  - {expect: {last_result_contains: [began, ended, \"exit code 5\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
	first := w.start(runToy(model, "--sandbox", "none", "--json")...)
	g.open(first)
	goal := w.goal()
	goOn := first.stand()
	second := w.worker()
	s := w.told(goal, "the second waits for the directory", func(s core.Snapshot) bool { return s.WaitReason == event.WaitRetry })
	if !strings.Contains(s.WaitDetail, "is being changed by goal "+goal) {
		t.Errorf("it waits because %q", s.WaitDetail)
	}
	g.close()
	waitFor(t, "the effect", func() bool { return w.readAt("effects.log") != "" })
	goOn()
	if r := first.wait(); !strings.Contains(r.err, "another worker holds the goal now") {
		t.Errorf("the first ends with %v", r)
	}
	w.told(goal, "completed", is("completed"))
	second.kill()
	es := onceEach(t, w, goal)
	if f := of[event.OperationFinished](t, es)[0]; f.Result.Command == nil || f.Result.Command.ExitCode != 5 || !f.Late {
		t.Errorf("recorded as %+v", f)
	}
}

// TestAWorkerThatStoodStillElsewhereBringsTheTruthLate: the other place can
// only call the command's outcome unknown, and goes on. When the first goes on,
// what its command did is recorded and settles the doubt; it moves nothing.
func TestAWorkerThatStoodStillElsewhereBringsTheTruthLate(t *testing.T) {
	t.Parallel()
	w, _ := onPostgres(t, toy())
	w.lease("1s")
	g := w.gate()
	model := w.script("steps:\n" + stepRead + stepFix + stepCommand(gateCommand) +
		"  - {expect: {last_result_contains: [\"outcome unknown\"]}, calls: [{tool: run_test, args: {}}]}\n" + stepDone)
	first := w.start(runToy(model, "--sandbox", "none", "--json")...)
	g.open(first)
	goal := w.goal()
	b := w.at("other")
	w.told(goal, "the edit is packed", func(core.Snapshot) bool { return len(of[event.WorkspacePacked](t, w.eventsOf(goal))) == 2 })
	goOn := first.stand()
	w.aside("repo.first")
	second := b.worker()
	s := b.told(goal, "the claim waits for a person", func(s core.Snapshot) bool { return s.WaitReason == event.WaitUserInput })
	if len(s.InDoubt) != 1 || b.read("code.txt") != "fixed\n" {
		t.Errorf("in doubt: %+v, code.txt %q", s.InDoubt, b.read("code.txt"))
	}
	g.close()
	waitFor(t, "the effect", func() bool { return w.readAt("effects.log") != "" })
	before := len(of[event.ModelRequested](t, b.eventsOf(goal)))
	goOn()
	if r := first.wait(); !strings.Contains(r.err, "another worker holds the goal now") {
		t.Errorf("the first ends with %v", r)
	}
	es := onceEach(t, b, goal)
	late := of[event.OperationReconciled](t, es)
	if len(late) != 1 || late[0].Result == nil || late[0].Result.Command.ExitCode != 5 || !strings.HasPrefix(string(late[0].By), "worker:") {
		t.Errorf("reconciled: %+v", late)
	}
	if s := b.snapshotOf(goal); s.Status != "active" || len(s.InDoubt) != 0 || s.WaitReason != event.WaitUserInput {
		t.Errorf("the late truth made it %s, waiting for %s, in doubt %+v", s.Status, s.WaitReason, s.InDoubt)
	}
	if n := len(of[event.ModelRequested](t, es)); n != before {
		t.Errorf("%d requests by a worker that was replaced", n-before)
	}
	second.kill()
}
