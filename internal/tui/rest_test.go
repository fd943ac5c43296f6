package tui

import (
	"context"
	"errors"
	"testing"

	tea "charm.land/bubbletea/v2"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/service"
)

// door is a goal whose snapshot is what the test says.
type door struct {
	service.Door
	snap   core.Snapshot
	resume error
}

func (d *door) Snapshot(context.Context, string) (core.Snapshot, error) { return d.snap, nil }

func (d *door) Resume(context.Context, string) error {
	if d.resume == nil {
		d.snap.Status, d.snap.PauseReason = lifecycle.Active, ""
	}
	return d.resume
}

func pausedView(t *testing.T) (*view, *door) {
	t.Helper()
	d := &door{snap: core.Snapshot{Goal: "g", Status: lifecycle.Paused, PauseReason: event.PausedByUser}}
	v := &view{Options: Options{Service: d, Goal: "g", Work: func(context.Context, service.AttendOptions) error { return nil }}, ctx: t.Context(),
		watched: map[string]bool{}, dirty: make(chan struct{}, 1), flow: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	v.screen = Screen{Width: 80, Height: 24}.Took(d.snap)
	return v, d
}

// quits reports whether what an update asks for ends the program.
func quits(c tea.Cmd) bool {
	if c == nil {
		return false
	}
	_, is := c().(tea.QuitMsg)
	return is
}

var r = tea.KeyPressMsg{Code: 'r', Text: "r"}

// TestAResumeMayComeBeforeTheRest: a paused goal whose command still runs is
// resumed; the view stays, in whichever order rest and resume are noticed.
func TestAResumeMayComeBeforeTheRest(t *testing.T) {
	t.Parallel()
	t.Run("the resume is recorded before the rest", func(t *testing.T) {
		t.Parallel()
		v, _ := pausedView(t)
		_, send := v.Update(r)
		msg := send() // recorded: the goal is active
		if _, c := v.Update(rested{}); quits(c) {
			t.Fatal("the view ended under a goal that goes on")
		}
		v.Update(msg)
		if len(v.again) != 1 {
			t.Error("nobody takes the work up")
		}
	})
	t.Run("and noticed before it", func(t *testing.T) {
		t.Parallel()
		v, _ := pausedView(t)
		_, send := v.Update(r)
		v.Update(send())
		if _, c := v.Update(rested{}); quits(c) {
			t.Fatal("the view ended under a goal that goes on")
		}
	})
	t.Run("after the rest", func(t *testing.T) {
		t.Parallel()
		v, d := pausedView(t)
		if _, c := v.Update(rested{}); quits(c) {
			t.Fatal("the view ended although the person may go on")
		}
		_, send := v.Update(r)
		v.Update(send())
		if len(v.again) != 1 {
			t.Error("nobody takes the work up")
		}
		d.snap.Status = lifecycle.Completed
		if _, c := v.Update(rested{}); !quits(c) {
			t.Error("the view stays although the goal has ended")
		}
	})
	t.Run("and refused", func(t *testing.T) {
		t.Parallel()
		v, d := pausedView(t)
		d.resume = errors.New("not now")
		v.Update(rested{})
		_, send := v.Update(r)
		v.Update(send())
		if !v.idle || v.resuming {
			t.Errorf("idle %v, resuming %v", v.idle, v.resuming)
		}
	})
}
