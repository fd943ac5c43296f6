package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"belay/internal/core"
	"belay/internal/core/children"
	"belay/internal/core/lifecycle"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/runtime"
	"belay/internal/workspace"
)

// family reaches other goals for the effects of one.
type family struct{ s *Service }

// Begin implements effect.Family. The stream is the proof: a checkout is made
// for it before, and a second one goes again.
func (f family) Begin(ctx context.Context, child core.Start) error {
	s := f.s
	if _, err := s.Ledger.Goal(ctx, child.Goal); err == nil || !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	var out Started
	tree, root, err := s.isolate(ctx, child.Goal, child.Repo, workspace.Bring{}, &out)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		// That it has no place to work at is the child's failure, and a result.
		child.Failed = fault.New(fault.Storage, fault.Environment, err.Error(), "")
		if f := (*fault.Fault)(nil); errors.As(err, &f) {
			child.Failed = f
		}
	default:
		child.Worktree, child.Repo = tree, root
	}
	drop := func(err error) error {
		if tree == nil {
			return err
		}
		return errors.Join(err, s.Checkouts.Drop(tree.Dir))
	}
	now := time.Now()
	in := core.Input{Now: moment.Of(now), By: event.ActorRuntime, Body: child}
	if _, err := rand.Read(in.Seed[:]); err != nil {
		return drop(err)
	}
	ready, err := core.Step(core.State{}, in)
	if err != nil {
		return drop(err)
	}
	failpoint.Hit(failpoint.StartBefore)
	_, err = s.Ledger.Append(ctx, ledger.Append{Goal: child.Goal, Events: ready.Events, Row: core.Row(ready.State), Durable: true})
	if errors.Is(err, ledger.ErrExists) {
		return drop(nil) // another worker was faster
	}
	if err != nil {
		return fmt.Errorf("the ledger did not take the goal: %w", err)
	}
	failpoint.Hit(failpoint.StartAfter)
	if tree == nil {
		return nil
	}
	return s.Checkouts.Keep(tree.Dir)
}

// Send implements effect.Family.
func (f family) Send(ctx context.Context, goal string, b core.Body) error {
	s := f.s
	for range retries {
		st, err := s.state(ctx, goal)
		if err != nil {
			return err
		}
		row, err := s.Ledger.Goal(ctx, goal)
		if err != nil {
			return err
		}
		in := core.Input{Now: moment.Of(time.Now()), By: event.ActorRuntime, StoreFence: row.Fence, Body: b}
		if _, err := rand.Read(in.Seed[:]); err != nil {
			return err
		}
		r, err := core.Step(st, in)
		if err != nil {
			return fmt.Errorf("goal %s: %w", goal, err)
		}
		if len(r.Events) == 0 {
			return nil // it is on record
		}
		failpoint.Hit(failpoint.CommandBefore)
		_, err = s.Ledger.Append(ctx, ledger.Append{Goal: goal, Head: st.Head, Fence: row.Fence, Events: r.Events, Row: core.Row(r.State), Durable: true})
		if errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrFenced) {
			continue
		}
		if err == nil {
			failpoint.Hit(failpoint.CommandAfter)
		}
		return err
	}
	return fmt.Errorf("goal %s is written to without pause; try again", goal)
}

// Fetch implements effect.Family. The child's checkout must be on this machine.
func (f family) Fetch(ctx context.Context, child, base, tree string, to workspace.Workspace) error {
	held, err := to.Holds(ctx, tree)
	if err != nil || held {
		return err
	}
	st, err := f.s.state(ctx, child)
	if err != nil {
		return err
	}
	from, err := f.s.OpenWorkspace(ctx, st.Repo, child)
	if err != nil {
		return err
	}
	defer from.Close()
	bring := func(tree, base string) error {
		r, err := from.Export(ctx, tree, base)
		if err != nil {
			return err
		}
		defer r.Close()
		return to.Import(ctx, r)
	}
	if held, err = to.Holds(ctx, base); err != nil {
		return err
	}
	if !held {
		if err := bring(base, ""); err != nil {
			return err
		}
	}
	return bring(tree, base)
}

// descendants lists the goals below one, each before its own children.
func (s *Service) descendants(ctx context.Context, goal string) ([]ledger.Row, error) {
	var all []ledger.Row
	for next := []string{goal}; len(next) > 0; {
		rows, err := s.Ledger.Goals(ctx, ledger.Filter{Parent: next[0]})
		if err != nil {
			return nil, err
		}
		next = next[1:]
		for _, r := range rows {
			all, next = append(all, r), append(next, r.Goal)
		}
	}
	return all, nil
}

// showChildren lays over what a goal knows of its open children where they stand
// themselves, and so on down.
func (s *Service) showChildren(ctx context.Context, vs []core.ChildView) error {
	for i := range vs {
		if vs[i].Status != string(lifecycle.Active) && vs[i].Status != string(children.Reserved) {
			continue // it has ended
		}
		st, err := s.state(ctx, vs[i].Goal)
		if errors.Is(err, ErrNotFound) {
			continue // it does not exist yet
		}
		if err != nil {
			return err
		}
		vs[i].Show(st)
		if err := s.showChildren(ctx, vs[i].Children); err != nil {
			return err
		}
	}
	return nil
}

