package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
	"belay/internal/moment"
)

// maxInline is the compressed size up to which an artifact lies in the
// database itself; a larger one is a file beside it.
const maxInline = 256 << 10

// packed is an artifact as it is kept.
type packed struct {
	ref    event.Ref
	zstd   bool
	stored int64
	// body is nil when the content lies in its file.
	body []byte
}

// The window bounds what one compression or decompression keeps in memory.
const window = 1 << 20

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("sqlite: zstd options: " + err.Error())
	}
	return e
}}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8*window))
	if err != nil {
		panic("sqlite: zstd options: " + err.Error())
	}
	return d
}}

func compress(b []byte) []byte {
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	return e.EncodeAll(b, make([]byte, 0, len(b)/3+64))
}

// pack prepares an artifact that comes with an append. A large one is written
// to its file now; it counts as stored only once its row is.
func (l *Ledger) pack(a event.Artifact) (packed, error) {
	p := packed{ref: a.Ref, zstd: true, body: compress(a.Content)}
	if len(p.body) >= len(a.Content) {
		p.zstd, p.body = false, bytes.Clone(a.Content)
		if p.body == nil {
			p.body = []byte{}
		}
	}
	if p.stored = int64(len(p.body)); p.stored <= maxInline {
		return p, nil
	}
	f, err := l.tempFile()
	if err != nil {
		return packed{}, err
	}
	if _, err := f.Write(p.body); err != nil {
		f.discard()
		return packed{}, err
	}
	p.body = nil
	return p, f.publish(l.file(a.SHA256))
}

// insertArtifact makes an artifact part of the transaction; one that is there
// already is left as it is.
func (t *tx) insertArtifact(p packed, now moment.Time) error {
	return t.exec("INSERT INTO artifacts (sha256, size, media, zstd, stored, body, seen) VALUES (?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
		p.ref.SHA256, p.ref.Size, p.ref.Media, p.zstd, p.stored, p.body, int64(now))
}

// file is where a large artifact lies.
func (l *Ledger) file(sha string) string { return filepath.Join(l.artifacts, sha[:2], sha[2:]) }

// PutArtifact implements ledger.Ledger. It compresses as it reads and keeps at
// most maxInline bytes of the result in memory.
func (l *Ledger) PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error) {
	if l.isClosed() {
		return event.Ref{}, ledger.ErrClosed
	}
	s := &spool{open: l.tempFile}
	defer s.discard()
	h := sha256.New()
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	e.Reset(s)
	// Hiding the source's other methods makes the copy go through one buffer.
	src := &source{ctx: ctx, r: r}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(h, e)}, src, make([]byte, 128<<10))
	err = errors.Join(err, e.Close())
	e.Reset(nil)
	switch {
	case src.err != nil:
		return event.Ref{}, fmt.Errorf("ledger: read the artifact: %w", src.err)
	case err != nil:
		return event.Ref{}, l.wrap("store an artifact", err)
	}
	p := packed{ref: event.Ref{SHA256: hex.EncodeToString(h.Sum(nil)), Size: n, Media: media}, zstd: true, stored: s.n}
	if s.f != nil {
		f := s.f
		s.f = nil
		if err := f.publish(l.file(p.ref.SHA256)); err != nil {
			return event.Ref{}, l.wrap("store artifact "+p.ref.SHA256, err)
		}
	} else {
		p.body = s.head
	}
	// Content that is there already is written over: that repairs a body that
	// was damaged. The row is a soft commit: it stands in the log before the
	// event that refers to it, so the durable commit that covers the event
	// covers it too, and a step costs no sync of its own for its output.
	err = l.writer.write(ctx, false, func(t *tx) error {
		return t.exec(`INSERT INTO artifacts (sha256, size, media, zstd, stored, body, seen) VALUES (?,?,?,?,?,?,?)
			ON CONFLICT DO UPDATE SET zstd = excluded.zstd, stored = excluded.stored, body = excluded.body, seen = excluded.seen`,
			p.ref.SHA256, p.ref.Size, p.ref.Media, p.zstd, p.stored, p.body, int64(l.now()))
	})
	if err != nil {
		return event.Ref{}, err
	}
	return p.ref, nil
}

