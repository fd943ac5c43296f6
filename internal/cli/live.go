package cli

import (
	"context"

	"github.com/spf13/cobra"

	"belay/internal/core/lifecycle"
	"belay/internal/service"
)

// live reports whether a live view can and may be shown.
func (a *app) live() bool {
	return a.Terminal && !a.json && !a.plain && a.Screen != nil && a.Getenv("BELAY_PLAIN") == "" && a.Getenv("TERM") != "dumb"
}

// attendLive works on a goal in the live view; the exit code is what it came to.
func (a *app) attendLive(s service.Door, goal string) error {
	left, err := a.Screen(a.ctx, s, goal, a.color, func(ctx context.Context, o service.AttendOptions) error {
		_, err := s.Attend(ctx, goal, o)
		return err
	})
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	if left {
		return errInterrupted
	}
	return a.ended(s, goal)
}

// ended says what a goal came to.
func (a *app) ended(s service.Door, goal string) error {
	snap, err := s.Snapshot(a.ctx, goal)
	if err != nil {
		return err
	}
	a.code = exitCode(snap)
	newView(a).end(snap, a.code)
	return nil
}

func (a *app) attachCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attach G", Short: "watch a goal that another process works on, and answer it, in a live view", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !a.live() {
				return usagef("the live view needs a terminal; belay timeline %s -f follows in lines", args[0])
			}
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if _, err := a.Screen(a.ctx, s, goal, a.color, nil); err != nil {
					return err
				}
				snap, err := s.Snapshot(a.ctx, goal)
				if err != nil {
					return err
				}
				if snap.Status.Final() || snap.Status == lifecycle.Paused {
					return a.ended(s, goal)
				}
				return nil // it goes on without us
			})
		},
	}
}

func (a *app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "all goals in a live view: who waits for you, what runs, what it does", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if !a.live() {
				return usagef("the live view needs a terminal; belay goals lists in lines")
			}
			return a.with(func(s service.Door) error { return a.Top(a.ctx, s, a.color) })
		},
	}
}