// startChild starts a child goal for a person.
func (s *Service) startChild(ctx context.Context, r StartRequest) (Started, error) {
	if r.Settings.Model != "" {
		m, err := s.OpenModel(ctx, r.Settings.Model)
		if err != nil {
			return Started{}, fmt.Errorf("%w: %w", ErrUsage, err)
		}
		if r.Spec.Limits.CostMicros > 0 && m.Info().Price == nil {
			return Started{}, fmt.Errorf("%w: the price of %s is not known, so a cost limit cannot be kept; limit tokens instead", ErrUsage, r.Settings.Model)
		}
	}
	spec, err := cleanSpec(s.Secrets, r.Spec)
	if err != nil {
		return Started{}, err
	}
	st, err := s.do(ctx, r.Parent, core.Delegate{Spec: r.Spec, Percent: r.Share, ReadOnly: r.Settings.ReadOnly, Model: r.Settings.Model,
		Approve: r.Settings.Approve, Plan: r.Settings.Plan})
	if err != nil {
		return Started{}, err
	}
	for _, c := range slices.Backward(st.Children) {
		if c.ByUser && c.Title == core.Title(spec) {
			return Started{Goal: c.Goal}, s.spawn(ctx, st, c)
		}
	}
	return Started{}, fmt.Errorf("goal %s has the command on record, but no child of that text", r.Parent)
}

// spawn makes a child's stream here and now; the parent's worker would else.
func (s *Service) spawn(ctx context.Context, st core.State, c children.Child) error {
	es, err := s.Ledger.Read(ctx, st.Goal, c.Seq-1, 1)
	if err != nil {
		return err
	}
	start, err := core.ChildStart(st, es[0])
	if err != nil {
		return err
	}
	if err := (family{s}).Begin(ctx, start); err != nil {
		return err
	}
	// The parent may have no worker for long, and what it knows to exist is told
	// of its pauses.
	return family{s}.Send(ctx, st.Goal, core.Spawned{Child: c.Goal})
}

// relay tells the goals below one at once what its worker would tell them: it
// may have none. What fails here is told by the next worker.
func (s *Service) relay(ctx context.Context, goal string) {
	st, err := s.state(ctx, goal)
	if err != nil {
		return
	}
	for _, c := range st.Children {
		if !c.Owes() {
			continue
		}
		if c.Phase == children.Reserved { // who made its stream may have died before that was noted
			if _, err := s.Ledger.Goal(ctx, c.Goal); err != nil || (family{s}).Send(ctx, goal, core.Spawned{Child: c.Goal}) != nil {
				continue
			}
		}
		if (family{s}).Send(ctx, c.Goal, core.Ordered{Order: c.Order.What, Seq: c.Order.Seq}) == nil {
			s.relay(ctx, c.Goal)
		}
	}
}

// asks finds the goal that an answer is for: the goal itself, or one below it.
// CHILD/OP names an operation of a child; without an operation the answer is for
// the only goal of the family that waits for one.
func (s *Service) asks(ctx context.Context, goal string, a Answer) (string, Answer, error) {
	if child, op, ok := strings.Cut(a.Op, "/"); ok {
		rows, err := s.descendants(ctx, goal)
		if err != nil {
			return "", a, err
		}
		id, err := among(rows, goal, child)
		if err != nil || op == "" {
			return "", a, cmp.Or(err, fmt.Errorf("%w: name the operation too, %s/OP", ErrUsage, child))
		}
		a.Op = op
		return id, a, nil
	}
	if a != (Answer{Reason: a.Reason}) {
		return goal, a, nil
	}
	st, err := s.state(ctx, goal)
	if err != nil || len(st.Children.Open()) == 0 || len(st.Approvals.Pending) > 0 || st.Wait == nil || st.Wait.Reason != event.WaitChild {
		return goal, a, err
	}
	rows, err := s.descendants(ctx, goal)
	if err != nil {
		return goal, a, err
	}
	var waiting []string
	for _, r := range rows {
		if r.WaitReason == string(event.WaitApproval) || r.WaitReason == string(event.WaitUserInput) {
			waiting = append(waiting, r.Goal)
		}
	}
	switch len(waiting) {
	case 0:
		return goal, a, nil
	case 1:
		return waiting[0], a, nil
	}
	return goal, a, fmt.Errorf("goal %s: %w: name the child and its operation, CHILD/OP (waiting: %s)", goal, core.ErrAmbiguous, strings.Join(waiting, ", "))
}

// among finds the goal below another one that the beginning of an id names.
func among(rows []ledger.Row, goal, prefix string) (string, error) {
	var fit []string
	for _, r := range rows {
		if r.Goal == prefix {
			return r.Goal, nil
		}
		if strings.HasPrefix(r.Goal, prefix) && !slices.Contains(fit, r.Goal) {
			fit = append(fit, r.Goal)
		}
	}
	switch {
	case prefix == "":
		return "", fmt.Errorf("%w: name the child of goal %s and its operation, CHILD/OP", ErrUsage, goal)
	case len(fit) == 0:
		return "", fmt.Errorf("%w: goal %s has no child %q", ErrNotFound, goal, prefix)
	case len(fit) > 1:
		return "", fmt.Errorf("%w: %q fits %s of goal %s", ErrAmbiguous, prefix, strings.Join(fit, " and "), goal)
	}
	return fit[0], nil
}

