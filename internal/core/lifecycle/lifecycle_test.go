package lifecycle_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

var statuses = []lifecycle.Status{lifecycle.Active, lifecycle.Paused, lifecycle.Verifying,
	lifecycle.Completed, lifecycle.Failed, lifecycle.Cancelled}

// moves is the machine written down a second time, by hand, as the arrows of
// DESIGN section 5: from, event, to. Everything that is not in it is illegal,
// or does not move a status at all.
var moves = map[lifecycle.Status]map[event.Type]lifecycle.Status{
	lifecycle.Active: {
		event.TypeGoalPaused: lifecycle.Paused, event.TypeGoalCancelled: lifecycle.Cancelled,
		event.TypeGoalFailed: lifecycle.Failed, event.TypeVerificationStarted: lifecycle.Verifying,
	},
	lifecycle.Paused: {
		event.TypeGoalResumed: lifecycle.Active, event.TypeGoalCancelled: lifecycle.Cancelled,
		event.TypeGoalFailed: lifecycle.Failed,
	},
	lifecycle.Verifying: {
		event.TypeGoalPaused: lifecycle.Paused, event.TypeGoalCancelled: lifecycle.Cancelled,
		event.TypeGoalFailed: lifecycle.Failed, event.TypeGoalCompleted: lifecycle.Completed,
	},
	lifecycle.Completed: {}, lifecycle.Failed: {}, lifecycle.Cancelled: {},
}

// movers are the types that move a status from somewhere.
func movers() map[event.Type]bool {
	m := map[event.Type]bool{}
	for _, row := range moves {
		for t := range row {
			m[t] = true
		}
	}
	return m
}

func TestEveryTransitionIsOneOfTheTableOrIllegal(t *testing.T) {
	t.Parallel()
	mover := movers()
	for _, from := range statuses {
		for _, typ := range event.Types() {
			to, moved, err := lifecycle.Next(from, typ)
			want, legal := moves[from][typ]
			switch {
			case legal && (err != nil || !moved || to != want):
				t.Errorf("%s by %s: got %s, %t, %v; want %s", from, typ, to, moved, err, want)
			case !legal && mover[typ] && (err == nil || to != from):
				t.Errorf("%s by %s is not legal, but gave %s, %v", from, typ, to, err)
			case !mover[typ] && (moved || err != nil || to != from):
				t.Errorf("%s moves %s to %s (%v); it is no transition", typ, from, to, err)
			}
		}
	}
}

func TestNothingLeavesAFinalStatus(t *testing.T) {
	t.Parallel()
	types := event.Types()
	rapid.Check(t, func(t *rapid.T) {
		s, final := lifecycle.Active, lifecycle.Status("")
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			to, _, err := lifecycle.Next(s, rapid.SampledFrom(types).Draw(t, "type"))
			if err == nil {
				s = to
			}
			if final != "" && s != final {
				t.Fatalf("%s was left for %s", final, s)
			}
			if s.Final() {
				final = s
			}
		}
	})
}

func TestOnlyVerifyingCompletes(t *testing.T) {
	t.Parallel()
	for _, s := range statuses {
		to, _, err := lifecycle.Next(s, event.TypeGoalCompleted)
		if got := err == nil && to == lifecycle.Completed; got != (s == lifecycle.Verifying) {
			t.Errorf("from %s: completed=%t", s, got)
		}
	}
}

func TestTheFenceIsRaisedByWhatMakesOldWorkStale(t *testing.T) {
	t.Parallel()
	// DESIGN section 5: pausing, cancelling, revising the goal and starting a
	// verification; taking over raises it in the store. Another model makes stale
	// what the one before is saying; so does another place, or another goal.
	want := []event.Type{event.TypeGoalPaused, event.TypeGoalCancelled, event.TypeGoalRevised, event.TypeVerificationStarted, event.TypeModelChanged,
		event.TypeGoalGivenUp, event.TypeGoalImported, event.TypeGoalForked}
	for _, typ := range event.Types() {
		if got := lifecycle.RaisesFence(typ); got != slices.Contains(want, typ) {
			t.Errorf("%s raises the fence: %t", typ, got)
		}
	}
}

func TestFinalIsExactlyTheThreeLastStatuses(t *testing.T) {
	t.Parallel()
	for i, s := range statuses {
		if s.Final() != (i >= 3) {
			t.Errorf("%s: final=%t", s, s.Final())
		}
	}
}
