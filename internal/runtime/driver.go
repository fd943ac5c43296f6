package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/transcript"
)

// ErrSteppedDown says that another worker holds the goal now.
var ErrSteppedDown = errors.New("another worker holds the goal now")

// Config is what a driver works with.
type Config struct {
	Ledger ledger.Ledger
	Goal   *effect.Goal
	// Worker names this driver; it must be new for every driver, because an
	// attempt that a worker started is never probed by the same worker.
	Worker string
	// Lease is how long the ticket holds without renewal.
	Lease time.Duration
	// Ticket is the right to advance the goal, if it was claimed already; else
	// Drive claims it. Drive gives it back. Asked is what Uptime said before the
	// claim was sent.
	Ticket *ledger.Ticket
	Asked  time.Duration
	// Uptime replaces the machine's clock by which the lease is trusted.
	Uptime func() time.Duration
	// Evict names a lease owner that is known to be dead.
	Evict string
	// Grace is how long short operations may take to end when the driver is
	// told to stop.
	Grace time.Duration
	// OnEvent, if set, sees every event after After, in order: those that stood
	// in the ledger, those that the driver appends, and those it learns of.
	OnEvent func(event.Event)
	After   uint64
}

type driver struct {
	Config
	ticket   ledger.Ticket
	fence    uint64 // the ticket's, raised by the driver's own events
	store    uint64 // the row's, as far as known
	state    core.State
	talk     *transcript.Builder
	composer *effect.Composer
	flight   map[string]*flight
	leaving  map[string]<-chan struct{} // cancelled flights that have not ended, by key
	results  chan result
	cached   uint64
	stopping bool
	// stale says that another worker holds the goal: what this one has begun is
	// still recorded, nothing more is begun.
	stale bool
	// held says that a turn of this worker was the latest one once.
	held bool
	// trust is the uptime until which the lease is known to hold.
	trust    atomic.Int64
	running  sync.WaitGroup
	finished []string // attempts whose records the spool need not keep
}

// flight is one effect in flight. A done one has nothing more to report and
// stays until it is no longer wanted, so that it is not started again.
type flight struct {
	effect core.Effect
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed at the end of its goroutine
	done   bool
}

type result struct {
	key  string
	of   *flight
	body core.Body
	err  error
}

var errUnwanted = errors.New("no longer wanted")

// Drive claims the goal and advances it until nothing is left to do, the
// context ends, or another worker takes it over. It returns nil when the goal
// came to rest; the ledger says how.
func Drive(ctx context.Context, c Config) error {
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	if c.Uptime == nil {
		c.Uptime = uptime
	}
	t, asked, err := c.claim(ctx)
	if err != nil {
		return err
	}
	d := &driver{Config: c, ticket: t, fence: t.Fence, store: t.Fence, flight: map[string]*flight{},
		leaving: map[string]<-chan struct{}{}, results: make(chan result)}
	d.trustSince(asked)
	defer d.release()
	if d.state, err = Load(ctx, c.Ledger, c.Goal.ID); err != nil {
		return err
	}
	d.cached = d.state.Head
	if err := d.showBacklog(ctx); err != nil {
		return err
	}
	if err := d.leftovers(ctx); err != nil {
		return err
	}
	d.Goal.Sweep(d.state)
	d.composer = effect.NewComposer(c.Goal)
	return d.run(ctx)
}

func (c Config) claim(ctx context.Context) (t ledger.Ticket, asked time.Duration, err error) {
	if c.Ticket != nil {
		return *c.Ticket, c.Asked, nil
	}
	asked = c.Uptime()
	failpoint.Hit(failpoint.ClaimBefore)
	t, err = c.Ledger.Claim(ctx, ledger.Claim{Goal: c.Goal.ID, Owner: c.Worker, Lease: c.Lease, Evict: c.Evict})
	failpoint.Hit(failpoint.ClaimAfter)
	if err != nil {
		return t, asked, fmt.Errorf("claim goal %s: %w", c.Goal.ID, err)
	}
	return t, asked, nil
}

// run is the loop: one input after the other, until nothing is in flight.
func (d *driver) run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer d.running.Wait()
	defer cancel(errUnwanted)
	news := d.follow(work)
	renew := time.NewTicker(d.Lease / 3)
	defer renew.Stop()
	if err := d.step(work, core.Claimed{Worker: d.Worker, Takeover: d.ticket.Takeover, Place: d.Goal.Place}); err != nil {
		return err
	}
	for d.busy() {
		var err error
		select {
		case <-ctx.Done():
			return d.drain(work, context.Cause(ctx))
		case r := <-d.results:
			err = d.landed(work, r)
		case n := <-news:
			err = d.learn(work, n)
		case <-renew.C:
			err = d.renew(work)
		}
		if err != nil {
			return err
		}
	}
	if err := d.step(work, core.Released{Detail: "nothing left to do"}); err != nil {
		return err
	}
	if d.stale {
		return ErrSteppedDown
	}
	return nil
}

