package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
)

// Worker advances any goal that can run, several at a time.
type Worker struct {
	Ledger ledger.Ledger
	// Open opens the ports of a goal; close gives them back. A *fault.Fault
	// that is not retryable hands the goal off, anything else makes it wait.
	Open func(ctx context.Context, s core.State) (g *effect.Goal, close func(), err error)
	// Name makes a new worker name, one for each goal that is taken.
	Name     func() string
	Dead     func(owner string) bool
	Lease    time.Duration
	Parallel int
	OnEvent  func(event.Event)
	// OnError, if set, is told why a goal was let go by an error.
	OnError func(goal string, err error)

	looked time.Time // when claimDead last looked
}

// Waker is a store that tells when a goal may have become runnable. Behind it
// the worker polls, so that a lost signal costs a moment and no goal.
type Waker interface {
	// Wakeups yields a signal, never more than one in advance, after rows
	// changed. It ends with the context.
	Wakeups(ctx context.Context) <-chan struct{}
}

// pollEvery is how often the worker looks for runnable goals when nothing
// tells it to: one indexed query.
const pollEvery = 200 * time.Millisecond

// deadEvery is how often a worker looks for goals of dead workers.
const deadEvery = 2 * time.Second

// storageRetry is how long the worker waits after the store failed.
const storageRetry = time.Second

// Run claims and drives until the context ends; then it claims nothing more,
// lets short operations end, leaves long ones to their shims, and returns when
// every ticket is given back.
func (w *Worker) Run(ctx context.Context) error {
	slots := make(chan struct{}, max(w.Parallel, 1))
	var running sync.WaitGroup
	defer running.Wait()
	var wake <-chan struct{}
	if k, ok := w.Ledger.(Waker); ok {
		wake = k.Wakeups(ctx)
	}
	idle := time.NewTimer(0)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		asked := uptime()
		t, err := w.claim(ctx)
		if err == nil {
			running.Go(func() {
				defer func() { <-slots }()
				w.work(ctx, t, asked)
			})
			continue
		}
		<-slots
		wait := pollEvery
		if !errors.Is(err, ledger.ErrNothing) {
			if ctx.Err() != nil {
				return nil
			}
			w.report("", err)
			wait = storageRetry
		}
		idle.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-idle.C:
		case <-wake:
		}
	}
}

// claim takes the most urgent goal that can run; now and then it looks first
// for goals whose worker died on this machine, which need not wait for the end
// of a lease.
func (w *Worker) claim(ctx context.Context) (ledger.Ticket, error) {
	if w.Dead != nil && time.Since(w.looked) > deadEvery {
		w.looked = time.Now()
		if t, err := w.claimDead(ctx); err == nil {
			w.looked = time.Time{} // there may be more
			return t, nil
		}
	}
	return w.Ledger.Claim(ctx, ledger.Claim{Owner: w.Name(), Lease: w.lease()})
}

func (w *Worker) claimDead(ctx context.Context) (ledger.Ticket, error) {
	rows, err := w.Ledger.Goals(ctx, ledger.Filter{})
	if err != nil {
		return ledger.Ticket{}, err
	}
	for _, r := range rows {
		if r.LeaseOwner == "" || !w.Dead(r.LeaseOwner) {
			continue
		}
		t, err := w.Ledger.Claim(ctx, ledger.Claim{Goal: r.Goal, Owner: w.Name(), Lease: w.lease(), Evict: r.LeaseOwner})
		if err == nil || !errors.Is(err, ledger.ErrHeld) {
			return t, err
		}
	}
	return ledger.Ticket{}, ledger.ErrNothing
}

func (w *Worker) lease() time.Duration {
	if w.Lease > 0 {
		return w.Lease
	}
	return DefaultLease
}

func (w *Worker) report(goal string, err error) {
	if w.OnError != nil && err != nil {
		w.OnError(goal, err)
	}
}

// work drives one claimed goal to rest.
func (w *Worker) work(ctx context.Context, t ledger.Ticket, asked time.Duration) {
	s, err := Load(ctx, w.Ledger, t.Goal)
	if err != nil {
		w.report(t.Goal, err)
		w.release(t)
		return
	}
	g, done, err := w.Open(ctx, s)
	if err != nil {
		w.report(t.Goal, err)
		w.report(t.Goal, w.block(ctx, t, s, err))
		return
	}
	defer done()
	err = Drive(ctx, Config{Ledger: w.Ledger, Goal: g, Worker: t.Owner, Lease: w.lease(), Ticket: &t, Asked: asked, OnEvent: w.OnEvent, After: s.Head})
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrSteppedDown) {
		w.report(t.Goal, err)
	}
}

func (w *Worker) release(t ledger.Ticket) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_ = w.Ledger.Release(ctx, t) // it ends with its lease otherwise
}

// block records that the goal cannot be worked on here and now.
func (w *Worker) block(ctx context.Context, t ledger.Ticket, s core.State, why error) error {
	f := fault.New(fault.Internal, fault.Environment, why.Error(), "").Retry()
	var known *fault.Fault
	if errors.As(why, &known) {
		f = known
	}
	d := &driver{Config: Config{Ledger: w.Ledger, Goal: &effect.Goal{ID: t.Goal}, Worker: t.Owner, Lease: w.lease()},
		ticket: t, fence: t.Fence, store: t.Fence, state: s, cached: s.Head, stopping: true, flight: map[string]*flight{}}
	defer d.release()
	if err := d.step(ctx, core.Blocked{Fault: *f}); err != nil {
		return fmt.Errorf("record that goal %s is blocked: %w", t.Goal, err)
	}
	return nil
}
