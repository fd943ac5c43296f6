package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/runtime"
	"belay/internal/sandbox"
	"belay/internal/workspace"
)

// AttendOptions shape a worker that is bound to one goal.
type AttendOptions struct {
	// OnEvent sees every event after After, in order and once, the worker's own
	// and others'.
	OnEvent func(event.Event)
	After   uint64
	Live    effect.Live
	// Ask, if set, keeps the worker with a goal that waits for a person: it is
	// called when the goal has come to rest, with a context that ends as soon
	// as the goal can go on, whoever answered. Without it Attend returns.
	Ask func(ctx context.Context, s core.Snapshot) error
}

// Attend advances one goal until it comes to rest: it has ended, is paused, or
// waits for a person. With Stay it goes on when the person has answered.
func (s *Service) Attend(ctx context.Context, goal string, o AttendOptions) (core.Snapshot, error) {
	tend := s.tender(ctx, goal)
	defer tend.stop()
	defer s.background(ctx)()
	show := o.OnEvent
	o.OnEvent = func(e event.Event) {
		if e.Seq > o.After {
			o.After = e.Seq
			if e.Type == event.TypeChildStarted {
				tend.look()
			}
			if show != nil {
				show(e)
			}
		}
	}
	for {
		tend.look()
		if err := s.drive(ctx, goal, &o); err != nil {
			return core.Snapshot{}, err
		}
		snap, err := s.Snapshot(ctx, goal)
		if err != nil {
			return snap, err
		}
		row, err := s.Ledger.Goal(ctx, goal)
		if err != nil {
			return snap, err
		}
		if row.Runnable {
			continue
		}
		if o.Ask == nil || snap.WaitReason == event.WaitChild || snap.Status.Final() || snap.Status == lifecycle.Paused {
			if err := s.withChildren(ctx, goal, snap.Head, &o); err != nil {
				return snap, err
			}
			if row, err = s.Ledger.Goal(ctx, goal); err != nil {
				return snap, err
			}
			if row.Runnable {
				continue
			}
			if snap, err = s.Snapshot(ctx, goal); err != nil {
				return snap, err
			}
		}
		s.rested(ctx, snap)
		if until, ok := s.parked(ctx, goal); ok {
			if err := s.sleep(ctx, goal, until, snap.Head, &o); err != nil {
				return snap, err
			}
			continue
		}
		if o.Ask == nil || snap.Status.Final() || snap.Status == lifecycle.Paused {
			return snap, nil
		}
		if err := s.ask(ctx, goal, snap, &o); err != nil {
			return snap, err
		}
	}
}

// background begins what goes on beside the work, and returns how it ends.
func (s *Service) background(ctx context.Context) func() {
	if s.Background == nil {
		return func() {}
	}
	return s.Background(ctx)
}

func (s *Service) rested(ctx context.Context, snap core.Snapshot) {
	s.learn(ctx, snap)
	if s.Rested != nil {
		s.Rested(ctx, snap)
	}
}

// parked reports until when a goal waits for an instant that ends its wait by
// itself, as an outage of a provider does. A goal that no worker could work on
// here waits for something that a person may have to do: they are told.
func (s *Service) parked(ctx context.Context, goal string) (until moment.Time, ok bool) {
	st, err := s.state(ctx, goal)
	if err != nil || st.Status.Final() || st.Wait == nil || st.Wait.Reason != event.WaitRetry || st.Wait.Blocked {
		return 0, false
	}
	return st.Wait.Until, !st.Wait.Until.IsZero()
}

// ErrNobody is what Ask returns when the person leaves: Attend then returns
// with the goal as it is.
var ErrNobody = errors.New("nobody answers")

var errDue = errors.New("the time to answer is over")

// ask lets the person be asked until the goal can go on.
func (s *Service) ask(ctx context.Context, goal string, snap core.Snapshot, o *AttendOptions) error {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	left := make(chan error, 1)
	go func() {
		err := o.Ask(asking, snap)
		left <- err
		if err != nil {
			cancel(err)
		}
	}()
	if st, err := s.state(ctx, goal); err == nil && st.Wait != nil && !st.Wait.Until.IsZero() {
		// A question that nobody answers in time is answered by the goal itself.
		due := time.AfterFunc(time.Until(st.Wait.Until.Std()), func() { cancel(errDue) })
		defer due.Stop()
	}
	err := s.news(asking, goal, snap.Head, o)
	if errors.Is(err, errDue) {
		err = nil
	}
	cancel(nil)
	asked := <-left
	if asked != nil && asking.Err() != nil && !errors.Is(asked, context.Canceled) {
		return asked
	}
	return err
}

// sleep waits until a parked goal may go on, or until people have said
// something that ends it sooner.
func (s *Service) sleep(ctx context.Context, goal string, until moment.Time, head uint64, o *AttendOptions) error {
	asleep, cancel := context.WithDeadline(ctx, until.Std())
	defer cancel()
	err := s.news(asleep, goal, head, o)
	if asleep.Err() != nil {
		return ctx.Err() // the time has come, unless the caller went away
	}
	return err
}

