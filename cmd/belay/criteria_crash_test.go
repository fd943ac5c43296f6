package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"belay/internal/event"
)

// checking is a goal whose claim is being verified: the run of its old tests in
// a private copy waits at the gate.
func checking(t *testing.T) (*world, *gate, *process) {
	t.Helper()
	w := newWorld(t, suite())
	g := w.gate()
	w.put(filepath.Join(w.repo, "tests", "test_wait"), "if mkdir "+w.dir+"/first 2>/dev/null; then cat "+g.path+"; fi\necho run >> "+w.dir+"/runs\n")
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n  - {id: c, kind: tests_intact, command: sh run.sh}\n")
	p := w.start("run", "--file", goal, "--model", w.script("steps:\n"+stepRead+stepFix+stepDone+stepDone), "--plan", "never", "--approve", "auto")
	w.id = strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	g.open(p)
	return w, g, p
}

func (w *world) copies() []string {
	w.t.Helper()
	list, err := os.ReadDir(filepath.Join(w.dir, "state.scratch"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

// A worker dies in the middle of a check. The check runs on under its shim, the
// next worker finds it, nothing is run twice, and the private copy goes.
func TestAVerificationSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	w, g, p := checking(t)
	p.kill()
	p.wait()
	if c := w.copies(); len(c) != 1 {
		t.Errorf("private copies while a check runs: %v", c)
	}
	next := w.start("resume", w.goal())
	next.await("turn_started")
	g.close()
	if r := next.wait(); r.code != 0 || !strings.Contains(r.out, "completed: verified") {
		t.Errorf("%v", r)
	}
	// One run over the present code, one on the code as it was found.
	if got := w.readAt("runs"); got != "run\nrun\n" {
		t.Errorf("the tests ran %q", got)
	}
	if c := w.copies(); len(c) != 0 {
		t.Errorf("private copies are left: %v", c)
	}
	found := false
	for _, f := range of[event.OperationFinished](t, w.events()) {
		found = found || f.Tool == "check_run" && f.Recovered == "reattached"
	}
	if !found {
		t.Error("the check was not found again")
	}
}

// A pause, and an edit, in the middle of a check: the verdict of then is refused
// and stays on record, and what is judged in the end is the workspace of then.
func TestAStaleVerdictIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("paused", func(t *testing.T) {
		t.Parallel()
		w, g, p := checking(t)
		w.must(0, "pause", w.goal())
		g.close()
		if r := p.wait(); r.code != 3 {
			t.Errorf("want exit 3: %v", r)
		}
		if s := w.snapshot(); s.Status != "paused" {
			t.Errorf("the late result leaves the goal %s", s.Status)
		}
		w.must(0, "resume", w.goal())
		vs := of[event.VerificationFinished](t, w.events())
		if len(vs) != 2 || vs[0].Refused != "the user paused the goal before it ended" || vs[1].Verdict.Verdict != event.Complete {
			t.Errorf("verdicts: %+v", vs)
		}
	})
	t.Run("edited", func(t *testing.T) {
		t.Parallel()
		w, g, p := checking(t)
		w.put(filepath.Join(w.repo, "code.txt"), "fixed by hand\n")
		g.close()
		if r := p.wait(); r.code != 0 {
			t.Errorf("want exit 0: %v", r)
		}
		vs := of[event.VerificationFinished](t, w.events())
		if len(vs) != 2 || vs[0].Refused != "the workspace was edited before it ended" || vs[1].Verdict.Tree == vs[0].Verdict.Tree {
			t.Errorf("verdicts: %+v", vs)
		}
		if got := w.read("code.txt"); got != "fixed by hand\n" {
			t.Errorf("the user's edit became %q", got)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		w, _, p := checking(t)
		w.must(0, "cancel", w.goal())
		if r := p.wait(); r.code != 7 {
			t.Errorf("want exit 7: %v", r)
		}
		if c := w.copies(); len(c) != 0 {
			t.Errorf("private copies are left: %v", c)
		}
	})
	t.Run("a message", func(t *testing.T) {
		t.Parallel()
		w, _, p := checking(t)
		// The check is stopped: the user goes first.
		w.must(0, "say", w.goal(), "leave a note as well")
		if r := p.wait(); r.code != 0 {
			t.Errorf("want exit 0: %v", r)
		}
		vs := of[event.VerificationFinished](t, w.events())
		if len(vs) != 2 || vs[0].Refused != "the user sent a message before it ended" {
			t.Errorf("verdicts: %+v", vs)
		}
	})
}

// A check loses its supervisor, and with the power the tree that it ran on. It
// ran in a copy, so nothing is in doubt: the tree is made again, under the same
// name, and the check is run again.
func TestALostCheckIsRunAgainOnATreeThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, suite())
	g := w.gate()
	w.put(filepath.Join(w.repo, "tests", "test_wait"), "if mkdir "+w.dir+"/first 2>/dev/null; then cat "+g.path+"; fi\n")
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n  - {id: c, kind: tests_intact, command: sh run.sh}\n")
	p := w.start("run", "--file", goal, "--model", w.script("steps:\n"+stepRead+stepFix+writeStep("tests/test_more", "true\n")+stepDone), "--plan", "never", "--approve", "auto")
	w.id = strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	g.open(p)
	p.kill()
	p.wait()
	if err := syscall.Kill(w.shim(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var mixed string
	for _, f := range of[event.OperationFinished](t, w.events()) {
		if f.Result.Check != nil {
			mixed = f.Result.Check.Mixed
		}
	}
	lost, err := filepath.Glob(filepath.Join(w.dir, "state/workspaces/*/git/objects", mixed[:2], mixed[2:]))
	if err != nil || len(lost) != 1 {
		t.Fatalf("the tree %s stands in %v (%v)", mixed, lost, err)
	}
	if err := os.Remove(lost[0]); err != nil {
		t.Fatal(err)
	}
	if r := w.must(0, "resume", w.goal()); !strings.Contains(r.out, "completed: verified") {
		t.Error(r)
	}
	var runs []event.Outcome
	for _, f := range of[event.OperationFinished](t, w.events()) {
		if f.Tool == "check_run" {
			runs = append(runs, f.Outcome)
		}
	}
	if want := []event.Outcome{event.OutcomeUnknown, event.Succeeded, event.Succeeded}; !slices.Equal(runs, want) {
		t.Errorf("the checks ended as %v, want %v", runs, want)
	}
	if s := w.snapshot(); len(s.InDoubt) > 0 {
		t.Errorf("in doubt: %+v", s.InDoubt)
	}
	if c := w.copies(); len(c) != 0 {
		t.Errorf("private copies are left: %v", c)
	}
}
