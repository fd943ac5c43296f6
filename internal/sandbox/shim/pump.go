//go:build linux

package shim

import (
	"io"
	"os"
	"syscall"
	"time"

	"belay/internal/failpoint"
)

// pump moves the command's output from its pipe to the spool. It never stops
// reading before the end, so that the command never blocks on a full pipe, and
// never holds more than one buffer.
type pump struct {
	from    *os.File
	to      *os.File
	max     int64
	kept    int64
	dropped int64
	flushed int64
	done    chan struct{}
}

const (
	pumpBuffer = 128 << 10
	// flushEvery is how much output is written before the kernel is asked to
	// begin bringing it to the disk, so that little is left for the sync at
	// the end.
	flushEvery = 8 << 20
	// lastDrain bounds what is still read after the tree has ended.
	lastDrain = 1 << 20
)

func newPump(from, to *os.File, limit int64) *pump {
	return &pump{from: from, to: to, max: limit, done: make(chan struct{})}
}

// run reads until every writer has closed the pipe, or until finish.
func (p *pump) run() {
	defer close(p.done)
	buf := make([]byte, pumpBuffer)
	for {
		n, err := p.from.Read(buf)
		p.store(buf[:n])
		if err == nil {
			continue
		}
		if err != io.EOF {
			p.drain(buf)
		}
		return
	}
}

// drain takes what lies in the pipe and does not wait for more.
func (p *pump) drain(buf []byte) {
	raw, err := p.from.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for left := lastDrain; left > 0; {
			n, err := syscall.Read(int(fd), buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 {
				return
			}
			p.store(buf[:n])
			left -= n
		}
	})
}

// store keeps what fits and counts the rest. After a failed write (a full
// disk) nothing more is kept: the spool holds an unbroken beginning.
func (p *pump) store(b []byte) {
	fits := b[:min(int64(len(b)), p.max-p.kept)]
	if len(fits) > 0 {
		failpoint.Hit(failpoint.SpoolBefore)
		n, err := p.to.Write(fits)
		failpoint.Hit(failpoint.SpoolAfter)
		p.kept += int64(n)
		if err != nil {
			p.max = p.kept
		}
		fits = fits[:n]
	}
	p.dropped += int64(len(b) - len(fits))
	if p.kept-p.flushed >= flushEvery {
		const write = 2 // SYNC_FILE_RANGE_WRITE: begin, do not wait
		_ = syscall.SyncFileRange(int(p.to.Fd()), p.flushed, p.kept-p.flushed, write)
		p.flushed = p.kept
	}
}

// finish ends the pump after the tree has ended: normally the pipe is at its
// end by then. A process outside the tree that was given the pipe may still
// hold it open; nobody waits for that one.
func (p *pump) finish() {
	select {
	case <-p.done:
	case <-time.After(100 * time.Millisecond):
		_ = p.from.SetReadDeadline(time.Unix(1, 0))
		<-p.done
	}
}
