package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
)

// pushWorld is a toy repository with a bare remote beside it whose hooks end the
// worker that pushes, as kill -9 does, once.
func pushWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, toy())
	w.gitIn(w.repo, "init", "-q", "-b", "main")
	w.gitIn(w.repo, "config", "user.name", "Ada")
	w.gitIn(w.repo, "config", "user.email", "ada@example.com")
	w.gitIn(w.repo, "add", "-A")
	w.gitIn(w.repo, "commit", "-q", "-m", "base")
	w.gitIn(w.dir, "init", "-q", "--bare", "-b", "main", "origin.git")
	w.gitIn(w.repo, "remote", "add", "origin", "../origin.git")
	w.gitIn(w.repo, "push", "-q", "origin", "main")
	return w
}

func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, w.env
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// hook makes the remote run text at an update. killer, in it, ends the worker that
// pushes; it succeeds the first time.
func (w *world) hook(name, text string) {
	w.t.Helper()
	kill := `killer() {
	[ -e "` + w.dir + `/killed" ] && return 1
	p=$PPID
	while [ "$(cat /proc/$p/comm)" != belay ]; do p=$(cut -d')' -f2 /proc/$p/stat | cut -d' ' -f3); done
	touch "` + w.dir + `/killed"
	kill -9 $p
}
`
	path := filepath.Join(w.dir, "origin.git", "hooks", name)
	w.put(path, "#!/bin/sh\n"+kill+text)
	if err := os.Chmod(path, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

const stepPush = "  - {calls: [{tool: git_push, args: {branch: fix/code, message: Mend the code}}]}\n"

const pushing = "steps:\n" + stepRead + stepFix + stepTest + stepPush

// count has the remote write a line for each branch that it really moves.
func (w *world) count() string { return "echo moved >> '" + w.dir + "/effects.log'\n" }

// attemptsOf are the starts and the end of the push.
func attemptsOf(t *testing.T, es []record) (starts []event.OperationStarted, end event.OperationFinished) {
	t.Helper()
	var its []record
	for _, e := range es {
		if e.Op == "op4" {
			its = append(its, e)
		}
	}
	for _, f := range of[event.OperationFinished](t, its) {
		end = f
	}
	return of[event.OperationStarted](t, its), end
}

// TestAPushOutlivesItsWorker: killed after the remote took the push and before
// that was recorded, and killed just before the remote takes it. Either way the
// remote has moved once, to the commit that was recorded beforehand.
func TestAPushOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		hooks    func(w *world)
		attempts int
	}{
		{"killed after the push", func(w *world) { w.hook("post-receive", w.count()+"killer\n") }, 1},
		{"killed before the push", func(w *world) {
			w.hook("pre-receive", "killer && exit 1\nexit 0\n")
			w.hook("post-receive", w.count())
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := pushWorld(t)
			c.hooks(w)
			if r := w.belay(append(runToy(w.script(pushing+stepDone)), "--approve", "auto")...); r.code != -1 {
				t.Fatalf("the worker was not killed: %v", r)
			}
			goal := w.goal()
			if r := w.must(0, "resume", goal); !strings.Contains(r.out, "completed: verified") {
				t.Errorf("%v", r)
			}
			starts, end := attemptsOf(t, w.events())
			if len(starts) != c.attempts || end.Outcome != event.Succeeded || (end.Recovered == "probe") != (c.attempts == 1) {
				t.Errorf("%d attempts, %s (%s)", len(starts), end.Outcome, end.Recovered)
			}
			commit := w.gitIn(filepath.Join(w.dir, "origin.git"), "rev-parse", "fix/code")
			for _, s := range starts {
				if !strings.Contains(s.Intent.Key, "commit="+commit+" ") {
					t.Errorf("the remote has %s, recorded was %s", commit, s.Intent.Key)
				}
			}
			if got := w.readAt("effects.log"); got != "moved\n" {
				t.Errorf("effects: %q", got)
			}
			if got := w.gitIn(w.repo, "status", "--porcelain"); got != "M code.txt" {
				t.Errorf("the repository is %q", got)
			}
			left, err := os.ReadDir(filepath.Join(w.dir, "state", "push"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// TestADoubtIsSettledByLooking: the worker and the way to the remote are gone at
// once. Nobody guesses; when the remote is back, the model's look or a person's
// settles it, and nothing is pushed again.
func TestADoubtIsSettledByLooking(t *testing.T) {
	t.Parallel()
	check := func(expect string) string {
		return "  - {expect: {last_result_contains: [\"" + expect + "\"]}, calls: [{tool: check_operation, args: {op: op4}}]}\n"
	}
	begin := func(t *testing.T, steps string) *world {
		t.Helper()
		w := pushWorld(t)
		// What the remote was asked to do it does; then it cannot be reached.
		w.hook("post-receive", w.count()+"killer\nmv '"+w.dir+"/origin.git' '"+w.dir+"/away.git'\n")
		if r := w.belay(append(runToy(w.script(pushing+steps)), "--approve", "auto")...); r.code != -1 {
			t.Fatalf("the worker was not killed: %v", r)
		}
		return w
	}
	settled := func(t *testing.T, w *world) {
		t.Helper()
		rs := of[event.OperationReconciled](t, w.events())
		if len(rs) != 1 || rs[0].Outcome != event.Succeeded || rs[0].By != event.ActorRuntime || rs[0].Result == nil || rs[0].Result.Remote == "" {
			t.Errorf("%+v", rs)
		}
		if starts, end := attemptsOf(t, w.events()); len(starts) != 1 || end.Outcome != event.OutcomeUnknown {
			t.Errorf("%d attempts, %s", len(starts), end.Outcome)
		}
		if got := w.readAt("effects.log"); got != "moved\n" {
			t.Errorf("effects: %q", got)
		}
		w.must(0, "audit", w.goal())
	}
	t.Run("by the model", func(t *testing.T) {
		t.Parallel()
		w := begin(t, check("outcome unknown")+strings.Replace(stepPush, "{calls", "{expect: {last_result_contains: [\"still in doubt\"]}, calls", 1)+
			"  - {expect: {last_result_contains: [\"in doubt\"]}, calls: [{tool: run_command, args: {command: \"mv ../away.git ../origin.git\"}}]}\n"+
			check("exit code 0")+"  - {expect: {last_result_contains: [\"has ended: succeeded\"]}, calls: [{tool: finish, args: {summary: pushed}}]}\n")
		if r := w.must(0, "resume", w.goal()); !strings.Contains(r.out, "completed: verified") {
			t.Errorf("%v", r)
		}
		settled(t, w)
	})
	t.Run("by a person", func(t *testing.T) {
		t.Parallel()
		w := begin(t, stepDone+stepDone)
		goal := w.goal()
		w.must(3, "resume", goal)
		if r := w.must(0, "reconcile", goal, "op4", "--look"); !strings.Contains(r.out, "still in doubt") {
			t.Errorf("%v", r)
		}
		w.must(2, "reconcile", goal, "op4", "--look", "--succeeded")
		w.must(2, "reconcile", goal, "op3", "--look")
		if err := os.Rename(filepath.Join(w.dir, "away.git"), filepath.Join(w.dir, "origin.git")); err != nil {
			t.Fatal(err)
		}
		if r := w.must(0, "reconcile", goal, "op4", "--look"); !strings.Contains(r.out, "settled as succeeded") {
			t.Errorf("%v", r)
		}
		w.must(2, "reconcile", goal, "op4", "--look")
		if r := w.must(0, "resume", goal); !strings.Contains(r.out, "completed: verified") {
			t.Errorf("%v", r)
		}
		settled(t, w)
	})
}

// TestAPushWaitsForAPersonWhoSeesWhatItIs: nothing reaches a remote unasked,
// and what is approved is the content.
func TestAPushWaitsForAPersonWhoSeesWhatItIs(t *testing.T) {
	t.Parallel()
	w := pushWorld(t)
	w.hook("post-receive", w.count())
	model := w.script("steps:\n" + stepPush + stepRead + stepTest + stepDone + stepDone)
	w.put(filepath.Join(w.repo, "code.txt"), "fixed\n")
	run := []string{"run", "push it", "--model", model, "--test", "sh check.sh", "--plan", "never"}
	w.must(3, run...)
	goal := w.goal()
	r := w.must(0, "show", goal, "--json")
	for _, part := range []string{"fix/code", "origin", "Mend the code", "code.txt"} {
		if !strings.Contains(r.out, part) {
			t.Errorf("the question does not say %q: %v", part, r)
		}
	}
	w.must(0, "approve", goal)
	w.put(filepath.Join(w.repo, "extra.txt"), "slipped in\n")
	w.must(3, "resume", goal)
	if got := w.readAt("effects.log"); got != "" {
		t.Fatalf("pushed what nobody approved: %q", got)
	}
	w.must(0, "approve", goal)
	w.must(0, "resume", goal)
	if got := w.readAt("effects.log"); got != "moved\n" {
		t.Errorf("effects: %q", got)
	}
}
