// Package lifecycle is the machine of a goal's status. Three statuses are
// final; nothing leaves them.
//
//	            ┌──────────── paused ◄───────────┐
//	            ▼                                │
//	(received) active ──► verifying ──► completed │
//	            │  ▲          │ └─────────────────┘
//	            │  └──────────┘ (verdict: not complete)
//	            └──► cancelled, failed   (also from paused and verifying)
//
// It must not know why a goal moves; the core does.
package lifecycle

import (
	"fmt"

	"belay/internal/event"
)

// Status is a goal's status.
type Status string

// The statuses of DESIGN section 5.
const (
	Active    Status = "active"
	Paused    Status = "paused"
	Verifying Status = "verifying"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Final reports whether nothing can follow.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

var next = map[event.Type]struct {
	from []Status
	to   Status
}{
	event.TypeGoalPaused:          {[]Status{Active, Verifying}, Paused},
	event.TypeGoalResumed:         {[]Status{Paused}, Active},
	event.TypeGoalCancelled:       {[]Status{Active, Paused, Verifying}, Cancelled},
	event.TypeGoalFailed:          {[]Status{Active, Paused, Verifying}, Failed},
	event.TypeVerificationStarted: {[]Status{Active}, Verifying},
	event.TypeGoalCompleted:       {[]Status{Verifying}, Completed},
}

// Next returns the status after an event that moves it; ok is false for events
// that do not move a status at all.
func Next(s Status, t event.Type) (to Status, moves bool, err error) {
	n, ok := next[t]
	if !ok {
		return s, false, nil
	}
	for _, f := range n.from {
		if f == s {
			return n.to, true, nil
		}
	}
	return s, true, fmt.Errorf("lifecycle: %s is not legal for a goal that is %s", t, s)
}

// RaisesFence reports whether an event of this type must carry a higher fence
// than the one before, so that everything computed earlier is refused.
func RaisesFence(t event.Type) bool {
	switch t {
	case event.TypeGoalPaused, event.TypeGoalCancelled, event.TypeGoalRevised, event.TypeVerificationStarted, event.TypeModelChanged,
		event.TypeGoalGivenUp, event.TypeGoalImported, event.TypeGoalForked:
		return true
	}
	return false
}