// tending is a worker for the goals below one, beside whoever works on that.
type tending struct {
	s      *Service
	goal   string
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	ended  sync.WaitGroup
}

// parallelChildren is how many goals below one are worked on at a time by the
// process that works on it.
const parallelChildren = 4

// tender begins to work on the goals below one as soon as there are any.
func (s *Service) tender(ctx context.Context, goal string) *tending {
	t := &tending{s: s, goal: goal}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// look begins the work if there is some.
func (t *tending) look() {
	rows, err := t.s.Ledger.Goals(t.ctx, ledger.Filter{Parent: t.goal, Limit: 1})
	if err != nil || len(rows) == 0 {
		return // the goal's own driver meets the same store
	}
	t.once.Do(func() {
		w := t.s.worker(parallelChildren, nil)
		w.Among = func(ctx context.Context) ([]ledger.Row, error) { return t.s.descendants(ctx, t.goal) }
		t.ended.Go(func() { _ = w.Run(t.ctx) }) // it ends with its context alone
	})
}

// stop drains the work: what runs is left to its shims, and the goals are given
// back.
func (t *tending) stop() {
	t.cancel()
	t.ended.Wait()
}

// worker makes a worker of this process.
func (s *Service) worker(parallel int, onError func(goal string, err error)) *runtime.Worker {
	return &runtime.Worker{Ledger: s.Ledger, Name: s.Worker, Dead: s.Dead, Lease: s.Lease, Poll: s.Poll, Parallel: parallel, OnError: onError,
		Open: func(ctx context.Context, st core.State) (*effect.Goal, func(), error) {
			g, err := s.ports(ctx, st)
			if err != nil {
				return nil, nil, err
			}
			return g, func() {
				_ = g.Close()
				if snap, err := s.Snapshot(ctx, st.Goal); err == nil {
					s.rested(ctx, snap)
				}
			}, nil
		}}
}

// childPoll is how often a process looks whether the goals below one can still
// go on by themselves.
const childPoll = 300 * time.Millisecond

// errStuck ends a wait for children that wait for a person themselves.
var errStuck = errors.New("the child goals wait for a person")

// withChildren waits until a goal that waits for children goes on, or until none
// of those below it can go on without a person; that one is asked, if somebody
// is there to ask.
func (s *Service) withChildren(ctx context.Context, goal string, head uint64, o *AttendOptions) error {
	for {
		if stuck, err := s.stuck(ctx, goal); err != nil || stuck && o.Ask == nil {
			return err
		}
		waiting, cancel := context.WithCancelCause(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			t := time.NewTicker(childPoll)
			defer t.Stop()
			for {
				select {
				case <-waiting.Done():
					return
				case <-t.C:
				}
				if stuck, err := s.stuck(waiting, goal); err != nil || stuck {
					cancel(errors.Join(err, errStuck))
					return
				}
			}
		}()
		err := s.news(waiting, goal, head, o)
		cancel(nil)
		<-done
		if !errors.Is(err, errStuck) {
			return err
		}
		child, ok, err := s.waitsForPerson(ctx, goal)
		if err != nil || !ok || o.Ask == nil {
			return err
		}
		asked := AttendOptions{OnEvent: func(event.Event) {}, Ask: o.Ask}
		if err := s.ask(ctx, child.Goal, child, &asked); err != nil {
			return err
		}
	}
}

// stuck reports whether neither a goal nor any below it goes on by itself.
func (s *Service) stuck(ctx context.Context, goal string) (bool, error) {
	row, err := s.Ledger.Goal(ctx, goal)
	if err != nil || row.Runnable {
		return false, err
	}
	rows, err := s.descendants(ctx, goal)
	if err != nil {
		return false, err
	}
	now, err := s.Ledger.Now(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range rows {
		held := r.LeaseOwner != "" && r.LeaseUntil > now && (s.Dead == nil || !s.Dead(r.LeaseOwner))
		if r.Runnable || held || r.WaitReason == string(event.WaitRetry) {
			return false, nil
		}
	}
	return true, nil
}

// waitsForPerson finds the first goal below one that waits for a person.
func (s *Service) waitsForPerson(ctx context.Context, goal string) (core.Snapshot, bool, error) {
	rows, err := s.descendants(ctx, goal)
	if err != nil {
		return core.Snapshot{}, false, err
	}
	for i := range rows {
		r := rows[len(rows)-1-i]
		if lifecycle.Status(r.Status) == lifecycle.Active && (r.WaitReason == string(event.WaitApproval) || r.WaitReason == string(event.WaitUserInput)) {
			snap, err := s.Snapshot(ctx, r.Goal)
			return snap, err == nil, err
		}
	}
	return core.Snapshot{}, false, nil
}
