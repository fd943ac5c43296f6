package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
	"belay/internal/moment"
)

const (
	// maxInline is the compressed size up to which an artifact lies in its row;
	// a larger one is cut into chunks of this size.
	maxInline = 256 << 10
	// window bounds what one compression or decompression keeps in memory.
	window = 1 << 20
	// looseLife is how long chunks may lie without an artifact: longer than any
	// artifact takes to arrive, or to be read.
	looseLife = 24 * time.Hour
)

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("postgres: zstd options: " + err.Error())
	}
	return e
}}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8*window))
	if err != nil {
		panic("postgres: zstd options: " + err.Error())
	}
	return d
}}

func compress(b []byte) []byte {
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	return e.EncodeAll(b, make([]byte, 0, len(b)/3+64))
}

func decompress(b []byte) ([]byte, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	if err := d.Reset(bytes.NewReader(b)); err != nil {
		return nil, err
	}
	return io.ReadAll(d)
}

// packed is an artifact as it is kept.
type packed struct {
	ref    event.Ref
	zstd   bool
	stored int64
	// body is nil when the content lies in the chunks of upload.
	body   []byte
	upload string
	// kept says that the ledger has the artifact already.
	kept bool
}

// pack prepares the artifacts that come with an append, in one order for all
// appends, so that two with the same ones wait for each other and no more. The
// chunks of a large one are written now; it counts as stored only once its row
// is.
func (l *Ledger) pack(ctx context.Context, arts []event.Artifact) ([]packed, error) {
	out := make([]packed, 0, len(arts))
	for _, a := range arts {
		p := packed{ref: a.Ref, zstd: true, body: compress(a.Content)}
		if len(p.body) >= len(a.Content) {
			p.zstd, p.body = false, bytes.Clone(a.Content)
			if p.body == nil {
				p.body = []byte{}
			}
		}
		if p.stored = int64(len(p.body)); p.stored > maxInline {
			var one int
			kept, err := l.queryRow(ctx, "look for artifact "+a.SHA256, "SELECT 1 FROM @artifacts WHERE sha256 = $1", []any{a.SHA256}, &one)
			if err != nil {
				return nil, err
			}
			if p.kept = kept; !kept {
				u := &upload{l: l, ctx: ctx}
				_, err := u.Write(p.body)
				if err == nil {
					err = u.flush()
				}
				if err = errors.Join(err, u.err); err != nil {
					return nil, err
				}
				p.upload = u.id
			}
			p.body = nil
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b packed) int { return cmp.Compare(a.ref.SHA256, b.ref.SHA256) })
	return out, nil
}

const insertArtifact = `INSERT INTO @artifacts (sha256, size, media, zstd, stored, body, upload, seen)
	VALUES ($1, $2, $3, $4, $5, $6, nullif($7, '')::uuid, $8)`

func (p packed) values(now moment.Time) []any {
	return []any{p.ref.SHA256, p.ref.Size, text(p.ref.Media), p.zstd, p.stored, p.body, p.upload, int64(now)}
}

// insert makes an artifact part of a transaction; one that is there already is
// left as it is.
func (p packed) insert(now moment.Time) []step {
	if p.kept {
		return nil
	}
	steps := []step{{sql: insertArtifact + " ON CONFLICT DO NOTHING", args: p.values(now)}}
	if p.upload != "" {
		steps = append(steps, step{sql: "UPDATE @uploads SET kept = true WHERE id = $1 AND EXISTS (SELECT 1 FROM @artifacts WHERE sha256 = $2 AND upload = $1)",
			args: []any{p.upload, p.ref.SHA256}})
	}
	return steps
}

// upload writes what it is given in chunks, each in a transaction of its own,
// and keeps one chunk in memory. A server that is killed in between keeps what
// it has taken: the source cannot be read again.
type upload struct {
	l   *Ledger
	ctx context.Context
	// id is "" until the first chunk has been written.
	id  string
	n   int
	buf []byte
	len int64
	err error
}

