package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
)

// stored is a record as it stands in the file. err says that it could not be
// read; only its seq is then known.
type stored struct {
	record event.Record
	hash   string
	err    error
}

const eventColumns = "seq, id, type, version, time, turn, op, cause, actor, fence, spilled, payload, hash"

func scanEvent(rows *sql.Rows, goal string) (stored, error) {
	s := stored{record: event.Record{Goal: goal}}
	r := &s.record
	var payload []byte
	err := rows.Scan(&r.Seq, &r.ID, &r.Type, &r.Version, &r.Time, &r.Turn, &r.Op, &r.Cause, &r.Actor, &r.Fence, &r.Spilled, &payload, &s.hash)
	r.Payload = payload
	return s, err
}

// records calls yield with the records of a goal after a seq, in order, until
// it returns false. A limit below 1 means all. Where the file is damaged it
// goes on record by record, so that what stands behind the damage is reached.
func (l *Ledger) records(ctx context.Context, goal string, after uint64, limit int, yield func(stored) bool) error {
	if limit < 1 {
		limit = -1
	}
	last := after
	err := func() error {
		rows, err := l.query(ctx, "SELECT "+eventColumns+" FROM events WHERE goal = ? AND seq > ? ORDER BY seq LIMIT ?", goal, int64(after), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			s, err := scanEvent(rows, goal)
			if err != nil {
				return err
			}
			if last = s.record.Seq; !yield(s) {
				return nil
			}
		}
		return rows.Err()
	}()
	if !damaged(err) {
		return l.wrap("read goal "+goal, err)
	}
	if limit > 0 {
		limit -= int(last - after)
	}
	return l.salvage(ctx, goal, last, limit, err, yield)
}

// salvage reads the rest of a stream one record at a time. cause is the damage
// that was met; it is the answer when not even the end of the stream is known.
func (l *Ledger) salvage(ctx context.Context, goal string, after uint64, limit int, cause error, yield func(stored) bool) error {
	head, err := l.head(ctx, goal)
	if err != nil {
		row, err := l.Goal(ctx, goal)
		if err != nil {
			return l.wrap("read goal "+goal, cause)
		}
		head = row.Head
	}
	for seq := after + 1; seq <= head && limit != 0; seq, limit = seq+1, limit-1 {
		s, err := l.one(ctx, goal, seq)
		if err != nil && !damaged(err) {
			return l.wrap("read goal "+goal, err)
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

// one reads one record; its seq is 0 when there is none.
func (l *Ledger) one(ctx context.Context, goal string, seq uint64) (stored, error) {
	rows, err := l.query(ctx, "SELECT "+eventColumns+" FROM events WHERE goal = ? AND seq = ?", goal, int64(seq))
	if err != nil {
		return stored{}, err
	}
	defer rows.Close()
	if !rows.Next() {
		return stored{}, rows.Err()
	}
	return scanEvent(rows, goal)
}

func (l *Ledger) head(ctx context.Context, goal string) (seq uint64, err error) {
	_, err = l.queryRow(ctx, "SELECT seq FROM events WHERE goal = ? ORDER BY seq DESC LIMIT 1", []any{goal}, &seq)
	return seq, err
}

// Read implements ledger.Ledger.
func (l *Ledger) Read(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error) {
	var out []event.Event
	// Spilled payloads are fetched when the rows are closed: a reader that
	// waits for a second connection while it holds one could wait for ever.
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
		out[i] = event.Decode(s.record, s.hash, func(ref event.Ref) ([]byte, error) {
			rc, err := l.OpenArtifact(ctx, ref.SHA256)
			if err != nil {
				return nil, err
			}
			defer rc.Close()
			return io.ReadAll(rc)
		})
		// An event must not read as damaged because the reader went away.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// auditBatch bounds what an audit keeps in memory, and lets go of the rows
// while artifacts are read.
const auditBatch = 512

// Audit implements ledger.Ledger.
func (l *Ledger) Audit(ctx context.Context, goal string) (ledger.Audit, error) {
	row, err := l.Goal(ctx, goal)
	lost := errors.Is(err, ledger.ErrNotFound)
	if err != nil && !lost {
		return ledger.Audit{}, err
	}
	a := rules.NewAuditor(goal, func(sha string) (io.ReadCloser, error) { return l.OpenArtifact(ctx, sha) })
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
			if !a.Add(s.record, s.hash) {
				return a.Done(0), ctx.Err()
			}
		}
		// A break that is only a reader gone away is none.
		if err := ctx.Err(); err != nil {
			return ledger.Audit{}, err
		}
	}
	if last == 0 && lost {
		return ledger.Audit{}, fmt.Errorf("goal %s: %w", goal, ledger.ErrNotFound)
	}
	return a.Done(row.Head), nil
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