// source reads until its context ends, and keeps its error apart from those of
// the storage.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err = s.ctx.Err(); s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// spool takes what is written in memory, and in a file once it is too much.
type spool struct {
	open func() (*tempFile, error)
	head []byte
	f    *tempFile
	n    int64
}

func (s *spool) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	if s.f == nil && s.n <= maxInline {
		s.head = append(s.head, p...)
		return len(p), nil
	}
	if s.f == nil {
		f, err := s.open()
		if err != nil {
			return 0, err
		}
		s.f = f
		if _, err := f.Write(s.head); err != nil {
			return 0, err
		}
		s.head = nil
	}
	return s.f.Write(p)
}

func (s *spool) discard() {
	if s.f != nil {
		s.f.discard()
	}
}

// tempFile is a file that gets its name only when it is whole and on disk.
type tempFile struct{ *os.File }

func (l *Ledger) tempFile() (*tempFile, error) {
	dir := filepath.Join(l.artifacts, "tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "put-")
	if err != nil {
		return nil, err
	}
	return &tempFile{f}, nil
}

func (f *tempFile) discard() {
	f.Close()
	os.Remove(f.Name())
}

func (f *tempFile) publish(path string) error {
	dir := filepath.Dir(path)
	err := f.Sync()
	failpoint.Hit(failpoint.ArtifactWrite)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = f.name(path)
		failpoint.Hit(failpoint.ArtifactNamed)
	}
	if err != nil {
		f.discard()
		return err
	}
	return errors.Join(f.Close(), syncDir(dir), syncDir(filepath.Dir(dir)), syncDir(filepath.Dir(filepath.Dir(dir))))
}

// name gives the file its name, under the lock against whoever takes names
// away. Its time is now: it may have been long in coming.
func (f *tempFile) name(path string) error {
	unlock, err := lockNames(filepath.Dir(f.Name()), unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer unlock()
	now := time.Now()
	return errors.Join(os.Chtimes(f.Name(), now, now), os.Rename(f.Name(), path))
}

// sweep removes what a process left that was killed while it stored a large
// artifact. A day is longer than any artifact takes to arrive.
func (l *Ledger) sweep() {
	dir := filepath.Join(l.artifacts, "tmp")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // the lock of names
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// OpenArtifact implements ledger.Ledger.
func (l *Ledger) OpenArtifact(ctx context.Context, sha string) (io.ReadCloser, error) {
	var p packed
	found, err := l.queryRow(ctx, "SELECT size, zstd, stored, body FROM artifacts WHERE sha256 = ?", []any{sha},
		&p.ref.Size, &p.zstd, &p.stored, &p.body)
	if err != nil {
		return nil, l.wrap("read artifact "+sha, err)
	}
	if !found {
		return nil, fmt.Errorf("artifact %s: %w", sha, ledger.ErrNotFound)
	}
	var src io.Reader = bytes.NewReader(p.body)
	var file *os.File
	if p.body == nil && p.stored > maxInline {
		file, err = os.Open(l.file(sha))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("its file is gone: %w", err)
		}
		if err != nil {
			return nil, l.wrap("read artifact "+sha, err)
		}
		src = file
	}
	var d *zstd.Decoder
	if p.zstd {
		d = decoders.Get().(*zstd.Decoder)
		if err := d.Reset(src); err != nil {
			return nil, l.wrap("read artifact "+sha, err)
		}
		src = d
	}
	return rules.NewVerifier(src, sync.OnceValue(func() error {
		if d != nil {
			// Reset lets go of the source; its error is about the nil source.
			_ = d.Reset(nil)
			decoders.Put(d)
		}
		if file != nil {
			return file.Close()
		}
		return nil
	}), sha, p.ref.Size), nil
}
