package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestObservingWhileFilesChangeEndsRight: whatever an observation saw in the
// middle of changes, once they end the next one is right, and every tree that
// was returned on the way can be materialised.
func TestObservingWhileFilesChangeEndsRight(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3, 4} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			run(t, root, "init", "-q")
			w := open2(t, root, Options{})
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 1))
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					dir := filepath.Join(root, fmt.Sprintf("d%d", r.IntN(3)))
					name := filepath.Join(dir, fmt.Sprintf("f%d", r.IntN(4)))
					// Errors are part of the game: the file may be gone.
					switch r.IntN(7) {
					case 0:
						_ = os.Remove(name)
					case 1:
						_ = os.RemoveAll(dir)
					case 2:
						_ = os.Rename(name, name+"x")
					case 3:
						_ = write(filepath.Join(dir, ".gitignore"), []string{"", "*x\n", "f1\n"}[r.IntN(3)])
					default:
						_ = write(name, fmt.Sprint(r.IntN(3)))
					}
				}
			})
			var trees []string
			for range 8 {
				tree, err := w.Observe(context.Background())
				if err == nil {
					trees = append(trees, tree)
				} else if kindOfError(err) == "" {
					t.Errorf("not a fault: %v", err)
				}
			}
			close(stop)
			wg.Wait()
			if got, want := observe(t, w), fresh(t, root); got != want {
				t.Errorf("with memory %s, without %s", got, want)
			}
			for _, tree := range trees {
				if err := w.Materialise(context.Background(), tree, t.TempDir()); err != nil {
					t.Errorf("tree %s: %v", tree, err)
				}
			}
		})
	}
}

// TestAKilledObservationLeavesNothingBroken kills observing processes at
// random points and holds .git, the objects and the next observation whole.
func TestAKilledObservationLeavesNothingBroken(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	for i := range 150 {
		put(t, root, map[string]string{fmt.Sprintf("d%d/f%d", i%10, i): fmt.Sprint("content ", i)})
	}
	run(t, root, "init", "-q")
	run(t, root, "add", "-A")
	before := prints(t, filepath.Join(root, ".git"))
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 25 {
		// Few and many changes in turn, for loose objects and packs.
		for k := range 1 + i%3*40 {
			put(t, root, map[string]string{fmt.Sprintf("d%d/f%d", k%10, k): fmt.Sprint("changed ", i, k)})
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "BELAY_TEST_ROLE=observer", "BELAY_TEST_ROOT="+root, "BELAY_TEST_STATE="+state)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(r.IntN(60))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed or done
		timer.Stop()
	}
	w := open2(t, root, Options{State: state})
	tree := observe(t, w)
	if tree != fresh(t, root) {
		t.Error("another tree after the kills")
	}
	if out, err := w.git.run(context.Background(), w.inStore("fsck", "--full")); err != nil {
		t.Errorf("fsck: %v %s", err, out)
	}
	if err := w.Materialise(context.Background(), tree, t.TempDir()); err != nil {
		t.Error(err)
	}
	same(t, ".git", before, prints(t, filepath.Join(root, ".git")))
}

// TestWhatAppearsAfterGitLookedIsNotMissed puts a file and an ignore rule in
// place in the instant between git's listing and our own look.
func TestWhatAppearsAfterGitLookedIsNotMissed(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]string{
		"a file":         "echo late > d/late",
		"an ignore file": "echo f > d/.gitignore",
		"a rule more":    "echo f >> .gitignore",
		"a folder":       "mkdir -p d/e && echo late > d/e/late",
		"an exclude":     "echo f > .git/info/exclude",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put(t, root, map[string]string{"a": "a", "d/f": "f", ".gitignore": "x\n"})
			run(t, root, "init", "-q")
			w := open2(t, root, Options{})
			real := w.git.bin
			w.git.bin = filepath.Join(t.TempDir(), "git")
			script := "#!/bin/sh\n" + real + " \"$@\"\ncode=$?\ncase \"$*\" in *ls-files*) cd " + root + " && " + add + ";; esac\nexit $code\n"
			program(t, w.git.bin, script)
			observe(t, w)
			w.git.bin = real
			if observe(t, w) != fresh(t, root) {
				t.Error("missed")
			}
		})
	}
}
