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

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// changeAll is a command that changes a workspace in every way.
const changeAll = "echo more >> text.txt; chmod 755 plain.sh; rm -r old; mkdir -p new/deep; echo n > new/deep/n.txt; ln -sfn text.txt link; mv from.txt to.txt; printf 'x\\000y' > bin; echo i > ignored.log; rm untracked.txt"

func changeable() map[string]string {
	files := toy()
	for name, text := range map[string]string{"text.txt": "one\r\ntwo", "plain.sh": "echo\n", "old/a/b.txt": "b\n", "old/c.txt": "c\n",
		"from.txt": "renamed\n", "bin": "a\x00b", ".gitignore": "*.log\n", "ignored.log": "first\n", "theirs.txt": "theirs\n", "untracked.txt": "u\n", "staged.txt": "s\n"} {
		files[name] = text
	}
	return files
}

// rollable is a finished goal that has changed everything.
func rollable(t *testing.T, git bool) (w *world, goal string, start map[string]string) {
	t.Helper()
	w = newWorld(t, changeable())
	if err := os.Symlink("plain.sh", filepath.Join(w.repo, "link")); err != nil {
		t.Fatal(err)
	}
	if git {
		w.git("init", "-q")
		w.git("add", "-A")
		w.git("reset", "-q", "untracked.txt")
		w.git("commit", "-qm", "one")
		w.put(filepath.Join(w.repo, "staged.txt"), "staged\n")
		w.git("add", "staged.txt")
		w.put(filepath.Join(w.repo, "text.txt"), "dirty\r\ntwo")
	}
	start = files(t, w.repo)
	start["(staged)"] = w.staged(git)
	command := changeAll
	if git {
		command += "; git add -A; git rm -q --cached old/c.txt || true"
	}
	w.must(0, runToy(w.script("steps:\n"+stepRead+stepFix+stepCommand(command)+stepTest+stepDone))...)
	return w, w.goal(), start
}

// staged is what is staged in the repository.
func (w *world) staged(git bool) string {
	if !git {
		return ""
	}
	return w.git("diff", "--cached", "--name-status")
}

// files are all files but git's own.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := tree(t, dir)
	maps.DeleteFunc(m, func(name, _ string) bool { return strings.HasPrefix(name, ".git/") })
	return m
}

// TestRollback: content, modes, links, renames, deletions and untracked files
// are as they were; .git, ignored files and what others have changed since are
// left alone; and it is undone in the same way.
func TestRollback(t *testing.T) {
	t.Parallel()
	for _, git := range []bool{true, false} {
		t.Run(fmt.Sprintf("git %t", git), func(t *testing.T) {
			t.Parallel()
			w, goal, start := rollable(t, git)
			wasStaged := start["(staged)"]
			delete(start, "(staged)")
			nowStaged := w.staged(git)
			if git && wasStaged == nowStaged {
				t.Fatalf("nothing was staged: %q", nowStaged)
			}
			w.put(filepath.Join(w.repo, "theirs.txt"), "edited by a person\n")
			w.put(filepath.Join(w.repo, "of-theirs.txt"), "made by a person\n")
			changed := files(t, w.repo)
			dotgit := func() map[string]string {
				if !git {
					return nil
				}
				m := tree(t, filepath.Join(w.repo, ".git"))
				delete(m, "index")
				return m
			}
			ours := dotgit()
			r := w.must(0, "rollback", goal, "cp0")
			if !strings.Contains(r.out, "nothing was changed (--yes does it)") || !strings.Contains(r.out, "kept      theirs.txt") || !strings.Contains(r.out, "deleted   new/deep/n.txt") {
				t.Errorf("%v", r)
			}
			sameTree(t, "only shown", maps.Clone(changed), files(t, w.repo))
			w.must(0, "rollback", goal, "start", "--yes")
			sameTree(t, "rolled back", maps.Clone(start), files(t, w.repo), "theirs.txt", "of-theirs.txt", "ignored.log")
			if got := w.readAt("repo/theirs.txt") + w.readAt("repo/of-theirs.txt") + w.readAt("repo/ignored.log"); got != "edited by a person\nmade by a person\ni\n" {
				t.Errorf("what is not the goal's: %q", got)
			}
			sameTree(t, ".git", maps.Clone(ours), dotgit())
			if got := w.staged(git); got != wasStaged {
				t.Errorf("staged is %q, and was %q", got, wasStaged)
			}
			if s := w.snapshot(); s.Status != lifecycle.Completed || s.How != event.Verified {
				t.Errorf("the goal is %s (%s)", s.Status, s.How)
			}
			restored := of[event.WorkspaceRestored](t, w.events())
			if len(restored) != 1 || !slices.Equal(restored[0].Kept, []string{"of-theirs.txt", "theirs.txt"}) {
				t.Errorf("%+v", restored)
			}
			cps := w.snapshot().Checkpoints
			w.must(0, "rollback", goal, cps[len(cps)-1].ID, "--yes")
			sameTree(t, "rolled forward", maps.Clone(changed), files(t, w.repo))
			if got := w.staged(git); got != nowStaged {
				t.Errorf("staged is %q, and was %q", got, nowStaged)
			}
			w.must(0, "audit", goal)
			if r := w.must(0, "rollback", goal, cps[len(cps)-1].ID, "--yes"); !strings.Contains(r.out, "nothing would change") {
				t.Errorf("%v", r)
			}
		})
	}
}

