package core_test

import (
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/fault"
)

// The provider is down for hours while people, editors and crashes go on. The
// goal waits: it asks seldom, is never handed off for it, holds no worker, and
// goes on afterwards with nothing done twice (all invariants are held on the
// way).
func TestAnOutageOfHoursIsSatOut(t *testing.T) {
	t.Parallel()
	longest, parked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		hours := rapid.Int64Range(1, 9).Draw(t, "hours")
		s := newSim(rapid.Uint64().Draw(t, "seed"), false, knobs{ticks: 60, kill: drawKill(t) / 10, outageMS: hours * 3_600_000}, invariants...)
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		down := 0
		for _, e := range s.events {
			switch p := e.Payload.(type) {
			case event.GoalHandedOff:
				if p.Fault != nil && p.Fault.Kind == fault.Overloaded {
					t.Fatalf("handed off for the outage: %s", p.Why)
				}
			case event.TurnEnded:
				if p.Reason == event.StopYielded && s.committed.Status != lifecycle.Cancelled {
					down++
				}
			}
		}
		// A person may resume it any time, and then it asks at once.
		if most := int(hours)*60/5 + 40 + s.saw["goal_resumed"]*12; s.asked > most {
			t.Fatalf("asked %d times in %d hours, at most %d expected", s.asked, hours, most)
		}
		longest, parked = max(longest, s.asked), max(parked, down)
	})
	if longest < 20 || parked < 5 {
		t.Errorf("no run asked more than %d times or was parked more than %d times: this shows nothing", longest, parked)
	}
}
