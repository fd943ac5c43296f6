package main

import (
	"database/sql"
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

// at is this world seen from another place: a state directory of its own, as
// on another machine. Directories of the same path are the same here, so a test
// moves the first machine's aside where the other would not see it.
func (w *world) at(name string) *world {
	b := *w
	b.cwd = w.dir
	b.env = slices.DeleteFunc(slices.Clone(w.env), func(kv string) bool { return strings.HasPrefix(kv, "BELAY_STATE=") })
	b.env = append(b.env, "BELAY_STATE="+filepath.Join(w.dir, name))
	return &b
}

// copied is another place that got a copy of the SQLite ledger, and nothing
// else.
func (w *world) copied(name string) *world {
	w.t.Helper()
	b := w.at(name)
	for _, f := range []string{"ledger.db", "ledger.db-wal"} {
		content, err := os.ReadFile(filepath.Join(w.dir, "state", f))
		if err != nil && !os.IsNotExist(err) {
			w.t.Fatal(err)
		}
		if err == nil {
			w.put(filepath.Join(w.dir, name, f), string(content))
		}
	}
	if err := os.Chmod(filepath.Join(w.dir, name), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(w.dir, name, "artifacts"), os.DirFS(filepath.Join(w.dir, "state", "artifacts"))); err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return b
}

// aside moves the repository to where no goal looks for it.
func (w *world) aside(name string) {
	w.t.Helper()
	if err := os.Rename(w.repo, filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func hasLine(t *testing.T, r result, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(r.out+r.err, want) {
			t.Errorf("does not say %q: %v", want, r)
		}
	}
}

// TestASpoolOfAnotherPlaceIsNoProof: a worker elsewhere finds no record of a
// command that runs on the first machine. That is not "never started": the
// outcome is unknown, and nothing runs twice. Back where it ran, the look finds
// how it ended.
func TestASpoolOfAnotherPlaceIsNoProof(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"one PostgreSQL", "a copied SQLite file"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			if store == "one PostgreSQL" {
				w, _ = onPostgres(t, toy())
			}
			g := w.gate()
			model := w.script("steps:\n" + stepCommand("echo began; cat ../gate; echo effect >> ../effects.log; echo ended") +
				"  - {expect: {last_result_contains: [\"outcome unknown\", \"started at\"]}, calls: [{tool: check_operation, args: {op_id: op1}}]}\n" +
				"  - {expect: {last_result_contains: [\"only a worker there\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
			p := w.start(runToy(model, "--sandbox", "none")...)
			goal := strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
			g.open(p)
			p.kill()
			p.wait()
			b := w.at("other")
			if store == "a copied SQLite file" {
				b = w.copied("other")
			}
			r := b.must(3, "resume", goal)
			hasLine(t, r, "workspace_moved")
			if got := w.readAt("effects.log"); got != "" {
				t.Errorf("it ran again: %q", got)
			}
			for _, e := range of[event.OperationStarted](t, b.events()) {
				if e.Attempt > 1 {
					t.Errorf("a second attempt: %+v", e)
				}
			}
			if s := b.snapshot(); len(s.InDoubt) != 1 || s.InDoubt[0].Op != "op1" {
				t.Errorf("in doubt: %+v", s.InDoubt)
			}
			g.close()
			waitFor(t, "the effect", func() bool { return w.readAt("effects.log") != "" })
			if store == "one PostgreSQL" {
				// A person who asks where it ran is told how it ended.
				w.must(0, "reconcile", goal, "op1", "--look")
				if s := w.snapshot(); len(s.InDoubt) != 0 {
					t.Errorf("still in doubt after the look: %+v", s.InDoubt)
				}
			}
			if got := w.readAt("effects.log"); got != "effect\n" {
				t.Errorf("effects: %q", got)
			}
		})
	}
}

// asks is a goal that has repaired the toy and waits for a word on a command.
func asks(w *world, more ...string) string {
	w.t.Helper()
	model := w.script("steps:\n" + stepRead + stepFix + stepCall("write_file", map[string]any{"path": "made/note.txt", "content": "n\n"}) +
		stepCommand("touch ../asked; chmod 755 check.sh") + stepTest + stepDone)
	r := w.must(3, append([]string{"run", "repair code.txt", "--model", model, "--test", "sh check.sh", "--plan", "never", "--sandbox", "none"}, more...)...)
	return strings.Fields(r.out)[1]
}

// approveAll answers the edits of asks; the command is what is left.
func (w *world) approveUntil(goal, tool string) {
	w.t.Helper()
	for range 5 {
		s := w.snapshot()
		if len(s.PendingApprovals) == 1 && s.PendingApprovals[0].Tool == tool {
			return
		}
		w.must(0, "approve", goal)
		w.must(3, "resume", goal)
	}
	w.t.Fatalf("it never asked for %s", tool)
}

