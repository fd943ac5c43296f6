package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/internal/event"
)

// changesAll is a goal that has changed everything in a worktree of its own.
func changesAll(t *testing.T) (w *world, goal string) {
	t.Helper()
	w = isolated(t)
	w.must(0, runToy(w.script("steps:\n"+stepRead+stepFix+stepCommand(changeAll)+stepTest+stepDone), "--worktree")...)
	return w, w.goal()
}

// TestApplyBringsTheResultToTheUsersFiles: merged with what the user changed
// meanwhile, .git untouched, on record; and then the worktree may go.
func TestApplyBringsTheResultToTheUsersFiles(t *testing.T) {
	t.Parallel()
	w, goal := changesAll(t)
	w.put(filepath.Join(w.repo, "text.txt"), "mine\r\ndirty\r\ntwo")
	w.put(filepath.Join(w.repo, "of-mine.txt"), "m\n")
	before := tree(t, w.repo)
	gits := tree(t, filepath.Join(w.repo, ".git"))
	for _, args := range [][]string{{"apply", goal}, {"apply", goal, "--dry-run"}} {
		if r := w.must(0, args...); !strings.Contains(r.out, "nothing was changed") || !strings.Contains(r.out, "added     to.txt") {
			t.Errorf("%v", r)
		}
		sameTree(t, "only shown", maps.Clone(before), tree(t, w.repo))
	}
	if r := w.must(2, "worktrees", goal, "--remove"); !strings.Contains(r.err, "was not applied") {
		t.Errorf("%v", r)
	}
	w.must(0, "apply", goal, "--yes")
	sameTree(t, ".git", gits, tree(t, filepath.Join(w.repo, ".git")))
	got := files(t, w.repo)
	want := files(t, w.snapshot().Repo)
	sameTree(t, "the result", want, got, "text.txt", "link", "of-mine.txt", "ignored.log")
	if text := w.read("text.txt"); text != "mine\r\ndirty\r\ntwomore\n" || w.read("of-mine.txt") != "m\n" {
		t.Errorf("text.txt is %q", text)
	}
	if a := of[event.ResultApplied](t, w.events()); len(a) != 1 || a[0].Into != w.repo || a[0].How != "patch" {
		t.Errorf("%+v", a)
	}
	if r := w.must(0, "apply", goal, "--yes"); !strings.Contains(r.out, "nothing to apply") {
		t.Errorf("%v", r)
	}
	dir := w.snapshot().Worktree.Dir
	if r := w.must(0, "worktrees"); !strings.Contains(r.out, "nothing to apply") || !strings.Contains(r.out, dir) {
		t.Errorf("%v", r)
	}
	w.must(0, "worktrees", goal, "--remove")
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if r := w.belay("apply", goal); r.code == 0 || !strings.Contains(r.err, "was removed by the user") {
		t.Errorf("%v", r)
	}
	w.must(0, "diff", goal)
	w.must(0, "audit", goal)
}

// TestApplyShowsConflictsAndAppliesNothing until the user wants them marked.
func TestApplyShowsConflictsAndAppliesNothing(t *testing.T) {
	t.Parallel()
	w, goal := changesAll(t)
	w.put(filepath.Join(w.repo, "code.txt"), "value = elsewhere\n")
	before := tree(t, w.repo)
	r := w.must(3, "apply", goal, "--yes")
	if !strings.Contains(r.out, "conflict  code.txt: changed by both in the same place") || !strings.Contains(r.out, "<<<<<<< yours") || !strings.Contains(r.out, "nothing was changed") {
		t.Errorf("%v", r)
	}
	sameTree(t, "with conflicts", before, tree(t, w.repo))
	r = w.must(0, "apply", goal, "--yes", "--conflicts")
	if text := w.read("code.txt"); !strings.Contains(text, "<<<<<<< yours\nvalue = elsewhere\n") || !strings.Contains(text, ">>>>>>> the goal's") || !strings.Contains(r.out, "settle the conflicts in: code.txt") {
		t.Errorf("%q %v", text, r)
	}
	if a := of[event.ResultApplied](t, w.events()); len(a) != 1 || !slices.Equal(a[0].Marked, []string{"code.txt"}) {
		t.Errorf("%+v", a)
	}
}

