package core_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/moment"
)

// name is a state's.
func name(n int) string { return fmt.Sprintf("%064x", n) }

// TestWhatAGoalKeeps: over random histories, everything until the goal has been
// over for its retention, and after that at least the start, the end, what has a
// name, the newest checkpoint and what evidence stands on.
func TestWhatAGoalKeeps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := core.State{}
		var es []event.Event
		add := func(p event.Payload) {
			fence := max(s.Fence, 1)
			if p.EventType() == event.TypeGoalCancelled {
				fence++
			}
			e := event.Event{Goal: "g", Seq: s.Head + 1, ID: fmt.Sprint(s.Head), Type: p.EventType(), Time: moment.Time(s.Head + 1), Fence: fence, Payload: p}
			s = core.Fold(s, []event.Event{e})
			es = append(es, e)
		}
		add(event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "x"}})
		add(event.WorkspaceAttached{Tree: name(1), Index: name(2)})
		must := map[string]bool{name(1): true, name(2): true}
		last, at, latest := 10, name(1), ""
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				last++
				more := rapid.IntRange(0, 1).Draw(t, "more")
				if more > 0 { // what others changed is told by the trees alone
					must[at], must[name(last)] = true, true
				}
				add(event.RepoStateMutated{From: at, Revision: event.Revision{N: s.Revision.N + 1, Tree: name(last)}, By: "external", More: more})
				at = name(last)
			case 1:
				add(event.CheckpointCreated{Checkpoint: fmt.Sprint("cp", s.Head), Tree: at})
				latest = at
			case 2:
				add(event.CheckpointCreated{Checkpoint: fmt.Sprint("cp", s.Head), Name: fmt.Sprint("n", s.Head), Tree: at})
				must[at], latest = true, at
			case 3:
				last++
				add(event.TestCompleted{Command: "x", TreeBefore: name(last), TreeAfter: at})
				must[name(last)], must[at] = true, true
			case 4:
				last++
				add(event.IndexChanged{Index: name(last), By: "op1"})
			}
		}
		over := rapid.Bool().Draw(t, "over")
		if over {
			add(event.GoalCancelled{})
		}
		if s.Refuse != "" {
			t.Fatal(s.Refuse)
		}
		must[at] = true
		if latest != "" {
			must[latest] = true
		}
		var h core.Holdings
		cut := rapid.IntRange(0, len(es)).Draw(t, "cut")
		for _, part := range [][]event.Event{es[:cut], es[cut:]} {
			if err := h.See(part); err != nil {
				t.Fatal(err)
			}
		}
		const retention = 1000
		soon, late := moment.Time(s.Head+1), moment.Time(s.Head+2).AddMS(retention)
		young, old := h.Keep(soon, retention), h.Keep(late, retention)
		for n := 11; n <= last; n++ {
			if !young[name(n)] || !over && !old[name(n)] {
				t.Fatalf("state %d is not kept by a goal that lives or has just ended (over %t)", n, over)
			}
		}
		for n := range must {
			if !old[n] {
				t.Fatalf("%s goes, though it is the start, the end, named, the newest or evidence", n)
			}
		}
		if over && len(old) > len(must)+1 { // and what is staged at the end
			t.Fatalf("%d stay of which %d must", len(old), len(must))
		}
	})
}

// TestWhatCannotBeReadKeepsEverything: an event of a newer belay, or a damaged
// one, may hold anything.
func TestWhatCannotBeReadKeepsEverything(t *testing.T) {
	t.Parallel()
	for _, p := range []event.Payload{event.Unknown{Type: "news"}, event.Damaged{Reason: "torn"}} {
		var h core.Holdings
		if err := h.See([]event.Event{{Goal: "g", Seq: 1, Payload: p}}); err == nil || !strings.Contains(err.Error(), "goal g, event 1") {
			t.Errorf("%T: %v", p, err)
		}
	}
}
