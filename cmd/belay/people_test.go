package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/event"
)

// gate is a FIFO beside the repository that a command of a test reads: the
// command runs from when open returns until the gate is closed.
type gate struct {
	w    *world
	path string
	file *os.File
}

func (w *world) gate() *gate {
	w.t.Helper()
	g := &gate{w: w, path: filepath.Join(w.dir, "gate")}
	if err := unix.Mkfifo(g.path, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return g
}

// open waits until the command has begun.
func (g *gate) open(p *process) {
	g.w.t.Helper()
	opened := make(chan *os.File, 1)
	go func() {
		f, err := os.OpenFile(g.path, os.O_WRONLY, 0)
		if err == nil {
			opened <- f
		}
	}()
	select {
	case g.file = <-opened:
		g.w.t.Cleanup(func() { _ = g.file.Close() }) // not before: the collector closes what nobody holds
	case <-p.done:
		g.w.t.Fatalf("the command never ran: %v", p.wait())
	case <-time.After(patience):
		p.kill()
		g.w.t.Fatalf("the command did not begin: %v", p.wait())
	}
}

// close lets the command end.
func (g *gate) close() {
	g.w.t.Helper()
	if err := g.file.Close(); err != nil {
		g.w.t.Fatal(err)
	}
}

// blocked is a goal whose command waits at the gate, and whose effect is one
// line.
func blocked(t *testing.T, after string, more ...string) (*world, *gate, *process, string) {
	t.Helper()
	w := newWorld(t, toy())
	g := w.gate()
	model := w.script("steps:\n" + stepCommand("echo began; cat ../gate; echo effect >> ../effects.log; echo ended; exit 5") + after)
	p := w.start(runToy(model, more...)...)
	goal := strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	g.open(p)
	w.id = goal
	return w, g, p, goal
}

// alive reports whether a process that a command told of still runs.
func (w *world) alive(name string) bool {
	w.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(w.readAt(name)))
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return syscall.Kill(pid, 0) == nil && !strings.Contains(stat(pid), ") Z ")
}

func stat(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return string(b)
}

func TestAPauseLetsTheCommandEndAndKeepsTheGoalPaused(t *testing.T) {
	t.Parallel()
	w, g, p, goal := blocked(t, "  - {expect: {last_result_contains: [\"began\", \"ended\", \"exit code 5\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n"+stepFix+stepTest+stepDone)
	w.must(0, "pause", goal[:4])
	if r := w.must(2, "pause", goal); !strings.Contains(r.err, "paused already") {
		t.Errorf("a second pause: %v", r)
	}
	if s := w.snapshot(); s.Status != "paused" || len(s.OpenOperations) != 1 {
		t.Errorf("while the command runs: %s, %d open", s.Status, len(s.OpenOperations))
	}
	g.close()
	r := p.wait()
	if r.code != 3 {
		t.Errorf("want exit 3: %v", r)
	}
	names := w.timeline()
	inOrder(t, names, "goal_paused: user", "tool_failed: run_command", "agent_loop_stopped: paused")
	if n := len(of[event.ModelRequested](t, w.events())); n != 1 {
		t.Errorf("%d requests, the second while the goal was paused", n)
	}
	w.must(0, "resume", goal)
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
	if w.read("code.txt") != "fixed\n" {
		t.Error("the goal was not reached after the resume")
	}
}

func TestCancelEndsTheWholeProcessTree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with a worker", "after the worker was killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			g := w.gate()
			model := w.script("steps:\n" + stepCommand("sh -c 'echo $$ > ../child; exec sleep 1000' & setsid sh -c 'echo $$ > ../stray; cat ../gate; exec sleep 1000' & echo $$ > ../shell; touch started.txt; wait"))
			p := w.start(runToy(model)...)
			goal := strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
			g.open(p)
			waitFor(t, "the processes", func() bool { return w.readAt("child") != "" && w.readAt("shell") != "" && w.readAt("stray") != "" })
			if name == "with a worker" {
				r := w.must(0, "cancel", goal, "--reason", "changed my mind")
				if !strings.Contains(r.out, "cancel requested") && !strings.Contains(r.out, "nothing runs any more") {
					t.Errorf("does not say what has happened: %v", r)
				}
				if r := p.wait(); r.code != 7 {
					t.Errorf("want exit 7: %v", r)
				}
			} else {
				p.kill()
				p.wait()
				if !w.alive("child") {
					t.Error("the command died with its worker")
				}
				if r := w.must(0, "cancel", goal); !strings.Contains(r.out, "nothing runs any more") {
					t.Errorf("does not say that it is over: %v", r)
				}
			}
			for _, f := range []string{"child", "stray", "shell"} {
				if w.alive(f) {
					t.Errorf("%s outlived the cancel", f)
				}
			}
			es := w.events()
			if fs := of[event.OperationFinished](t, es); len(fs) != 1 || fs[0].Outcome != event.Cancelled {
				t.Errorf("the command is recorded as %+v", fs)
			}
			if r := w.must(7, "resume", goal); !strings.Contains(r.out, "cancelled") {
				t.Errorf("resume of a cancelled goal: %v", r)
			}
			for _, args := range [][]string{{"pause", goal}, {"say", goal, "go on"}, {"cancel", goal}, {"approve", goal}} {
				if r := w.must(2, args...); !strings.Contains(r.err, "has ended") {
					t.Errorf("%v", r)
				}
			}
		})
	}
}

