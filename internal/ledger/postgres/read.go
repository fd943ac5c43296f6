package postgres

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
)

// stored is a record as it stands in the table. err says that it could not be
// read; only its seq is then known.
type stored struct {
	record event.Record
	hash   string
	err    error
}

const selectEvents = `SELECT seq, id, type, version, time, turn, op, cause, actor, fence, spilled, payload, hash
	FROM @events WHERE goal = $1 AND seq > $2 ORDER BY seq LIMIT $3`

func scanEvent(rows pgx.Row, goal string) (stored, error) {
	s := stored{record: event.Record{Goal: goal}}
	r := &s.record
	var payload []byte
	err := rows.Scan(&r.Seq, &r.ID, &r.Type, &r.Version, &r.Time, &r.Turn, &r.Op, &r.Cause, &r.Actor, &r.Fence, &r.Spilled, &payload, &s.hash)
	r.Payload = payload
	return s, err
}

// all stands for no limit.
const all = int64(1) << 62

// records calls yield with the records of a goal after a seq, in order, until
// it returns false. A limit below 1 means all. A connection that breaks in
// between is replaced and reading goes on behind the last record. Where the
// server reports damage it goes on record by record, so that what stands
// behind the damage is reached.
func (l *Ledger) records(ctx context.Context, goal string, after uint64, limit int, yield func(stored) bool) error {
	left := all
	if limit > 0 {
		left = int64(limit)
	}
	if !storable(goal) {
		return nil
	}
	last, done := after, false
	err := l.read(ctx, "read goal "+goal, func(ctx context.Context, c *pgx.Conn) error {
		if left <= 0 || done {
			return nil
		}
		rows, err := c.Query(ctx, l.q(selectEvents), goal, int64(last), left)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			s, err := scanEvent(rows, goal)
			if err != nil {
				return err
			}
			last, left = s.record.Seq, left-1
			if done = !yield(s); done {
				return nil
			}
		}
		return rows.Err()
	})
	if !damaged(err) || done {
		return err
	}
	return l.salvage(ctx, goal, last, left, err, yield)
}

// salvage reads the rest of a stream one record at a time. cause is the damage
// that was met; it is the answer when not even the end of the stream is known.
func (l *Ledger) salvage(ctx context.Context, goal string, after uint64, left int64, cause error, yield func(stored) bool) error {
	head, err := l.head(ctx, goal)
	if damaged(err) {
		var row ledger.Row
		if row, err = l.Goal(ctx, goal); err != nil {
			return cause
		}
		head = row.Head
	}
	if err != nil {
		return err
	}
	for seq := after + 1; seq <= head && left > 0; seq, left = seq+1, left-1 {
		s := stored{}
		err := l.read(ctx, "read goal "+goal, func(ctx context.Context, c *pgx.Conn) (err error) {
			s, err = scanEvent(c.QueryRow(ctx, l.q(selectEvents), goal, int64(seq)-1, int64(1)), goal)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		if err != nil && !damaged(err) {
			return err
		}
		if err != nil {
			s = stored{record: event.Record{Goal: goal, Seq: seq}, err: err}
		}
		if s.record.Seq == seq && !yield(s) {
			return nil
		}
	}
	return nil
}

func (l *Ledger) head(ctx context.Context, goal string) (seq uint64, err error) {
	_, err = l.queryRow(ctx, "read goal "+goal, "SELECT seq FROM @events WHERE goal = $1 ORDER BY seq DESC LIMIT 1", []any{goal}, &seq)
	return seq, err
}

// Read implements ledger.Ledger.
func (l *Ledger) Read(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error) {
	var out []event.Event
	// Spilled payloads are fetched when the connection has been given back: a
	// reader that waits for a second one while it holds one could wait for ever.
	spilled := map[int]stored{}
	last := after
	full := func() bool { return limit > 0 && len(out) >= limit }
	err := l.records(ctx, goal, after, limit, func(s stored) bool {
		for ; last+1 < s.record.Seq && !full(); last++ {
			out = append(out, rules.Missing(goal, last+1))
		}
		if full() {
			return false
		}
		last = s.record.Seq
		switch {
		case s.err != nil:
			out = append(out, event.Event{Goal: goal, Seq: s.record.Seq, Payload: event.Damaged{Reason: s.err.Error()}})
		case s.record.Spilled:
			spilled[len(out)] = s
			out = append(out, event.Event{})
		default:
			out = append(out, event.Decode(s.record, s.hash, nil))
		}
		return !full()
	})
	if err != nil {
		return nil, err
	}
	for i, s := range spilled {
		var lost error
		out[i] = event.Decode(s.record, s.hash, func(ref event.Ref) ([]byte, error) {
			b, err := l.content(ctx, ref.SHA256)
			if gone(err) {
				lost = err
			}
			return b, err
		})
		// An event must not read as damaged because the reader or the server
		// went away.
		if err := errors.Join(ctx.Err(), lost); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *Ledger) content(ctx context.Context, sha string) ([]byte, error) {
	rc, err := l.OpenArtifact(ctx, sha)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(rc)
}

// auditBatch bounds what an audit keeps in memory, and lets go of the
// connection while artifacts are read.
const auditBatch = 512

// Audit implements ledger.Ledger.
func (l *Ledger) Audit(ctx context.Context, goal string) (ledger.Audit, error) {
	row, err := l.Goal(ctx, goal)
	lost := errors.Is(err, ledger.ErrNotFound)
	if err != nil && !lost {
		return ledger.Audit{}, err
	}
	// A break that is only the server or the reader gone away is none.
	var away error
	a := rules.NewAuditor(goal, func(sha string) (io.ReadCloser, error) {
		rc, err := l.OpenArtifact(ctx, sha)
		if err != nil {
			if gone(err) {
				away = err
			}
			return nil, err
		}
		return &watched{rc, &away}, nil
	})
	var last uint64
	for {
		batch := make([]stored, 0, auditBatch)
		if err := l.records(ctx, goal, last, auditBatch, func(s stored) bool {
			batch = append(batch, s)
			return true
		}); err != nil {
			return ledger.Audit{}, err
		}
		if len(batch) == 0 {
			break
		}
		for _, s := range batch {
			if last = s.record.Seq; s.err != nil {
				a.Unreadable(last, s.err)
			}
			holds := a.Add(s.record, s.hash)
			if err := errors.Join(ctx.Err(), away); err != nil {
				return ledger.Audit{}, err
			}
			if !holds {
				return a.Done(0), nil
			}
		}
	}
	if last == 0 && lost {
		return ledger.Audit{}, notFound(goal)
	}
	return a.Done(row.Head), nil
}

// gone reports an error that says nothing about the data: the server or this
// handle is not there.
func gone(err error) bool { return transient(err) || errors.Is(err, ledger.ErrClosed) }

// watched keeps an error of reading that says nothing about the data.
type watched struct {
	io.ReadCloser
	away *error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if gone(err) {
		*w.away = err
	}
	return n, err
}

// Records implements ledger.Ledger.
func (l *Ledger) Records(ctx context.Context, goal string, after uint64, limit int) ([]ledger.Stored, error) {
	var out []ledger.Stored
	var bad error
	err := l.records(ctx, goal, after, limit, func(s stored) bool {
		if bad = s.err; bad != nil {
			return false
		}
		out = append(out, ledger.Stored{Record: s.record, Hash: s.hash})
		return true
	})
	return out, errors.Join(err, bad)
}
