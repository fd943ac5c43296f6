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
	// Poll is how often the worker looks for goals when nothing tells it to; 0 is
	// what suits the store.
	Poll    time.Duration
	OnEvent func(event.Event)
	// Among, if set, lists the goals that the worker is for; it takes no others.
	Among func(ctx context.Context) ([]ledger.Row, error)
	// OnError, if set, is told why a goal was let go by an error.
	OnError func(goal string, err error)

	looked  time.Time // when claimDead last looked
	running sync.WaitGroup
}

// pollEvery is how often the worker looks for runnable goals when nothing
// tells it to: one indexed query. Of a store that tells, it asks less often.
const (
	pollEvery = 200 * time.Millisecond
	pollTold  = time.Second
)

// deadEvery is how often a worker looks for goals of dead workers.
const deadEvery = 2 * time.Second

// storageRetry is how long the worker waits after the store failed.
const storageRetry = time.Second

// holdOff is how long a goal is kept from every worker that could neither be
// advanced nor be made to wait.
const holdOff = 5 * time.Second

// Run claims and drives until the context ends; then it claims nothing more,
// lets short operations end, leaves long ones to their shims, and returns when
// every ticket is given back.
func (w *Worker) Run(ctx context.Context) error {
	slots := make(chan struct{}, max(w.Parallel, 1))
	defer w.running.Wait()
	var wake <-chan struct{}
	poll := pollEvery
	if k, ok := w.Ledger.(ledger.Waker); ok {
		wake, poll = k.Wakeups(ctx), pollTold
	}
	if w.Poll > 0 {
		poll = w.Poll
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
			w.running.Go(func() {
				defer func() { <-slots }()
				w.work(ctx, t, asked)
			})
			continue
		}
		<-slots
		wait := poll
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
	if w.Among != nil {
		return w.claimAmong(ctx)
	}
	if w.Dead != nil && time.Since(w.looked) > deadEvery {
		w.looked = time.Now()
		if t, err := w.claimDead(ctx); err == nil {
			w.looked = time.Time{} // there may be more
			return t, nil
		}
	}
	return w.Ledger.Claim(ctx, ledger.Claim{Owner: w.Name(), Lease: w.lease()})
}

// claimAmong takes one of the goals that the worker is for.
func (w *Worker) claimAmong(ctx context.Context) (ledger.Ticket, error) {
	rows, err := w.Among(ctx)
	if err != nil {
		return ledger.Ticket{}, err
	}
	now, err := w.Ledger.Now(ctx)
	if err != nil {
		return ledger.Ticket{}, err
	}
	for _, r := range rows {
		c := ledger.Claim{Goal: r.Goal, Owner: w.Name(), Lease: w.lease()}
		dead := r.LeaseOwner != "" && w.Dead != nil && w.Dead(r.LeaseOwner)
		if dead {
			c.Evict = r.LeaseOwner
		}
		due := r.Runnable || !r.WakeAt.IsZero() && r.WakeAt <= now
		if !dead && (!due || r.LeaseOwner != "" && r.LeaseUntil > now) {
			continue
		}
		t, err := w.Ledger.Claim(ctx, c)
		if err == nil || !errors.Is(err, ledger.ErrHeld) {
			return t, err
		}
	}
	return ledger.Ticket{}, ledger.ErrNothing
}

func (w *Worker) claimDead(ctx context.Context) (ledger.Ticket, error) {
	rows, err := w.Ledger.Goals(ctx, ledger.Filter{Leased: true})
	if err != nil {
		return ledger.Ticket{}, err
	}
	for _, r := range rows {
		if !w.Dead(r.LeaseOwner) {
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

// work drives one claimed goal to rest. Whatever keeps it from that, the goal
// is not taken again at once: a worker must never spin over one goal.
func (w *Worker) work(ctx context.Context, t ledger.Ticket, asked time.Duration) {
	s, err := Load(ctx, w.Ledger, t.Goal)
	if err != nil {
		w.report(t.Goal, err)
		w.hold(ctx, t)
		return
	}
	g, done, err := w.Open(ctx, s)
	if err != nil {
		w.report(t.Goal, err)
		w.block(ctx, t, s, err)
		return
	}
	err = Drive(ctx, Config{Ledger: w.Ledger, Goal: g, Worker: t.Owner, Lease: w.lease(), Ticket: &t, Asked: asked, OnEvent: w.OnEvent, After: s.Head})
	done()
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrSteppedDown) {
		return
	}
	w.report(t.Goal, err)
	if t, err = w.Ledger.Claim(ctx, ledger.Claim{Goal: t.Goal, Owner: w.Name(), Lease: w.lease()}); err != nil {
		return // somebody else goes on with it, or the store says no more
	}
	if s, err = Load(ctx, w.Ledger, t.Goal); err != nil {
		w.hold(ctx, t)
		return
	}
	w.block(ctx, t, s, err)
}

// hold gives a ticket back after a while.
func (w *Worker) hold(ctx context.Context, t ledger.Ticket) {
	w.running.Go(func() {
		wait := time.NewTimer(holdOff)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = w.Ledger.Release(ctx, t) // it ends with its lease otherwise
	})
}

// block records that the goal cannot be worked on here and now, and gives the
// ticket back: at once when the ledger says when it may be taken again.
func (w *Worker) block(ctx context.Context, t ledger.Ticket, s core.State, why error) {
	f := fault.New(fault.Internal, fault.Environment, why.Error(), "").Retry()
	var known *fault.Fault
	if errors.As(why, &known) {
		f = known
	}
	d := &driver{Config: Config{Ledger: w.Ledger, Goal: &effect.Goal{ID: t.Goal}, Worker: t.Owner, Lease: w.lease(), Uptime: uptime},
		ticket: t, fence: t.Fence, store: t.Fence, state: s, cached: s.Head, stopping: true, flight: map[string]*flight{}}
	if err := d.step(ctx, core.Blocked{Fault: *f}); err != nil {
		w.report(t.Goal, fmt.Errorf("record that goal %s is blocked: %w", t.Goal, err))
	}
	if d.state.Head == s.Head {
		w.hold(ctx, t)
		return
	}
	d.release()
}
