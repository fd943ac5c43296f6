package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/model/modeltest"
)

// The eight scenarios at the end of the second seed, against the built program.

// Scenario 1, 等待工具结果时用户暂停: the result is kept, the goal stays paused,
// nothing goes on by itself, also not with a worker at hand.
func TestSeed002PausedWhileAToolResultIsAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	model := w.script("steps:\n" + stepCommand(gateCommand) + "  - {expect: {last_result_contains: [ended, \"exit code 5\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
	goal := w.queue(model, "--sandbox", "none")
	worker := w.worker()
	g.open(worker)
	w.must(0, "pause", goal)
	g.close()
	s := w.told(goal, "the result is recorded", func(s core.Snapshot) bool { return len(s.OpenOperations) == 0 && s.Turn == "" })
	if s.Status != "paused" || s.PauseReason != event.PausedByUser {
		t.Errorf("the result made it %s (%s)", s.Status, s.PauseReason)
	}
	es := w.eventsOf(goal)
	if f := of[event.OperationFinished](t, es); len(f) != 1 || f[0].Result.Command.ExitCode != 5 {
		t.Errorf("recorded: %+v", f)
	}
	if n := len(of[event.ModelRequested](t, es)); n != 1 {
		t.Errorf("%d requests, of which %d while it was paused", n, n-1)
	}
	// The worker takes another goal meanwhile, so it had its chance.
	other := filepath.Join(w.dir, "other")
	for name, content := range toy() {
		w.put(filepath.Join(other, name), content)
	}
	w.put(filepath.Join(w.dir, "other.yaml"), repair)
	second := w.queue("script:"+filepath.Join(w.dir, "other.yaml"), "--repo", other)
	w.told(second, "the other goal completes", is("completed"))
	if n := len(w.eventsOf(goal)); n != len(es) {
		t.Errorf("%d events on a paused goal", n-len(es))
	}
	w.must(0, "resume", goal, "--detach")
	w.told(goal, "completed after the resume", is("completed"))
	worker.kill()
}

// Scenario 2, 用户取消后旧结果返回: a result that comes after the cancel is
// recorded as what really happened; it revives nothing.
func TestSeed002AnOldResultAfterTheCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	model := w.script("steps:\n" + stepCommand(gateCommand) + stepRead + stepFix + stepTest + stepDone)
	p := w.start(runToy(model, "--sandbox", "none", "--json")...)
	g.open(p)
	goal := w.goal()
	// The worker stands still, so that the command ends by itself before the
	// cancel reaches it.
	goOn := p.stand()
	g.close()
	waitFor(t, "the effect", func() bool { return w.readAt("effects.log") != "" })
	w.must(0, "cancel", goal, "--reason", "changed my mind")
	goOn()
	if r := p.wait(); r.code != 7 {
		t.Errorf("%v", r)
	}
	es := onceEach(t, w, goal)
	f := of[event.OperationFinished](t, es)
	if len(f) != 1 || f[0].Result.Command == nil || f[0].Result.Command.ExitCode != 5 || !f[0].Late {
		t.Errorf("recorded: %+v", f)
	}
	if s := w.snapshotOf(goal); s.Status != "cancelled" || s.Turn != "" || len(s.OpenOperations) != 0 {
		t.Errorf("it is %s, turn %q, open %+v", s.Status, s.Turn, s.OpenOperations)
	}
	if n := len(of[event.ModelRequested](t, es)); n != 1 {
		t.Errorf("%d requests", n)
	}
	w.must(7, "resume", goal)
}

// Scenario 3, 两个 worker 同时被唤醒: one of many gets each turn. (That the
// result of one whose lease ended changes nothing is shown in workers_test.go.)
func TestSeed002ManyWorkersWakeAtOnce(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			if store == "postgres" {
				w, _ = onPostgres(t, toy())
			}
			var workers []*process
			for range 5 {
				workers = append(workers, w.worker())
			}
			goal := w.queue(w.script("steps:\n"+stepCall("run_command", map[string]any{"command": "echo effect >> ../effects.log"})+stepRead+stepFix+stepTest+stepDone), "--sandbox", "none")
			w.told(goal, "completed", is("completed"))
			for _, p := range workers {
				p.kill()
			}
			es := onceEach(t, w, goal)
			ts := of[event.TurnStarted](t, es)
			if len(ts) != 1 || ts[0].Takeover {
				t.Errorf("turns: %+v", ts)
			}
		})
	}
}

