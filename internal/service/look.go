package service

import (
	"context"
	"fmt"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/sandbox"
	"belay/internal/tool"
)

// Sight is what a look at an operation in doubt established.
type Sight struct {
	// Settled says that it was certain, and is recorded: the operation counts
	// as Outcome.
	Settled bool          `json:"settled"`
	Outcome event.Outcome `json:"outcome,omitempty"`
	Words   string        `json:"detail"`
}

// Watch shows the output of a command that another process of this state
// directory has running, until it ends or ctx does. It changes nothing, and
// shows nothing of what runs elsewhere.
func (s *Service) Watch(ctx context.Context, goal, op string, attempt int, live effect.Live) error {
	st, err := s.state(ctx, goal)
	if err != nil {
		return err
	}
	box, err := s.OpenSandbox(ctx, st.Settings.Sandbox)
	if err != nil {
		return fmt.Errorf("goal %s: %w", goal, sandboxFault(st.Settings.Sandbox, err))
	}
	g := &effect.Goal{ID: goal, Sandbox: box, Live: live, Secrets: s.Secrets}
	return g.Watch(ctx, op, attempt)
}

// Look looks at an operation whose outcome is unknown, runs nothing, and
// settles the doubt by what is certain. While a worker holds the goal it is the
// worker that looks, when the model asks it to.
func (s *Service) Look(ctx context.Context, goal, op string) (Sight, error) {
	st, err := s.state(ctx, goal)
	if err != nil {
		return Sight{}, err
	}
	if _, ok := st.Doubt(op); !ok {
		return Sight{}, fmt.Errorf("goal %s: %w: %s is not in doubt", goal, core.ErrNoQuestion, op)
	}
	held, err := s.Held(ctx, goal)
	if err != nil {
		return Sight{}, err
	}
	if held {
		return Sight{}, fmt.Errorf("%w: pause it (belay pause %s), then look again", ErrBusy, goal)
	}
	box, err := s.OpenSandbox(ctx, st.Settings.Sandbox)
	if err != nil {
		return Sight{}, fmt.Errorf("goal %s: %w", goal, sandboxFault(st.Settings.Sandbox, err))
	}
	ws, err := s.OpenWorkspace(ctx, st.Repo, st.Goal)
	if err != nil {
		return Sight{}, err
	}
	defer ws.Close()
	if err := ws.Clean(ctx); err != nil {
		return Sight{}, err
	}
	g := &effect.Goal{ID: st.Goal, Ledger: s.Ledger, Workspace: ws, Sandbox: box, NewTools: s.NewTools, Place: s.Place,
		BaseEnv: s.BaseEnv, Secrets: s.Secrets, Protected: s.Protected}
	f, err := g.Look(ctx, st, op)
	if err != nil {
		return Sight{}, err
	}
	r := f.Reconciliation(op)
	if r == nil {
		return Sight{Words: f.Detail}, nil
	}
	if _, err = s.do(ctx, goal, core.Sighted{Found: *r}); err == nil {
		forget(ctx, box, st, op)
	}
	return Sight{Settled: true, Outcome: r.Outcome, Words: r.Reason}, err
}

// forget removes what the spool here keeps of an attempt whose outcome was in
// doubt in an earlier state and is settled now: what a command printed lies there
// as it printed it, secrets included. What cannot be removed is harmless but for
// that.
func forget(ctx context.Context, box sandbox.Sandbox, before core.State, op string) {
	if o, ok := before.Doubt(op); ok && o.Effect == event.Supervised {
		_ = box.Forget(ctx, tool.AttemptKey(before.Goal, op, o.Attempt))
	}
}
