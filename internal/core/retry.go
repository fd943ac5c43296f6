package core

import (
	"fmt"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

// domain sorts the provider's faults by what trying again costs. Each domain
// has a retry budget of its own, so that none eats the other's.
type domain string

const (
	// capacity: the provider turns requests away or cannot be reached. To ask
	// again costs nothing but time, so time is what bounds it: the window.
	capacity domain = "capacity"
	// reply: an answer began, or may have, and could not be used. Each try may
	// be charged in full, so their number is bounded as well.
	reply domain = "reply"
)

func domainOf(k fault.Kind) domain {
	switch k {
	case fault.Timeout, fault.StreamCut, fault.MalformedReply:
		return reply
	}
	return capacity
}

// retryAt is when a failed request is tried again, or why it is not.
func (w *step) retryAt(f fault.Fault, attempt int) (at moment.Time, giveUp string) {
	if !f.Retryable {
		return 0, ""
	}
	var past Retry
	if w.s.Retry != nil {
		past = *w.s.Retry
	} else {
		past.Since = w.in.Now
	}
	if domainOf(f.Kind) == reply && past.Replies+1 >= MaxReplyRetries {
		return 0, fmt.Sprintf("%d answers in a row could not be used, and each may have been charged", past.Replies+1)
	}
	waited := w.in.Now.SinceMS(past.Since)
	at = later(w.in.Now, retryDelayMS(w.s.Settings, attempt, waited, f.RetryAfterMS, w.jitter))
	window := or(w.s.Settings.RetryWindowMS, DefaultRetryWindowMS)
	if at.SinceMS(past.Since) > window {
		return 0, fmt.Sprintf("the provider did not answer for %d attempts in %d s, and this goal waits for at most %d s (--provider-wait)", attempt, waited/1000, window/1000)
	}
	return at, ""
}

// retryDelayMS is the wait before attempt n+1 after n failed ones: doubled
// each time, capped, with jitter on top, never less than the provider asked.
// The cap rises once an outage has lasted: nobody gains by asking each minute
// through a night.
func retryDelayMS(s event.Settings, attempts int, waitedMS, retryAfterMS int64, jitter func(int64) int64) int64 {
	d, limit := or(s.RetryBaseMS, DefaultRetryBaseMS), or(s.RetryCapMS, DefaultRetryCapMS)
	if waitedMS >= OutageMS {
		limit *= OutageFactor
	}
	for i := 1; i < attempts && d < limit; i++ {
		d *= 2
	}
	d = min(d, limit)
	d += jitter(d/4 + 1)
	return max(d, retryAfterMS)
}

// park waits for the provider. A short wait is sat out by the worker that holds
// the goal; a long one ends the turn and gives the ticket back, so that a goal
// that waits for hours holds nobody up and outlives every worker.
func (w *step) park(f fault.Fault, attempt int, at moment.Time) {
	w.emit(event.GoalWaiting{Reason: event.WaitRetry, Until: at, Detail: fmt.Sprintf("%s; attempt %d", f.Message, attempt+1)})
	if at.SinceMS(w.in.Now) >= ParkAfterMS {
		w.endTurn(event.StopYielded, "parked until the provider may answer again")
	}
}

// requestFailed charges a request and notes when it is tried again.
func (s *State) requestFailed(e event.Event, p event.ModelFailed) {
	s.settle(p.Request, p.Charged)
	attempt := s.Request.Attempt
	aside := s.Request.Compaction != nil
	s.Request = nil
	if aside {
		return
	}
	if p.Fault.Kind == fault.ContextOverflow {
		s.Talk.refused()
	}
	if p.RetryAt.IsZero() {
		s.Retry = nil
		return
	}
	next := Retry{Since: e.Time, Attempt: attempt, At: p.RetryAt}
	if s.Retry != nil {
		next.Since, next.Replies = s.Retry.Since, s.Retry.Replies
	}
	if domainOf(p.Fault.Kind) == reply {
		next.Replies++
	}
	s.Retry = &next
}
