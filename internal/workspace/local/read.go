package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// Read implements workspace.Workspace.
func (w *Workspace) Read(ctx context.Context, path string) (workspace.File, error) {
	t, err := w.locate(path)
	if err != nil {
		return workspace.File{}, err
	}
	if t.absent() {
		return workspace.File{}, notFound(t.path)
	}
	if err := t.regular(); err != nil {
		return workspace.File{}, err
	}
	if t.info.Size() > w.maxRead {
		return workspace.File{}, fault.New(fault.TooLarge, fault.Model,
			fmt.Sprintf("the file %s has %d bytes, more than the %d that are read at once", t.path, t.info.Size(), w.maxRead),
			"look at parts of it with a command")
	}
	var b bytes.Buffer
	f, _, err := w.digest(ctx, t, &b)
	f.Bytes = b.Bytes()
	if f.Bytes == nil {
		f.Bytes = []byte{}
	}
	return f, err
}

// Stat implements workspace.Workspace.
func (w *Workspace) Stat(ctx context.Context, path string) (workspace.File, error) {
	t, err := w.locate(path)
	if err != nil {
		return workspace.File{}, err
	}
	if t.absent() {
		return workspace.File{Path: t.path, Absent: true}, nil
	}
	if err := t.regular(); err != nil {
		return workspace.File{}, err
	}
	f, _, err := w.digest(ctx, t, nil)
	return f, err
}

// digest reads a regular file to its hash, and into a buffer if there is one.
// It returns the stamp of the bytes that it read.
func (w *Workspace) digest(ctx context.Context, t target, to *bytes.Buffer) (workspace.File, stamp, error) {
	out := workspace.File{Path: t.path}
	// Between the look and the opening the file may have become a pipe: the
	// opening must not wait for a writer.
	f, err := w.root.OpenFile(t.real, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return out, stamp{}, pathFault(t.path, err)
	}
	defer f.Close()
	for range rereads {
		st, err := fstat(int(f.Fd()))
		if err != nil {
			return out, stamp{}, pathFault(t.path, err)
		}
		was := stampOf(&st)
		if !was.isRegular() || to != nil && was.size > w.maxRead {
			return out, stamp{}, errChanging
		}
		h := sha256.New()
		dst := io.Writer(h)
		if to != nil {
			to.Reset()
			to.Grow(int(was.size))
			dst = io.MultiWriter(h, to)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return out, stamp{}, pathFault(t.path, err)
		}
		if _, err := io.Copy(dst, &ctxReader{ctx, io.LimitReader(f, was.size+1)}); err != nil {
			return out, stamp{}, fmt.Errorf("reading %s: %w", t.path, err)
		}
		if st, err = fstat(int(f.Fd())); err != nil {
			return out, stamp{}, pathFault(t.path, err)
		}
		if stampOf(&st) == was {
			out.Hash, out.Mode = hex.EncodeToString(h.Sum(nil)), modeOf(was.mode)
			return out, was, nil
		}
	}
	return out, stamp{}, fault.New(fault.Storage, fault.Environment, "the file "+t.path+" changes faster than it can be read",
		"stop what writes to it").Retry()
}

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// modeOf turns Unix permission bits into Go's.
func modeOf(m uint32) fs.FileMode {
	out := fs.FileMode(m & 0o777)
	for bit, mode := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&bit != 0 {
			out |= mode
		}
	}
	return out
}
