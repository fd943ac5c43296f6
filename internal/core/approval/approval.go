// Package approval is the memory of answers: which exact intents a person
// denied, and which grants are still unused. An approval answers one intent
// and is used once; a denial sticks to its intent for the goal.
//
// It must not know what an intent means.
package approval

import (
	"belay/internal/event"
	"belay/internal/moment"
)

// Pending is a question to a person.
type Pending struct {
	Op      string       `json:"op_id"`
	Tool    string       `json:"tool"`
	Intent  event.Intent `json:"intent"`
	Access  event.Access `json:"access"`
	Why     []string     `json:"why,omitempty"`
	Renewed bool         `json:"renewed,omitempty"`
	// Seq is the event that asked, Asked its time.
	Seq   uint64      `json:"seq"`
	Asked moment.Time `json:"asked,omitzero"`
}

// Book keeps the pending questions in order and the denied intents.
type Book struct {
	Pending []Pending         `json:"pending,omitempty"`
	Denied  map[string]string `json:"denied,omitempty"` // intent hash → reason
	// Granted are the answers that no start has used yet: op → intent hash.
	Granted map[string]string `json:"granted,omitempty"`
}

// Clone copies the book so that the copy can be changed.
func (b Book) Clone() Book {
	b.Pending = append([]Pending(nil), b.Pending...)
	b.Denied = clone(b.Denied)
	b.Granted = clone(b.Granted)
	return b
}

func clone(m map[string]string) map[string]string {
	c := make(map[string]string, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// Ask adds a question; an older one of the same operation is replaced.
func (b *Book) Ask(p Pending) {
	b.Withdraw(p.Op)
	b.Pending = append(b.Pending, p)
}

// Withdraw removes an operation's question and unused grant.
func (b *Book) Withdraw(op string) {
	kept := b.Pending[:0]
	for _, p := range b.Pending {
		if p.Op != op {
			kept = append(kept, p)
		}
	}
	b.Pending = kept
	delete(b.Granted, op)
}

// Find returns the question of an operation.
func (b Book) Find(op string) (Pending, bool) {
	for _, p := range b.Pending {
		if p.Op == op {
			return p, true
		}
	}
	return Pending{}, false
}

// Grant answers a question with yes; the grant waits to be used.
func (b *Book) Grant(op, intent string) bool {
	p, ok := b.Find(op)
	if !ok || p.Intent.Hash != intent {
		return false
	}
	b.Withdraw(op)
	b.Granted[op] = intent
	return true
}

// Use consumes the grant of an operation for one exact intent.
func (b *Book) Use(op, intent string) bool {
	if held, ok := b.Granted[op]; !ok || held != intent {
		return false
	}
	delete(b.Granted, op)
	return true
}

// Deny answers a question with no, for good.
func (b *Book) Deny(op, intent, reason string) {
	b.Withdraw(op)
	if reason == "" {
		reason = "denied"
	}
	b.Denied[intent] = reason
}

// WasDenied reports whether the intent was denied before, and why.
func (b Book) WasDenied(intent string) (string, bool) {
	r, ok := b.Denied[intent]
	return r, ok
}
