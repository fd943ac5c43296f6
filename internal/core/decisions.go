package core

import (
	"fmt"
	"slices"
	"strings"

	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/tool/control"
)

// Recalled is what the goal was told of earlier ones, and what of it holds no
// longer: by the seq of the event that said so.
type Recalled struct {
	Items []event.MemoryItem `json:"items"`
	More  int                `json:"more,omitempty"`
	Gone  map[string]uint64  `json:"gone,omitempty"`
}

// Holding are the items that hold as far as events through seq say.
func (r *Recalled) Holding(seq uint64) []event.MemoryItem {
	if r == nil {
		return nil
	}
	var out []event.MemoryItem
	for _, it := range r.Items {
		if gone := r.Gone[it.ID]; gone == 0 || gone > seq {
			out = append(out, it)
		}
	}
	return out
}

// drop returns a recollection without some items, or without any. The old one
// is shared with other states.
func (r *Recalled) drop(seq uint64, all bool, ids ...string) *Recalled {
	if r == nil {
		return nil
	}
	c := *r
	c.Gone = cloneMap(r.Gone)
	for _, it := range r.Items {
		if c.Gone[it.ID] == 0 && (all || slices.Contains(ids, it.ID)) {
			c.Gone[it.ID] = seq
		}
	}
	return &c
}

func (s *State) applyMemory(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.DecisionRecorded:
		s.Decisions = appendCapped(s.Decisions, Decision{ID: event.DecisionID(e.Goal, e.Seq), Seq: e.Seq, Decision: p.Decision, Reason: p.Reason, Scope: p.Scope}, maxDecisions)
	case event.DecisionRevoked:
		s.dropDecisions(func(d Decision) bool { return d.ID == p.Decision })
		s.Memory = s.Memory.drop(e.Seq, false, p.Decision)
	case event.MemoryRecalled:
		s.Memory = &Recalled{Items: p.Items, More: p.More}
	case event.MemoryForgotten:
		covered := p.Through[s.Goal]
		s.dropDecisions(func(d Decision) bool { return d.Seq <= covered && (p.All || slices.Contains(p.Items, d.ID)) })
		s.Memory = s.Memory.drop(e.Seq, p.All, p.Items...)
	default:
		return false
	}
	return true
}

func (s *State) dropDecisions(gone func(Decision) bool) {
	s.Decisions = slices.DeleteFunc(slices.Clone(s.Decisions), gone)
}

// recordDecision takes in a decision of the model, or takes one back.
func (w *step) recordDecision(o operation.Op) {
	d, err := control.DecodeDecision(o.Args)
	if err == nil && d.Revokes != "" && !w.knownDecision(d.Revokes) {
		err = fmt.Errorf("revokes: there is no decision %q that holds", d.Revokes)
	}
	if err != nil {
		w.reject(o, argumentFault(err))
		return
	}
	var words []string
	if d.Revokes != "" {
		w.emitBy(event.ActorModel, o.ID, event.DecisionRevoked{Decision: d.Revokes, Reason: d.Reason, By: event.ActorModel})
		words = append(words, fmt.Sprintf("The decision %s holds no longer.", d.Revokes))
	}
	if d.Decision != "" {
		w.emitBy(event.ActorModel, o.ID, event.DecisionRecorded{Decision: d.Decision, Reason: d.Reason, Scope: d.Scope})
		words = append(words, fmt.Sprintf("The decision is recorded as %s.", event.DecisionID(w.s.Goal, w.s.Head)))
	}
	w.answer(o, strings.Join(words, " "))
}

// knownDecision reports whether a decision holds and was recorded by this goal
// or shown to it.
func (w *step) knownDecision(id string) bool {
	if slices.ContainsFunc(w.s.Decisions, func(d Decision) bool { return d.ID == id }) {
		return true
	}
	return slices.ContainsFunc(w.s.Memory.Holding(w.s.Head), func(it event.MemoryItem) bool { return it.ID == id && it.Kind == event.MemoryDecision })
}

// forget records a person's word. A goal that has ended takes it in as well:
// it is where what is to be forgotten may come from.
func (w *step) forget(b Forget) error {
	p := b.Word
	if len(p.Items) == 0 && !p.All {
		return fmt.Errorf("%w: name what is to be forgotten, or all of it", ErrInput)
	}
	w.emit(p)
	return nil
}

// scopeWords say where a decision holds, when it is told apart from its goal.
func scopeWords(scope string) string {
	if scope == "" {
		return ""
	}
	return "(" + scope + ")"
}

func forgottenWords(p event.MemoryForgotten) string {
	if p.All {
		return "everything that is remembered of " + p.Repo
	}
	return strings.Join(p.Items, ", ")
}

// words are a decision in one line, with the id by which it is revoked.
func (d Decision) words() string {
	s := d.ID + ": " + d.Decision
	if d.Reason != "" {
		s += " (" + d.Reason + ")"
	}
	return s
}

// rememberedWords are what the timeline says of what was decided, remembered or
// found to hold.
func rememberedWords(p event.Payload) string {
	switch p := p.(type) {
	case event.DecisionRecorded:
		return strings.TrimSpace(p.Decision + " " + scopeWords(p.Scope))
	case event.DecisionRevoked:
		return p.Decision + ": " + p.Reason
	case event.MemoryRecalled:
		return fmt.Sprintf("%d things that earlier goals here left", len(p.Items))
	case event.MemoryForgotten:
		return forgottenWords(p)
	case event.InstructionsFound:
		return foundWords(p)
	}
	return ""
}
