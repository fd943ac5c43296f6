//go:build linux

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belay/internal/sandbox"
)

func TestWorkerKilledAtAnyInstantOfTheStartRunsTheCommandOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	never, kept := 0, 0
	for i := range 40 {
		effects := effectFile(t)
		c := shell(fmt.Sprintf("k.%d", i), "echo effect >> "+effects+"; echo out; exit 5")
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		w := exec.Command("/proc/self/exe")
		w.Env = append(os.Environ(), envWorkerState+"="+filepath.Dir(s.spool), envWorkerCommand+"="+string(b))
		stdin, err := w.StdinPipe() // never written to: the worker lives until it is killed
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		// Somewhere between its first instruction and long after the start.
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond))))
		kill(t, w)
		stdin.Close()
		if i%2 == 0 {
			_, err := s.Attach(context.Background(), c.Key)
			switch {
			case errors.Is(err, sandbox.ErrNoRecord):
				never++
				if _, err := s.Start(context.Background(), c); !errors.Is(err, sandbox.ErrVoid) {
					t.Errorf("%d: Start of a void attempt: %v", i, err)
				}
				c.Key += ".next"
			case err != nil:
				t.Errorf("%d: %v", i, err)
			default:
				kept++
			}
		}
		p := start(t, s, c)
		res, err := waitErr(t, p)
		if err == nil && res.SpawnError != "" {
			// Attached to one that was just on its way when its worker died.
			p = start(t, s, c)
			res, err = waitErr(t, p)
		}
		if err != nil || res.ExitCode != 5 || output(t, p) != "out\n" || lines(t, effects) != 1 {
			t.Errorf("%d: %+v %v, output %q, %d effects", i, res, err, output(t, p), lines(t, effects))
		}
	}
	t.Logf("killed before anything ran: %d; found again: %d", never, kept)
}

func TestShimKilledAtAnyInstantIsNeverRunTwiceAndNeverClaimedWrongly(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	var refused, gone, done int
	for i := range 60 {
		effects := effectFile(t)
		c := shell(fmt.Sprintf("k.%d", i), "echo effect >> "+effects+"; sleep 0.003; exit 5")
		h, err := s.startHelper()
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.reserve, h = h, s.reserve
		pid := s.reserve.process.Pid
		s.mu.Unlock()
		if h != nil {
			h.dismiss()
		}
		killed := make(chan struct{})
		go func() {
			time.Sleep(time.Duration(rand.Int64N(int64(15 * time.Millisecond))))
			_ = syscall.Kill(pid, syscall.SIGKILL)
			close(killed)
		}()
		p, err := s.Start(context.Background(), c)
		if err != nil {
			<-killed
			refused++
			if n := lines(t, effects); n != 0 {
				t.Errorf("%d: Start failed (%v) with %d effects", i, err, n)
			}
			continue
		}
		res, err := waitErr(t, p)
		<-killed
		switch {
		case errors.Is(err, sandbox.ErrGone):
			gone++
			before := lines(t, effects)
			if _, err := waitErr(t, start(t, s, c)); !errors.Is(err, sandbox.ErrGone) || before > 1 || lines(t, effects) != before {
				t.Errorf("%d: gone, then %v, effects %d and %d", i, err, before, lines(t, effects))
			}
		case err != nil:
			t.Errorf("%d: %v", i, err)
		case res.SpawnError != "":
			refused++
			if n := lines(t, effects); n != 0 {
				t.Errorf("%d: %+v with %d effects", i, res, n)
			}
		default:
			// Either it had ended before the kill, or the idle shim was dead
			// already and another one took over.
			done++
			if n := lines(t, effects); res.ExitCode != 5 || n != 1 {
				t.Errorf("%d: %+v with %d effects", i, res, n)
			}
		}
	}
	t.Logf("refused %d, gone %d, done %d", refused, gone, done)
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".new-") || strings.HasPrefix(e.Name(), ".old-") {
			t.Errorf("%s was left", e.Name())
		}
	}
}