// showBacklog tells OnEvent what stood in the ledger before the driver came.
func (d *driver) showBacklog(ctx context.Context) error {
	if d.OnEvent == nil || d.After >= d.state.Head {
		return nil
	}
	es, err := d.Ledger.Read(ctx, d.Goal.ID, d.After, int(d.state.Head-d.After))
	for _, e := range es {
		d.OnEvent(e)
	}
	return err
}

func (d *driver) busy() bool {
	for _, f := range d.flight {
		if !f.done {
			return true
		}
	}
	return false
}

// landed feeds a result back.
func (d *driver) landed(ctx context.Context, r result) error {
	f := d.flight[r.key]
	if f != r.of {
		return nil // it was cancelled meanwhile
	}
	if errors.Is(r.err, errUntrusted) {
		// It has not begun. Whether it may is asked of the store.
		delete(d.flight, r.key)
		if err := d.renew(ctx); err != nil {
			return err
		}
		return d.step(ctx, core.Poke{})
	}
	if r.err != nil {
		return fmt.Errorf("effect %s of goal %s: %w", r.key, d.Goal.ID, r.err)
	}
	if r.body == nil {
		f.done = true
		return nil
	}
	delete(d.flight, r.key)
	return d.step(ctx, r.body)
}

// learn folds events that other processes appended and looks at what follows.
func (d *driver) learn(ctx context.Context, e event.Event) error {
	if e.Seq <= d.state.Head {
		return nil
	}
	if err := d.catchUp(ctx); err != nil {
		return err
	}
	return d.step(ctx, core.Poke{})
}

// step steps, appends and then lets the effects be what they should be. An
// append error other than "conflict" and "fenced" stops the driver before
// anything else is done.
func (d *driver) step(ctx context.Context, b core.Body) error {
	for {
		in := core.Input{Now: moment.Of(time.Now()), By: event.Worker(d.Worker), Fence: d.fence, StoreFence: d.store, Body: b}
		if _, err := rand.Read(in.Seed[:]); err != nil {
			return fmt.Errorf("draw a seed: %w", err)
		}
		holder := d.fence >= max(d.state.Fence, d.store)
		r, err := core.Step(d.state, in)
		if err != nil {
			return fmt.Errorf("goal %s: %w", d.Goal.ID, err)
		}
		if len(r.Events) == 0 {
			d.want(ctx, r.Effects)
			return nil
		}
		failpoint.Hit(failpoint.Either(r.Durable, failpoint.DurableBefore, failpoint.SoftBefore))
		es, err := d.Ledger.Append(ctx, ledger.Append{Goal: d.Goal.ID, Head: d.state.Head, Fence: max(d.fence, d.state.Fence, d.store),
			Events: r.Events, Row: core.Row(r.State), Durable: r.Durable})
		switch {
		case errors.Is(err, ledger.ErrConflict), errors.Is(err, ledger.ErrFenced):
			head, store := d.state.Head, d.store
			if err := d.reload(ctx); err != nil {
				return err
			}
			if d.state.Head == head && d.store == store {
				// It refuses what we have seen and has nothing newer: it is behind
				// what it acknowledged, and stepping again would go on for ever.
				return fmt.Errorf("goal %s stops: the ledger refuses events after %d but has nothing newer; it has lost what it acknowledged (a failover without synchronous replication?): %w", d.Goal.ID, head, err)
			}
			if _, claim := b.(core.Claimed); claim && d.fence < d.store {
				return ErrSteppedDown
			}
			continue
		case err != nil:
			return fmt.Errorf("goal %s stops: the ledger did not take %d events after %d: %w", d.Goal.ID, len(r.Events), d.state.Head, err)
		}
		failpoint.Hit(failpoint.Either(r.Durable, failpoint.DurableAfter, failpoint.SoftAfter))
		d.fold(es)
		d.spent(ctx, es, r.Durable)
		if holder {
			d.fence = d.state.Fence
		}
		d.store = max(d.store, d.state.Fence)
		d.ticket.Fence = d.store
		d.cache(ctx)
		d.want(ctx, r.Effects)
		return nil
	}
}

