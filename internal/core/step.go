package core

import (
	"errors"
	"fmt"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/moment"
)

// Ready is what Step decided.
type Ready struct {
	// Events are to be committed in one transaction before any effect starts.
	// Seq, Time and Hash are set by the ledger.
	Events []event.Event
	// Effects is the whole set that should be in flight after the commit. It is
	// nil for inputs of people.
	Effects []Effect
	// Durable says that the commit must be on disk before it counts: an effect
	// that costs or changes something follows, or a person was told.
	Durable bool
	// State is the state after the events, as long as the ledger gives them the
	// seqs that follow and the time of the input.
	State State
}

// The errors of Step that a caller decides on. None of them leaves an event.
var (
	// ErrRefused: the goal holds an event that this binary may not advance over.
	ErrRefused = errors.New("the goal cannot be advanced")
	// ErrFinal: the goal has ended; nothing follows.
	ErrFinal = errors.New("the goal has ended")
	// ErrNoQuestion: nothing is pending that this answers.
	ErrNoQuestion = errors.New("nothing is pending that this answers")
	// ErrAmbiguous: more than one thing is pending; name one.
	ErrAmbiguous = errors.New("more than one answer is pending")
	// ErrChanged: what was shown is no longer what is asked.
	ErrChanged = errors.New("the question has changed since it was shown")
	// ErrState: the goal is not in a state in which this can be done.
	ErrState = errors.New("not possible now")
	// ErrInput: the input itself is wrong.
	ErrInput = errors.New("invalid input")
)

// step is one run of Step: the working state, and the events so far.
type step struct {
	s       State
	in      Input
	fence   uint64 // the holder's fence, raised by its own events
	raised  bool   // the store's fence is ahead of the events'
	events  []event.Event
	durable bool
	cause   string
	err     error
}

// Step advances a goal by one input and returns what must now be recorded and
// then done.
func Step(s State, in Input) (Ready, error) {
	w := &step{s: s.Clone(), in: in, fence: in.Fence, cause: s.HeadID}
	w.s.Fence = max(s.Fence, in.StoreFence)
	w.raised = w.s.Fence > s.Fence
	if s.Refuse != "" {
		return Ready{}, fmt.Errorf("%w: %s", ErrRefused, s.Refuse)
	}
	if _, starting := in.Body.(Start); starting != (s.Head == 0) {
		return Ready{}, fmt.Errorf("%w: a goal starts once and first", ErrInput)
	}
	err := s.leaves(in.Body)
	if err == nil {
		err = w.dispatch()
	}
	if err == nil {
		err = w.err
	}
	if err == nil && w.s.Refuse != "" {
		err = fmt.Errorf("core: step %T made an illegal event: %s", in.Body, w.s.Refuse)
	}
	if err != nil {
		return Ready{}, err
	}
	r := Ready{Events: w.events, Durable: w.durable, State: w.s}
	if in.Fence > 0 {
		r.Effects = Wanted(w.s, w.fence, in.By)
	}
	return r, nil
}

func (w *step) dispatch() error {
	if people, err := w.fromPeople(); people {
		w.durable = true // a person is told that it is done
		return err
	}
	if family, err := w.fromFamily(); family {
		w.durable = true // whoever tells it takes it for recorded
		return err
	}
	if w.in.Fence == 0 {
		return fmt.Errorf("%w: %T without a ticket", ErrInput, w.in.Body)
	}
	w.fromWorker()
	if w.err == nil && w.holder() {
		w.advance()
	}
	return nil
}

// holder reports whether the input comes from the holder of the current
// ticket.
func (w *step) holder() bool { return w.fence > 0 && w.fence == w.s.Fence }

// emit records a payload and folds it at once, so that what follows decides on
// the new state.
func (w *step) emit(p event.Payload) event.Event { return w.emitOp("", p) }

func (w *step) emitOp(op string, p event.Payload) event.Event {
	return w.emitBy(w.in.By, op, p)
}

func (w *step) emitBy(by event.Actor, op string, p event.Payload) event.Event {
	t := p.EventType()
	fence := w.s.Fence
	if w.s.Head == 0 {
		fence = max(fence, 1)
	} else if lifecycle.RaisesFence(t) {
		mine := w.holder()
		fence++
		if mine {
			w.fence = fence
		}
	}
	goal := w.s.Goal
	if st, ok := w.in.Body.(Start); ok && w.s.Head == 0 {
		goal = st.Goal
	}
	turn := ""
	if w.s.Turn != nil {
		turn = w.s.Turn.ID
	}
	if _, ok := p.(event.TurnStarted); ok {
		turn = fmt.Sprintf("t%d", w.s.Turns+1)
	}
	now := max(w.in.Now, w.s.Updated)
	e := event.Event{Goal: goal, Seq: w.s.Head + 1, ID: event.NewID(w.in.Now, w.in.Seed, len(w.events)), Type: t,
		Version: event.CurrentVersion(t), Time: now, Turn: turn, Op: op, Cause: w.causeOf(op), Actor: by,
		Fence: fence, Payload: p}
	w.events = append(w.events, e)
	w.s.apply(e)
	return e
}

// causeOf is the event that triggered the next one: the proposal of its
// operation, else the last event of the same step, else the head before it.
func (w *step) causeOf(op string) string {
	if n := len(w.events); n > 0 {
		return w.events[n-1].ID
	}
	if op != "" {
		if o, ok := w.s.Find(op); ok {
			return o.Proposal
		}
	}
	return w.cause
}

// commit asks for the events to be on disk before anything follows.
func (w *step) commit() { w.durable = true }

func (w *step) fail(err error) { w.err = err }

// jitter returns a number in [0, n) from the input's seed.
func (w *step) jitter(n int64) int64 {
	if n <= 0 {
		return 0
	}
	var x uint64
	for _, b := range w.in.Seed[:8] {
		x = x<<8 | uint64(b)
	}
	return int64(x % uint64(n))
}

func later(t moment.Time, ms int64) moment.Time { return t.AddMS(ms) }
