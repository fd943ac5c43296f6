// Package operation is the machine of one logical action: its phases, its
// attempts, its one outcome, and what recovery may do with it.
//
// It must not know goals, budgets or approvals; the core composes it with
// those. A transition that is not legal is an error and changes nothing.
//
//	proposed ──► awaiting ──► approved ──► started(attempt n) ──► closed
//	    │            │            │             │    ▲               │
//	    │            └─► closed   └─► closed    │    └── attempt n+1 │
//	    ├──► started                            └─► closed(unknown) ─┴─► reconciled
//	    └──► closed (rejected, cancelled)
package operation

import (
	"encoding/json"
	"fmt"

	"belay/internal/event"
)

// Phase is where an operation stands.
type Phase string

// The phases.
const (
	Proposed Phase = "proposed"
	Awaiting Phase = "awaiting_approval"
	Approved Phase = "approved"
	Started  Phase = "started"
	Closed   Phase = "closed"
)

// Op is one logical action. The zero value is none.
type Op struct {
	ID        string            `json:"op_id"`
	Tool      string            `json:"tool"`
	Effect    event.EffectClass `json:"effect"`
	CallID    string            `json:"call_id,omitempty"`
	Request   string            `json:"request,omitempty"`
	Args      json.RawMessage   `json:"arguments"`
	ArgsHash  string            `json:"arguments_hash"`
	Access    event.Access      `json:"access"`
	Criterion string            `json:"criterion,omitempty"`
	// Setup says which command of the worktree's setup it is, from 1; 0 for none.
	Setup int `json:"setup,omitempty"`
	// Proposal is the event id of the proposal, the cause of what follows; Seq is
	// its seq, and Again that of the word to run it again after a doubt.
	Proposal string `json:"proposal"`
	Seq      uint64 `json:"seq,omitempty"`
	Again    uint64 `json:"again,omitempty"`

	Phase Phase `json:"phase"`
	// Attempt counts physical executions from 1; 0 before the first.
	Attempt int `json:"attempt,omitempty"`
	// AttemptBy is the worker that started the latest attempt: any other must
	// look (probe) before it acts.
	AttemptBy event.Actor `json:"attempt_by,omitempty"`
	// Place is where the latest attempt was started: only there can be seen what
	// it did to the machine.
	Place      string        `json:"place,omitempty"`
	Intent     event.Intent  `json:"intent,omitzero"`
	Tree       string        `json:"tree,omitempty"`
	DeadlineMS int64         `json:"deadline_ms,omitempty"`
	MaxOutput  int64         `json:"max_output,omitempty"`
	Outcome    event.Outcome `json:"outcome,omitempty"`
	// Reconciled says that an unknown outcome was settled.
	Reconciled bool `json:"reconciled,omitempty"`
}

// IllegalError is a transition that the machine does not have.
type IllegalError struct {
	Op    string
	From  Phase
	Event event.Type
	Why   string
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("operation %s: %s is not legal in phase %q: %s", e.Op, e.Event, e.From, e.Why)
}

func (o Op) illegal(t event.Type, why string) (Op, error) {
	return o, &IllegalError{Op: o.ID, From: o.Phase, Event: t, Why: why}
}

// Own reports whether belay itself proposed the operation, for a criterion or to
// prepare a worktree: its failures are none of the model's.
func (o Op) Own() bool { return o.Criterion != "" || o.Setup > 0 }

// Open reports whether the operation still owes its outcome.
func (o Op) Open() bool { return o.Phase != Closed }

// RequestApproval moves to awaiting. It is legal again from approved, when the
// approved content has changed.
func (o Op) RequestApproval(intent event.Intent) (Op, error) {
	if o.Phase != Proposed && o.Phase != Approved {
		return o.illegal(event.TypeApprovalRequested, "only an operation that has not started can ask")
	}
	o.Phase, o.Intent = Awaiting, intent
	return o, nil
}