func (u *upload) Write(p []byte) (int, error) {
	u.len += int64(len(p))
	n := len(p)
	for len(p) > 0 && u.err == nil {
		if len(u.buf) == maxInline {
			u.flush()
		}
		k := min(maxInline-len(u.buf), len(p))
		u.buf, p = append(u.buf, p[:k]...), p[k:]
	}
	return n, u.err
}

func (u *upload) flush() error {
	if u.err != nil || len(u.buf) == 0 {
		return u.err
	}
	id := cmp.Or(u.id, uuid.NewString())
	u.err = u.l.write(u.ctx, "store an artifact", soft, func(ctx context.Context, t *tx) error {
		return t.commit(ctx,
			step{sql: "INSERT INTO @uploads (id, kept, touched) VALUES ($1, false, @store_clock()) ON CONFLICT (id) DO NOTHING", args: []any{id}},
			step{sql: "INSERT INTO @chunks (upload, n, body) VALUES ($1, $2, $3) ON CONFLICT (upload, n) DO NOTHING", args: []any{id, u.n, u.buf}})
	})
	failpoint.Hit(failpoint.PgChunkWritten)
	u.id, u.buf = id, u.buf[:0]
	u.n++
	return u.err
}

// PutArtifact implements ledger.Ledger. It compresses as it reads and keeps a
// chunk of the result in memory.
func (l *Ledger) PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error) {
	if l.isClosed() {
		return event.Ref{}, ledger.ErrClosed
	}
	u := &upload{l: l, ctx: ctx}
	h := sha256.New()
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	e.Reset(u)
	// Hiding the source's other methods makes the copy go through one buffer.
	src := &source{ctx: ctx, r: r}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(h, e)}, src, make([]byte, 128<<10))
	err = errors.Join(err, e.Close())
	e.Reset(nil)
	p := packed{ref: event.Ref{SHA256: hex.EncodeToString(h.Sum(nil)), Size: n, Media: media}, zstd: true, stored: u.len}
	if src.err == nil && err == nil {
		if u.id == "" {
			p.body = u.buf
		} else {
			err = u.flush()
			p.upload = u.id
		}
	}
	switch {
	case src.err != nil:
		u.discard()
		return event.Ref{}, fmt.Errorf("ledger: read the artifact: %w", src.err)
	case u.err != nil:
		u.discard()
		return event.Ref{}, u.err
	case err != nil:
		u.discard()
		return event.Ref{}, fmt.Errorf("ledger: compress the artifact: %w", err)
	}
	if err := l.put(ctx, p); err != nil {
		return event.Ref{}, err
	}
	failpoint.Hit(failpoint.PgArtifactKept)
	return p.ref, nil
}

// put makes the row of an artifact. Content that is there already is compared
// and, where it differs, replaced: that repairs a body that was damaged. The
// old chunks stay for a while for those who are reading them.
func (l *Ledger) put(ctx context.Context, p packed) error {
	return l.write(ctx, "store artifact "+p.ref.SHA256, durable, func(ctx context.Context, t *tx) error {
		var old string
		var found, same bool
		var now moment.Time
		err := t.run(ctx, step{sql: "SELECT coalesce(upload::text, '') FROM @artifacts WHERE sha256 = $1 FOR UPDATE", args: []any{p.ref.SHA256}, dest: []any{&old}, found: &found},
			step{sql: selectClock, dest: []any{&now}})
		if err != nil {
			return err
		}
		if !found {
			steps := []step{{sql: insertArtifact, args: p.values(now)}}
			if p.upload != "" {
				steps = append(steps, step{sql: "UPDATE @uploads SET kept = true WHERE id = $1", args: []any{p.upload}})
			}
			err := t.commit(ctx, steps...)
			if sqlState(err) == stateUnique {
				return errRaced
			}
			return err
		}
		if old != "" && p.upload != "" && old != p.upload {
			if err := t.run(ctx, step{sql: `SELECT NOT EXISTS (SELECT 1 FROM (SELECT n, body FROM @chunks WHERE upload = $1) o
				FULL JOIN (SELECT n, body FROM @chunks WHERE upload = $2) w USING (n) WHERE o.body IS DISTINCT FROM w.body)`, args: []any{old, p.upload}, dest: []any{&same}}); err != nil {
				return err
			}
		}
		if same {
			return t.commit(ctx, step{sql: "UPDATE @artifacts SET seen = $2 WHERE sha256 = $1", args: []any{p.ref.SHA256, int64(now)}},
				step{sql: "DELETE FROM @uploads WHERE id = $1", args: []any{p.upload}})
		}
		v := p.values(now)
		return t.commit(ctx, step{sql: "UPDATE @artifacts SET zstd = $2, stored = $3, body = $4, upload = nullif($5, '')::uuid, seen = $6 WHERE sha256 = $1", args: append(v[:1:1], v[3:]...)},
			step{sql: "UPDATE @uploads SET kept = (id::text = $2), touched = $3 WHERE id::text IN ($1, $2)", args: []any{old, p.upload, int64(now)}})
	})
}