// TestTheWorkspaceTravels: a worker at another place, where there is nothing,
// restores the exact tree and goes on to the end.
func TestTheWorkspaceTravels(t *testing.T) {
	t.Parallel()
	files := toy()
	files["sub/data.bin"], files[".gitignore"] = "a\r\nb\x00c", "*.o\n"
	w, _ := onPostgres(t, files)
	goal := asks(w)
	w.approveUntil(goal, "run_command")
	before := tree(t, w.repo)
	w.aside("repo.first")
	b := w.at("other")
	b.must(0, "approve", goal)
	r := b.start("resume", goal)
	if got := r.wait(); got.code != 0 {
		t.Fatalf("%v", got)
	}
	after := tree(t, b.repo)
	before["check.sh"] = strings.Replace(before["check.sh"], "-rw-r--r--", "-rwxr-xr-x", 1)
	sameTree(t, "what travelled", before, after)
	moved := of[event.WorkspaceMoved](t, b.events())
	if len(moved) != 1 || moved[0].Written != len(after) || moved[0].Place == moved[0].From {
		t.Errorf("moved: %+v", moved)
	}
	if n := len(of[event.RepoStateMutated](t, b.events())); n != 3 {
		t.Errorf("%d changes of the tree: the move itself is none", n)
	}
	if a := b.must(0, "audit", goal); !strings.Contains(a.out, "the chain holds") {
		t.Errorf("%v", a)
	}
}

// TestItTravelsOnOverACloneAndBack: a clone of the start is brought forward
// and keeps its own git directory; the first place, when it gets the goal back,
// is brought forward too.
func TestItTravelsOverACloneAndBack(t *testing.T) {
	t.Parallel()
	w, _ := onPostgres(t, toy())
	w.git("init", "-q")
	w.git("add", ".")
	w.git("commit", "-q", "-m", "start")
	goal := asks(w)
	w.aside("repo.first")
	b := w.at("other")
	first := *w
	first.repo = filepath.Join(w.dir, "repo.first")
	first.git("clone", "-q", ".", b.repo)
	b.put(filepath.Join(b.repo, ".git/info/exclude"), "mine.txt\n")
	b.put(filepath.Join(b.repo, "mine.txt"), "ignored here\n")
	b.must(0, "approve", goal)
	b.must(3, "resume", goal) // asks for the next edit
	b.approveUntil(goal, "run_command")
	if got := b.read("mine.txt"); got != "ignored here\n" {
		t.Errorf("an ignored file is %q", got)
	}
	if got := b.git("status", "--porcelain"); !strings.Contains(got, " M code.txt") || !strings.Contains(got, "?? made/") {
		t.Errorf("git there says %q", got)
	}
	// Back to the first: its directory is as the goal left it, two edits ago.
	b.aside("repo.second")
	if err := os.Rename(filepath.Join(w.dir, "repo.first"), w.repo); err != nil {
		t.Fatal(err)
	}
	w.must(0, "approve", goal)
	w.must(0, "resume", goal)
	if w.read("code.txt") != "fixed\n" || w.read("made/note.txt") != "n\n" {
		t.Error("the first place was not brought forward")
	}
	if moved := of[event.WorkspaceMoved](t, w.events()); len(moved) != 2 || moved[0].From != moved[1].Place {
		t.Errorf("moved: %+v", moved)
	}
}

// TestForeignContentIsNeverOverwritten: the goal waits and says why, the
// directory stays as it is, and once it is out of the way the goal goes on.
func TestForeignContentIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	w, _ := onPostgres(t, toy())
	goal := asks(w)
	w.aside("repo.first")
	b := w.at("other")
	b.put(filepath.Join(b.repo, "thesis.txt"), "mine\n")
	before := tree(t, b.repo)
	b.must(0, "approve", goal)
	r := b.must(3, "resume", goal)
	hasLine(t, r, "cannot be had here", "thesis.txt", "--adopt")
	sameTree(t, "refused", before, tree(t, b.repo))
	if s := b.snapshot(); s.Status != "active" || s.WaitReason != event.WaitRetry {
		t.Errorf("it is %s and waits for %s", s.Status, s.WaitReason)
	}
	b.aside("thesis")
	waitFor(t, "the goal goes on", func() bool { return b.belay("resume", goal).code == 3 && len(b.snapshot().PendingApprovals) == 1 })
	if got := b.read("code.txt"); got != "fixed\n" {
		t.Errorf("code.txt is %q", got)
	}
}