// Scenario 4, 目标修改期间验收返回: the verdict on the older version is refused,
// and the newest criteria are judged.
func TestSeed002RevisedWhileItIsVerified(t *testing.T) {
	t.Parallel()
	// The instant is short: a run that got past it before it could be stopped
	// says nothing and is made again.
	for range 20 {
		files := toy()
		for i := range 3000 {
			files[fmt.Sprintf("many/%d/%d.txt", i%50, i)] = "x\n"
		}
		w := newWorld(t, files)
		model := w.script("steps:\n" + stepRead + stepFix + stepTest + stepDone +
			"  - {expect: {contains: [\"sh other.sh\"]}, calls: [{tool: write_file, args: {path: other.sh, content: \"echo 2 passed in 0.1s\\n\"}}]}\n" +
			stepCall("run_test", map[string]any{"command": "sh other.sh"}) + stepDone)
		p := w.start(runToy(model, "--json")...)
		p.await(`"type":"verification_started"`)
		goOn := p.stand()
		goal := w.goal()
		if len(of[event.VerificationFinished](t, w.eventsOf(goal))) > 0 {
			p.kill()
			continue
		}
		if s := w.snapshotOf(goal); s.Status != "verifying" {
			t.Fatalf("it is %s", s.Status)
		}
		w.must(0, "revise", goal, "also the other", "--test", "sh other.sh")
		goOn()
		if r := p.wait(); r.code != 0 {
			t.Fatalf("%v", r)
		}
		es := w.eventsOf(goal)
		for _, v := range of[event.VerificationFinished](t, es) {
			if v.Version == 1 && v.Refused == "" {
				t.Errorf("a verdict on version 1 counted: %+v", v)
			}
		}
		if c := of[event.GoalCompleted](t, es); len(c) != 1 || c[0].Version != 2 {
			t.Errorf("completed: %+v", c)
		}
		return
	}
	t.Fatal("the verification was never caught in the middle")
}

// Scenario 5, 写操作成功后进程崩溃: the write happened, its record did not. What
// happened is found out, and it is not done again.
func TestSeed002CrashAfterTheWrite(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"the worker", "the worker and the shim"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			g := w.gate()
			after := "  - {expect: {last_result_contains: [written, \"exit code 4\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"
			if gone != "the worker" {
				after = "  - {expect: {last_result_contains: [\"outcome unknown\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"
			}
			model := w.script("steps:\n" + stepCommand("echo effect >> ../effects.log; echo written; cat ../gate; exit 4") + after + stepFix + stepTest + stepDone + stepDone)
			p := w.start(runToy(model, "--sandbox", "none")...)
			goal := strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
			g.open(p)
			waitFor(t, "the write", func() bool { return w.readAt("effects.log") == "effect\n" })
			p.kill()
			p.wait()
			if gone != "the worker" {
				if err := syscall.Kill(w.shim(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				w.must(3, "resume", goal)
				if s := w.snapshotOf(goal); len(s.InDoubt) != 1 {
					t.Errorf("in doubt: %+v", s.InDoubt)
				}
				w.must(0, "reconcile", goal, "op1", "--succeeded", "--reason", "the line is there")
				if left, _ := filepath.Glob(filepath.Join(w.dir, "state/spool/[^.]*")); len(left) != 0 {
					t.Errorf("the spool still holds what it printed: %v", left)
				}
				w.must(0, "resume", goal)
				onceEach(t, w, goal)
				return
			}
			g.close()
			w.must(0, "resume", goal)
			if f := of[event.OperationFinished](t, onceEach(t, w, goal)); f[0].Result.Command.ExitCode != 4 || f[0].Recovered != "reattached" {
				t.Errorf("recorded: %+v", f[0])
			}
		})
	}
}

