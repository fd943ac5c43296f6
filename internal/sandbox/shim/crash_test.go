//go:build linux

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belay/internal/sandbox"
)

// gated is a command that has its effect, says so, and then waits for the gate
// file, so that a test can kill what it likes in between.
func gated(t *testing.T, key, effects string) (sandbox.Command, func()) {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	return shell(key, fmt.Sprintf("echo effect >> %s; echo main=$$; echo begun; read x <%s; echo after; exit 7", effects, gate)), func() {
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func attach(t *testing.T, s *Sandbox, key string) *process {
	t.Helper()
	p, err := s.Attach(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*process)
}

func TestWorkerKilledWhileTheCommandRunsLosesNothing(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	c, open := gated(t, "g.op.1", effects)
	w := startWorker(t, filepath.Dir(s.spool), c)
	until(t, attach(t, s, c.Key), "begun\n")
	kill(t, w)
	p := attach(t, s, c.Key)
	// The command still waits at its gate; starting it again re-attaches.
	again := start(t, s, c)
	open()
	for _, p := range []*process{p, again} {
		if res, out := wait(t, p), output(t, p); res.ExitCode != 7 || !strings.HasSuffix(out, "begun\nafter\n") {
			t.Errorf("%+v %q", res, out)
		}
	}
	if n := lines(t, effects); n != 1 {
		t.Errorf("the effect happened %d times", n)
	}
}

func TestWorkerThatComesBackAfterTheEndFindsTheResult(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	c, open := gated(t, "g.op.1", effects)
	w := startWorker(t, filepath.Dir(s.spool), c)
	p := attach(t, s, c.Key)
	until(t, p, "begun\n")
	kill(t, w)
	open()
	wait(t, p)
	later, err := New(filepath.Dir(s.spool), Options{Name: "none"})
	if err != nil {
		t.Fatal(err)
	}
	q := attach(t, later, c.Key)
	if res, out := wait(t, q), output(t, q); res.ExitCode != 7 || !strings.HasSuffix(out, "after\n") {
		t.Errorf("%+v %q", res, out)
	}
	if keys, err := later.Running(context.Background()); err != nil || len(keys) != 0 {
		t.Errorf("Running: %v %v", keys, err)
	}
	start(t, later, c)
	if n := lines(t, effects); n != 1 {
		t.Errorf("the effect happened %d times", n)
	}
}

func TestHangUpOfTheTerminalAndOfTheWorkersGroupDoNotReachTheShim(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	c, open := gated(t, "k", effects)
	p := start(t, s, c)
	until(t, p, "begun\n")
	id, err := p.Shim()
	if err != nil {
		t.Fatal(err)
	}
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(id.Pid), 0, 0)
	if errno != 0 || int(sid) != id.Pid {
		t.Errorf("the shim %d is in session %d (%v)", id.Pid, sid, errno)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", id.Pid)); err != nil || cwd != "/" {
		t.Errorf("the shim's directory is %s (%v)", cwd, err)
	}
	if err := syscall.Kill(id.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	open()
	if res := wait(t, p); res.ExitCode != 7 {
		t.Errorf("%+v", res)
	}
}

// troublesome has a first process, a background child, one in a session of its
// own, and one that lost its parent.
const troublesome = `echo main=$$
sleep 600 & echo background=$!
setsid sleep 600 & echo session=$!
(sh -c 'trap "" TERM HUP; echo daemon=$$; while :; do sleep 600; done' &)
sleep 0.05; echo begun; wait`

func TestShimKilledIsGoneAtOnceLeavesNoOrphanAndIsNeverRunTwice(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	c := shell("k", "echo effect >> "+effects+"\n"+troublesome)
	p := start(t, s, c)
	out := until(t, p, "begun\n")
	id, err := p.Shim()
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { _, err := p.Wait(context.Background()); waited <- err }()
	begin := time.Now()
	if err := syscall.Kill(id.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, sandbox.ErrGone) {
		t.Fatalf("Wait: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("Wait took %v to see that the shim is gone", took)
	}
	for _, name := range []string{"main", "background", "session", "daemon"} {
		if pid := pidIn(t, out, name); exists(pid) {
			t.Errorf("%s (%d) is left", name, pid)
		}
	}
	if _, err := s.Attach(context.Background(), "k"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Attach: %v", err)
	}
	again := start(t, s, c)
	if _, err := waitErr(t, again); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Wait of a second Start: %v", err)
	}
	if err := again.Stop(context.Background(), "x"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Stop: %v", err)
	}
	if n := lines(t, effects); n != 1 {
		t.Errorf("the effect happened %d times", n)
	}
	if got := output(t, again); !strings.Contains(got, "begun\n") {
		t.Errorf("the output up to the end is lost: %q", got)
	}
}

func TestShimAndWorkerKilledTogether(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	c := shell("k", "echo effect >> "+effects+"\n"+troublesome)
	w := startWorker(t, filepath.Dir(s.spool), c)
	p := attach(t, s, c.Key)
	out := until(t, p, "begun\n")
	id, err := p.Shim()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(id.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kill(t, w)
	eventually(t, "the first process dies with its shim", func() bool { return !exists(pidIn(t, out, "main")) })
	// The shim may be dying for a moment longer than its command.
	eventually(t, "the shim is gone", func() bool {
		_, err := s.Attach(context.Background(), "k")
		return errors.Is(err, sandbox.ErrGone)
	})
	for _, name := range []string{"background", "session", "daemon"} {
		if pid := pidIn(t, out, name); exists(pid) {
			t.Errorf("%s (%d) is left", name, pid)
		}
	}
	if n := lines(t, effects); n != 1 {
		t.Errorf("the effect happened %d times", n)
	}
}

func TestIdleShimEndsWithItsWorkerAndItsDeathCostsNothing(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	wait(t, start(t, s, shell("first", "true")))
	s.refilled.Wait()
	s.mu.Lock()
	idle := s.reserve.process.Pid
	s.mu.Unlock()
	if err := syscall.Kill(idle, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res, out := run(t, s, shell("second", "echo fine")); res.ExitCode != 0 || out != "fine\n" {
		t.Errorf("%+v %q", res, out)
	}
	w := startWorker(t, filepath.Dir(s.spool), shell("third", "true"))
	wait(t, attach(t, s, "third"))
	var idles []procStat
	eventually(t, "the worker has an idle shim", func() bool {
		idles = under(allProcesses(), func(p procStat) bool { return p.ppid == w.Process.Pid })
		return len(idles) == 1
	})
	kill(t, w)
	eventually(t, "the idle shim ends", func() bool { return !exists(idles[0].pid) })
}

func TestEveryStateOfARecordIsToldByItsFiles(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	type files struct{ held, marker, result, otherBoot, noSpec bool }
	for i, c := range []struct {
		f    files
		want state
	}{
		{files{}, never},
		{files{held: true}, running},
		{files{held: true, marker: true}, running},
		{files{marker: true}, gone},
		{files{otherBoot: true}, gone},
		{files{otherBoot: true, marker: true}, gone},
		{files{otherBoot: true, result: true}, done},
		{files{noSpec: true}, gone},
		{files{noSpec: true, result: true}, done},
		{files{marker: true, result: true}, done},
		{files{held: true, marker: true, result: true}, done},
	} {
		key := fmt.Sprintf("s.%d", i)
		r := s.record(key)
		sp, err := s.specOf(shell(key, "true"))
		if err != nil {
			t.Fatal(err)
		}
		if c.f.otherBoot {
			sp.Boot = "another"
		}
		if err := errors.Join(os.Mkdir(string(r), 0o700), r.prepare(sp)); err != nil {
			t.Fatal(err)
		}
		if c.f.held {
			fd, err := openFIFO(r.file(aliveFIFO), syscall.O_RDWR)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(fd)
		}
		if c.f.marker {
			if err := errors.Join(r.prepareMarker(marker{Identity: Identity{Pid: 1}}), r.showMarker()); err != nil {
				t.Fatal(err)
			}
		}
		if c.f.result {
			f, _ := os.Open(r.file(outputFile))
			if err := r.writeResult(sp.ID, sandbox.Result{ExitCode: 5}, f); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		if c.f.noSpec {
			_ = os.Remove(r.file(specFile))
		}
		if got, err := s.look(key); got != c.want || err != nil {
			t.Errorf("%+v: state %d (%v), want %d", c.f, got, err, c.want)
		}
		_, err = s.Attach(context.Background(), key)
		if wantErr := map[state]error{never: sandbox.ErrNoRecord, gone: sandbox.ErrGone}[c.want]; !errors.Is(err, wantErr) {
			t.Errorf("%+v: Attach: %v, want %v", c.f, err, wantErr)
		}
	}
	if _, err := s.Attach(context.Background(), "unknown"); !errors.Is(err, sandbox.ErrNoRecord) {
		t.Errorf("Attach of an unknown key: %v", err)
	}
}

func TestARecordUnderWhichNothingRanIsStartedAfresh(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	c := shell("k", "echo effect >> "+effects)
	sp, err := s.specOf(c)
	if err != nil {
		t.Fatal(err)
	}
	// What a worker leaves that is killed between publishing and handing over.
	r := s.record("k")
	if err := errors.Join(os.Mkdir(string(r), 0o700), r.prepare(sp)); err != nil {
		t.Fatal(err)
	}
	if res, err := waitErr(t, &process{sandbox: s, key: "k", record: r}); err != nil || !strings.Contains(res.SpawnError, "nothing has run") {
		t.Errorf("Wait: %+v %v", res, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p, err := s.Start(context.Background(), c)
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := p.Wait(context.Background()); err != nil || res.ExitCode != 0 {
				t.Errorf("%+v %v", res, err)
			}
		})
	}
	wg.Wait()
	if n := lines(t, effects); n != 1 {
		t.Errorf("the effect happened %d times", n)
	}
}

func TestAttachThatFindsNothingVoidsTheKeyForEveryLaterStart(t *testing.T) {
	t.Parallel()
	state, effects := t.TempDir(), effectFile(t)
	successor, late := sandboxAt(t, state), sandboxAt(t, state)
	c := shell("k", "echo effect >> "+effects)
	ctx := context.Background()
	for range 2 {
		if _, err := successor.Attach(ctx, "k"); !errors.Is(err, sandbox.ErrNoRecord) {
			t.Errorf("Attach: %v", err)
		}
		if _, err := late.Start(ctx, c); !errors.Is(err, sandbox.ErrVoid) {
			t.Errorf("Start: %v", err)
		}
	}
	if keys, err := late.Running(ctx); err != nil || len(keys) != 0 {
		t.Errorf("Running: %v %v", keys, err)
	}
	if err := successor.Forget(ctx, "k"); err != nil {
		t.Error(err)
	}
	if n := lines(t, effects); n != 0 {
		t.Errorf("the effect happened %d times", n)
	}
}

func TestAttachRacingWithStartEitherFindsItOrPreventsIt(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	found := 0
	for i := range 30 {
		effects := effectFile(t)
		c := shell(fmt.Sprintf("k.%d", i), "echo effect >> "+effects)
		started := make(chan error, 1)
		go func() { _, err := s.Start(context.Background(), c); started <- err }()
		time.Sleep(time.Duration(i) * 20 * time.Microsecond) // spreads the look over the start
		p, err := s.Attach(context.Background(), c.Key)
		startErr := <-started
		want := 0
		switch {
		case err == nil:
			found++
			want = 1
			if res := wait(t, p); res.ExitCode != 0 || startErr != nil {
				t.Errorf("%d: found %+v, Start: %v", i, res, startErr)
			}
		case !errors.Is(err, sandbox.ErrNoRecord) || !errors.Is(startErr, sandbox.ErrVoid):
			t.Errorf("%d: Attach: %v, Start: %v", i, err, startErr)
		}
		if n := lines(t, effects); n != want {
			t.Errorf("%d: Attach: %v, Start: %v, and %d effects", i, err, startErr, n)
		}
	}
	t.Logf("found %d of 30", found)
}

func TestAShimWhoseWorkerVanishesBeforeGoRunsNothing(t *testing.T) {
	t.Parallel()
	s, effects := newSandbox(t), effectFile(t)
	sp, err := s.specOf(shell("k", "echo effect >> "+effects))
	if err != nil {
		t.Fatal(err)
	}
	r := s.record("k")
	if err := errors.Join(os.Mkdir(string(r), 0o700), r.prepare(sp)); err != nil {
		t.Fatal(err)
	}
	h, err := s.takeHelper(r)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := s.look("k"); st != running || err != nil {
		t.Errorf("a taken record is in state %d (%v)", st, err)
	}
	found := attach(t, s, "k")
	h.conn.Close() // as the kernel does for a killed worker
	if _, err := h.process.Wait(); err != nil {
		t.Fatal(err)
	}
	if st, err := s.look("k"); st != never || err != nil {
		t.Errorf("afterwards it is in state %d (%v)", st, err)
	}
	// A worker that had attached meanwhile is told that it never happened, and
	// nobody can make it happen any more.
	if res, err := found.Wait(context.Background()); !errors.Is(err, sandbox.ErrNoRecord) {
		t.Errorf("who had attached is told %+v, %v", res, err)
	}
	if _, err := s.Start(context.Background(), shell("k", "echo effect >> "+effects)); !errors.Is(err, sandbox.ErrVoid) {
		t.Errorf("it can be started after that: %v", err)
	}
	if n := lines(t, effects); n != 0 {
		t.Error("the command ran")
	}
}

func TestDamagedFilesGiveClearErrorsAndNeverRunAgain(t *testing.T) {
	t.Parallel()
	effects := effectFile(t)
	for name, c := range map[string]struct {
		file    string
		content string
		want    error
	}{
		"torn result":           {resultFile, `{"format":1,"id":"ab`, sandbox.ErrGone},
		"empty result":          {resultFile, "", sandbox.ErrGone},
		"result of a newer one": {resultFile, `{"format":99,"id":"x","result":{}}`, sandbox.ErrGone},
		"garbage result":        {resultFile, "\x00\x01garbage", sandbox.ErrGone},
		"alien result":          {resultFile, `[1,2]`, sandbox.ErrGone},
	} {
		s := newSandbox(t)
		cmd := shell("k", "echo effect >> "+effects)
		before := lines(t, effects)
		wait(t, start(t, s, cmd))
		if err := os.WriteFile(s.record("k").file(c.file), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*process{attach(t, s, "k"), start(t, s, cmd)} {
			if _, err := waitErr(t, p); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("%s: Wait: %v", name, err)
			}
		}
		if n := lines(t, effects) - before; n != 1 {
			t.Errorf("%s: the effect happened %d times", name, n)
		}
		if err := s.Forget(context.Background(), "k"); err != nil {
			t.Errorf("%s: Forget: %v", name, err)
		}
	}
}

func TestGarbageInPlaceOfASpecOrAFifoIsNotTakenForARunningCommand(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for name, content := range map[string]string{"spec": "{", "null": "null", "other": `{"format":1,"key":"z","id":"i","launch":{"argv":["x"]}}`} {
		r := s.record(name)
		if err := os.Mkdir(string(r), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{specFile, aliveFIFO, controlFIFO, outputFile} {
			if err := os.WriteFile(r.file(f), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Attach(context.Background(), name)
		if !errors.Is(err, sandbox.ErrGone) || !strings.Contains(err.Error(), specFile) {
			t.Errorf("%s: Attach: %v", name, err)
		}
		p := start(t, s, shell(name, "true"))
		if _, err := waitErr(t, p); !errors.Is(err, sandbox.ErrGone) {
			t.Errorf("%s: Wait: %v", name, err)
		}
		if err := p.Follow(context.Background(), &strings.Builder{}); err != nil {
			t.Errorf("%s: Follow: %v", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.spool, "stray"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := s.Running(context.Background()); err != nil || len(keys) != 0 {
		t.Errorf("Running: %v %v", keys, err)
	}
}

func TestTheSpoolIsPrivateAndItsLeftoversAreTidied(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	wait(t, start(t, s, shell("k", "echo x")))
	err := filepath.Walk(s.spool, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	old, fresh := filepath.Join(s.spool, ".new-old"), filepath.Join(s.spool, ".new-fresh")
	past := time.Now().Add(-2 * staleAfter)
	if err := errors.Join(os.Mkdir(old, 0o700), os.Mkdir(fresh, 0o700), os.Chtimes(old, past, past)); err != nil {
		t.Fatal(err)
	}
	sandboxAt(t, filepath.Dir(s.spool))
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old leftover stays: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("what another worker is just preparing was removed: %v", err)
	}
}

func TestTheLongestTextsFitIntoTheRoomReservedForTheResult(t *testing.T) {
	t.Parallel()
	worst := strings.Repeat("\x01", 10_000)
	b, err := json.Marshal(ended{Format: format, ID: newID(), Result: sandbox.Result{
		ExitCode: -1 << 31, Signal: "SIGVTALRM", Stopped: clip(worst), SpawnError: clip(worst),
		Duration: 1<<63 - 1, Output: 1<<63 - 1, Dropped: 1<<63 - 1, Survivors: 1 << 31, MaxRSS: 1<<63 - 1, CPU: 1<<63 - 1}})
	if err != nil || len(b) > resultRoom {
		t.Errorf("%d bytes (%v), room for %d", len(b), err, resultRoom)
	}
}
