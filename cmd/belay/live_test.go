package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// pane is belay in a real terminal: tmux draws what it prints and types what a
// person types.
type pane struct {
	w      *world
	socket string
}

// pane starts a command line of belay in a terminal of the given size.
func (w *world) pane(width, height int, env []string, args ...string) *pane {
	w.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		w.t.Skip("tmux is not installed: the live view in a real terminal is NOT tested")
	}
	p := &pane{w: w, socket: filepath.Join(w.dir, fmt.Sprintf("tmux%d", len(args)+width))}
	words := []string{"env", "-i", "TERM=xterm-256color"}
	for _, e := range w.env {
		if !strings.HasPrefix(e, "BELAY_PLAIN=") {
			words = append(words, e)
		}
	}
	exe, err := exec.LookPath("belay")
	if err != nil {
		w.t.Fatal(err)
	}
	words = append(append(words, env...), exe)
	line := "cd " + quoted(w.repo) + " && "
	for _, a := range append(words, args...) {
		line += quoted(a) + " "
	}
	line += "; echo ENDED $?; cat"
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), line)
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("the screen:\n%s", p.screen())
		}
		_ = exec.Command("tmux", "-S", p.socket, "kill-server").Run() // it may have ended
	})
	return p
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" }

func (p *pane) tmux(args ...string) string {
	p.w.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.w.t.Fatalf("tmux %s: %v: %s", args, err, out)
	}
	return string(out)
}

func (p *pane) screen() string { return p.tmux("capture-pane", "-p") }

// shows waits until the screen matches.
func (p *pane) shows(pattern string) string {
	p.w.t.Helper()
	re, s := regexp.MustCompile(pattern), ""
	waitFor(p.w.t, fmt.Sprintf("%q on the screen", pattern), func() bool {
		s = p.screen()
		return re.MatchString(s)
	})
	return s
}

func (p *pane) types(text string) { p.w.t.Helper(); p.tmux("send-keys", "-l", text) }

func (p *pane) press(key string) { p.w.t.Helper(); p.tmux("send-keys", key) }

// liveRun is a run that waits at a gate, then edits with an approval.
func liveRun(w *world) []string {
	return []string{"run", "repair code.txt", "--model", w.script("steps:\n" + stepRead + stepCommand(gateCommand) + stepFix + stepTest + stepDone),
		"--test", "sh check.sh", "--plan", "never"}
}

// pass lets the command at the gate end.
func pass(t *testing.T, g *gate) {
	t.Helper()
	f, err := os.OpenFile(g.path, os.O_WRONLY, 0) // waits for the command
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTheLiveView: a person watches a run, steers it, pauses and resumes it,
// makes the terminal smaller, reads the diff and approves it.
func TestTheLiveView(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	p := w.pane(100, 30, nil, liveRun(w)...)
	p.shows(`approve run_command(?s).*\[y\]es`)
	p.press("y")
	p.shows(`│ began`) // the command's output, while it runs
	p.press("s")
	p.types("keep it small")
	p.shows(`steer> keep it small`)
	p.press("Enter")
	p.shows(`user_message: steer`)
	p.press("p")
	p.shows(`paused: user`)
	if s := w.snapshot(); s.Status != lifecycle.Paused {
		t.Errorf("the goal is %s", s.Status)
	}
	pass(t, g)
	p.shows(`tool_failed: run_command`)
	p.press("r")
	p.shows(`approve file_patch`)
	p.tmux("resize-window", "-x", "50", "-y", "14")
	p.shows(`\[m\]essage  \[p…`) // drawn anew: what tmux still shows of the larger one is no answer
	s := p.shows(`(?m)^\+fixed`)
	for _, l := range strings.Split(s, "\n") {
		if len([]rune(l)) > 50 {
			t.Errorf("%q is wider than the terminal", l)
		}
	}
	p.press("y")
	p.shows(`completed: verified(?s).*ENDED 0`)
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
}

// TestCancelInTheLiveView: it asks first, then ends the goal and what runs.
func TestCancelInTheLiveView(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.gate()
	p := w.pane(90, 24, nil, append(liveRun(w), "--approve", "auto")...)
	p.shows(`│ began`)
	p.press("c")
	p.shows(`cancel this goal for good\?`)
	p.press("x")
	p.shows(`not cancelled`)
	p.press("c")
	p.shows(`cancel this goal for good\?`)
	p.press("y")
	p.shows(`ENDED 7`)
}

// TestLeavingTheLiveView: what runs goes on under its shim and the goal is
// resumed where it was.
func TestLeavingTheLiveView(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	p := w.pane(90, 24, nil, append(liveRun(w), "--approve", "auto")...)
	p.shows(`│ began`)
	p.press("q")
	p.shows(`ENDED 130`)
	pass(t, g)
	w.must(0, "resume", w.goal())
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
}

// TestAttachAndTop: a goal that a worker drives is found in the list, watched,
// denied with a reason from the terminal, and left.
func TestAttachAndTop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	worker := w.worker()
	goal := w.queue(w.script("steps:\n"+stepRead+stepFix+"  - {block_until_file: "+filepath.Join(w.dir, "never")+", text: x}\n"), "--approve", "ask")
	p := w.pane(100, 24, []string{"NO_COLOR=1"}, "top")
	p.shows(`1 wait for you`)
	p.press("Enter")
	p.shows(`approve file_patch(?s).*\+fixed`)
	if raw := p.tmux("capture-pane", "-p", "-e"); strings.Contains(raw, "\x1b[32m") || strings.Contains(raw, "\x1b[31m") {
		t.Errorf("colours although none are wanted: %q", raw)
	}
	p.press("n")
	p.types("not like this")
	p.press("Enter")
	p.shows(`approval_denied`)
	if d := of[event.ApprovalDenied](t, w.eventsOf(goal)); len(d) != 1 || d[0].Reason != "not like this" {
		t.Errorf("%+v", d)
	}
	p.press("q")
	p.shows(`1 goals: 0 wait for you, 1 run`)
	p.press("q")
	p.shows(`ENDED 0`)
	select {
	case <-worker.done:
		t.Error("the worker ended with the view")
	default:
	}
	w.must(0, "cancel", goal)
}

