package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"belay/internal/core/lifecycle"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// position is how far spans have been sent. It is a cache of no goal: with it
// lost, sending begins anew with what is recorded then.
type position struct {
	// Goals has, for each goal that may still have something to send, the seq
	// through which it is sent.
	Goals map[string]uint64 `json:"goals"`
	// Through is an instant: a goal that is not in Goals and was not touched
	// since has nothing to send.
	Through moment.Time `json:"through"`
}

// slack is how much later than a newer one an older commit may be seen.
const slack = int64(time.Minute / time.Millisecond)

// PositionFile is where the position is, in the state directory.
const PositionFile = "traces.json"

const lockFile = "traces.lock"

// open reads the position and reports whether it could.
func (x *Exporter) open(ctx context.Context) bool {
	if err := x.begin(ctx); err != nil {
		x.problem("traces", fmt.Errorf("how far they have been sent is not known: %w", err))
		return false
	}
	return true
}

// begin reads the position. Where there is none, sending begins here and now:
// what lies before it is history.
func (x *Exporter) begin(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(x.State, PositionFile))
	if err == nil {
		err = json.Unmarshal(b, &x.where)
	}
	if err == nil && x.where.Goals != nil {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.problem(PositionFile, fmt.Errorf("it cannot be read, and begins anew: %w", err))
	}
	rows, err := x.Ledger.Goals(ctx, ledger.Filter{})
	if err != nil {
		return err
	}
	now, err := x.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	x.where, x.dirty = position{Goals: map[string]uint64{}, Through: now.AddMS(-slack)}, true
	for _, r := range rows {
		if !settled(r, x.where.Through) {
			x.where.Goals[r.Goal] = r.Head
		}
	}
	return x.save()
}

// settled reports whether a goal has ended for so long that nothing of it is
// still on its way here.
func settled(r ledger.Row, through moment.Time) bool {
	return lifecycle.Status(r.Status).Final() && !r.Runnable && r.Updated <= through
}

// see takes in goals that are new.
func (p *position) see(rows []ledger.Row) {
	for _, r := range rows {
		if _, ok := p.Goals[r.Goal]; !ok && r.Updated > p.Through {
			p.Goals[r.Goal] = 0
		}
	}
}

// settle forgets goals that have nothing to send any more.
func (p *position) settle(rows []ledger.Row) (changed bool) {
	for _, r := range rows {
		p.Through = max(p.Through, r.Updated.AddMS(-slack))
	}
	for _, r := range rows {
		if settled(r, p.Through) && p.Goals[r.Goal] >= r.Head {
			if _, ok := p.Goals[r.Goal]; ok {
				delete(p.Goals, r.Goal)
				changed = true
			}
		}
	}
	return changed
}

// save keeps the position, whole or not at all.
func (x *Exporter) save() error {
	if !x.dirty {
		return nil
	}
	b, err := json.Marshal(x.where)
	if err != nil {
		return err
	}
	path := filepath.Join(x.State, PositionFile)
	tmp, err := os.CreateTemp(x.State, PositionFile+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(b, '\n'))
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	// Not synced: what a power cut takes of it is sent twice, which changes nothing.
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	x.dirty = false
	return nil
}

// lock takes the right to send for this state directory; it returns nil while
// another process has it.
func (x *Exporter) lock() (release func()) {
	f, err := os.OpenFile(filepath.Join(x.State, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		x.problem("traces", err)
		return nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil
	}
	return func() { _ = f.Close() }
}
