package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/moment"
	"belay/internal/workspace"
)

// StartRequest begins a goal.
type StartRequest struct {
	Spec     event.GoalSpec
	Settings event.Settings
	Repo     string
	// Worktree has the goal work in a checkout of its own, made of Repo as it is
	// now; Bring is what that gets beside what the configuration names.
	Worktree bool
	Bring    workspace.Bring
	// Parent has the goal be a child of that one: it works in a checkout of its
	// own, made of the parent's directory as it is now, with Share percent of what
	// is left of its budget where Spec sets no limit, and with its settings where
	// Settings name no stricter ones. Only Model, Plan, Approve and ReadOnly of
	// Settings count then, and nothing of Repo.
	Parent string
	Share  int64
	// Travel overrides the service's default for Settings.Travel.
	Travel *bool
}

// Started is a new goal.
type Started struct {
	Goal string
	// Warnings are rules of the repository that were dropped because they
	// would have widened permission.
	Warnings []string
}

// Start records a new goal. Nothing runs yet. A cost limit needs a model whose
// price is known: a limit that cannot be kept is refused here.
func (s *Service) Start(ctx context.Context, r StartRequest) (Started, error) {
	if r.Parent != "" {
		return s.startChild(ctx, r)
	}
	repo, err := filepath.Abs(r.Repo)
	if err == nil {
		repo, err = filepath.EvalSymlinks(repo)
	}
	if err != nil {
		return Started{}, fmt.Errorf("%w: the repository cannot be found: %w", ErrUsage, err)
	}
	if info, err := os.Stat(repo); err != nil || !info.IsDir() {
		return Started{}, fmt.Errorf("%w: the repository %s is not a directory", ErrUsage, r.Repo)
	}
	m, err := s.OpenModel(ctx, r.Settings.Model)
	if err != nil {
		return Started{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if r.Spec.Limits.CostMicros > 0 && m.Info().Price == nil {
		return Started{}, fmt.Errorf("%w: the price of %s is not known, so a cost limit cannot be kept; limit tokens instead", ErrUsage, r.Settings.Model)
	}
	if s.PickSandbox != nil {
		// The goal keeps what is found now: a later worker never falls back.
		if r.Settings.Sandbox, err = s.PickSandbox(ctx, r.Settings.Sandbox); err != nil {
			return Started{}, fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	out := Started{}
	if s.Rules != nil {
		rules, warnings, err := s.Rules(repo)
		if err != nil {
			return Started{}, fmt.Errorf("%w: %w", ErrUsage, err)
		}
		r.Settings.Rules, out.Warnings = rules, warnings
	}
	r.Settings.Protected = s.ProtectedPatterns()
	r.Settings.Travel = s.Travel
	if r.Travel != nil {
		r.Settings.Travel = *r.Travel
	}
	if r.Spec, err = cleanSpec(s.Secrets, r.Spec); err != nil {
		return Started{}, err
	}
	now := time.Now()
	if k := keyOf(ctx); k != nil {
		out.Goal = k.goalID()
	} else if out.Goal, err = NewGoalID(now); err != nil {
		return Started{}, err
	}
	if !r.Worktree && len(r.Bring.Setup) > 0 {
		return Started{}, fmt.Errorf("%w: setup commands prepare a worktree, and this goal has none: add --worktree", ErrUsage)
	}
	body := core.Start{Goal: out.Goal, Spec: r.Spec, Settings: r.Settings, Repo: repo}
	if r.Worktree {
		if body.Worktree, body.Repo, err = s.isolate(ctx, out.Goal, repo, r.Bring, &out); err != nil {
			return Started{}, err
		}
	}
	if err := s.record(ctx, body, now); err != nil {
		if body.Worktree != nil {
			err = errors.Join(err, s.Checkouts.Drop(body.Worktree.Dir))
		}
		return Started{}, err
	}
	if body.Worktree == nil {
		return out, nil
	}
	if k := keyOf(ctx); k != nil && k.Replayed {
		return out, s.Checkouts.Drop(body.Worktree.Dir) // the goal has its own already
	}
	return out, s.Checkouts.Keep(body.Worktree.Dir)
}

// record begins a goal's stream.
func (s *Service) record(ctx context.Context, b core.Start, now time.Time) error {
	in := core.Input{Now: moment.Of(now), By: event.ActorUser, Body: b}
	if _, err := rand.Read(in.Seed[:]); err != nil {
		return err
	}
	ready, err := core.Step(core.State{}, in)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	failpoint.Hit(failpoint.StartBefore)
	if err := s.begin(ctx, b.Goal, ready); err != nil {
		return err
	}
	failpoint.Hit(failpoint.StartAfter)
	return nil
}

// Say sends a message of the user.
func (s *Service) Say(ctx context.Context, goal, text string, mode event.MessageMode) error {
	_, err := s.do(ctx, goal, core.Say{Mode: mode, Text: text})
	return err
}

// Approve answers with yes; the zero Answer names the only open question.
func (s *Service) Approve(ctx context.Context, goal string, a Answer) error {
	goal, a, err := s.asks(ctx, goal, a)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, goal, core.Approve{Op: a.Op, Intent: a.Intent, Criterion: a.Criterion})
	return err
}

// Deny answers with no.
func (s *Service) Deny(ctx context.Context, goal string, a Answer) error {
	goal, a, err := s.asks(ctx, goal, a)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, goal, core.Deny{Op: a.Op, Intent: a.Intent, Criterion: a.Criterion, Reason: a.Reason})
	return err
}

// Answer names what is answered. Intent, when set, must still be the one that
// was shown.
type Answer struct {
	Op, Intent, Criterion, Reason string
}

// Pause stops a goal until it is resumed.
func (s *Service) Pause(ctx context.Context, goal, detail string) error {
	_, err := s.do(ctx, goal, core.Pause{Detail: detail})
	s.relay(ctx, goal)
	return err
}

// Resume makes a paused goal active; one that is active already stays so.
func (s *Service) Resume(ctx context.Context, goal string) error {
	_, err := s.do(ctx, goal, core.Resume{})
	s.relay(ctx, goal)
	if errors.Is(err, core.ErrState) {
		if st, serr := s.state(ctx, goal); serr == nil && st.Status == lifecycle.Active {
			return nil // somebody else has just resumed it
		}
	}
	return err
}

// Adopt takes the directory here, as it is, for the workspace of a goal that
// was worked on at another place.
func (s *Service) Adopt(ctx context.Context, goal string) error {
	st, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	if held, err := s.Held(ctx, goal); err != nil || held {
		if err == nil {
			err = fmt.Errorf("goal %s: %w; stop it first", goal, ErrBusy)
		}
		return err
	}
	if info, err := os.Stat(st.Repo); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: there is no directory %s here to go on from", ErrUsage, st.Repo)
	}
	_, err = s.do(ctx, goal, core.Adopt{Place: s.Place, Root: st.Repo})
	return err
}

// Cancel ends a goal. What runs is stopped by its worker, or by Attend.
func (s *Service) Cancel(ctx context.Context, goal, reason string) error {
	_, err := s.do(ctx, goal, core.Cancel{Reason: reason})
	s.relay(ctx, goal)
	return err
}

// Revise replaces what the goal asks for.
func (s *Service) Revise(ctx context.Context, goal string, spec event.GoalSpec) error {
	_, err := s.do(ctx, goal, core.Revise{Spec: spec})
	return err
}

// ChangeModel has another model answer from now on.
func (s *Service) ChangeModel(ctx context.Context, goal, spec string) error {
	st, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	m, err := s.OpenModel(ctx, spec)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if st.Budget.Limits.CostMicros > 0 && m.Info().Price == nil {
		return fmt.Errorf("%w: the price of %s is not known, so the goal's cost limit could not be kept", ErrUsage, spec)
	}
	_, err = s.do(ctx, goal, core.ChangeModel{Model: spec})
	return err
}

// ExtendBudget replaces the limits.
func (s *Service) ExtendBudget(ctx context.Context, goal string, l event.Limits) error {
	_, err := s.do(ctx, goal, core.ExtendBudget{Limits: l})
	return err
}

// Reconcile settles an unknown outcome.
func (s *Service) Reconcile(ctx context.Context, goal string, r core.Reconcile) error {
	before, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	if _, err := s.do(ctx, goal, r); err != nil {
		return err
	}
	// Any backend finds the records of any other, and this one needs no probe.
	if box, err := s.OpenSandbox(ctx, "none"); err == nil {
		forget(ctx, box, before, r.Op)
	}
	return nil
}

// Spec returns what the goal asks for now, to be revised.
func (s *Service) Spec(ctx context.Context, goal string) (event.GoalSpec, error) {
	st, err := s.state(ctx, goal)
	return st.Spec, err
}
