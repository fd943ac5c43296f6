package service

import (
	"context"
	"slices"

	"belay/internal/core"
)

// Checkpoint names the state of a goal's workspace, so that a rollback finds it
// by that name and no retention takes it away. Under a goal that is being worked
// on it is the latest revision on record; else the workspace is looked at first.
func (s *Service) Checkpoint(ctx context.Context, goal, name string) (core.Checkpoint, error) {
	mark := core.MarkCheckpoint{Name: name}
	held, err := s.Held(ctx, goal)
	if err != nil {
		return core.Checkpoint{}, err
	}
	if !held {
		seen, err := s.lookAt(ctx, goal)
		if err != nil {
			return core.Checkpoint{}, err
		}
		mark.Observation = seen
	}
	st, err := s.do(ctx, goal, mark)
	if err != nil {
		return core.Checkpoint{}, err
	}
	i := slices.IndexFunc(st.Checkpoints, func(c core.Checkpoint) bool { return c.Name == name })
	if i < 0 { // redacted, or over the bound
		return core.Checkpoint{Name: name, Seq: st.Head}, nil
	}
	return st.Checkpoints[i], nil
}

// lookAt is the workspace of a goal at rest as it is now, nil for one that has
// not looked at it yet.
func (s *Service) lookAt(ctx context.Context, goal string) (*core.Observation, error) {
	st, err := s.state(ctx, goal)
	if err != nil || st.Workspace == nil {
		return nil, err
	}
	g, err := s.bare(ctx, st)
	if err != nil {
		return nil, err
	}
	seen, err := g.Now(ctx, st)
	if cerr := g.Workspace.Close(); err == nil {
		err = cerr
	}
	return &seen, err
}