// waitFor polls what the operating system gives no event for.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestARevisionIsWhatIsJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	go2 := filepath.Join(w.dir, "go")
	model := w.script("steps:\n" + stepRead + stepFix +
		"  - {block_until_file: " + go2 + ", calls: [{tool: run_test, args: {command: sh check.sh}}]}\n" +
		stepDone +
		"  - {expect: {contains: [\"sh other.sh\", \"also other.txt\"]}, calls: [{tool: write_file, args: {path: other.sh, content: \"echo 2 passed in 0.1s\\n\"}}]}\n" +
		stepCall("run_test", map[string]any{"command": "sh other.sh"}) + stepDone)
	p := w.start(runToy(model, "--json")...)
	p.await(`"type":"diff_updated"`)
	p.await(`"request":"r3"`)
	goal := w.goal()
	if r := w.must(2, "revise", goal); !strings.Contains(r.err, "say what changes") {
		t.Errorf("%v", r)
	}
	w.must(0, "revise", goal, "also other.txt", "--test", "sh other.sh")
	w.put(go2, "")
	if r := p.wait(); r.code != 0 {
		t.Fatalf("%v", r)
	}
	s := w.snapshot()
	if s.GoalVersion != 2 || len(s.Criteria) != 1 || s.Criteria[0].Command != "sh other.sh" || s.Text != "also other.txt" {
		t.Errorf("the goal is %q, version %d, %+v", s.Text, s.GoalVersion, s.Criteria)
	}
	if c := of[event.GoalCompleted](t, w.events()); len(c) != 1 || c[0].Version != 2 {
		t.Errorf("completed: %+v", c)
	}
}

func TestSteeringReachesTheRunningTurnAndAMessageGetsItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		flags []string
		turns int
	}{{"steer", []string{"--steer"}, 1}, {"message", nil, 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			next := filepath.Join(w.dir, "go")
			seen := "  - {expect: {contains: [\"[user] Mind the gap\"]}, calls: [{tool: file_patch, args: {path: code.txt, old_string: broken, new_string: fixed}}]}\n"
			steps := "steps:\n" + "  - {block_until_file: " + next + ", calls: [{tool: read_file, args: {path: code.txt}}]}\n"
			if c.name == "message" {
				// It is taken in once this turn is over: here by a claim, which it outranks.
				steps += "  - {expect: {not_contains: [\"Mind the gap\"]}, text: That was it.}\n"
			}
			model := w.script(steps + seen + stepTest + stepDone)
			p := w.start(runToy(model, "--json")...)
			p.await(`"type":"model_requested"`)
			w.must(0, append([]string{"say", w.goal(), "Mind the gap"}, c.flags...)...)
			w.put(next, "")
			if r := p.wait(); r.code != 0 {
				t.Fatalf("%v", r)
			}
			if n := len(of[event.TurnStarted](t, w.events())); n != c.turns {
				t.Errorf("%d turns, want %d:\n%s", n, c.turns, strings.Join(w.timeline(), "\n"))
			}
		})
	}
}

func TestAQuestionIsAnsweredByAnotherProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	model := w.script("steps:\n" + stepCall("ask_user", map[string]any{"question": "Red or blue?", "options": []string{"red", "blue"}}) +
		"  - {expect: {last_result_contains: [\"blue, of course\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
	r := w.must(3, runToy(model)...)
	if !strings.Contains(r.out, "Red or blue?") {
		t.Errorf("the question is not shown: %v", r)
	}
	if s := w.snapshot(); s.WaitReason != event.WaitUserInput || s.WaitDetail != "Red or blue?" {
		t.Errorf("waits for %s: %s", s.WaitReason, s.WaitDetail)
	}
	w.must(3, "resume", w.goal()) // nobody has answered yet, and nothing is asked twice
	if r := w.must(0, "say", w.goal(), "blue, of course"); !strings.Contains(r.out, "belay resume") {
		t.Errorf("does not say how it goes on: %v", r)
	}
	w.must(0, "resume", w.goal())
	if n := len(of[event.ModelRequested](t, w.events())); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
}

