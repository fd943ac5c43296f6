package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
)

// DefaultLease is how long a ticket holds without renewal. A worker that dies
// is replaced after at most this time, at once when it is known to be dead.
const DefaultLease = 30 * time.Second

// DefaultGrace is how long short operations may take to end on a stop.
const DefaultGrace = 5 * time.Second

// releaseTimeout bounds giving the ticket back: the lease ends by itself.
const releaseTimeout = 3 * time.Second

// errUntrusted is the result of an effect that was not begun because the lease
// may have ended.
var errUntrusted = errors.New("the lease is not known to hold any more")

// risky effects change the world or cost money: they begin only while no other
// worker can hold the goal.
func risky(e core.Effect) bool {
	switch e := e.(type) {
	case core.Run:
		return e.Op.Effect.SideEffect()
	case core.Ask, core.Move:
		return true
	}
	return false
}

// begun reports whether a flight changes the world: what it did is told by
// nobody but this worker, also when another one holds the goal and has called
// its outcome unknown.
func begun(f *flight) bool {
	r, ok := f.effect.(core.Run)
	return ok && !f.done && r.Op.Effect.SideEffect()
}

// trustSince notes that a claim or renewal succeeded that was sent at an
// instant of the uptime. The store's lease began later, so it ends later; the
// margin is for what lies between the question and the effect, and for clocks
// that run at slightly different speeds.
func (d *driver) trustSince(asked time.Duration) {
	d.trust.Store(int64(asked + d.Lease - d.Lease/8))
}

// trusted reports whether the lease is known to hold, whatever the store would
// say: nobody else can have been given the goal.
func (d *driver) trusted() bool { return int64(d.Uptime()) < d.trust.Load() }

// renew extends the lease. When another worker has the goal, this one goes on
// as stale, until what it has begun has ended and is recorded.
func (d *driver) renew(ctx context.Context) error {
	if d.stale {
		return nil
	}
	for news := false; ; news = true {
		asked := d.Uptime()
		failpoint.Hit(failpoint.RenewBefore)
		t, err := d.Ledger.Renew(ctx, d.ticket, d.Lease)
		failpoint.Hit(failpoint.RenewAfter)
		if err == nil {
			d.ticket = t
			d.trustSince(asked)
			if news {
				return d.step(ctx, core.Poke{}) // what follows from what was read
			}
			return nil
		}
		if !errors.Is(err, ledger.ErrFenced) {
			if d.trusted() {
				return nil // the store may answer again before the lease ends
			}
			return fmt.Errorf("goal %s stops: the lease cannot be renewed: %w", d.Goal.ID, err)
		}
		// A pause by the user raises the fence and leaves the lease with us until
		// what runs has ended; another owner's lease means that we were replaced.
		if err := d.reload(ctx); err != nil {
			return err
		}
		if d.stale {
			return d.step(ctx, core.Poke{})
		}
		d.ticket.Fence = d.store
	}
}

// followAgain is how long the driver waits before it follows again after the
// store failed.
const followAgain = 200 * time.Millisecond

// follow reports events that appear in the ledger. It may skip some: the
// driver reads what it lacks. A store that fails is followed again, because
// what people say must be heard also where nothing is appended for long; an
// append or renewal that meets the same failure names it.
func (d *driver) follow(ctx context.Context) <-chan event.Event {
	news := make(chan event.Event)
	after := d.state.Head
	d.running.Go(func() {
		for ctx.Err() == nil {
			for it, err := range d.Ledger.Follow(ctx, d.Goal.ID, after) {
				if err != nil {
					break
				}
				if it.CaughtUp {
					continue
				}
				select {
				case news <- it.Event:
					after = it.Event.Seq
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-time.After(followAgain):
			case <-ctx.Done():
			}
		}
	})
	return news
}

// drain lets short operations end, leaves long ones to their shims, and closes
// the turn.
func (d *driver) drain(ctx context.Context, why error) error {
	d.stopping = true
	grace := d.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for d.shortRunning() {
		select {
		case r := <-d.results:
			if err := d.landed(ctx, r); err != nil {
				return err
			}
			continue
		case <-deadline.C:
		}
		break
	}
	for k, f := range d.flight {
		d.cancel(k, f)
	}
	if err := d.step(ctx, core.Released{Detail: "the worker was told to stop"}); err != nil {
		return err
	}
	return why
}

// shortRunning reports whether an attempt is in flight that no shim holds.
func (d *driver) shortRunning() bool {
	for _, f := range d.flight {
		switch e := f.effect.(type) {
		case core.Run:
			if !f.done && e.Op.Effect != event.Supervised {
				return true
			}
		case core.Pack:
			return true // the next worker may be at another place
		}
	}
	return false
}

func (d *driver) release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	// A ticket that cannot be given back ends with its lease.
	failpoint.Hit(failpoint.ReleaseBefore)
	_ = d.Ledger.Release(ctx, d.ticket)
	failpoint.Hit(failpoint.ReleaseAfter)
}
