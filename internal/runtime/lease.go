package runtime

import (
	"context"
	"errors"
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

func (d *driver) renew(ctx context.Context) error {
	failpoint.Hit(failpoint.RenewBefore)
	t, err := d.Ledger.Renew(ctx, d.ticket, d.Lease)
	failpoint.Hit(failpoint.RenewAfter)
	if err == nil {
		d.ticket = t
		return nil
	}
	if !errors.Is(err, ledger.ErrFenced) {
		return err
	}
	// A pause by the user raises the fence and leaves the lease with us until
	// what runs has ended; another owner's lease means that we were replaced.
	if err := d.reload(ctx); err != nil {
		return err
	}
	row, err := d.Ledger.Goal(ctx, d.Goal.ID)
	if err != nil {
		return err
	}
	if row.LeaseOwner != d.Worker {
		return ErrSteppedDown
	}
	d.ticket.Fence = row.Fence
	return nil
}

// follow reports events that appear in the ledger. It may skip some: the
// driver reads what it lacks.
func (d *driver) follow(ctx context.Context) <-chan event.Event {
	news := make(chan event.Event)
	after := d.state.Head
	d.running.Go(func() {
		for it, err := range d.Ledger.Follow(ctx, d.Goal.ID, after) {
			if err != nil {
				return // the next append meets the same storage and names it
			}
			if it.CaughtUp {
				continue
			}
			select {
			case news <- it.Event:
			case <-ctx.Done():
				return
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
		f.cancel(errUnwanted)
		delete(d.flight, k)
	}
	if err := d.step(ctx, core.Released{Detail: "the worker was told to stop"}); err != nil {
		return err
	}
	return why
}

// shortRunning reports whether an attempt is in flight that no shim holds.
func (d *driver) shortRunning() bool {
	for _, f := range d.flight {
		if r, ok := f.effect.(core.Run); ok && !f.done && r.Op.Effect != event.Supervised {
			return true
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
