// Package children is the machine of the goals that a goal has started: what
// each may spend and do, where it stands, and what its parent still has to
// tell it.
//
//	(asked for) ──► reserved ──► started ──► ended
//	                (its share is taken      (its share is settled to
//	                 out of the budget)       what it really used)
//
// A child is known by its goal id, which follows from its parent and the
// operation that asked for it: whoever starts it after a crash starts the same
// one. It ends once; what is told of its end a second time changes nothing.
//
// It must not know the ledger, workspaces or models; the core composes it with
// those. A transition that is not legal is an error and changes nothing.
package children

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"belay/internal/event"
)

// Phase is where a child stands for its parent.
type Phase string

// The phases.
const (
	Reserved Phase = "reserved"
	Started  Phase = "started"
	Ended    Phase = "ended"
)

// Child is one child goal, as its parent knows it.
type Child struct {
	Goal  string `json:"goal"`
	Op    string `json:"op_id"`
	Title string `json:"title"`
	Phase Phase  `json:"phase"`
	// ByUser says that a person asked for it: the parent's model waits for no
	// result of it.
	ByUser bool `json:"by_user,omitempty"`
	// Share are its limits, Reserved what of them is taken out of the parent's
	// budget while it is open.
	Share    event.Limits `json:"share,omitzero"`
	Reserved event.Amount `json:"reserved,omitzero"`
	Used     event.Amount `json:"used,omitzero"`
	ReadOnly bool         `json:"read_only,omitempty"`
	// Seq is the event that reserved it: its goal is made from that.
	Seq uint64 `json:"seq"`
	// Order is the latest order of the parent that it is to obey, Told the seq
	// of the latest one that it has been told.
	Order Order  `json:"order,omitzero"`
	Told  uint64 `json:"told,omitempty"`
	// Status, How, Base, Tree and Diff are of its end.
	Status string             `json:"status,omitempty"`
	How    event.CompletedHow `json:"completed_how,omitempty"`
	Base   string             `json:"base,omitempty"`
	Tree   string             `json:"tree,omitempty"`
	Files  int                `json:"files,omitempty"`
	// Applied says that its result was taken over into the parent's workspace.
	Applied bool `json:"applied,omitempty"`
}

// Order is what a parent wants of its children: the cancellation, the pause or
// the resumption of its own, named by the event that brought it about.
type Order struct {
	What event.ChildOrder `json:"what,omitempty"`
	Seq  uint64           `json:"seq,omitempty"`
}

// Open reports whether the child has not ended.
func (c Child) Open() bool { return c.Phase != Ended }

// Owes reports whether the parent still has to tell the child something.
func (c Child) Owes() bool { return c.Open() && c.Order.Seq > c.Told }

// ID is the goal id of the child that an operation of a goal starts.
func ID(parent, op string) string {
	sum := sha256.Sum256([]byte("child\x00" + parent + "\x00" + op))
	return hex.EncodeToString(sum[:8])
}

// Book holds the children of one goal in the order in which they were asked
// for. The zero value is empty.
type Book []Child

// Clone copies the book so that the copy can be changed.
func (b Book) Clone() Book { return append(Book(nil), b...) }

func (b Book) find(goal string) int {
	for i, c := range b {
		if c.Goal == goal {
			return i
		}
	}
	return -1
}

// Find returns a child by its goal id.
func (b Book) Find(goal string) (Child, bool) {
	if i := b.find(goal); i >= 0 {
		return b[i], true
	}
	return Child{}, false
}

// Of returns the child of an operation.
func (b Book) Of(op string) (Child, bool) {
	for _, c := range b {
		if c.Op == op {
			return c, true
		}
	}
	return Child{}, false
}

// Open are the children that have not ended.
func (b Book) Open() []Child {
	var out []Child
	for _, c := range b {
		if c.Open() {
			out = append(out, c)
		}
	}
	return out
}

// Reserve adds a child whose share is taken out of the budget from now on.
func (b Book) Reserve(c Child) (Book, error) {
	switch {
	case c.Goal == "" || c.Op == "":
		return b, fmt.Errorf("children: a child without a goal or an operation")
	case b.find(c.Goal) >= 0:
		return b, fmt.Errorf("children: %s is a child already", c.Goal)
	}
	if _, taken := b.Of(c.Op); taken {
		return b, fmt.Errorf("children: %s has started a child already", c.Op)
	}
	c.Phase = Reserved
	return append(b.Clone(), c), nil
}

// Start notes that the child's own stream exists.
func (b Book) Start(goal string) (Book, error) {
	i := b.find(goal)
	if i < 0 || b[i].Phase != Reserved {
		return b, fmt.Errorf("children: %s is no child that waits to be started", goal)
	}
	b = b.Clone()
	b[i].Phase = Started
	return b, nil
}

// End notes how the child ended, and what it used. It ends once.
func (b Book) End(goal string, e event.ChildEnded) (Book, error) {
	i := b.find(goal)
	if i < 0 || b[i].Phase != Started {
		return b, fmt.Errorf("children: %s is no child that could end now", goal)
	}
	b = b.Clone()
	c := &b[i]
	c.Phase, c.Status, c.How, c.Used, c.Base, c.Tree = Ended, e.Status, e.How, e.Used, e.Base, e.Tree
	c.Files = len(e.Changes) + e.More
	return b, nil
}

// Command has every open child obey an order; a later one stands in the place
// of an earlier one that has not been told.
func (b Book) Command(o Order) Book {
	b = b.Clone()
	for i := range b {
		if b[i].Open() {
			b[i].Order = o
		}
	}
	return b
}

// Tell notes that a child has been told an order.
func (b Book) Tell(goal string, seq uint64) (Book, error) {
	i := b.find(goal)
	if i < 0 {
		return b, fmt.Errorf("children: %s is no child", goal)
	}
	b = b.Clone()
	b[i].Told = max(b[i].Told, seq)
	return b, nil
}

// Apply notes that a child's result was taken over.
func (b Book) Apply(goal string) Book {
	b = b.Clone()
	if i := b.find(goal); i >= 0 {
		b[i].Applied = true
	}
	return b
}