// Grant moves to approved, for exactly the intent that was asked about.
func (o Op) Grant(intent string) (Op, error) {
	if o.Phase != Awaiting {
		return o.illegal(event.TypeApprovalGranted, "no approval is pending")
	}
	if o.Intent.Hash != intent {
		return o.illegal(event.TypeApprovalGranted, "the answer is for another intent")
	}
	o.Phase = Approved
	return o, nil
}

// Reject closes an operation that never started.
func (o Op) Reject(outcome event.Outcome) (Op, error) {
	if o.Phase == Closed {
		return o.illegal(event.TypeOperationRejected, "it has its outcome")
	}
	if o.Phase == Started {
		return o.illegal(event.TypeOperationRejected, "it has started and may have had effects")
	}
	if outcome != event.Rejected && outcome != event.Cancelled {
		return o.illegal(event.TypeOperationRejected, "the outcome of what never started is rejected or cancelled")
	}
	o.Phase, o.Outcome = Closed, outcome
	return o, nil
}

// Start records the intent of attempt n before its effect begins.
func (o Op) Start(attempt int, by event.Actor, intent event.Intent, tree string, deadlineMS int64) (Op, error) {
	if o.Phase == Closed || o.Phase == Awaiting {
		return o.illegal(event.TypeOperationStarted, "it is closed or waits for an answer")
	}
	if o.Phase == Approved && o.Intent.Hash != intent.Hash {
		return o.illegal(event.TypeOperationStarted, "the approval is for another intent")
	}
	if attempt != o.Attempt+1 {
		return o.illegal(event.TypeOperationStarted, fmt.Sprintf("attempt %d does not follow %d", attempt, o.Attempt))
	}
	o.Phase, o.Attempt, o.AttemptBy = Started, attempt, by
	o.Intent, o.Tree, o.DeadlineMS = intent, tree, deadlineMS
	return o, nil
}

// Finish records the outcome of the latest attempt.
func (o Op) Finish(attempt int, outcome event.Outcome) (Op, error) {
	if o.Phase != Started {
		return o.illegal(event.TypeOperationFinished, "no attempt is open")
	}
	if attempt != o.Attempt {
		return o.illegal(event.TypeOperationFinished, fmt.Sprintf("the open attempt is %d, not %d", o.Attempt, attempt))
	}
	switch outcome {
	case event.Succeeded, event.Failed, event.Cancelled, event.OutcomeUnknown:
	default:
		return o.illegal(event.TypeOperationFinished, fmt.Sprintf("%q is no outcome of an attempt", outcome))
	}
	o.Phase, o.Outcome = Closed, outcome
	return o, nil
}

// Answer closes a control operation, which the core answers itself.
func (o Op) Answer(outcome event.Outcome) (Op, error) {
	if o.Effect != event.Control || o.Phase == Closed {
		return o.illegal(event.TypeOperationFinished, "only an open control operation is answered")
	}
	o.Phase, o.Outcome = Closed, outcome
	return o, nil
}

// Reconcile settles an unknown outcome. With retry the operation is open
// again, as the same logical action.
func (o Op) Reconcile(outcome event.Outcome, retry bool) (Op, error) {
	if o.Phase != Closed || o.Outcome != event.OutcomeUnknown || o.Reconciled {
		return o.illegal(event.TypeOperationReconciled, "only an unknown outcome can be reconciled, once")
	}
	if retry {
		o.Phase, o.Outcome = Proposed, ""
		return o, nil
	}
	if outcome != event.Succeeded && outcome != event.Failed {
		return o.illegal(event.TypeOperationReconciled, "it is settled as succeeded or failed")
	}
	o.Outcome, o.Reconciled = outcome, true
	return o, nil
}

// Recovery is what a new holder does with a started operation whose attempt it
// did not start itself.
type Recovery string

// The recoveries of DESIGN section 7.
const (
	RunAgain    Recovery = "run_again"
	Look        Recovery = "probe"
	TakeUnknown Recovery = "unknown"
)

// Recover follows the effect class alone.
func Recover(c event.EffectClass) Recovery {
	switch c {
	case event.Read, event.Control:
		return RunAgain
	case event.Verifiable, event.Supervised, event.Keyed:
		return Look
	default:
		return TakeUnknown
	}
}