// TestRollbackToATodoAndToAnEvent: what the workspace was then, not what was
// named then.
func TestRollbackToATodoAndToAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	todo := func(status string) string {
		return stepCall("update_todos", map[string]any{"todos": []any{map[string]any{"id": "t1", "content": "one", "status": status, "reason": "done"}}})
	}
	w.must(0, runToy(w.script("steps:\n"+stepRead+todo("in_progress")+stepFix+todo("completed")+stepCommand("echo later > later.txt")+stepTest+stepDone))...)
	goal := w.goal()
	w.must(0, "rollback", goal, "todo:t1", "--yes")
	if w.readAt("repo/code.txt") == toy()["code.txt"] || w.readAt("repo/later.txt") != "" {
		t.Errorf("%v", files(t, w.repo))
	}
	w.must(0, "rollback", goal, "event:4", "--yes")
	if w.readAt("repo/code.txt") != toy()["code.txt"] {
		t.Errorf("%v", files(t, w.repo))
	}
	for target, why := range map[string]string{"cp9": "has no checkpoint", "todo:t9": "was never at", "event:9999": "was never at", "event:x": "has no checkpoint"} {
		if r := w.must(2, "rollback", goal, target, "--yes"); !strings.Contains(r.err, why) {
			t.Errorf("%s: %v", target, r)
		}
	}
}

// TestARollbackOfAPausedGoalIsToldToTheModel: under a goal that runs it is
// refused; a paused one goes on from the older state, knows it, and edits
// nothing that it has not read again.
func TestARollbackOfAPausedGoalIsToldToTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	g := w.gate()
	model := w.script("steps:\n" + stepRead + stepFix + stepCommand(gateCommand) +
		"  - {expect: {contains: [\"set back to checkpoint cp0\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
	p := w.start(runToy(model)...)
	goal := strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	w.id = goal
	g.open(p)
	if r := w.must(1, "rollback", goal, "cp0", "--yes"); !strings.Contains(r.err, "pause it") {
		t.Errorf("%v", r)
	}
	w.must(0, "pause", goal)
	g.close()
	p.wait()
	w.must(0, "rollback", goal, "cp0", "--yes")
	if w.readAt("repo/code.txt") != toy()["code.txt"] {
		t.Errorf("%v", files(t, w.repo))
	}
	w.must(0, "resume", goal)
	if s := w.snapshot(); s.Status != lifecycle.Completed {
		t.Errorf("the goal is %s", s.Status)
	}
}

