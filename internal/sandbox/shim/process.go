//go:build linux

package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"belay/internal/failpoint"
	"belay/internal/sandbox"
)

// process is a started command as any worker sees it. It holds nothing open:
// all it needs is in the record.
type process struct {
	sandbox *Sandbox
	key     string
	record  record
	// attached says that it was looked for, not started.
	attached bool
}

// Key is the attempt key.
func (p *process) Key() string { return p.key }

// Shim is the identity of the process that supervises the command; for doctor
// and tests.
func (p *process) Shim() (Identity, error) {
	var id Identity
	return id, p.record.readJSON(shimFile, &id)
}

// Wait blocks on the shim's hold of the record, which ends when it recorded
// the result and when it died.
func (p *process) Wait(ctx context.Context) (sandbox.Result, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Result{}, fmt.Errorf("shim: wait for %s: %w", p.key, err)
	}
	if res, err := p.record.result(); !errors.Is(err, fs.ErrNotExist) {
		return res, p.unreadable(err)
	}
	alive, err := openAlive(p.record)
	var broken *damage
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &broken):
		return p.settle(ctx)
	case err != nil:
		return sandbox.Result{}, fmt.Errorf("shim: wait for %s: %w", p.key, err)
	}
	defer alive.Close()
	stop := context.AfterFunc(ctx, func() { _ = alive.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	_, err = alive.Read(b[:])
	switch {
	case errors.Is(err, io.EOF):
		return p.settle(ctx)
	case ctx.Err() != nil:
		return sandbox.Result{}, fmt.Errorf("shim: wait for %s: %w", p.key, ctx.Err())
	}
	return sandbox.Result{}, fmt.Errorf("shim: wait for %s: %w", p.key, err)
}

func openAlive(r record) (*os.File, error) {
	fd, err := openFIFO(r.file(aliveFIFO), syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	// The descriptor is non-blocking, so the runtime's poller waits for it and
	// deadlines work.
	return os.NewFile(uintptr(fd), r.file(aliveFIFO)), nil
}

// settle reads what is true once nobody holds the record any more.
func (p *process) settle(ctx context.Context) (sandbox.Result, error) {
	res, err := p.record.result()
	failpoint.Hit(failpoint.ResultRead)
	if !errors.Is(err, fs.ErrNotExist) {
		return res, p.unreadable(err)
	}
	st, err := p.sandbox.look(p.key)
	switch {
	case err != nil:
		return sandbox.Result{}, err
	case st == absent:
		return sandbox.Result{}, fmt.Errorf("shim: attempt %s: %w", p.key, sandbox.ErrNoRecord)
	case (st == never || st == void) && p.attached:
		// Whoever attached was looking for what an earlier worker did: nothing, and
		// now it has to stay that way.
		q, err := p.sandbox.Attach(ctx, p.key)
		if err != nil {
			return sandbox.Result{}, err
		}
		return q.Wait(ctx) // a starter was quicker
	case st == never, st == void:
		return sandbox.Result{ExitCode: -1, SpawnError: "its shim ended before it started the command; nothing has run"}, nil
	}
	return sandbox.Result{}, p.sandbox.endGone(p.key)
}

// unreadable says of a result that cannot be read what it means: how the
// command ended is unknown.
func (p *process) unreadable(err error) error {
	var broken *damage
	if errors.As(err, &broken) {
		return fmt.Errorf("shim: attempt %s: %w (%w)", p.key, sandbox.ErrGone, err)
	}
	return err
}

// Stop writes a stop request to the shim's control FIFO. A command that has
// ended needs none.
func (p *process) Stop(ctx context.Context, reason string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shim: stop %s: %w", p.key, err)
	}
	fd, err := openFIFO(p.record.file(controlFIFO), syscall.O_WRONLY)
	switch {
	case errors.Is(err, syscall.ENXIO):
		// Nobody reads: the shim is at its end or dead.
		st, err := p.sandbox.look(p.key)
		if err != nil {
			return err
		}
		if st == gone {
			return p.sandbox.endGone(p.key)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("shim: stop %s: %w", p.key, sandbox.ErrNoRecord)
	case err != nil:
		return fmt.Errorf("shim: stop %s: %w", p.key, err)
	}
	defer syscall.Close(fd)
	line := clip(strings.Join(strings.Fields(reason), " ")) + "\n"
	for {
		// One write below PIPE_BUF is never mixed with another's.
		_, err = syscall.Write(fd, []byte(line))
		switch err {
		case syscall.EINTR:
			continue
		case nil, syscall.EAGAIN, syscall.EPIPE:
			// Full: thousands of requests already lie there. Broken: it has
			// just ended.
			return nil
		}
		return fmt.Errorf("shim: stop %s: %w", p.key, err)
	}
}

// Output opens the spooled output from the start.
func (p *process) Output() (io.ReadCloser, error) {
	f, err := os.Open(p.record.file(outputFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("shim: output of %s: %w", p.key, sandbox.ErrNoRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("shim: output of %s: %w", p.key, err)
	}
	return f, nil
}

// The pause between two looks at the growing output: short after there was
// some, longer while there is none. The end needs no look, it is an event.
const (
	followMin = 2 * time.Millisecond
	followMax = 50 * time.Millisecond
)

// Follow copies output as it is written.
func (p *process) Follow(ctx context.Context, w io.Writer) error {
	out, err := p.Output()
	if err != nil {
		return err
	}
	defer out.Close()
	alive, err := openAlive(p.record)
	var broken *damage
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &broken):
		alive = nil
	case err != nil:
		return fmt.Errorf("shim: follow %s: %w", p.key, err)
	default:
		defer alive.Close()
	}
	buf := make([]byte, 64<<10)
	pause := followMin
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("shim: follow %s: %w", p.key, err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{out}, buf)
		if err != nil {
			return fmt.Errorf("shim: follow %s: %w", p.key, err)
		}
		if alive == nil {
			return nil // it had ended before this last copy
		}
		if pause *= 2; n > 0 {
			pause = followMin
		}
		pause = min(pause, followMax)
		_ = alive.SetReadDeadline(time.Now().Add(pause))
		var b [1]byte
		if _, err := alive.Read(b[:]); errors.Is(err, io.EOF) {
			alive.Close()
			alive = nil
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("shim: follow %s: %w", p.key, err)
		}
	}
}
