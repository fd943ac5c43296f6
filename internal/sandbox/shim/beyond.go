//go:build linux

package shim

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// endBeyondFor bounds how long Launch.End may take. A daemon on a busy machine
// takes seconds.
const endBeyondFor = time.Minute

// beyond waits for the program of Launch.End, which the shim's reaper collects
// among all others.
type beyond struct {
	mu   sync.Mutex
	done map[int]bool
	pid  int
	over chan struct{}
	once bool
}

// ended is told of every process that ends.
func (b *beyond) ended(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over == nil:
	case b.pid == 0:
		b.done[pid] = true // it may be the one whose number is not known yet
	case b.pid == pid:
		close(b.over)
		b.pid = -1
	}
}

// endBeyond runs Launch.End, once, and waits for it.
func (s *supervisor) endBeyond() {
	if s.spec.Launch.End == nil || s.beyond.once {
		return
	}
	b := &s.beyond
	b.mu.Lock()
	b.once, b.done, b.over = true, map[int]bool{}, make(chan struct{})
	b.mu.Unlock()
	pid, err := startEnd(s.spec.Launch)
	b.mu.Lock()
	if b.pid = pid; err != nil || b.done[pid] {
		close(b.over)
		b.pid = -1
	}
	b.mu.Unlock()
	if err != nil {
		return
	}
	select {
	case <-b.over:
	case <-s.empty:
		// There was no child left when it was started, and the reaper is gone.
		waitFor(pid)
	case <-time.After(endBeyondFor):
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// startEnd starts Launch.End. What it says has no reader: whatever it could not
// end is looked for afterwards.
func startEnd(l Launch) (int, error) {
	path, err := lookPath(Launch{Argv: l.End, Dir: "/", Env: l.Env})
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	fd := null.Fd()
	return syscall.ForkExec(path, l.End, &syscall.ProcAttr{Dir: "/", Env: l.Env, Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true}})
}

// endBeyond is the same for a worker that finds the shim dead.
func endBeyond(l Launch) {
	pid, err := startEnd(l)
	if err != nil {
		return
	}
	waitFor(pid)
}

// waitFor waits for a child, and kills it when it takes too long.
func waitFor(pid int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(endBeyondFor):
		_ = syscall.Kill(pid, syscall.SIGKILL)
		<-done
	}
}
