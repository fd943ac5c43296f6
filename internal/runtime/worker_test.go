package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/memory"
	"belay/internal/moment"
)

// orphan is a goal whose worker died over a running operation; then the user
// did something.
func orphan(t *testing.T, l ledger.Ledger, then ...core.Body) core.State {
	t.Helper()
	var s core.State
	step := func(b core.Body, fence uint64, by event.Actor) {
		t.Helper()
		row, _ := l.Goal(context.Background(), "g")
		r, err := core.Step(s, core.Input{Now: moment.Of(time.Now()), Seed: [16]byte{byte(s.Head)}, By: by, Fence: fence, StoreFence: row.Fence, Body: b})
		if err != nil {
			t.Fatal(err)
		}
		es, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: s.Head, Fence: row.Fence, Events: r.Events, Row: core.Row(r.State)})
		if err != nil {
			t.Fatal(err)
		}
		s = core.Fold(s, es)
	}
	by := event.Worker("dead")
	step(core.Start{Goal: "g", Repo: "/r", Spec: event.GoalSpec{Text: "x"}, Settings: event.Settings{Model: "script:x", Plan: event.PlanNever, Approve: event.ApproveAuto}}, 0, event.ActorUser)
	step(core.Claimed{Worker: "dead"}, 1, by)
	step(core.Attached{Workspace: event.WorkspaceAttached{Root: "/r", Tree: "t", Sandbox: "none"}}, 1, by)
	step(core.Composed{Head: s.Mark, Tokens: 10}, 1, by)
	args := json.RawMessage(`{}`)
	step(core.Replied{Request: s.Request.ID, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: "bell", Arguments: "{}"}}},
		Proposals: []core.Proposal{{CallID: "c", Tool: "bell", Effect: event.Keyed, Args: args, Access: event.Access{Remote: "bell"}}}}, 1, by)
	step(core.Prepared{Op: s.Open[0].ID}, 1, by)
	if !s.AnyStarted() {
		t.Fatal("nothing was started")
	}
	for _, b := range then {
		step(b, 0, event.ActorUser)
	}
	return s
}

// TestAWorkerNeverSpinsOverOneGoal: whatever state the goal is in and whatever
// keeps the worker from it, it tries now and then; and where nothing mends
// itself, it stops trying and every call has its outcome.
func TestAWorkerNeverSpinsOverOneGoal(t *testing.T) {
	t.Parallel()
	busy := fault.New(fault.AlreadyExists, fault.Environment, "the directory is another goal's", "").Retry()
	gone := fault.New(fault.NotFound, fault.User, "the directory is gone", "")
	for name, c := range map[string]struct {
		then   []core.Body
		fault  *fault.Fault
		status lifecycle.Status
		ends   bool // nothing is left to try
	}{
		"active, busy":    {nil, busy, lifecycle.Active, false},
		"active, gone":    {nil, gone, lifecycle.Paused, true},
		"paused, busy":    {[]core.Body{core.Pause{}}, busy, lifecycle.Paused, false},
		"paused, gone":    {[]core.Body{core.Pause{}}, gone, lifecycle.Paused, true},
		"cancelled, busy": {[]core.Body{core.Cancel{}}, busy, lifecycle.Cancelled, false},
		"cancelled, gone": {[]core.Body{core.Cancel{}}, gone, lifecycle.Cancelled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := memory.New(memory.Options{})
				before := orphan(t, l, c.then...)
				var tries atomic.Int64
				w := &Worker{Ledger: l, Name: func() string { return fmt.Sprintf("w%d", tries.Load()) }, Parallel: 4,
					Open: func(context.Context, core.State) (*effect.Goal, func(), error) {
						tries.Add(1)
						return nil, nil, c.fault
					}}
				ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
				defer stop()
				if err := w.Run(ctx); err != nil {
					t.Fatal(err)
				}
				s, err := Load(context.Background(), l, "g")
				if err != nil || s.Refuse != "" {
					t.Fatal(err, s.Refuse)
				}
				n := tries.Load()
				switch {
				case c.ends && n > 3:
					t.Errorf("%d tries although nothing mends itself", n)
				case !c.ends && (n < 2 || n > 45):
					t.Errorf("%d tries in three minutes", n)
				}
				if s.Status != c.status {
					t.Errorf("it is %s", s.Status)
				}
				if c.ends && c.status != lifecycle.Active && name != "active, gone" && (s.AnyStarted() || s.Turn != nil || len(s.InDoubt) != 1) {
					t.Errorf("left open: %+v, turn %+v, in doubt %+v", s.Open, s.Turn, s.InDoubt)
				}
				if d := s.Head - before.Head; d > 60 {
					t.Errorf("%d events", d)
				}
				row, err := l.Goal(context.Background(), "g")
				if err != nil || row.LeaseOwner != "" {
					t.Errorf("the lease is %q's: %v", row.LeaseOwner, err)
				}
			})
		})
	}
}