// TestWhatDoesNotTravelSaysWhy: the SQLite default does not keep the workspace,
// a pack may be lost, and a person may take the directory as it is.
func TestWhatDoesNotTravelSaysWhy(t *testing.T) {
	t.Parallel()
	t.Run("it was not asked to", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, toy())
		goal := asks(w)
		if n := len(of[event.WorkspacePacked](t, w.events())); n != 0 {
			t.Errorf("%d packs in a ledger that nobody shares", n)
		}
		b := w.copied("other")
		w.aside("repo.first")
		b.put(filepath.Join(b.repo, "code.txt"), "fixed\n")
		b.put(filepath.Join(b.repo, "check.sh"), checkScript)
		b.must(0, "approve", goal)
		hasLine(t, b.must(3, "resume", goal), "cannot be had here", "--travel", "--adopt")
		b.must(3, "resume", goal, "--adopt")
		b.approveUntil(goal, "run_command")
		b.must(0, "approve", goal)
		hasLine(t, b.must(0, "resume", goal), "completed: verified")
		if moved := of[event.WorkspaceMoved](t, b.events()); len(moved) != 1 || !moved[0].Adopted {
			t.Errorf("moved: %+v", moved)
		}
		hasLine(t, b.must(2, "resume", goal, "--adopt"), "has ended")
	})
	t.Run("its pack is lost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, toy())
		goal := asks(w, "--travel")
		packs := of[event.WorkspacePacked](t, w.events())
		if len(packs) == 0 || packs[0].Base != "" || packs[0].Failed != "" {
			t.Fatalf("packs: %+v", packs)
		}
		b := w.copied("other")
		w.aside("repo.first")
		sum := packs[0].Pack.SHA256
		db, err := sql.Open("sqlite", filepath.Join(b.dir, "other", "ledger.db"))
		if err != nil {
			t.Fatal(err)
		}
		if res, err := db.Exec("DELETE FROM artifacts WHERE sha256 = ?", sum); err != nil {
			t.Fatal(err)
		} else if n, err := res.RowsAffected(); n != 1 || err != nil {
			t.Fatalf("%d artifacts removed: %v", n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		b.must(0, "approve", goal)
		hasLine(t, b.must(3, "resume", goal), "cannot be had here", sum)
	})
}

// TestMovingInSurvivesAKillAtEachOfItsInstants: killed while it takes packs in,
// removes and writes, the next worker there restores the exact tree all the
// same and leaves no temporary file.
func TestMovingInSurvivesAKillAtEachOfItsInstants(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files := toy()
	files["old/gone.txt"], files["a/b/c.txt"] = "to be removed\n", "c\n"
	w := newWorld(t, files)
	// A clone of the start, which the goal then leaves behind in every way.
	start := filepath.Join(w.dir, "start")
	if err := os.CopyFS(start, os.DirFS(w.repo)); err != nil {
		t.Fatal(err)
	}
	model := w.script("steps:\n" + stepRead + stepFix + stepCommand("rm -r old; mkdir -p new/x; echo n > new/x/n.txt; chmod 755 check.sh; ln -s code.txt link") +
		stepCall("ask_user", map[string]any{"question": "Go on?"}) + stepTest + stepDone)
	r := w.must(3, runToy(model, "--sandbox", "none", "--travel")...)
	goal := strings.Fields(r.out)[1]
	want := tree(t, w.repo)
	w.copied("first").must(0, "say", goal, "yes")
	w.aside("repo.first")
	kills := 0
	for _, point := range []string{"workspace.pack.taken", "workspace.move.removed", "workspace.move.staged", "workspace.move.named"} {
		for _, from := range []string{"nothing", "a clone of the start"} {
			for hit := 1; hit < 20; hit++ {
				if !movedUnderAKill(w, program, goal, point, hit, from == "nothing", want) {
					break
				}
				kills++
			}
		}
	}
	if kills < 20 {
		t.Errorf("only %d kills", kills)
	}
	t.Logf("%d kills", kills)
}

// movedUnderAKill lets a new place take the goal over, kills it at an instant,
// and lets it go on; false says that it did not come to that instant.
func movedUnderAKill(w *world, program, goal, point string, hit int, fromNothing bool, want map[string]string) bool {
	w.t.Helper()
	if err := os.RemoveAll(w.repo); err != nil {
		w.t.Fatal(err)
	}
	if !fromNothing {
		if err := os.CopyFS(w.repo, os.DirFS(filepath.Join(w.dir, "start"))); err != nil {
			w.t.Fatal(err)
		}
	}
	name := fmt.Sprintf("%s.%d.%v", point, hit, fromNothing)
	b := w.at(name)
	if err := os.CopyFS(filepath.Join(w.dir, name), os.DirFS(filepath.Join(w.dir, "first"))); err != nil {
		w.t.Fatal(err)
	}
	points := filepath.Join(w.dir, name+".points")
	if err := os.Mkdir(points, 0o700); err != nil {
		w.t.Fatal(err)
	}
	c := exec.Command(program, "resume", goal)
	c.Dir, c.Env = w.dir, append(slices.Clone(b.env), fmt.Sprintf("BELAY_FAILPOINTS=%s=kill@%d", point, hit), "BELAY_FAILPOINT_DIR="+points)
	out, err := c.CombinedOutput()
	_, terr := os.Stat(filepath.Join(points, fmt.Sprintf("%s@%d.taken", point, hit)))
	if terr != nil {
		if err != nil {
			w.t.Fatalf("%s@%d was not reached: %v\n%s", point, hit, err, out)
		}
		return false
	}
	if r := b.belay("resume", goal); r.code != 0 {
		w.t.Fatalf("after a kill at %s: %v", name, r)
	}
	sameTree(w.t, "after a kill at "+name, maps.Clone(want), tree(w.t, w.repo))
	return true
}
