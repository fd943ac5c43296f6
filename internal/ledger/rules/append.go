package rules

import (
	"errors"
	"fmt"
	"strings"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// ErrInvalid marks an append that no store may accept: the caller made a
// mistake, and trying again cannot help.
var ErrInvalid = errors.New("ledger: invalid append")

// Tail is the last event of a stream as a store knows it. The zero Tail is
// that of a goal without events.
type Tail struct {
	Seq  uint64
	Hash string
	Time moment.Time
}

// prev is the hash that the next record is chained to.
func (t Tail) prev() string {
	if t.Seq == 0 {
		return event.Genesis
	}
	return t.Hash
}

// Prepared is an append that has been checked and encoded, but not yet put at
// its place in the stream. Preparing is the costly part and needs no lock.
type Prepared struct {
	Append ledger.Append
	// Artifacts are those of the append and those that large payloads spilled
	// into, each once.
	Artifacts []event.Artifact
	records   []event.Record
}

// Sealed is an append at its place: what the store must now write.
type Sealed struct {
	Events  []event.Event
	Records []event.Record
	// Hashes has the chain hash of each record.
	Hashes []string
	Row    ledger.Row
}

// Prepare checks an append for the caller's mistakes and encodes its events.
func Prepare(a ledger.Append) (*Prepared, error) {
	if err := check(a); err != nil {
		return nil, fmt.Errorf("goal %q: %w: %w", a.Goal, ErrInvalid, err)
	}
	p := &Prepared{Append: a, records: make([]event.Record, len(a.Events))}
	seen := map[string]bool{}
	add := func(art event.Artifact) {
		if !seen[art.SHA256] {
			seen[art.SHA256] = true
			p.Artifacts = append(p.Artifacts, art)
		}
	}
	for _, art := range a.Artifacts {
		if got := event.RefOf(art.Content, ""); got.SHA256 != art.SHA256 || got.Size != art.Size {
			return nil, fmt.Errorf("goal %q: %w: the content of artifact %s has the address %s", a.Goal, ErrInvalid, art.SHA256, got.SHA256)
		}
		add(art)
	}
	for i, e := range a.Events {
		e.Goal = a.Goal
		r, spill, err := event.Encode(e)
		if err != nil {
			return nil, fmt.Errorf("goal %q: %w: %w", a.Goal, ErrInvalid, err)
		}
		if spill != nil {
			add(*spill)
		}
		p.records[i] = r
	}
	return p, nil
}

func check(a ledger.Append) error {
	if a.Goal == "" || strings.ContainsRune(a.Goal, 0) {
		return errors.New("the goal id is empty or holds a NUL byte")
	}
	if len(a.Events) == 0 {
		return errors.New("it has no event")
	}
	if a.Row.Goal != "" && a.Row.Goal != a.Goal {
		return fmt.Errorf("its row is that of goal %q", a.Row.Goal)
	}
	if a.Row.Fence < a.Fence {
		return fmt.Errorf("its row lowers the fence from %d to %d; a fence only grows", a.Fence, a.Row.Fence)
	}
	if a.Copied < 0 || a.Copied > len(a.Events) {
		return fmt.Errorf("it says that %d of %d events are copies", a.Copied, len(a.Events))
	}
	for i, e := range a.Events {
		switch {
		case i < a.Copied && (e.Time == 0 || i > 0 && e.Time < a.Events[i-1].Time):
			return fmt.Errorf("the copied event %d has no time, or one before that of the event before it", i)
		case e.Goal != "" && e.Goal != a.Goal:
			return fmt.Errorf("event %d is of goal %q", i, e.Goal)
		case e.ID == "" || e.Type == "":
			return fmt.Errorf("event %d has no id or no type", i)
		}
	}
	return nil
}

// Permit says whether the append may be made on a goal with this row (nil when
// there is none) and this tail. The fence is checked before the head, so that
// a stale holder learns that it is stale and not that it is late.
func (p *Prepared) Permit(row *ledger.Row, tail Tail) error {
	a := p.Append
	switch {
	case a.Head == 0 && (row != nil || tail.Seq > 0):
		return fmt.Errorf("goal %s: %w", a.Goal, ledger.ErrExists)
	case a.Head == 0:
		return nil
	case row == nil && tail.Seq > 0:
		return fmt.Errorf("goal %s has events but its row is lost; rebuild it first: %w", a.Goal, ledger.ErrNotFound)
	case row == nil:
		return fmt.Errorf("goal %s: %w", a.Goal, ledger.ErrNotFound)
	case row.Fence != a.Fence:
		return fmt.Errorf("goal %s has fence %d, the append has %d: %w", a.Goal, row.Fence, a.Fence, ledger.ErrFenced)
	case tail.Seq != a.Head:
		return fmt.Errorf("goal %s is at seq %d, the append expects %d: %w", a.Goal, tail.Seq, a.Head, ledger.ErrConflict)
	}
	return nil
}

// Seal puts the append at its place after tail, at the store's time now. It
// changes nothing in p, so a store may seal again after a rolled back try.
func (p *Prepared) Seal(row *ledger.Row, tail Tail, now moment.Time) Sealed {
	// A clock that was set back must not make time run backwards in a stream.
	now = max(now, tail.Time)
	n := len(p.records)
	if c := p.Append.Copied; c > 0 {
		now = max(now, p.records[c-1].Time)
	}
	s := Sealed{Events: make([]event.Event, n), Records: make([]event.Record, n), Hashes: make([]string, n)}
	prev := tail.prev()
	for i, r := range p.records {
		r.Seq = tail.Seq + uint64(i) + 1
		if i >= p.Append.Copied {
			r.Time = now
		} else {
			r.Time = max(r.Time, tail.Time)
		}
		prev = event.Chain(prev, r)
		s.Records[i], s.Hashes[i] = r, prev
		e := p.Append.Events[i]
		e.Goal, e.Seq, e.Time, e.Hash = r.Goal, r.Seq, r.Time, prev
		s.Events[i] = e
	}
	s.Row = p.Append.Row
	s.Row.Goal, s.Row.Head, s.Row.Created, s.Row.Updated = p.Append.Goal, tail.Seq+uint64(n), now, now
	if p.Append.Copied > 0 {
		s.Row.Created = s.Records[0].Time
	}
	s.Row.LeaseOwner, s.Row.LeaseUntil = "", 0
	if row != nil {
		s.Row.Created, s.Row.LeaseOwner, s.Row.LeaseUntil = row.Created, row.LeaseOwner, row.LeaseUntil
	}
	return s
}

// Restore is the row that Rebuild writes: row as the core computed it, with
// what only the store knows. old is the row still there, or nil; first is the
// time of the first event, fence the highest fence in the events.
func Restore(row ledger.Row, old *ledger.Row, first moment.Time, tail Tail, fence uint64, now moment.Time) ledger.Row {
	row.Head, row.Created, row.Updated = tail.Seq, first, tail.Time
	row.Fence = max(row.Fence, fence)
	if old != nil {
		row.Fence = max(row.Fence, old.Fence)
		row.LeaseOwner, row.LeaseUntil = old.LeaseOwner, old.LeaseUntil
		return row
	}
	row.LeaseOwner, row.LeaseUntil = ledger.RebuiltOwner, now
	return row
}

// Missing stands in a reader's hands for a record that its stream has lost.
func Missing(goal string, seq uint64) event.Event {
	return event.Event{Goal: goal, Seq: seq, Payload: event.Damaged{Reason: "the record is missing from the ledger"}}
}

// Newer reports whether a cache replaces the one there. Between binaries of
// two schemas the last to save wins: the other ignores what it cannot read.
func Newer(old *ledger.Cache, c ledger.Cache) bool {
	return old == nil || c.Schema != old.Schema || c.Seq >= old.Seq
}