// TestAttachShowsWhatAnotherProcessRuns: its output streams in, from its start,
// and watching it changes nothing.
func TestAttachShowsWhatAnotherProcessRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	w.worker()
	goal := w.queue(w.script("steps:\n" + stepCommand(gateCommand) + stepRead + stepFix + stepTest + stepDone))
	waitFor(t, "the command", func() bool { return len(of[event.OperationStarted](t, w.eventsOf(goal))) > 0 })
	p := w.pane(90, 24, nil, "attach", goal)
	p.shows(`│ began`)
	pass(t, g)
	p.shows(`completed: verified`)
	p.press("q")
	p.shows(`completed: verified(?s).*ENDED 0`)
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
}

// TestPeopleAreTold: when a goal waits for them and when it has ended, by a
// command that gets no credentials, in the foreground, in the background and by
// a worker.
func TestPeopleAreTold(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(w *world, model string){
		"run":    func(w *world, model string) { w.must(3, askingRun(model)...) },
		"detach": func(w *world, model string) { w.must(0, askingRun(model, "--detach")...) },
		"worker": func(w *world, model string) { w.worker(); w.queue(model, "--approve", "ask") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			w.env = append(w.env, "OPENAI_API_KEY=sk-0123456789abcdefghijklmn",
				`BELAY_NOTIFY=echo "$BELAY_SUMMARY key=$OPENAI_API_KEY" >> `+filepath.Join(w.dir, "told"))
			start(w, w.script("steps:\n"+stepRead+stepFix+stepTest+stepDone))
			waitFor(t, "the question", func() bool {
				return strings.Contains(w.readAt("told"), "waits for an approval: op2 file_patch: repair code.txt key=\n")
			})
			goal := w.listed()
			w.must(0, "approve", goal)
			if name != "worker" {
				w.belay("resume", goal) // unless the background process is still there
			}
			waitFor(t, "the end", func() bool { return strings.Contains(w.readAt("told"), "completed (verified)") })
			if n := strings.Count(w.readAt("told"), "\n"); n != 2 {
				t.Errorf("told %d times:\n%s", n, w.readAt("told"))
			}
		})
	}
	w := newWorld(t, toy())
	if r := w.must(2, "goals", "--notify-url", "example.org"); !strings.Contains(r.err, "--notify-url") {
		t.Errorf("%v", r)
	}
}

// TestTheShellCompletesGoalsAndTheManualIsWritten: the goals of the state are
// offered where one is wanted, and every command has its page.
func TestTheShellCompletesGoalsAndTheManualIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	goal := w.queue(w.script("steps:\n" + stepRead))
	if r := w.must(0, "__complete", "show", goal[:4]); !strings.Contains(r.out, goal+"\tactive repair code.txt\n") {
		t.Errorf("%v", r)
	}
	if r := w.must(0, "__complete", "show", goal, ""); strings.Contains(r.out, goal) {
		t.Errorf("a second goal is offered: %v", r)
	}
	if r := w.must(0, "completion", "bash"); !strings.Contains(r.out, "__start_belay") {
		t.Errorf("%v", r)
	}
	dir := filepath.Join(w.dir, "man")
	w.must(0, "man", dir)
	for _, page := range []string{"belay.1", "belay-run.1", "belay-policy-allow.1"} {
		b, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.HasPrefix(string(b), ".TH ") || !strings.Contains(string(b), ".SH SYNOPSIS") {
			t.Errorf("%s: %v\n%.200s", page, err, b)
		}
	}
}
