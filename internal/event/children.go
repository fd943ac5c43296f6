package event

import "belay/internal/fault"

// ChildReserved says that the goal is going to have a child: its share is taken
// out of the budget. It is the durable intent, from which the child's own
// stream is made.
type ChildReserved struct {
	// Child is the child's goal id, which follows from this goal's and the
	// operation's.
	Child    string   `json:"child"`
	Spec     GoalSpec `json:"spec"`
	Settings Settings `json:"settings"`
	// Reserved is the share; the limits in Spec bound the child by it.
	Reserved Amount `json:"reserved,omitzero"`
	Depth    int    `json:"depth"`
	// Tree is this goal's workspace as the child begins with it.
	Tree string `json:"tree"`
	// ByUser says that a person asked for it, not the model.
	ByUser bool `json:"by_user,omitempty"`
}

// ChildStarted says that the child's own stream exists.
type ChildStarted struct {
	Child string `json:"child"`
}

// ChildOrder is what a parent wants of a child.
type ChildOrder string

// The orders: a parent's own cancellation, pause and resumption.
const (
	OrderCancel ChildOrder = "cancel"
	OrderPause  ChildOrder = "pause"
	OrderResume ChildOrder = "resume"
)

// ChildOrdered says that a child has been told what its parent wants.
type ChildOrdered struct {
	Child string     `json:"child"`
	Order ChildOrder `json:"order"`
	// Seq is this goal's event that the order follows from.
	Seq uint64 `json:"seq"`
}

// ChildEnded says how a child ended, once for each child. What it found holds
// for its own tree and is no evidence for this goal.
type ChildEnded struct {
	Child  string       `json:"child"`
	Status string       `json:"status"` // completed, failed or cancelled
	How    CompletedHow `json:"completed_how,omitempty"`
	Fault  *fault.Fault `json:"fault,omitempty"`
	// Used is what the child really used; its share is settled to that.
	Used Amount `json:"used"`
	// Report is what the child says of its work.
	Report Text `json:"report,omitzero"`
	// Base is the tree that the child began with, Tree the one it left, Diff
	// what lies between them.
	Base    string   `json:"base,omitempty"`
	Tree    string   `json:"tree,omitempty"`
	Diff    Text     `json:"diff,omitzero"`
	Changes []Change `json:"changes,omitempty"` // capped
	More    int      `json:"more,omitempty"`
	// Verdict is the one that the child was completed on.
	Verdict *Verdict `json:"verdict,omitempty"`
	// InDoubt are operations of the child whose outcome is unknown.
	InDoubt []string `json:"in_doubt,omitempty"`
	// Head is the child's last event, whose stream holds all of it.
	Head uint64 `json:"head"`
}

// ParentOrdered says what this goal's parent wants of it. What follows from it
// stands in the events behind it.
type ParentOrdered struct {
	Order ChildOrder `json:"order"`
	// Seq is the parent's event that the order follows from; an older order is
	// not obeyed any more.
	Seq uint64 `json:"seq"`
}

// ParentTold says that this goal's parent has recorded its end.
type ParentTold struct {
	Parent string `json:"parent"`
}
