package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"belay/client"
	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/service"
)

// The times of a connection that broke: how long to wait before the next try,
// and after how long without one that succeeded to give up.
const (
	reconnect = 250 * time.Millisecond
	giveUp    = 20 * time.Second
)

// decode makes an event of what went over the wire.
func decode(e client.Event) event.Event {
	r := event.Record{Goal: e.Goal, Seq: e.Seq, ID: e.ID, Type: e.Type, Version: e.Version, Time: e.Time, Turn: e.Turn, Op: e.Op,
		Cause: e.Cause, Actor: e.Actor, Fence: e.Fence, Payload: e.Payload}
	var d struct {
		Damaged *string `json:"damaged"`
	}
	if json.Unmarshal(e.Payload, &d) == nil && d.Damaged != nil {
		out := event.Decode(r, e.Hash, nil)
		out.Version, out.Payload = e.Version, event.Damaged{Type: e.Type, Reason: *d.Damaged}
		return out
	}
	return event.Decode(r, e.Hash, nil)
}

// follow yields events after a seq, and connects again when the connection
// breaks, until the context ends. A marker comes each time that it has caught up.
func (d *Door) follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	return func(yield func(ledger.Item, error) bool) {
		last := time.Now()
		for ctx.Err() == nil {
			broken := error(ErrAway)
			for m, err := range d.c.Follow(ctx, goal, "events", after) {
				if err != nil {
					broken = err
					break
				}
				last = time.Now()
				it, err := item(m)
				if err == nil && !it.CaughtUp {
					after = it.Event.Seq
				}
				if !yield(it, err) || err != nil {
					return
				}
			}
			var p *client.Problem
			if ctx.Err() != nil {
				return
			}
			if errors.As(broken, &p) && !p.Retryable || time.Since(last) > giveUp {
				yield(ledger.Item{}, fmt.Errorf("goal %s is on record up to event %d and goes on with its server, or by belay resume: %w", goal, after, told(broken)))
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(reconnect):
			}
		}
	}
}

func item(m client.Message) (ledger.Item, error) {
	if m.Name == "caught_up" {
		return ledger.Item{CaughtUp: true}, nil
	}
	var e client.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return ledger.Item{}, fmt.Errorf("the server's stream cannot be read: %w", err)
	}
	return ledger.Item{Event: decode(e)}, nil
}

// lookAgain is how often an attended goal is looked at while no event says
// anything: whoever holds it lets it go without one.
const lookAgain = 500 * time.Millisecond

// letGo is how often a goal at rest is looked at until its worker lets it go.
const letGo = 20 * time.Millisecond

// Attend implements service.Door: it shows what the server's worker does, asks
// the person, and returns when the goal has come to rest.
func (d *Door) Attend(ctx context.Context, goal string, o service.AttendOptions) (core.Snapshot, error) {
	ctx, cancel := context.WithCancel(ctx)
	a := &attendance{door: d, goal: goal, o: o, seen: o.After, items: make(chan ledger.Item), failed: make(chan error, 1), watched: map[string]bool{}}
	defer a.all.Wait()
	defer cancel()
	a.all.Go(func() { a.read(ctx) })
	return a.run(ctx)
}

// attendance is one goal that is seen through to its rest.
type attendance struct {
	door    *Door
	goal    string
	o       service.AttendOptions
	items   chan ledger.Item
	failed  chan error
	all     sync.WaitGroup
	seen    uint64          // the seq of the last event that was shown
	watched map[string]bool // attempts whose output streams

	// pause is how long to wait before the next look if nothing comes.
	pause time.Duration

	// What the person is asked: the question ends when the goal can go on.
	endAsk func()
	asked  chan error
}

func (a *attendance) read(ctx context.Context) {
	for it, err := range a.door.Follow(ctx, a.goal, a.o.After) {
		if err != nil {
			a.failed <- err
			return
		}
		select {
		case a.items <- it:
		case <-ctx.Done():
			return
		}
	}
}

func (a *attendance) run(ctx context.Context) (core.Snapshot, error) {
	defer a.answered()
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	caught, news := false, true
	for {
		select {
		case it := <-a.items:
			caught, news = caught || it.CaughtUp, true
			if !it.CaughtUp {
				a.show(it.Event)
			}
			if !it.CaughtUp && !restsAfter(it.Event.Type) && it.Event.Type != event.TypeOperationStarted {
				continue
			}
		case <-again.C:
		case err := <-a.failed:
			return core.Snapshot{}, err
		case err := <-a.asked:
			a.answered()
			if err != nil {
				snap, serr := a.door.Snapshot(ctx, a.goal)
				return snap, errors.Join(err, serr)
			}
		case <-ctx.Done():
			return core.Snapshot{}, context.Cause(ctx)
		}
		if !caught {
			again.Reset(lookAgain)
			continue
		}
		snap, rest, err := a.look(ctx, &news)
		if errors.Is(err, ErrAway) {
			// Whoever reads the events waits for the server, and says when to give up.
			again.Reset(lookAgain)
			continue
		}
		if err != nil || rest {
			return snap, err
		}
		again.Reset(a.pause)
	}
}