// TestARollbackSurvivesAKillAtEachOfItsInstants: killed in its middle, it is
// gone on with by the next one who comes, to the exact state, and happens once.
func TestARollbackSurvivesAKillAtEachOfItsInstants(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w, goal, start := rollable(t, true)
	changed := w.snapshot().Revision.Tree
	wasStaged := start["(staged)"]
	delete(start, "(staged)")
	kills := 0
	for _, point := range []string{"driver.append.durable.before", "driver.append.durable.after", "effect.run.before", "workspace.move.removed", "workspace.move.staged", "workspace.move.named", "workspace.index.staged", "workspace.index.locked", "workspace.index.named", "driver.append.soft.before", "driver.append.soft.after"} {
		for hit := 1; hit < 12; hit++ {
			points := filepath.Join(w.dir, fmt.Sprintf("%s.%d", point, hit))
			if err := os.Mkdir(points, 0o700); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(program, "rollback", goal, "cp0", "--yes")
			c.Dir, c.Env = w.repo, append(slices.Clone(w.env), fmt.Sprintf("BELAY_FAILPOINTS=%s=kill@%d", point, hit), "BELAY_FAILPOINT_DIR="+points)
			out, err := c.CombinedOutput()
			if _, terr := os.Stat(filepath.Join(points, fmt.Sprintf("%s@%d.taken", point, hit))); terr != nil {
				if err != nil {
					t.Fatalf("%s@%d: %v\n%s", point, hit, err, out)
				}
				hit = 100 // it does not come so far
			} else {
				kills++
			}
			w.must(0, "rollback", goal, "cp0", "--yes") // goes on with the one that is open
			sameTree(t, fmt.Sprintf("after a kill at %s@%d", point, hit), maps.Clone(start), files(t, w.repo), "ignored.log")
			if got := w.staged(true); got != wasStaged {
				t.Errorf("after a kill at %s@%d staged is %q, and was %q", point, hit, got, wasStaged)
			}
			// Forward again, for the next instant.
			back := ""
			for _, cp := range w.snapshot().Checkpoints {
				if cp.Tree == changed {
					back = cp.ID
				}
			}
			w.must(0, "rollback", goal, back, "--yes")
		}
	}
	w.must(0, "checkpoint", goal, "changed")
	for i, at := range []string{"gc.store.packed@1", "gc.store.forgot@1", "gc.store.swept@1", "gc.store.swept@4", "gc.rows.dropped@1"} {
		w.put(filepath.Join(w.repo, "text.txt"), fmt.Sprintln("garbage", i))
		w.must(0, "rollback", goal, "changed", "--yes") // what others wrote stays
		w.put(filepath.Join(w.repo, "text.txt"), fmt.Sprintln("newer", i))
		w.must(0, "rollback", goal, "cp0", "--yes")
		points := filepath.Join(w.dir, at)
		if err := os.Mkdir(points, 0o700); err != nil {
			t.Fatal(err)
		}
		point, n, _ := strings.Cut(at, "@")
		c := exec.Command(program, "gc", "--older-than", "0")
		c.Dir, c.Env = w.repo, append(slices.Clone(w.env), "BELAY_FAILPOINTS="+point+"=kill@"+n, "BELAY_FAILPOINT_DIR="+points)
		if out, err := c.CombinedOutput(); err == nil {
			t.Fatalf("%s was not come to:\n%s", at, out)
		}
		kills++
		w.must(0, "rollback", goal, "changed", "--yes")
		w.must(0, "rollback", goal, "cp0", "--yes")
		w.must(0, "gc", "--older-than", "0")
		sameTree(t, "after a kill at "+at, maps.Clone(start), files(t, w.repo), "ignored.log", "text.txt")
	}
	w.must(0, "audit", goal)
	if left, err := filepath.Glob(filepath.Join(w.repo, ".belay*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if kills < 18 {
		t.Errorf("only %d kills", kills)
	}
	t.Logf("%d kills", kills)
}
