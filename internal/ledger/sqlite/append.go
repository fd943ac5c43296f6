package sqlite

import (
	"context"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/rules"
)

// Append implements ledger.Ledger. Encoding and compressing happen in the
// caller's goroutine; the writer only places the records and writes them.
func (l *Ledger) Append(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	p, err := rules.Prepare(a)
	if err != nil {
		return nil, err
	}
	packed := make([]packed, len(p.Artifacts))
	for i, art := range p.Artifacts {
		if packed[i], err = l.pack(art); err != nil {
			return nil, l.wrap("store artifact "+art.SHA256, err)
		}
	}
	var sealed rules.Sealed
	err = l.writer.write(ctx, a.Durable, func(t *tx) error {
		row, err := t.goal(a.Goal)
		if err != nil {
			return err
		}
		tail, err := t.tail(a.Goal)
		if err != nil {
			return err
		}
		if err := p.Permit(row, tail); err != nil {
			return err
		}
		now := l.now()
		sealed = p.Seal(row, tail, now)
		for i, r := range sealed.Records {
			if err := t.insertEvent(r, sealed.Hashes[i]); err != nil {
				return err
			}
		}
		for _, art := range packed {
			if err := t.insertArtifact(art, now); err != nil {
				return err
			}
		}
		return t.putGoal(sealed.Row)
	})
	if err != nil {
		return nil, err
	}
	l.hub.notify(a.Goal)
	return sealed.Events, nil
}

func (t *tx) tail(goal string) (tail rules.Tail, err error) {
	_, err = t.row("SELECT seq, hash, time FROM events WHERE goal = ? ORDER BY seq DESC LIMIT 1", []any{goal},
		&tail.Seq, &tail.Hash, &tail.Time)
	return tail, err
}

func (t *tx) insertEvent(r event.Record, hash string) error {
	payload := []byte(r.Payload)
	if payload == nil {
		payload = []byte{}
	}
	return t.exec(`INSERT INTO events (goal, seq, id, type, version, time, turn, op, cause, actor, fence, spilled, payload, hash)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.Goal, int64(r.Seq), r.ID, string(r.Type), r.Version, int64(r.Time), r.Turn, r.Op, r.Cause, string(r.Actor),
		int64(r.Fence), r.Spilled, payload, hash)
}