// Scenario 6, 压缩后重启: what is not done, what is waited for, and where the
// evidence is outlive both.
func TestSeed002RestartAfterCompaction(t *testing.T) {
	t.Parallel()
	files := toy()
	files["big.txt"] = strings.Repeat("a line of a file that is long\n", 350)
	w := newWorld(t, files)
	big := stepCall("read_file", map[string]any{"path": "big.txt"})
	model := "openai"
	p := w.serve("steps:\n  - {calls: [{tool: update_todos, args: {todos: [{content: repair the code, status: in_progress}, {content: tell the user, status: pending}]}}, {tool: run_test, args: {}}]}\n"+
		big+big+big+big+"  - {when: {contains: [compacted]}, calls: [{tool: ask_user, args: {question: Which name?}}]}\n"+
		"  - {when: {last_result_contains: [\"call it x\"]}, calls: [{tool: file_patch, args: {path: code.txt, old_string: broken, new_string: fixed}}]}\n"+
		"  - {when: {last_result_contains: [code.txt]}, calls: [{tool: run_test, args: {}}]}\n  - {when: {last_result_contains: [\"1 passed\"]}, calls: [{tool: finish, args: {summary: done}}]}\n",
		func(r modeltest.Request) (modeltest.Answer, bool) {
			return modeltest.Answer{Status: 413, Body: `{"error":{"message":"Request exceeds the maximum size"}}`}, len(r.Body) > 36<<10
		})
	w.must(3, runToy(model+":test-model", "--json")...)
	goal := w.goal()
	if len(of[event.ContextCompacted](t, w.eventsOf(goal))) == 0 {
		t.Fatal("nothing was compacted")
	}
	s := w.snapshotOf(goal)
	if s.WaitReason != event.WaitUserInput || len(s.Todos) != 2 {
		t.Errorf("waits for %s, todos %+v", s.WaitReason, s.Todos)
	}
	// Another process, after the restart.
	asked := len(p.chats())
	w.must(0, "say", goal, "call it x")
	r := w.belay("resume", goal)
	p.valid()
	next := string(p.chats()[asked].Body)
	for _, want := range []string{"repair the code", "tell the user", "sh check.sh", "op2", "exit code 1", "call it x"} {
		if !strings.Contains(next, want) {
			t.Errorf("the first request after the restart does not hold %q: %v", want, r)
		}
	}
	if log := w.must(0, "log", goal, "op2"); !strings.Contains(log.out, "not fixed") {
		t.Errorf("the evidence behind the reference: %v", log)
	}
}

// Scenario 7, 预算耗尽或重复失败: it stops, says why, and is not called done.
func TestSeed002BudgetOrRepeatedFailureStopsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps string
		flags []string
		code  int
		why   string
	}{
		"steps":            {"steps:\n" + stepRead + stepRead + stepRead + stepRead, []string{"--max-steps", "2"}, 4, "budget of steps"},
		"tokens":           {"steps:\n" + stepRead + stepRead + stepRead + stepRead, []string{"--max-tokens", "9000"}, 4, "budget of tokens"},
		"repeated failure": {"steps:\n  - {calls: [{tool: run_command, args: {command: \"echo no; exit 3\"}}], repeat: 40}\n", nil, 5, "the same way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			worker := w.worker()
			goal := w.queue(w.script(c.steps), c.flags...)
			s := w.told(goal, "it stops", is("paused"))
			worker.kill()
			worker.wait()
			if s.HandOff == nil || !strings.Contains(s.HandOff.Why, c.why) {
				t.Errorf("it does not say why: %+v", s.HandOff)
			}
			// A resume without more budget gets no further.
			asked := len(of[event.ModelRequested](t, w.eventsOf(goal)))
			if r := w.belay("resume", goal); c.code == 4 && r.code != 4 && r.code != 2 {
				t.Errorf("a resume without more budget: %v", r)
			}
			if n := len(of[event.ModelRequested](t, w.eventsOf(goal))); c.code == 4 && n != asked {
				t.Errorf("%d requests more", n-asked)
			}
			if n := len(of[event.GoalCompleted](t, w.eventsOf(goal))); n != 0 {
				t.Error("it was called completed")
			}
		})
	}
}

// Scenario 8, 模型声称完成但缺证据: the claim is found incomplete, and the goal
// goes on to get the evidence.
func TestSeed002AClaimWithoutEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	missing := "  - {expect: {last_result_contains: [\"sh check.sh\"]}, calls: [{tool: run_test, args: {}}]}\n"
	worker := w.worker()
	goal := w.queue(w.script("steps:\n" + stepRead + stepFix + stepDone + missing + stepDone))
	w.told(goal, "completed", is("completed"))
	worker.kill()
	vs := of[event.VerificationFinished](t, w.eventsOf(goal))
	if len(vs) != 2 || vs[0].Verdict.Verdict == event.Complete || len(vs[0].Verdict.Missing) == 0 || vs[1].Verdict.Verdict != event.Complete {
		t.Errorf("verdicts: %+v", vs)
	}
	if s := w.snapshotOf(goal); s.How != event.Verified {
		t.Errorf("completed as %s", s.How)
	}
}

// shim is the process of the only shim of this world.
func (w *world) shim() int {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "state/spool/*/shim.json"))
	if err != nil || len(files) != 1 {
		w.t.Fatalf("%v %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		w.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(string(b), `{"pid":%d`, &pid); err != nil || pid < 2 {
		w.t.Fatalf("%v in %s", err, b)
	}
	return pid
}
