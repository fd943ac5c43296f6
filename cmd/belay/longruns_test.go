package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"belay/internal/cli"
	"belay/internal/service"
	"belay/internal/workspace/local"
)

// randomStep is a step of the model that changes the repository in some way.
func randomStep(r *rand.Rand, n int, open *bool) string {
	file := []string{"a.txt", "d/b.txt", "d/e/c.txt", "f", "f/g", "x.log", "link"}[r.IntN(7)]
	todo := func(status string) string {
		return stepCall("update_todos", map[string]any{"todos": []any{map[string]any{"id": fmt.Sprint("t", n/8), "content": "part", "status": status, "reason": "seen"}}})
	}
	switch r.IntN(10) {
	case 0:
		return stepCall("write_file", map[string]any{"path": fmt.Sprintf("new/%d.txt", n), "content": fmt.Sprint(r.IntN(1000), "\n")})
	case 1:
		return stepCommand("rm -rf " + file)
	case 2:
		return stepCommand("git add -A || true")
	case 3:
		return stepCommand("git rm -q -r --cached --ignore-unmatch " + file)
	case 4:
		return stepCommand("git commit -q -m step || true")
	case 5:
		return stepCommand(fmt.Sprintf("test -f %s && chmod %d %s || true", file, []int{644, 755}[r.IntN(2)], file))
	case 6:
		return stepCommand(fmt.Sprintf("ln -sfn %d link || true", n))
	case 7:
		if *open = !*open; *open {
			return todo("in_progress")
		}
		return todo("completed")
	case 8:
		return stepCommand(fmt.Sprintf("rm -rf f && mkdir f && echo %d > f/g", n))
	}
	return stepCommand(fmt.Sprintf("mkdir -p $(dirname %s) && rm -rf %s && echo %d > %s", file, file, n, file))
}

// TestTenLongRunsAreRolledBackToEveryCheckpointAndForwardAgain: the tree is the
// checkpoint's each time, looked at by one without memory, and so is what is
// staged; forward again is exact.
func TestTenLongRunsAreRolledBackToEveryCheckpointAndForwardAgain(t *testing.T) {
	t.Parallel()
	for run := range 10 {
		// The same ten each time: a run whose steps fail alike too often is handed
		// off, and which one that is must not be left to chance.
		seed := uint64(run + 1)
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, toy())
			w.put(filepath.Join(w.repo, ".gitignore"), "*.log\n")
			git := run%3 > 0
			if git {
				w.git("init", "-q")
				w.git("config", "user.name", "T")
				w.git("config", "user.email", "t@example.com")
				w.git("add", "-A")
				w.git("commit", "-qm", "one")
				w.put(filepath.Join(w.repo, "a.txt"), "staged\n")
				w.git("add", "a.txt")
			}
			steps, open := "steps:\n"+stepRead+stepFix, false
			for n := range 14 {
				steps += randomStep(r, n, &open)
			}
			w.must(0, runToy(w.script(steps+stepTest+stepDone))...)
			everyCheckpoint(t, w, w.goal(), git)
			w.must(0, "audit", w.goal())
		})
	}
}

func everyCheckpoint(t *testing.T, w *world, goal string, git bool) {
	t.Helper()
	ctx := context.Background()
	svc, done, err := openService(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	first, err := svc.Snapshot(ctx, goal)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Checkpoints) < 4 {
		t.Fatalf("only %d checkpoints", len(first.Checkpoints))
	}
	end, err := svc.Checkpoint(ctx, goal, "end")
	if err != nil {
		t.Fatal(err)
	}
	to := func(name, tree, index string) {
		t.Helper()
		p, err := svc.PlanRollback(ctx, goal, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Kept)+len(p.KeptStaged) > 0 {
			t.Errorf("%s: nobody else was there, and %q and %q are left alone", name, p.Kept, p.KeptStaged)
		}
		if !p.Empty() {
			if _, err := svc.Rollback(ctx, goal, p); err != nil {
				t.Fatal(err)
			}
		}
		ws, err := local.Open(ctx, w.repo, local.Options{State: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		got, err := ws.Observe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got != tree {
			t.Errorf("%s: the tree is %s, want %s", name, got, tree)
		}
		if !git || name == "end" { // the next rollback starts from it, and says what differs
			return
		}
		snap, err := svc.PlanRollback(ctx, goal, name)
		if err != nil || !snap.Empty() || snap.Note != "" {
			t.Errorf("%s: what is staged still differs (%v): %+v %s", name, err, snap.Staged, snap.Note)
		}
	}
	for _, c := range first.Checkpoints {
		to(c.ID, c.Tree, c.Index)
		to("end", end.Tree, end.Index)
	}
	t.Logf("%d checkpoints", len(first.Checkpoints))
}

// openService is the service on a world's state, in this process.
func openService(ctx context.Context, w *world) (*service.Service, func() error, error) {
	return open(ctx, cli.OpenOptions{State: filepath.Join(w.dir, "state")})
}
