package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/memory"
	"belay/internal/model/script"
	"belay/internal/moment"
)

// readCounter is a ledger that counts the events that are read.
type readCounter struct {
	ledger.Ledger
	read int
}

func (c *readCounter) Read(ctx context.Context, goal string, after uint64, limit int) ([]event.Event, error) {
	es, err := c.Ledger.Read(ctx, goal, after, limit)
	c.read += len(es)
	return es, err
}

// longGoal works on a goal until it has so many events: it reads file after
// file, in turns, and is compacted now and then. Its state is cached as a driver
// does it.
func longGoal(t *testing.T, l ledger.Ledger, events int) {
	t.Helper()
	var s core.State
	by, cached := event.Worker("w"), uint64(0)
	step := func(b core.Body, by event.Actor) {
		t.Helper()
		in := core.Input{Now: moment.Time(1_796_000_000_000_000 + 1000*int64(s.Head)), By: by, StoreFence: s.Fence, Body: b}
		in.Seed[0], in.Seed[1], in.Seed[2] = byte(s.Head), byte(s.Head>>8), byte(s.Head>>16)
		if by != event.ActorUser {
			in.Fence = max(s.Fence, 1)
		}
		r, err := core.Step(s, in)
		if err != nil {
			t.Fatal(err)
		}
		es, err := l.Append(t.Context(), ledger.Append{Goal: "g", Head: s.Head, Fence: s.Fence, Events: r.Events, Row: core.Row(r.State)})
		if err != nil {
			t.Fatal(err)
		}
		if s = core.Fold(s, es); s.Head >= cached+cacheEvery {
			cached = s.Head
			Cache(t.Context(), l, s)
		}
	}
	step(core.Start{Goal: "g", Repo: "/r", Spec: event.GoalSpec{Text: "x"}, Settings: event.Settings{Model: "script:x", Plan: event.PlanNever, Approve: event.ApproveAuto, Patience: 100}}, event.ActorUser)
	for n := 0; int(s.Head) < events; n++ {
		es := core.Wanted(s, s.Fence, by)
		if len(es) == 0 {
			step(core.Claimed{Worker: "w"}, by)
			continue
		}
		switch e := es[0].(type) {
		case core.Attach:
			step(core.Attached{Workspace: event.WorkspaceAttached{Root: "/r", Tree: "t", Sandbox: "none"}}, by)
		case core.Observe:
			step(core.Observed{Observation: core.Observation{Tree: "t", From: "t"}}, by)
		case core.Compose:
			tokens := int64(1000)
			if n%200 < 4 && s.Talk.Level == 0 && s.Requests > 0 {
				tokens = 29_000
			}
			step(core.Composed{Head: e.Head, Taken: e.Taken, Tokens: tokens, Window: 30_000}, by)
		case core.Ask:
			args := fmt.Sprintf(`{"path":"f%d"}`, n)
			step(core.Replied{Request: e.Request, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: "read_file", Arguments: args}}},
				Proposals: []core.Proposal{{CallID: "c", Tool: "read_file", Effect: event.Read, Args: json.RawMessage(args), Access: event.Access{Reads: []string{fmt.Sprintf("f%d", n)}}}}}, by)
		case core.Run:
			step(core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: event.Result{
				Output: event.Text{Head: fmt.Sprintf("what stands in file %d", n)}, Seen: []event.FileSeen{{Path: fmt.Sprintf("f%d", n%50), Hash: fmt.Sprint(n)}}}}, by)
		default:
			t.Fatalf("it wants %s", e.Key())
		}
		if s.Status != "active" || s.Refuse != "" {
			t.Fatalf("after %d events it is %s (%v, %s)", s.Head, s.Status, s.HandOff, s.Refuse)
		}
	}
}

// Opening a goal costs what happened lately, not all that ever happened: the
// state comes from its cache and the events after it, the conversation from the
// last compaction on.
func TestOpeningAGoalReadsItsEndAlone(t *testing.T) {
	t.Parallel()
	sc, err := script.Parse([]byte("steps: [{text: x}]"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[int]int{}
	for _, events := range []int{3000, 20_000} {
		l := &readCounter{Ledger: memory.New(memory.Options{})}
		longGoal(t, l, events)
		l.read = 0
		s, err := Load(t.Context(), l, "g")
		if err != nil || int(s.Head) < events {
			t.Fatalf("head %d, %v", s.Head, err)
		}
		state := l.read
		d := &driver{Config: Config{Ledger: l, Goal: &effect.Goal{ID: "g", Model: script.New(sc, "x")}}, state: s}
		if err := d.conversation(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := l.LoadCache(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		sizes[events] = len(c.Blob)
		t.Logf("%d events: %d read for the state, %d for the conversation, %d messages, a cache of %d bytes", s.Head, state, l.read-state, len(d.talk.Messages(nil)), len(c.Blob))
		if state > int(cacheEvery)+20 {
			t.Errorf("of %d events %d were read for the state", s.Head, state)
		}
		if l.read-state > 600 {
			t.Errorf("of %d events %d were read for the conversation", s.Head, l.read-state)
		}
	}
	if sizes[20_000] > sizes[3000]*5/4+2048 {
		t.Errorf("the state grows: %v bytes", sizes)
	}
}
