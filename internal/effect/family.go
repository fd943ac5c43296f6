package effect

import (
	"context"
	"fmt"

	"belay/internal/core"
	"belay/internal/workspace"
)

// Family reaches other goals. Both methods can be called again with the same,
// by whatever process, and do nothing more then.
type Family interface {
	// Begin makes the stream of a child goal, with a checkout of its own at the
	// state in which its parent's directory is now.
	Begin(ctx context.Context, child core.Start) error
	// Send records an input in another goal's stream.
	Send(ctx context.Context, goal string, b core.Body) error
	// Fetch lets a workspace know the trees with which a child began and ended.
	Fetch(ctx context.Context, child, base, tree string, to workspace.Workspace) error
}

// spawn makes a child from the event that reserved it.
func (g *Goal) spawn(ctx context.Context, s core.State, e core.Spawn) (core.Body, error) {
	es, err := g.Ledger.Read(ctx, g.ID, e.Seq-1, 1)
	if err != nil {
		return nil, err
	}
	if len(es) != 1 {
		return nil, fmt.Errorf("effect: goal %s has no event %d, which reserves child %s", g.ID, e.Seq, e.Child)
	}
	start, err := core.ChildStart(s, es[0])
	if err == nil {
		err = g.Family.Begin(ctx, start)
	}
	if err != nil {
		return nil, fmt.Errorf("start child goal %s: %w", e.Child, err)
	}
	return core.Spawned{Child: e.Child}, nil
}

// command tells a child what this goal wants of it.
func (g *Goal) command(ctx context.Context, e core.Command) (core.Body, error) {
	if err := g.Family.Send(ctx, e.Child, core.Ordered{Order: e.Order, Seq: e.Seq}); err != nil {
		return nil, fmt.Errorf("tell child goal %s to %s: %w", e.Child, e.Order, err)
	}
	return core.Commanded(e), nil
}

// tell tells the parent how this goal ended.
func (g *Goal) tell(ctx context.Context, e core.Tell) (core.Body, error) {
	if err := g.Family.Send(ctx, e.Parent, core.ChildDone{Ended: e.Ended}); err != nil {
		return nil, fmt.Errorf("tell goal %s that this one has ended: %w", e.Parent, err)
	}
	return core.Told{}, nil
}
