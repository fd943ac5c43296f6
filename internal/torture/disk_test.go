//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/core/lifecycle"
)

// The state directory is on a disk that fills up at different places of the
// run. belay stops with the storage named; once there is space again, it goes
// on, and everything has happened once.
func TestAFullDiskStopsTheGoalAndSpaceLetsItGoOn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount the small disk that this test fills")
	}
	program := filepath.Join(t.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-o", program, "belay/cmd/belay").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kib := range []int{150, 300, 500, 800, 1200, 1800} {
		t.Run(fmt.Sprint(kib, " KiB"), func(t *testing.T) {
			t.Parallel()
			fillUp(t, program, kib)
		})
	}
}

func fillUp(t *testing.T, program string, kib int) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := lay(dir); err != nil {
		t.Fatal(err)
	}
	w := &world{dir: dir, program: program, acked: map[uint64]string{}, log: func(string, ...any) {}}
	p := &player{world: w, rng: rand.New(rand.NewPCG(1, 1)), random: map[string]int{}, put: map[string]bool{}}
	state := w.path("state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
	if !p.untilFull(t) {
		t.Fatalf("%d KiB were enough", kib)
	}
	if err := syscall.Mount("tmpfs", state, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if err := p.play(); err != nil {
		t.Fatal(err)
	}
	if s, err := p.show(); err != nil || s.Status != lifecycle.Completed {
		t.Errorf("the goal is %s, %v", s.Status, err)
	}
	if o, err := w.belay(false, nil, "audit", p.goal); err != nil || o.code != 0 {
		t.Errorf("the audit: %v %v", o, err)
	}
	for _, e := range effects {
		if n := e.seen(w); n != 1 {
			t.Errorf("the effect %q happened %d times", e.name, n)
		}
	}
	for _, v := range w.bad {
		t.Error(v)
	}
	w.checkProcesses()
}

// untilFull goes on until belay says that it has no space, and reports whether
// it did.
func (p *player) untilFull(t *testing.T) bool {
	args := []string{"run", "turn one into two", "--model", "script:" + p.path("model.yaml"), "--test", "sh check.sh",
		"--plan", "always", "--approve", "ask", "--sandbox", "none", "--json"}
	for range 20 {
		o, err := p.belay(false, nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		p.acknowledge(o)
		switch o.code {
		case 0:
			if args[0] != "approve" {
				return false
			}
		case 1:
			if !strings.Contains(o.err, "no space") && !strings.Contains(o.err, "is full") || !strings.Contains(o.err, p.path("state")) {
				t.Errorf("it does not say what is full: %v", o)
			}
			return true
		case 3:
		default:
			t.Errorf("an exit code that nobody expects: %v", o)
			return true
		}
		if p.goal == "" {
			if err := p.find(); err != nil {
				t.Fatal(err)
			}
		}
		if args[0] != "approve" {
			args = []string{"approve", p.goal}
		} else {
			args = []string{"resume", p.goal, "--json"}
		}
	}
	return false
}
