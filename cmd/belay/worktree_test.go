package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/core/lifecycle"
)

// isolated is a repository with uncommitted work in it.
func isolated(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, changeable())
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "A Person")
	w.git("config", "user.email", "person@example.com")
	w.git("add", "-A")
	w.git("reset", "-q", "untracked.txt")
	w.git("commit", "-qm", "one")
	w.put(filepath.Join(w.repo, "staged.txt"), "staged\n")
	w.git("add", "staged.txt")
	w.put(filepath.Join(w.repo, "text.txt"), "dirty\r\ntwo")
	return w
}

// TestAGoalInAWorktreeLeavesTheUsersDirectoryAlone: it sees the exact dirty state,
// and nothing of what it does is in the user's directory, nor would be staged.
func TestAGoalInAWorktreeLeavesTheUsersDirectoryAlone(t *testing.T) {
	t.Parallel()
	w := isolated(t)
	w.put(filepath.Join(w.dir, "config", "worktree.yaml"), "copy: [\"*.log\"]\n")
	before := tree(t, w.repo)
	look := "git status --porcelain > ../status; git stash list >> ../status; git log --oneline | wc -l >> ../status"
	r := w.must(0, runToy(w.script("steps:\n"+stepRead+stepCommand(look)+stepFix+stepCommand(changeAll)+stepTest+stepDone), "--worktree")...)
	sameTree(t, "the user's directory", maps.Clone(before), tree(t, w.repo))
	s := w.snapshot()
	if s.Status != lifecycle.Completed || s.Worktree == nil || s.Worktree.Of != w.repo || strings.HasPrefix(s.Repo, w.repo) || s.Repo != s.Worktree.Dir {
		t.Fatalf("%s %+v %s\n%v", s.Status, s.Worktree, s.Repo, r)
	}
	status, err := os.ReadFile(filepath.Join(filepath.Dir(s.Repo), "status"))
	if err != nil || !strings.Contains(string(status), "M  staged.txt\n M text.txt\n?? untracked.txt\n1\n") {
		t.Errorf("the goal saw %q, %v", status, err)
	}
	if got := w.must(0, "diff", w.goal()).out; !strings.Contains(got, "+++ b/new/deep/n.txt") {
		t.Errorf("diff: %s", got)
	}
	if b, err := os.ReadFile(filepath.Join(s.Repo, "ignored.log")); err != nil || string(b) != "i\n" {
		t.Errorf("ignored.log in the worktree: %q, %v", b, err)
	}
	w.git("add", "-A")
	if names := w.git("diff", "--cached", "--name-only"); strings.Contains(names, "belay") || strings.Contains(names, "worktree") {
		t.Errorf("git add -A stages %s", names)
	}
	if got := w.must(0, "goals", "--repo", w.repo).out; !strings.Contains(got, w.goal()) {
		t.Errorf("it is not listed under the user's repository: %s", got)
	}
	w.must(0, "audit", w.goal())
	if got := w.must(0, "show", w.goal()).out; !strings.Contains(got, "worktree "+s.Worktree.Dir+" of "+w.repo) {
		t.Errorf("show: %s", got)
	}
	// Two at a time on one repository.
	w.must(0, runToy(w.script("steps:\n"+stepRead+stepFix+stepTest+stepDone), "--worktree", "--queue")...)
}

// TestAWorktreeThatTheUsersGitWouldStageIsRefused names the remedy.
func TestAWorktreeThatTheUsersGitWouldStageIsRefused(t *testing.T) {
	t.Parallel()
	w := isolated(t)
	w.env = append(w.env, "BELAY_STATE="+filepath.Join(w.repo, ".belay"))
	r := w.belay(runToy(w.script("steps:\n"+stepDone), "--worktree")...)
	if r.code == 0 || !strings.Contains(r.err, "BELAY_WORKTREES") {
		t.Errorf("%v", r)
	}
	list, err := os.ReadDir(w.repo)
	for _, e := range list {
		if err != nil || strings.Contains(e.Name(), "worktrees") {
			t.Errorf("left behind: %s, %v", e.Name(), err)
		}
	}
}

// TestAHeadThatAPersonMovedStopsTheGoalWithAQuestion: it is told what moved, does
// nothing until the person says so, and the model is told.
func TestAHeadThatAPersonMovedStopsTheGoalWithAQuestion(t *testing.T) {
	t.Parallel()
	w := isolated(t)
	ask := stepCall("ask_user", map[string]any{"question": "Which?"})
	model := w.script("steps:\n" + stepRead + ask + "  - {expect: {contains: [\"Somebody else moved git\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
	w.must(3, runToy(model)...)
	goal := w.goal()
	w.git("checkout", "-qb", "feature")
	w.must(0, "say", goal, "that one")
	r := w.must(3, "resume", goal)
	if !strings.Contains(r.out, "branch feature is checked out instead of branch main") || w.snapshot().WaitReason != "user_input" {
		t.Errorf("%v", r)
	}
	before := w.read("code.txt")
	if r := w.must(3, "resume", goal); w.read("code.txt") != before {
		t.Errorf("it went on: %v", r)
	}
	w.must(0, "approve", goal)
	w.must(0, "resume", goal)
	if s := w.snapshot(); s.Status != lifecycle.Completed {
		t.Errorf("it is %s", s.Status)
	}
	w.must(0, "audit", goal)
}

// TestAKilledSetupIsFoundAgainAndRunsOnce: the worker is killed while a setup
// command runs; whoever comes next waits for it, and runs none of them twice.
func TestAKilledSetupIsFoundAgainAndRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	w.put(filepath.Join(w.dir, "config", "worktree.yaml"), "setup:\n"+
		"  - echo one >> "+w.dir+"/effects.log\n"+
		"  - cat "+w.dir+"/gate; echo two >> "+w.dir+"/effects.log\n")
	p := w.start(runToy(w.script("steps:\n"+stepRead+stepFix+stepTest+stepDone), "--worktree")...)
	w.id = strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	g.open(p)
	p.kill()
	p.wait()
	b := w.start("resume", w.id)
	b.await("turn_started")
	g.close()
	if r := b.wait(); r.code != 0 {
		t.Errorf("%v", r)
	}
	if got := w.readAt("effects.log"); got != "one\ntwo\n" {
		t.Errorf("effects: %q", got)
	}
	w.must(0, "audit", w.id)
}