// discard gives back what an upload that came to nothing has written; what it
// cannot give back is swept later.
func (u *upload) discard() {
	if u.id == "" || u.l.isClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), time.Second)
	defer cancel()
	_, _ = u.l.pool.Exec(ctx, u.l.q("DELETE FROM @uploads WHERE id = $1 AND NOT kept"), u.id)
}

// sweep removes what processes left that were killed while they stored a large
// artifact. It is no error if it cannot.
func (l *Ledger) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = l.pool.Exec(ctx, l.q("DELETE FROM @uploads WHERE NOT kept AND touched < (SELECT @store_clock()) - $1"), looseLife.Microseconds())
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

// OpenArtifact implements ledger.Ledger.
func (l *Ledger) OpenArtifact(ctx context.Context, sha string) (io.ReadCloser, error) {
	if l.isClosed() {
		return nil, ledger.ErrClosed
	}
	var p packed
	found, err := l.queryRow(ctx, "read artifact "+sha, "SELECT size, zstd, stored, body, coalesce(upload::text, '') FROM @artifacts WHERE sha256 = $1", []any{sha},
		&p.ref.Size, &p.zstd, &p.stored, &p.body, &p.upload)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("artifact %s: %w", sha, ledger.ErrNotFound)
	}
	var src io.Reader = bytes.NewReader(p.body)
	if p.upload != "" {
		src = &chunkReader{l: l, ctx: ctx, sha: sha, upload: p.upload}
	}
	if !p.zstd {
		return rules.NewVerifier(src, nil, sha, p.ref.Size), nil
	}
	d := decoders.Get().(*zstd.Decoder)
	if err := d.Reset(src); err != nil {
		return nil, fmt.Errorf("artifact %s cannot be read: %w", sha, err)
	}
	return rules.NewVerifier(d, sync.OnceValue(func() error {
		// Reset lets go of the source; its error is about the nil source.
		_ = d.Reset(nil)
		decoders.Put(d)
		return nil
	}), sha, p.ref.Size), nil
}

// chunkReader fetches one chunk at a time and holds no connection in between,
// so a reader may be slow, and the server may restart under it.
type chunkReader struct {
	l           *Ledger
	ctx         context.Context
	sha, upload string
	n           int
	rest        []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		err := r.l.read(r.ctx, "read artifact "+r.sha, func(ctx context.Context, c *pgx.Conn) error {
			err := c.QueryRow(ctx, r.l.q("SELECT body FROM @chunks WHERE upload = $1 AND n = $2"), r.upload, r.n).Scan(&r.rest)
			if errors.Is(err, pgx.ErrNoRows) {
				return refuse(io.EOF)
			}
			return err
		})
		if errors.Is(err, io.EOF) && !transient(err) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		r.n++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
