package postgres

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
	"belay/internal/moment"
)

const (
	selectTail  = "SELECT seq, hash, time FROM @events WHERE goal = $1 ORDER BY seq DESC LIMIT 1"
	selectClock = "SELECT @store_clock()"
	lockGoal    = selectGoal + " FOR UPDATE"

	insertEvents = `INSERT INTO @events (goal, seq, id, type, version, time, turn, op, cause, actor, fence, spilled, payload, hash)
		SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::integer[], $6::bigint[], $7::text[], $8::text[], $9::text[],
			$10::text[], $11::bigint[], $12::boolean[], $13::bytea[], $14::text[])`
)

// Append implements ledger.Ledger. Two round trips: one takes the goal's row
// lock and reads what the append is checked against, one writes and commits.
func (l *Ledger) Append(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	p, err := rules.Prepare(a)
	if err != nil {
		return nil, err
	}
	if err := checkText(a); err != nil {
		return nil, fmt.Errorf("goal %q: %w: %w", a.Goal, rules.ErrInvalid, err)
	}
	packed, err := l.pack(ctx, p.Artifacts)
	if err != nil {
		return nil, err
	}
	var out []event.Event
	ready := false // for a worker to claim: a holder's own appends call nobody
	keep := soft
	if a.Durable {
		keep = durable
	}
	err = l.write(ctx, "append to goal "+a.Goal, keep, func(ctx context.Context, t *tx) error {
		var row *ledger.Row
		var tail rules.Tail
		var now moment.Time
		if err := t.lock(ctx, a.Goal, &row, step{sql: selectTail, args: []any{a.Goal}, dest: []any{&tail.Seq, &tail.Hash, &tail.Time}, found: new(bool)},
			step{sql: selectClock, dest: []any{&now}}); err != nil {
			return err
		}
		if t.doubt {
			// Whoever wrote under this lock before us has ended: what we sent
			// then is either here or will never be.
			if found, err := t.find(ctx, a); err != nil || found != nil {
				out, ready = found, a.Row.Runnable
				return err
			}
		}
		if err := p.Permit(row, tail); err != nil {
			return refuse(err)
		}
		sealed := p.Seal(row, tail, now)
		ready = sealed.Row.Runnable && sealed.Row.LeaseOwner == ""
		steps := []step{insertEventsStep(a.Goal, sealed)}
		for _, art := range packed {
			steps = append(steps, art.insert(now)...)
		}
		err := t.commit(ctx, append(steps, putGoal(sealed.Row))...)
		if a.Head == 0 && sqlState(err) == stateUnique {
			// Another creator was first; the next look finds its events.
			return errRaced
		}
		out = sealed.Events
		return err
	})
	if err != nil {
		return nil, err
	}
	l.hub.notify(a.Goal)
	if ready {
		l.hub.wake()
	}
	l.sender.send(a.Goal, ready)
	return out, nil
}

// lock takes a goal's row lock and reads the row, nil when there is none, and
// then what else is asked for, as it is once the lock is held.
func (t *tx) lock(ctx context.Context, goal string, row **ledger.Row, more ...step) error {
	var r ledger.Row
	var found bool
	steps := append([]step{{sql: lockGoal, args: []any{goal}, dest: goalFields(&r), found: &found}}, more...)
	if err := t.run(ctx, steps...); err != nil {
		return err
	}
	failpoint.Hit(failpoint.PgLocked)
	if *row = nil; found {
		*row = &r
	}
	return nil
}

// find returns the events of an append when the stream holds them where the
// append puts them, and nothing when it does not. One transaction wrote them,
// so there are all or none; ids are never used twice.
func (t *tx) find(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	rows, err := t.conn.Query(ctx, t.l.q("SELECT seq, id, time, hash FROM @events WHERE goal = $1 AND seq > $2 AND seq <= $3 ORDER BY seq"),
		a.Goal, int64(a.Head), int64(a.Head)+int64(len(a.Events)))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []event.Event
	for rows.Next() {
		var seq uint64
		var id, hash string
		var at moment.Time
		if err := rows.Scan(&seq, &id, &at, &hash); err != nil {
			return nil, err
		}
		i := len(out)
		if seq != a.Head+uint64(i)+1 || id != a.Events[i].ID {
			return nil, rows.Err()
		}
		e := a.Events[i]
		e.Goal, e.Seq, e.Time, e.Hash = a.Goal, seq, at, hash
		out = append(out, e)
	}
	if err := rows.Err(); err != nil || len(out) < len(a.Events) {
		return nil, err
	}
	return out, nil
}

func insertEventsStep(goal string, s rules.Sealed) step {
	n := len(s.Records)
	seqs, times, fences, versions := make([]int64, n), make([]int64, n), make([]int64, n), make([]int32, n)
	ids, types, turns, ops, causes, actors := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	spilled, payloads := make([]bool, n), make([][]byte, n)
	for i, r := range s.Records {
		seqs[i], times[i], fences[i], versions[i] = int64(r.Seq), int64(r.Time), int64(r.Fence), int32(r.Version)
		ids[i], types[i], turns[i], ops[i], causes[i], actors[i] = r.ID, string(r.Type), r.Turn, r.Op, r.Cause, string(r.Actor)
		spilled[i], payloads[i] = r.Spilled, r.Payload
		if payloads[i] == nil {
			payloads[i] = []byte{}
		}
	}
	return step{sql: insertEvents, args: []any{goal, seqs, ids, types, versions, times, turns, ops, causes, actors, fences, spilled, payloads, s.Hashes}}
}

// checkText refuses what a text column cannot hold. All of it is made by
// belay itself, so a refusal names a programming mistake.
func checkText(a ledger.Append) error {
	if !storable(a.Goal) {
		return fmt.Errorf("the goal id %q is not text", a.Goal)
	}
	for i, e := range a.Events {
		for _, s := range []string{e.ID, string(e.Type), e.Turn, e.Op, e.Cause, string(e.Actor)} {
			if !storable(s) {
				return fmt.Errorf("event %d has a field that is not text: %q", i, s)
			}
		}
	}
	return nil
}

func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// text makes free text storable. Bytes that are not UTF-8 become U+FFFD one by
// one, as they do in the JSON of the events that the row is a projection of.
func text(s string) string {
	if storable(s) {
		return s
	}
	return strings.ReplaceAll(string([]rune(s)), "\x00", "\uFFFD")
}
