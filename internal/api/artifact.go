package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"belay/client"
)

// artifact serves content by its address, whole or in ranges. Whatever it is,
// it is sent as bytes to be kept, never as something that a browser would run.
func artifact(c *call) error {
	sha := c.r.PathValue("sha256")
	if !isHash(sha) {
		return bad("an artifact is named by its SHA-256: 64 hexadecimal digits in lower case")
	}
	s := &seeker{ctx: c.ctx, open: func(ctx context.Context) (io.ReadCloser, error) { return c.Service.Artifact(ctx, sha) }, size: -1}
	defer s.close()
	if err := s.reopen(); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+sha[:16]+`.bin"`)
	h.Set("ETag", `"`+sha+`"`)
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(c.w, c.r, "", time.Time{}, s)
	return nil
}

func isHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// seeker makes a stream that can only be read forward seekable, by reading it
// again: artifacts are compressed, and no more than a buffer of one is in
// memory.
type seeker struct {
	ctx  context.Context
	open func(context.Context) (io.ReadCloser, error)
	r    io.ReadCloser
	at   int64 // of r
	want int64 // where the next read begins
	size int64
}

func (s *seeker) reopen() (err error) {
	s.close()
	s.at = 0
	s.r, err = s.open(s.ctx)
	return err
}

func (s *seeker) close() {
	if s.r != nil {
		_ = s.r.Close()
		s.r = nil
	}
}

// Seek implements io.Seeker.
func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.want
	case io.SeekEnd:
		if s.size < 0 {
			n, err := io.Copy(io.Discard, s.r)
			if err != nil {
				return 0, err
			}
			s.at += n
			s.size = s.at
		}
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	s.want = offset
	return offset, nil
}

// Read implements io.Reader.
func (s *seeker) Read(p []byte) (int, error) {
	if s.want < s.at || s.r == nil {
		if err := s.reopen(); err != nil {
			return 0, err
		}
	}
	if s.want > s.at {
		n, err := io.CopyN(io.Discard, s.r, s.want-s.at)
		s.at += n
		if err != nil {
			return 0, err
		}
	}
	n, err := s.r.Read(p)
	s.at += int64(n)
	s.want = s.at
	return n, err
}

// output serves the whole output of an operation as plain text.
func output(c *call) error {
	t, err := c.Service.Output(c.ctx, c.goal, c.r.PathValue("op"))
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if t.Whole.IsZero() {
		_, _ = io.WriteString(c.w, t.Head)
		return nil
	}
	s := &seeker{ctx: c.ctx, open: func(ctx context.Context) (io.ReadCloser, error) { return c.Service.Artifact(ctx, t.Whole.SHA256) }, size: -1}
	defer s.close()
	if err := s.reopen(); err != nil {
		return &client.Problem{Title: "The output is not kept any more", Status: http.StatusNotFound, Code: "not_found", Detail: err.Error()}
	}
	http.ServeContent(c.w, c.r, "", time.Time{}, s)
	return nil
}
