//go:build linux

package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"belay/internal/failpoint"
)

// helper is a shim process that this worker started and has not let go of yet.
// The two talk over a socket, in lines:
//
//	worker: the record's directory     (take this)
//	shim:   ready                      (it holds alive and control)
//	worker: go                         (the record is durable: start it)
//	shim:   started, or failed TEXT    (failed: nothing has run)
//
// An end of file before "go" makes the shim leave without having done
// anything.
type helper struct {
	process *os.Process
	conn    *os.File
	in      *bufio.Reader
	gone    chan struct{} // closed when the process has been reaped
	group   string
}

// errRefused wraps a shim's own statement that nothing has run.
var errRefused = errors.New("the shim refused")

// errShimEnded says that a shim was killed before it answered.
var errShimEnded = errors.New("the shim ended before it answered; nothing has run")

// helperArg and envHelper together make a binary that imports this package
// become a shim; see takeOver.
const (
	helperArg = "shim"
	limitArg  = "shim-limit"
	envHelper = "BELAY_SHIM"
	// envGroup names the control groups a shim is to enter, envHeld the limits
	// that they hold, for a helper.
	envGroup = "BELAY_SHIM_GROUP"
	envHeld  = "BELAY_SHIM_HELD"
)

// startHelper starts this same binary as an idle shim. /proc/self/exe is this
// very file even after an upgrade replaced or removed it.
func (s *Sandbox) startHelper() (*helper, error) {
	var group string
	env := append(failpoint.Environ(), envHelper+"=1", "GOMAXPROCS=2")
	if s.options.Bounded {
		group = groupPrefix + newID()
		env = append(env, envGroup+"="+group)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for the shim: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "shim socket")
	defer theirs.Close()
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		_ = syscall.Close(fds[0])
		return nil, fmt.Errorf("make a socket for the shim: %w", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "shim socket")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{"belay", helperArg}, &os.ProcAttr{
		// The shim needs nothing of the worker's environment, and what it does
		// not have it cannot leak. It keeps no directory of the user's busy. Two
		// processors are plenty: it mostly waits.
		Dir: "/", Env: env,
		Files: []*os.File{null, null, null, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	return &helper{process: p, conn: ours, in: bufio.NewReader(ours), gone: make(chan struct{}), group: group}, nil
}

// take offers a record and waits until the shim holds it.
func (h *helper) take(r record) error {
	// A shim answers within milliseconds, or is not able to; ten seconds allow
	// for a machine that swaps.
	_ = h.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(h.conn, string(r)+"\n"); err != nil {
		return fmt.Errorf("hand over to the shim: %w", peerEnded(err))
	}
	answer, err := h.line()
	if err != nil {
		return err
	}
	if answer != "ready" {
		return fmt.Errorf("%w: %s", errRefused, strings.TrimPrefix(answer, "failed "))
	}
	return nil
}

// launch says "go" and waits for the answer, or for ctx: then the command is
// on its way all the same. Afterwards the helper is on its own.
func (h *helper) launch(ctx context.Context) error {
	_ = h.conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(h.conn, "go\n"); err != nil {
		h.dismiss()
		return fmt.Errorf("hand over to the shim: %w", peerEnded(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = h.conn.SetReadDeadline(time.Unix(1, 0)) })
	answer, err := h.line()
	stop()
	go h.reap()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err != nil:
		return err
	case answer != "started":
		return fmt.Errorf("%w: %s", errRefused, strings.TrimPrefix(answer, "failed "))
	}
	return nil
}

func (h *helper) line() (string, error) {
	s, err := h.in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("hear from the shim: %w", peerEnded(err))
	}
	return strings.TrimSuffix(s, "\n"), nil
}

// peerEnded is errShimEnded for what a socket says of a peer that is gone: a
// reset when it left something unread.
func peerEnded(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errShimEnded
	}
	return err
}

// reap waits for the shim's end without holding a thread: the socket closes
// with it. It is only there so that no zombie stays behind.
func (h *helper) reap() {
	_ = h.conn.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, h.conn)
	h.conn.Close()
	_, _ = h.process.Wait()
	close(h.gone)
}

// dismiss sends an idle shim away and waits until it is gone.
func (h *helper) dismiss() {
	h.conn.Close()
	// It leaves at the end of file by itself; the kill is for one that is
	// stopped or stuck. It has started nothing.
	_ = h.process.Kill()
	_, _ = h.process.Wait()
	groupsOf(h.group).remove()
}

// takeHelper gives the record to the idle shim, or to a new one when there is
// none or it has died.
func (s *Sandbox) takeHelper(r record) (*helper, error) {
	s.mu.Lock()
	h := s.reserve
	s.reserve = nil
	s.mu.Unlock()
	if h != nil {
		err := h.take(r)
		if err == nil {
			return h, nil
		}
		h.dismiss()
		if errors.Is(err, errRefused) {
			return nil, err
		}
	}
	h, err := s.startHelper()
	if err != nil {
		return nil, err
	}
	if err := h.take(r); err != nil {
		h.dismiss()
		return nil, err
	}
	return h, nil
}

// replenishAfter is how long a command has the machine to itself before the
// next idle shim is started: most commands of a step have ended by then, and
// pay nothing for it.
const replenishAfter = 50 * time.Millisecond

// replenish starts the next idle shim in the background, once the command of
// this one has ended or has run for a while.
func (s *Sandbox) replenish(after *helper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.refill || s.reserve != nil {
		return
	}
	s.refill = true
	s.refilled.Go(func() {
		select {
		case <-after.gone:
		case <-time.After(replenishAfter):
		}
		h, err := s.startHelper()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refill = false
		if err == nil {
			s.reserve = h // without one, the next start pays for its own
		}
	})
}