func (a *attendance) show(e event.Event) {
	a.seen = e.Seq
	if a.o.OnEvent != nil {
		a.o.OnEvent(e)
	}
}

// restsAfter reports whether a goal may have come to rest with an event of this
// type. What is not named here is noticed a moment later.
func restsAfter(t event.Type) bool {
	switch t {
	case event.TypeTurnEnded, event.TypeGoalWaiting, event.TypeGoalPaused, event.TypeGoalCompleted, event.TypeGoalFailed,
		event.TypeGoalCancelled, event.TypeGoalHandedOff, event.TypeGoalWoken, event.TypeApprovalGranted, event.TypeApprovalDenied,
		event.TypeUserMessage:
		return true
	}
	return false
}

// look sees how the goal stands and reports whether it has come to rest for
// good. A goal that waits for a person stays, if there is somebody to ask.
func (a *attendance) look(ctx context.Context, news *bool) (core.Snapshot, bool, error) {
	row, err := a.door.row(ctx, a.goal)
	if err != nil {
		return core.Snapshot{}, false, err
	}
	status := lifecycle.Status(row.Status)
	if a.pause = lookAgain; !row.Runnable {
		a.pause = letGo
	}
	// What has not been shown yet may be what moves it on.
	goes := row.Runnable || row.Held || row.Head > a.seen
	if goes && !status.Final() {
		a.answered()
	}
	if goes {
		return core.Snapshot{}, false, a.watch(ctx, news)
	}
	snap, err := a.door.Snapshot(ctx, a.goal)
	if err != nil {
		return snap, false, err
	}
	if snap.WaitReason == event.WaitRetry && !snap.WaitBlocked && !snap.WaitUntil.IsZero() {
		return snap, false, nil // it goes on by itself when its time comes
	}
	if a.o.Ask == nil || status.Final() || status == lifecycle.Paused {
		a.answered()
		if a.door.rested != nil {
			a.door.rested(ctx, snap)
		}
		return snap, true, nil
	}
	if a.asked == nil {
		a.ask(ctx, snap)
	}
	return snap, false, nil
}

// ask lets the person be asked, until the goal can go on.
func (a *attendance) ask(ctx context.Context, snap core.Snapshot) {
	asking, cancel := context.WithCancel(ctx)
	asked := make(chan error, 1)
	a.asked, a.endAsk = asked, cancel
	if a.door.rested != nil {
		a.door.rested(ctx, snap)
	}
	a.all.Go(func() {
		err := a.o.Ask(asking, snap)
		if asking.Err() != nil {
			err = nil
		}
		asked <- err
	})
}

// answered ends the question that is open.
func (a *attendance) answered() {
	if a.endAsk != nil {
		a.endAsk()
		a.endAsk, a.asked = nil, nil
	}
}

// watch lets the output of what runs stream in, if somebody sees it.
func (a *attendance) watch(ctx context.Context, news *bool) error {
	if a.o.Live == nil || !*news {
		return nil
	}
	*news = false
	snap, err := a.door.Snapshot(ctx, a.goal)
	if err != nil {
		return err
	}
	for _, op := range snap.OpenOperations {
		key := fmt.Sprint(op.Op, ".", op.Attempt)
		if op.Phase != operation.Started || op.Effect != event.Supervised || a.watched[key] {
			continue
		}
		a.watched[key] = true
		a.all.Go(func() {
			// What cannot be shown while it runs is shown when it has ended.
			_ = a.door.Watch(ctx, a.goal, op.Op, op.Attempt, a.o.Live)
		})
	}
	return nil
}

// Watch implements service.Door.
func (d *Door) Watch(ctx context.Context, goal, op string, _ int, live service.Live) error {
	for m, err := range d.c.FollowOutput(ctx, goal, op) {
		if err != nil {
			return told(err)
		}
		var out client.Output
		switch {
		case m.Name == "end":
			return nil
		case m.Name != "output":
			continue
		}
		if err := json.Unmarshal(m.Data, &out); err != nil {
			return fmt.Errorf("the server's stream cannot be read: %w", err)
		}
		live.Output(op, []byte(out.Text))
	}
	return nil
}