// TestApplyToABranchLeavesTheFilesAlone: a commit of the goal's changes alone, or
// the series that it made.
func TestApplyToABranchLeavesTheFilesAlone(t *testing.T) {
	t.Parallel()
	w := isolated(t)
	w.must(0, runToy(w.script("steps:\n"+stepRead+stepFix+stepCommand("git commit -qm 'mine: fix' code.txt && echo n > more.txt")+stepTest+stepDone), "--worktree")...)
	goal := w.goal()
	before := files(t, w.repo)
	head := w.git("rev-parse", "HEAD")
	r := w.must(0, "apply", goal, "--branch", "one", "--yes")
	if !strings.Contains(r.out, "as 1 commits on the new branch one") {
		t.Errorf("%v", r)
	}
	w.must(0, "apply", goal, "--commits", "--yes", "--message", "what was left")
	sameTree(t, "the files", before, files(t, w.repo))
	if w.git("rev-parse", "HEAD") != head {
		t.Error("HEAD has moved")
	}
	if got := w.git("diff", "--name-only", "HEAD", "one"); got != "code.txt\nmore.txt\n" {
		t.Errorf("the branch changes %q", got)
	}
	if got := w.git("log", "--format=%s by %an", "HEAD..belay/"+goal); got != "what was left by A Person\nmine: fix by A Person\n" {
		t.Errorf("the series is %q", got)
	}
	if r := w.belay("apply", goal, "--branch", "one", "--yes"); r.code == 0 || !strings.Contains(r.err, "exists already") {
		t.Errorf("%v", r)
	}
	w.must(0, "audit", goal)
}

// TestAnApplySurvivesAKillAtEachOfItsInstants: whoever comes next goes on with
// it, and the user's directory is as before or as wanted, never told otherwise.
func TestAnApplySurvivesAKillAtEachOfItsInstants(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w, goal := changesAll(t)
	start := filepath.Join(w.dir, "start")
	if out, err := exec.Command("cp", "-a", w.repo, start).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	want := files(t, w.snapshot().Repo)
	kills := 0
	for _, point := range []string{"driver.append.durable.before", "driver.append.durable.after", "effect.run.before", "workspace.move.removed", "workspace.move.staged", "workspace.move.named", "effect.run.after", "driver.append.soft.before"} {
		for _, hit := range []int{1, 4} {
			points := filepath.Join(w.dir, fmt.Sprintf("%s.%d", point, hit))
			if err := os.Mkdir(points, 0o700); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(program, "apply", goal, "--yes")
			c.Dir, c.Env = w.repo, append(slices.Clone(w.env), fmt.Sprintf("BELAY_FAILPOINTS=%s=kill@%d", point, hit), "BELAY_FAILPOINT_DIR="+points)
			out, err := c.CombinedOutput()
			if _, terr := os.Stat(filepath.Join(points, fmt.Sprintf("%s@%d.taken", point, hit))); terr == nil {
				kills++
			} else if err != nil {
				t.Fatalf("%s@%d: %v\n%s", point, hit, err, out)
			}
			w.must(0, "apply", goal, "--yes")
			sameTree(t, fmt.Sprintf("after a kill at %s@%d", point, hit), maps.Clone(want), files(t, w.repo), "ignored.log")
			if out, err := exec.Command("sh", "-c", "rm -rf '"+w.repo+"'/* '"+w.repo+"'/.[a-z]* && cp -a '"+start+"'/. '"+w.repo+"'").CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(w.repo, ".belay*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	w.must(0, "audit", goal)
	if kills < 10 {
		t.Errorf("only %d kills", kills)
	}
}