// reload reads what came in between, and the fence of the row.
func (d *driver) reload(ctx context.Context) error {
	row, err := d.Ledger.Goal(ctx, d.Goal.ID)
	if err != nil {
		return err
	}
	d.store = max(d.store, row.Fence)
	d.stale = d.stale || row.LeaseOwner != d.Worker
	return d.catchUp(ctx)
}

func (d *driver) catchUp(ctx context.Context) error {
	es, err := d.Ledger.Read(ctx, d.Goal.ID, d.state.Head, 0)
	if err != nil {
		return err
	}
	d.fold(es)
	return nil
}

func (d *driver) fold(es []event.Event) {
	d.settled(es)
	d.state = core.Fold(d.state, es)
	if d.state.Holder.Worker == d.Worker {
		d.held = true
	} else {
		d.stale = d.stale || d.held
	}
	for _, e := range es {
		if d.talk != nil {
			d.talk.Add(e)
		}
		if d.OnEvent != nil {
			d.OnEvent(e)
		}
	}
}

// want makes the effects in flight those that are wanted.
func (d *driver) want(ctx context.Context, es []core.Effect) {
	wanted := make(map[string]bool, len(es))
	for _, e := range es {
		wanted[e.Key()] = true
	}
	for k, f := range d.flight {
		if !wanted[k] && !(d.stale && begun(f)) {
			d.cancel(k, f)
		}
	}
	if d.stopping || d.stale {
		return
	}
	for _, e := range es {
		if d.flight[e.Key()] == nil {
			d.launch(ctx, e)
		}
	}
}

// cancel gives an effect up. Its goroutine ends by itself, and until then no
// other of the same key begins.
func (d *driver) cancel(key string, f *flight) {
	f.cancel(errUnwanted)
	delete(d.flight, key)
	for k, ended := range d.leaving {
		select {
		case <-ended:
			delete(d.leaving, k)
		default:
		}
	}
	d.leaving[key] = f.ended
}

// launch starts an effect on its own goroutine. What it reads of the driver is
// taken here, before.
func (d *driver) launch(ctx context.Context, e core.Effect) {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &flight{effect: e, cancel: cancel, ended: make(chan struct{})}
	d.flight[e.Key()] = f
	before := d.leaving[e.Key()]
	do, err := d.executor(ctx, e)
	d.running.Go(func() {
		defer close(f.ended)
		if before != nil {
			<-before
		}
		var b core.Body
		if err == nil && risky(e) && !d.trusted() {
			err = errUntrusted
		}
		if err == nil {
			failpoint.Hit(failpoint.LaunchEffect)
			b, err = do(ctx)
			failpoint.Hit(failpoint.EffectReturned)
		}
		if ctx.Err() != nil && b == nil {
			return // cancelled: whoever cancelled it does not wait for it
		}
		select {
		case d.results <- result{key: e.Key(), of: f, body: b, err: err}:
		case <-ctx.Done():
		}
	})
}

func (d *driver) executor(ctx context.Context, e core.Effect) (func(context.Context) (core.Body, error), error) {
	state := d.state
	switch e := e.(type) {
	case core.Compose:
		if err := d.conversation(ctx); err != nil {
			return nil, err
		}
		conv := effect.Conversation{State: state, Messages: d.talk.Messages(e.Taken), Cut: d.talk.Cut(core.Tail(d.Goal.Model.Info().Window))}
		return func(ctx context.Context) (core.Body, error) { return d.composer.Compose(ctx, e, conv) }, nil
	case core.Ask:
		return func(ctx context.Context) (core.Body, error) { return d.composer.Ask(ctx, state, e) }, nil
	}
	return func(ctx context.Context) (core.Body, error) { return d.Goal.Do(ctx, state, e) }, nil
}

// conversation builds the transcript on first use: from the few events that
// it stands on, and from what is left of it since the last compaction.
func (d *driver) conversation(ctx context.Context) error {
	if d.talk != nil {
		return nil
	}
	talk := transcript.Rebuild(nil)
	for _, seq := range d.state.Talk.Grounds {
		ground, err := d.Ledger.Read(ctx, d.Goal.ID, seq-1, 1)
		if err != nil {
			return err
		}
		for _, e := range ground {
			talk.Add(e)
		}
	}
	es, err := d.Ledger.Read(ctx, d.Goal.ID, max(d.state.Talk.From, 1)-1, 0)
	if err != nil {
		return err
	}
	for _, e := range es {
		if e.Seq <= d.state.Head {
			talk.Add(e)
		}
	}
	d.talk = talk
	return nil
}
