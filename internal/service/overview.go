package service

import (
	"context"
	"errors"
	"fmt"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
)

// Overviews lists goals as they stand, newest first. Unlike Goals it takes the
// list as it is: it is asked again and again while somebody watches.
func (s *Service) Overviews(ctx context.Context, f ledger.Filter) ([]core.Overview, error) {
	rows, err := s.Ledger.Goals(ctx, f)
	if err != nil {
		return nil, err
	}
	now, err := s.Ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]core.Overview, len(rows))
	for i, r := range rows {
		out[i] = core.Overview{Row: r, Held: r.LeaseOwner != "" && r.LeaseUntil > now && (s.Dead == nil || !s.Dead(r.LeaseOwner))}
		if lifecycle.Status(r.Status).Final() && !r.Runnable && !out[i].Held {
			continue // nothing of it runs any more
		}
		st, err := s.at(ctx, r)
		if err != nil {
			return nil, err
		}
		out[i].Action = core.Doing(st)
		if !st.Status.Final() {
			out[i].Left = core.View(st, nil).Budget.Left
		}
	}
	return out, nil
}

// at is a goal's state at least as new as its row; nothing is read when the
// state that was seen last is that new already.
func (s *Service) at(ctx context.Context, r ledger.Row) (core.State, error) {
	s.mu.Lock()
	st, ok := s.seen[r.Goal]
	s.mu.Unlock()
	if ok && st.Head >= r.Head {
		return st, nil
	}
	return s.state(ctx, r.Goal)
}

// OperationEvents are the events of one operation, oldest first.
func (s *Service) OperationEvents(ctx context.Context, goal, op string) ([]event.Event, error) {
	if f, ok := s.Ledger.(ledger.Finder); ok {
		// What an index cannot tell, the stream does.
		if es, err := s.found(ctx, f, goal, op); err == nil && len(es) > 0 || ctx.Err() != nil {
			return es, ctx.Err()
		}
	}
	const page = 1000
	var out []event.Event
	for after := uint64(0); ; {
		es, err := s.Ledger.Read(ctx, goal, after, page)
		if err != nil {
			return nil, err
		}
		if len(es) == 0 {
			break
		}
		for _, e := range es {
			if e.Op == op {
				out = append(out, e)
			}
			after = e.Seq
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: goal %s has no operation %s", ErrNoOperation, goal, op)
	}
	return out, nil
}

// found reads the events of an operation that a store finds.
func (s *Service) found(ctx context.Context, f ledger.Finder, goal, op string) ([]event.Event, error) {
	seqs, err := f.OpSeqs(ctx, goal, op)
	if err != nil {
		return nil, err
	}
	var out []event.Event
	for _, seq := range seqs {
		es, err := s.Ledger.Read(ctx, goal, seq-1, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, es...)
	}
	return out, nil
}

// Output is the whole output of a finished operation.
func (s *Service) Output(ctx context.Context, goal, op string) (event.Text, error) {
	es, err := s.OperationEvents(ctx, goal, op)
	if err != nil && !errors.Is(err, ErrNoOperation) {
		return event.Text{}, err
	}
	for _, e := range es {
		p, ok := e.Payload.(event.OperationFinished)
		if !ok {
			continue
		}
		t := p.Result.Output
		if p.Result.Command != nil && !p.Result.Command.Output.IsZero() {
			t.Whole = p.Result.Command.Output
		}
		return t, nil
	}
	return event.Text{}, fmt.Errorf("%w: goal %s has no finished operation %s", ErrNoOperation, goal, op)
}
