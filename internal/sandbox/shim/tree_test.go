//go:build linux

package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belay/internal/sandbox"
)

func TestDeadlineEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for name, text := range map[string]string{
		"polite":                  "sleep 600",
		"exec":                    "exec sleep 600",
		"tree":                    troublesome,
		"deaf":                    "trap '' TERM INT HUP; while :; do sleep 600; done",
		"deaf child in a pipe":    "(trap '' TERM; sleep 600) | cat",
		"stopped":                 "kill -STOP $$",
		"forks without end":       "f() { sleep 0.001 & }; trap '' TERM; while :; do f; done",
		"writes without end":      "yes",
		"deaf sessions in a loop": "trap '' TERM; while :; do setsid sleep 600 & sleep 0.01; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := shell(strings.ReplaceAll(name, " ", "_"), text)
			cmd.Timeout, cmd.Grace, cmd.MaxOutput = 300*time.Millisecond, 200*time.Millisecond, 1<<20
			begin := time.Now()
			p := start(t, s, cmd)
			res := wait(t, p)
			// A second on an idle machine; the rest is for a busy one.
			if took := time.Since(begin); took > 10*time.Second || took < cmd.Timeout {
				t.Errorf("it took %v", took)
			}
			if !res.TimedOut || res.Signal == "" || res.Stopped != "" {
				t.Errorf("%+v", res)
			}
			if left := marked(mustSpec(t, p).ID); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestOutputBeforeTheDeadlineIsKept(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	c := shell("k", "echo partial; sleep 600")
	c.Timeout = 2 * time.Second
	if res, out := run(t, s, c); !res.TimedOut || out != "partial\n" {
		t.Errorf("%+v %q", res, out)
	}
}

func mustSpec(t *testing.T, p *process) spec {
	t.Helper()
	sp, err := p.record.spec()
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

func TestWhatOutlivesTheCommandNeitherDelaysNorSurvives(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for name, text := range map[string]string{
		"background child holds the pipe":   "sleep 600 & echo pid=$!; echo done",
		"double fork":                       "(sleep 600 & echo pid=$!); echo done",
		"own session":                       "setsid sh -c 'echo pid=$$; echo done; >$FLAG; exec sleep 600' & until [ -e $FLAG ]; do sleep 0.01; done",
		"deaf daemon":                       "setsid sh -c 'trap \"\" TERM HUP; echo pid=$$; echo done; >$FLAG; while :; do sleep 600; done' & until [ -e $FLAG ]; do sleep 0.01; done",
		"closed streams, empty environment": "env -i setsid sleep 600 >/dev/null 2>&1 </dev/null & echo pid=$!; echo done",
		"stopped child":                     "sh -c 'kill -STOP $$' & echo pid=$!; until [ \"$(cut -d' ' -f3 /proc/$!/stat)\" = T ]; do sleep 0.01; done; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := shell(strings.ReplaceAll(strings.ReplaceAll(name, " ", "_"), ",", ""), text+"; exit 4")
			cmd.Env = append(cmd.Env, "FLAG="+filepath.Join(t.TempDir(), "flag"))
			begin := time.Now()
			res, out := run(t, s, cmd)
			// Half a second on an idle machine; the rest is for a busy one.
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if res.ExitCode != 4 || res.TimedOut || res.Survivors < 1 || !strings.Contains(out, "done\n") {
				t.Errorf("%+v %q", res, out)
			}
			if pid := pidIn(t, out, "pid"); exists(pid) {
				t.Errorf("%d is left", pid)
			}
		})
	}
}

func TestWhatFinishesByItselfRightAfterTheCommandMayDoSo(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	file := filepath.Join(t.TempDir(), "log")
	c := sandbox.Command{Key: "tee", Argv: []string{"/bin/bash", "-c", "exec > >(tee " + file + "); echo kept"}, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}}
	res, out := run(t, s, c)
	b, err := os.ReadFile(file)
	if err != nil || string(b) != "kept\n" || out != "kept\n" || res.Survivors != 0 {
		t.Errorf("%+v, output %q, file %q (%v)", res, out, b, err)
	}
}

func TestKillOfTheCommandFromOutsideIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	p := start(t, s, shell("k", "echo main=$$; echo begun; sleep 600; true"))
	out := until(t, p, "begun\n")
	begin := time.Now()
	if err := syscall.Kill(pidIn(t, out, "main"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	res := wait(t, p)
	if took := time.Since(begin); took > 10*time.Second || res.Signal != "SIGKILL" || res.ExitCode != 137 || res.Survivors != 1 {
		t.Errorf("after %v: %+v", took, res)
	}
}

func TestStopEndsTheTreeAndSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	p := start(t, s, shell("k", troublesome))
	until(t, p, "begun\n")
	other := sandboxAt(t, filepath.Dir(s.spool))
	if err := attach(t, other, "k").Stop(context.Background(), "the user\ncancelled "+strings.Repeat("x", 5000)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(context.Background(), "second"); err != nil {
		t.Fatal(err)
	}
	res := wait(t, p)
	if !strings.HasPrefix(res.Stopped, "the user cancelled") || res.TimedOut || res.Signal != "SIGTERM" {
		t.Errorf("%+v", res)
	}
	if err := p.Stop(context.Background(), "late"); err != nil {
		t.Errorf("Stop after the end: %v", err)
	}
}

func TestStopWithoutAReasonStillShows(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	p := start(t, s, shell("k", "exec sleep 600"))
	if err := p.Stop(context.Background(), " "); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); res.Stopped == "" {
		t.Errorf("%+v", res)
	}
}

func TestASignalToTheShimStopsTheCommandOnRecord(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	p := start(t, s, shell("k", troublesome))
	until(t, p, "begun\n")
	id, err := p.Shim()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(id.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); !strings.Contains(res.Stopped, "SIGTERM") {
		t.Errorf("%+v", res)
	}
}

func TestStopRacingWithTheEndGivesOneConsistentResult(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	stopped := 0
	for i := range 40 {
		p := start(t, s, shell(fmt.Sprintf("k.%d", i), "sleep 0.004; exit 9"))
		time.Sleep(time.Duration(i%10) * time.Millisecond) // spreads the stop around the end
		if err := p.Stop(context.Background(), "raced"); err != nil {
			t.Fatal(err)
		}
		res := wait(t, p)
		switch {
		case res.Stopped == "raced":
			stopped++
		case res.Stopped != "" || res.ExitCode != 9 || res.Signal != "":
			t.Errorf("neither stopped nor ended by itself: %+v", res)
		}
		if again := wait(t, attach(t, s, p.key)); again != res {
			t.Errorf("two results: %+v and %+v", res, again)
		}
	}
	t.Logf("%d of 40 were stopped", stopped)
}

