package client

import (
	"belay/internal/core"
	"belay/internal/core/approval"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/policy"
	"belay/internal/recall"
	"belay/internal/workspace"
)

// What goes over the wire has belay's own types. Programs outside of this
// module cannot import their packages, so each has its name here.
type (
	Snapshot       = core.Snapshot
	Overview       = core.Overview
	Row            = ledger.Row
	Entry          = core.Entry
	BudgetView     = core.BudgetView
	CriterionView  = core.CriterionView
	OpenOperation  = core.OpenOperation
	LastResult     = core.LastResult
	SuccessfulTest = core.SuccessfulTest
	Checkpoint     = core.Checkpoint
	Pending        = approval.Pending
	Phase          = operation.Phase
	Status         = lifecycle.Status
	Audit          = ledger.Audit
	Verdict        = policy.Verdict
	// Query is what Search looks for, Found what it came to.
	Query = recall.Query
	Found = recall.Answer
	Hit   = recall.Hit

	Bring = workspace.Bring

	Criterion     = event.Criterion
	CriterionKind = event.CriterionKind
	Limits        = event.Limits
	Amount        = event.Amount
	Rule          = event.Rule
	Plan          = event.Plan
	Todo          = event.Todo
	Change        = event.Change
	Revision      = event.Revision
	Ref           = event.Ref
	Text          = event.Text
	Type          = event.Type
	Actor         = event.Actor
	Outcome       = event.Outcome
	EffectClass   = event.EffectClass
	PlanMode      = event.PlanMode
	ApproveMode   = event.ApproveMode
	MessageMode   = event.MessageMode
	WaitReason    = event.WaitReason
	PauseReason   = event.PauseReason
	CompletedHow  = event.CompletedHow
	// Time is an instant in microseconds since 1970; Std makes a time.Time of it.
	Time = moment.Time
)

// The words that requests are made of and answers are judged by.
const (
	Active    = lifecycle.Active
	Paused    = lifecycle.Paused
	Verifying = lifecycle.Verifying
	Completed = lifecycle.Completed
	Failed    = lifecycle.Failed
	Cancelled = lifecycle.Cancelled

	CriterionCommand     = event.CriterionCommand
	CriterionTest        = event.CriterionTest
	CriterionReproduces  = event.CriterionReproduces
	CriterionScope       = event.CriterionScope
	CriterionTestsIntact = event.CriterionTestsIntact
	CriterionArtifact    = event.CriterionArtifact
	CriterionReview      = event.CriterionReview
	CriterionManual      = event.CriterionManual

	PlanAuto     = event.PlanAuto
	PlanAlways   = event.PlanAlways
	PlanNever    = event.PlanNever
	ApproveAsk   = event.ApproveAsk
	ApproveAuto  = event.ApproveAuto
	ApproveNever = event.ApproveNever

	ModeMessage = event.Message
	ModeSteer   = event.Steer

	OutcomeSucceeded = event.Succeeded
	OutcomeFailed    = event.Failed

	WaitApproval  = event.WaitApproval
	WaitUserInput = event.WaitUserInput
	WaitRetry     = event.WaitRetry
)