// news waits for events after a seq that make the goal runnable or final.
func (s *Service) news(ctx context.Context, goal string, after uint64, o *AttendOptions) error {
	for it, err := range s.Ledger.Follow(ctx, goal, after) {
		if err != nil {
			return err
		}
		if it.CaughtUp {
			continue
		}
		o.OnEvent(it.Event)
		st, err := s.state(ctx, goal)
		if err != nil {
			return err
		}
		if st.Status.Final() || st.Status == lifecycle.Paused || core.Row(st).Runnable {
			return nil
		}
	}
	return context.Cause(ctx)
}

// drive opens the goal's ports and drives it once.
func (s *Service) drive(ctx context.Context, goal string, o *AttendOptions) error {
	st, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	if st.Refuse != "" {
		return fmt.Errorf("goal %s: %w: %s", goal, core.ErrRefused, st.Refuse)
	}
	if st.Status.Final() && !core.Row(st).Runnable {
		return nil
	}
	row, err := s.Ledger.Goal(ctx, goal)
	if err != nil {
		return err
	}
	ports, err := s.ports(ctx, st)
	if held := (*workspace.Held)(nil); errors.As(err, &held) && held.Goal == goal {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err != nil {
		return err
	}
	defer ports.Close()
	ports.Live = o.Live
	c := runtime.Config{Ledger: s.Ledger, Goal: ports, Worker: s.Worker(), Lease: s.Lease, OnEvent: o.OnEvent, After: o.After}
	if row.LeaseOwner != "" && s.Dead != nil && s.Dead(row.LeaseOwner) {
		c.Evict = row.LeaseOwner
	}
	err = runtime.Drive(ctx, c)
	if errors.Is(err, ledger.ErrHeld) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

func (s *Service) ports(ctx context.Context, st core.State) (*effect.Goal, error) {
	if st.OnlyFamily() {
		return &effect.Goal{ID: st.Goal, Ledger: s.Ledger, Place: s.Place, Scratch: s.Scratch, Secrets: s.Secrets, Family: family{s}}, nil
	}
	box, err := s.OpenSandbox(ctx, st.Settings.Sandbox)
	if err != nil {
		return nil, fmt.Errorf("goal %s: %w", st.Goal, sandboxFault(st.Settings.Sandbox, err))
	}
	m, err := s.OpenModel(ctx, st.Settings.Model)
	if err != nil {
		return nil, fmt.Errorf("goal %s: %w", st.Goal, modelFault(st.Settings.Model, err))
	}
	if core.Elsewhere(st.Place, s.Place) && (st.Status == lifecycle.Active || st.Status == lifecycle.Verifying) {
		// The workspace moves here first of all, into an empty directory if there
		// is none.
		if err := os.MkdirAll(st.Repo, 0o755); err != nil {
			return nil, fault.New(fault.Storage, fault.Environment, fmt.Sprintf("the directory %s for the goal's workspace cannot be made here: %v", st.Repo, err),
				"make it, or let a worker at "+st.Place+" go on").Retry()
		}
	}
	if f := st.Gone(); f != nil {
		return nil, f
	}
	if st.Worktree != nil && s.Checkouts != nil {
		if err := s.Checkouts.Keep(st.Worktree.Dir); err != nil {
			return nil, err
		}
	}
	ws, err := s.OpenWorkspace(ctx, st.Repo, st.Goal)
	if err != nil {
		return nil, err
	}
	if err := ws.Clean(ctx); err != nil {
		ws.Close()
		return nil, err
	}
	g := &effect.Goal{ID: st.Goal, Ledger: s.Ledger, Workspace: ws, OpenOther: s.other(st.Goal), Sandbox: box, Model: m, NewTools: s.NewTools, Place: s.Place, Scratch: s.Scratch,
		BaseEnv: s.BaseEnv, Secrets: s.Secrets, Protected: s.Protected, Recall: s.recall, Index: s.Index, Family: family{s}}
	if s.Symbols != nil {
		g.Symbols = s.Symbols(ws)
	}
	g.Versions = s.Versions
	return g, nil
}

// sandboxFault says that the goal's sandbox cannot be had here. Another one in
// its place would be a promise broken silently.
func sandboxFault(name string, err error) error {
	if !errors.Is(err, sandbox.ErrUnavailable) {
		return fmt.Errorf("open the sandbox %s: %w", name, err)
	}
	return fault.New(fault.SandboxMissing, fault.Environment, err.Error(), "see belay doctor; the goal goes on where the sandbox holds")
}

// modelFault says that a model cannot be opened here: nothing mends itself.
func modelFault(spec string, err error) error {
	var f *fault.Fault
	if errors.As(err, &f) {
		return err
	}
	return fault.New(fault.UnknownModel, fault.User, fmt.Sprintf("model %s cannot be opened: %v", spec, err), "set its key or name another model, then resume")
}

// Work advances any goal that can run, up to parallel at a time, until the
// context ends. What makes it let a goal go is told to onError.
func (s *Service) Work(ctx context.Context, parallel int, onError func(goal string, err error)) error {
	defer s.background(ctx)()
	s.working.Add(1)
	defer s.working.Add(-1)
	return s.worker(parallel, onError).Run(ctx)
}

// Held reports whether a live worker holds the goal.
func (s *Service) Held(ctx context.Context, goal string) (bool, error) {
	row, err := s.Ledger.Goal(ctx, goal)
	if err != nil {
		return false, err
	}
	if row.LeaseOwner == "" || s.Dead != nil && s.Dead(row.LeaseOwner) {
		return false, nil
	}
	now, err := s.Ledger.Now(ctx)
	return row.LeaseUntil > now, err
}