func TestHugeOutputIsCappedCountedAndBlocksNothing(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const total = 100 << 20
	for key, limit := range map[string]int64{"small": 1 << 20, "default": 0} {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		c := shell(key, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; read x <%s", total, gate))
		c.MaxOutput = limit
		p := start(t, s, c)
		shimOf := func() Identity { id, _ := p.Shim(); return id }
		// It stands at the gate once everything has been read from the pipe.
		g, err := os.OpenFile(gate, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		rss := peakRSS(t, shimOf().Pid)
		_, _ = g.WriteString("go\n")
		g.Close()
		res := wait(t, p)
		want := limit
		if want == 0 {
			want = defaultOutput
		}
		if res.ExitCode != 0 || res.Output != want || res.Dropped != total-want {
			t.Errorf("%s: %+v", key, res)
		}
		r, err := p.Output()
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		r.Close()
		if err != nil || n != want {
			t.Errorf("%s: %d bytes in the spool (%v)", key, n, err)
		}
		if rss > 64<<20 {
			t.Errorf("%s: the shim grew to %d MiB", key, rss>>20)
		}
		t.Logf("%s: shim peak RSS %d KiB", key, rss>>10)
	}
}

func peakRSS(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

func TestAFullDiskCountsTheOutputAsDroppedAndNeverBlocks(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newPump(r, full, 1<<20)
	go p.run()
	if _, err := w.Write(make([]byte, 300<<10)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	<-p.done
	if p.kept != 0 || p.dropped != 300<<10 {
		t.Errorf("kept %d, dropped %d", p.kept, p.dropped)
	}
}

func TestAForeignHolderOfThePipeIsNotWaitedForAndNothingIsLost(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // held until after finish
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := newPump(r, out, 1<<20)
	if _, err := w.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	go p.run()
	p.finish()
	if p.kept != int64(len("last words")) {
		t.Errorf("kept %d", p.kept)
	}
}

func TestDescriptorsOfTheWorkersCallerAreNotHeldOpen(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	fds := make([]int, 2)
	// Without close-on-exec, as an inherited descriptor is.
	if err := syscall.Pipe2(fds, 0); err != nil {
		t.Fatal(err)
	}
	r := os.NewFile(uintptr(fds[0]), "r")
	defer r.Close()
	p := start(t, s, shell("k", "echo begun; sleep 600"))
	until(t, p, "begun\n")
	id, err := p.Shim()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", id.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pipes := 0
	for _, e := range entries {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", id.Pid, e.Name()))
		if err == nil && strings.HasPrefix(to, "pipe:") {
			pipes++
		}
	}
	if pipes != 1 { // the command's output
		t.Errorf("the shim holds %d pipes", pipes)
	}
	if err := syscall.Close(fds[1]); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { _, err := r.Read(make([]byte, 1)); end <- err }()
	select {
	case err := <-end:
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("somebody still holds the pipe")
	}
	if err := p.Stop(context.Background(), "x"); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
}

// The Go runtime looks at its processor limit about once a second; a shim
// must still be in one piece afterwards.
func TestShimsLiveThroughTheRuntimesOwnHousekeeping(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	var all []*process
	for i := range 6 {
		all = append(all, start(t, s, shell(fmt.Sprintf("k.%d", i), "for i in $(seq 25); do echo $i; sleep 0.1; done; exit 6")))
	}
	for _, p := range all {
		if res := wait(t, p); res.ExitCode != 6 || res.Stopped != "" || res.Survivors != 0 {
			t.Errorf("%+v", res)
		}
	}
}

func TestManyStartsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const n = 200
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			p, err := s.Start(context.Background(), shell(fmt.Sprintf("k.%d", i), fmt.Sprintf("echo out %d; exit %d", i, i%250)))
			if err != nil {
				t.Error(err)
				return
			}
			res, err := p.Wait(context.Background())
			if err != nil || res.ExitCode != i%250 {
				t.Errorf("%d: %+v %v", i, res, err)
				return
			}
			if r, err := p.Output(); err != nil {
				t.Error(err)
			} else {
				b, _ := io.ReadAll(r)
				r.Close()
				if string(b) != fmt.Sprintf("out %d\n", i) {
					t.Errorf("%d: output %q", i, b)
				}
			}
			if err := s.Forget(context.Background(), p.Key()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(s.spool)
	if err != nil || len(entries) != 1 || entries[0].Name() != ".lock" {
		t.Errorf("the spool still holds %v (%v)", entries, err)
	}
}

func TestStartersOfOneKeyRunItOnce(t *testing.T) {
	t.Parallel()
	state, effects := t.TempDir(), effectFile(t)
	var boxes []*Sandbox
	for range 4 {
		boxes = append(boxes, sandboxAt(t, state))
	}
	for round := range 10 {
		c := shell(fmt.Sprintf("k.%d", round), "echo effect >> "+effects+"; exit 3")
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				p, err := boxes[i%len(boxes)].Start(context.Background(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if res, err := p.Wait(context.Background()); err != nil || res.ExitCode != 3 {
					t.Errorf("%+v %v", res, err)
				}
			})
		}
		wg.Wait()
		if n := lines(t, effects); n != round+1 {
			t.Fatalf("after %d rounds the effect happened %d times", round+1, n)
		}
	}
}

func TestRunningListsAndForgetRemovesOnlyWhatHasEnded(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	ctx := context.Background()
	wait(t, start(t, s, shell("ended", "true")))
	p := start(t, s, shell("live", "sleep 600"))
	q := start(t, s, shell("also", "sleep 600"))
	keys, err := s.Running(ctx)
	if err != nil || strings.Join(keys, " ") != "also live" {
		t.Errorf("Running: %v %v", keys, err)
	}
	if err := s.Forget(ctx, "live"); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("Forget of a running one: %v", err)
	}
	for range 2 {
		if err := s.Forget(ctx, "ended"); err != nil {
			t.Errorf("Forget: %v", err)
		}
	}
	if _, err := s.Attach(ctx, "ended"); !errors.Is(err, sandbox.ErrNoRecord) {
		t.Errorf("Attach of a forgotten one: %v", err)
	}
	for _, p := range []*process{p, q} {
		if err := p.Stop(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		wait(t, p)
	}
	if keys, err := s.Running(ctx); err != nil || len(keys) != 0 {
		t.Errorf("Running: %v %v", keys, err)
	}
}

func TestProcessNamesCannotForgeStat(t *testing.T) {
	t.Parallel()
	const tail = " S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2"
	for _, name := range []string{"sh", "a b", ") Z 1 1", "((", "x) R 1 2 3 (y", ""} {
		st, err := parseStat(12, "12 ("+name+")"+tail)
		if err != nil || st.ppid != 7 || st.pgrp != 8 || st.start != 4242 || st.zombie {
			t.Errorf("%q: %+v %v", name, st, err)
		}
	}
	for _, bad := range []string{"", "12", "12 (sh) S 1", "12 (sh) S x y z" + tail} {
		if _, err := parseStat(12, bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