func TestAnApprovalTravelsFromOneProcessToAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	run := []string{"run", "repair code.txt", "--model", w.script(repair), "--test", "sh check.sh", "--plan", "never"}
	r := w.must(3, run...)
	goal := w.goal()
	s := w.snapshot()
	if len(s.PendingApprovals) != 1 || !strings.Contains(s.PendingApprovals[0].Intent.Preview.Head, "+fixed") {
		t.Fatalf("pending: %+v", s.PendingApprovals)
	}
	op := s.PendingApprovals[0].Op
	if !strings.Contains(r.out, "belay approve "+goal+" "+op) {
		t.Errorf("does not say how to answer: %v", r)
	}
	if w.read("code.txt") != "broken\n" {
		t.Fatal("written before it was approved")
	}
	if r := w.must(2, "approve", goal, "op77"); !strings.Contains(r.err, "op77") {
		t.Errorf("%v", r)
	}
	if r := w.must(2, "approve", goal, op, "--intent", "another"); !strings.Contains(r.err, "changed since it was shown") {
		t.Errorf("%v", r)
	}
	w.must(0, "approve", goal[:3], op)
	for _, args := range [][]string{{"approve", goal, op}, {"approve", goal}, {"deny", goal, op}} {
		if r := w.must(2, args...); !strings.Contains(r.err, "answered") {
			t.Errorf("a second answer: %v", r)
		}
	}
	w.must(0, "resume", goal)
	if r := w.must(2, "approve", goal, op); !strings.Contains(r.err, "has ended") {
		t.Errorf("%v", r)
	}
	g := of[event.ApprovalGranted](t, w.events())
	if len(g) != 1 || g[0].By != event.ActorUser {
		t.Errorf("granted: %+v", g)
	}
}

func TestADenialSticks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	model := w.script("steps:\n" + stepRead + strings.Replace(stepFix, "{calls", "{repeat: 5, calls", 1))
	run := []string{"run", "repair code.txt", "--model", model, "--test", "sh check.sh", "--plan", "never"}
	w.must(3, run...)
	w.must(0, "deny", w.goal(), "--reason", "not like this")
	r := w.belay("resume", w.goal())
	if r.code == 0 || r.code == 3 {
		t.Errorf("after a denial that is insisted on: %v", r)
	}
	es := w.events()
	if n := len(of[event.ApprovalRequested](t, es)); n != 1 {
		t.Errorf("the same thing was asked %d times", n)
	}
	told := 0
	for _, rej := range of[event.OperationRejected](t, es) {
		if strings.Contains(rej.Fault.Message, "not like this") {
			told++
		}
	}
	if told == 0 {
		t.Error("the model was not told why")
	}
	if w.read("code.txt") != "broken\n" {
		t.Error("it was done all the same")
	}
}

func TestAnApprovalIsVoidWhenWhatItAnsweredHasChanged(t *testing.T) {
	t.Parallel()
	files := toy()
	files["deploy.sh"] = "echo one >> ../effects.log\n"
	w := newWorld(t, files)
	deploy := stepCall("run_command", map[string]any{"command": "sh deploy.sh", "timeout_s": 20})
	model := w.script("steps:\n" + deploy + strings.Replace(deploy, "20", "30", 1) + stepRead + stepFix + stepTest + stepDone)
	run := []string{"run", "repair code.txt", "--model", model, "--test", "sh check.sh", "--plan", "never"}
	w.must(3, run...)
	goal := w.goal()
	w.must(0, "approve", goal)
	w.put(filepath.Join(w.repo, "deploy.sh"), "echo two >> ../effects.log\n")
	r := w.must(3, "resume", goal)
	if got := w.readAt("effects.log"); got != "" {
		t.Fatalf("ran under an approval of something else: %q", got)
	}
	asked := of[event.ApprovalRequested](t, w.events())
	if len(asked) != 2 || !asked[1].Renewed || asked[0].Intent.Hash == asked[1].Intent.Hash {
		t.Fatalf("asked: %+v\n%v", asked, r)
	}
	w.must(0, "approve", goal)
	r = w.belay("resume", goal)
	if got := w.readAt("effects.log"); got != "two\n" {
		t.Errorf("effects: %q: %v", got, r)
	}
	// The second proposal differs in its time limit only; an approval is used
	// once, so it is asked for.
	if n := len(of[event.ApprovalRequested](t, w.events())); n != 3 || r.code != 3 {
		t.Errorf("asked %d times: %v", n, r)
	}
}

func TestApproveAutoAndNeverAreOnRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.must(0, runToy(w.script(repair))...)
	if g := of[event.ApprovalGranted](t, w.events()); len(g) != 1 || g[0].By != event.ActorPolicy {
		t.Errorf("granted: %+v", g)
	}
	w = newWorld(t, toy())
	w.must(5, "run", "repair code.txt", "--model", w.script(repair), "--test", "sh check.sh", "--plan", "never", "--approve", "never")
	if d := of[event.ApprovalDenied](t, w.events()); len(d) != 1 || d[0].By != event.ActorPolicy {
		t.Errorf("denied: %+v", d)
	}
	if w.read("code.txt") != "broken\n" {
		t.Error("written under --approve never")
	}
}

// TestNobodyIsAskedOnAnOpenPipe: the prompt is an argument, so a standard
// input that never says anything must not matter.
func TestNobodyIsAskedOnAnOpenPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	silent, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	defer silent.Close()
	run := []string{"run", "repair code.txt", "--model", w.script(repair), "--test", "sh check.sh", "--plan", "never"}
	if r := w.startWith(silent, run...).wait(); r.code != 3 {
		t.Errorf("want exit 3: %v", r)
	}
	// A command of the model does not get it either.
	w2 := newWorld(t, toy())
	if r := w2.startWith(silent, runToy(w2.script("steps:\n"+stepCommand("cat; read x; echo on"))+"", "--max-steps", "1")...).wait(); r.code != 4 {
		t.Errorf("want exit 4: %v", r)
	}
	// Only a dash reads it.
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.WriteString("look at code.txt\n"); err != nil {
		t.Fatal(err)
	}
	to.Close()
	w3 := newWorld(t, toy())
	if r := w3.startWith(from, "run", "-", "--model", w3.script("steps: [{text: x}]"), "--plan", "never").wait(); r.code != 3 {
		t.Errorf("want exit 3: %v", r)
	}
	if s := w3.snapshot(); s.Text != "look at code.txt" {
		t.Errorf("the goal is %q", s.Text)
	}
}

// terminal is a pseudo-terminal: what a person sees and types.
type terminal struct {
	master, slave *os.File
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(m.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(m.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	s, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &terminal{master: m, slave: s}
}

func TestATerminalAsksInlineWithTheDiffInColour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	tty := newTerminal(t)
	model := w.script("steps:\n" + stepCall("ask_user", map[string]any{"question": "Which \x1b[31mcolour?"}) + stepRead + stepFix + stepTest + stepDone)
	p := w.attach(tty, "run", "repair code.txt", "--model", model, "--test", "sh check.sh", "--plan", "never")
	p.await(`Which \\x1b\[31mcolour\?`)
	p.prompt(`> `)
	tty.say(t, "blue")
	p.await(`approve\?.*file_patch`)
	p.await("\x1b\\[31m-broken\x1b\\[0m")
	p.await("\x1b\\[32m\\+fixed\x1b\\[0m")
	p.prompt(`or a message: `)
	tty.say(t, "y")
	p.await("goal_completed: verified")
	if r := p.wait(); r.code != 0 {
		t.Errorf("%v", r)
	}
	if w.read("code.txt") != "fixed\n" {
		t.Error("not repaired")
	}
	g := of[event.ApprovalGranted](t, w.events())
	if len(g) != 1 || g[0].By != event.ActorUser {
		t.Errorf("granted: %+v", g)
	}
}

// TestATerminalNoticesThatSomebodyElseAnswered: the first answer wins.
func TestATerminalNoticesThatSomebodyElseAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	tty := newTerminal(t)
	p := w.attach(tty, "run", "repair code.txt", "--model", w.script(repair), "--test", "sh check.sh", "--plan", "never")
	p.prompt(`or a message: `)
	w.must(0, "approve", w.goal())
	p.await("goal_completed: verified")
	if r := p.wait(); r.code != 0 || !strings.Contains(r.out, "(answered)") {
		t.Errorf("%v", r)
	}
}

// say types a line.
func (tty *terminal) say(t *testing.T, line string) {
	t.Helper()
	if _, err := tty.master.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}
