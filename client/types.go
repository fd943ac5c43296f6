// Package client is belay's HTTP API as a Go program calls it, and the one
// definition of what goes over the wire beside the snapshot's own types.
//
// It must not know how a server answers, nor open a ledger.
package client

import (
	"encoding/json"

	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/workspace"
)

// StartGoal begins a goal. Text and Repo are needed; what is left out takes the
// server's default.
type StartGoal struct {
	Text        string            `json:"text"`
	Repo        string            `json:"repo"`
	Acceptance  []event.Criterion `json:"acceptance,omitempty"`
	Constraints []string          `json:"constraints,omitempty"`
	Limits      event.Limits      `json:"limits,omitzero"`
	// Model is provider:name.
	Model            string            `json:"model,omitempty"`
	Plan             event.PlanMode    `json:"plan,omitempty"`
	Approve          event.ApproveMode `json:"approve,omitempty"`
	AcceptUnverified bool              `json:"accept_unverified,omitempty"`
	Sandbox          string            `json:"sandbox,omitempty"`
	// Image is the image of the sandbox container, which it implies.
	Image string `json:"image,omitempty"`
	// RetryWindowMS is how long a model that is overloaded or unreachable is
	// waited for, Patience the factor on the thresholds of no progress.
	RetryWindowMS int64 `json:"retry_window_ms,omitempty"`
	Patience      int64 `json:"patience,omitempty"`
	// Prose has the model add words of its own to each compaction.
	Prose bool `json:"prose,omitempty"`
	// ApprovalTimeoutMS counts a question as denied after this time; 0 never.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitempty"`
	Travel            *bool `json:"travel,omitempty"`
	// Worktree has the goal work in a checkout of its own, at the state of Repo now.
	Worktree bool `json:"worktree,omitempty"`
	// Bring is what that gets of the ignored files.
	Bring workspace.Bring `json:"bring,omitzero"`
	// Parent has the goal be a child of that one: a checkout of its own, made of
	// the parent's directory, SharePercent (20 if 0) of what is left of its budget
	// where Limits says nothing, and at most its permissions. Then only the text,
	// acceptance, constraints, limits, model, plan, approve and read_only count
	// beside.
	Parent       string `json:"parent,omitempty"`
	SharePercent int64  `json:"share_percent,omitempty"`
	// ReadOnly lets the goal only look and report.
	ReadOnly bool `json:"read_only,omitempty"`
	// MaxChildren is how many child goals the goal may start (16), -1 for none;
	// ChildDepth how many levels of them there may be below it (2);
	// ParallelChildren how many are open at a time (4).
	MaxChildren      int64 `json:"max_children,omitempty"`
	ChildDepth       int64 `json:"child_depth,omitempty"`
	ParallelChildren int64 `json:"parallel_children,omitempty"`
}

// Started is a goal that was begun.
type Started struct {
	Goal     string   `json:"goal"`
	Warnings []string `json:"warnings,omitempty"`
}

// Answer answers a question of a goal; empty, it answers the only open one.
// With Intent it counts only while that is still what is asked.
type Answer struct {
	Op        string `json:"op_id,omitempty"`
	Intent    string `json:"intent,omitempty"`
	Criterion string `json:"criterion,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Always answers yes and lets rules answer the like from now on: in this goal,
// and with Save in the user's policy file too. Rules are those of Suggest that
// the person has seen.
type Always struct {
	Op     string       `json:"op_id"`
	Intent string       `json:"intent,omitempty"`
	Rules  []event.Rule `json:"rules"`
	Save   bool         `json:"save,omitempty"`
}

// Say is a message to a goal.
type Say struct {
	Text string `json:"text"`
	// Mode is message (its own turn, the default) or steer.
	Mode event.MessageMode `json:"mode,omitempty"`
}

// Pause stops a goal until it is resumed.
type Pause struct {
	Detail string `json:"detail,omitempty"`
}

// Resume goes on; limits that are set replace those of the goal.
type Resume struct {
	Limits event.Limits `json:"limits,omitzero"`
}

// SetLimits replaces the limits of a goal's budget.
type SetLimits struct {
	Limits event.Limits `json:"limits"`
}

// Cancel ends a goal.
type Cancel struct {
	Reason string `json:"reason,omitempty"`
}

// Revise replaces what a goal asks for; what is left out stays.
type Revise struct {
	Text        string            `json:"text,omitempty"`
	Acceptance  []event.Criterion `json:"acceptance,omitempty"`
	Constraints []string          `json:"constraints,omitempty"`
}

// Reconcile settles an operation whose outcome is unknown: Outcome is
// succeeded or failed, or Retry runs the same action again.
type Reconcile struct {
	Op      string        `json:"op_id"`
	Outcome event.Outcome `json:"outcome,omitempty"`
	Retry   bool          `json:"retry,omitempty"`
	Reason  string        `json:"reason,omitempty"`
}

// Look looks at an operation in doubt and runs nothing.
type Look struct {
	Op string `json:"op_id"`
}

// NewCheckpoint names the state of the workspace.
type NewCheckpoint struct {
	Name string `json:"name"`
}

// Rollback makes the workspace what it was at a target: a checkpoint, todo:ID or
// event:SEQ. Without From and Tree (and Index) it only says what would change; with those of
// what it said, it does it, if that is still so.
type Rollback struct {
	Target string `json:"target"`
	From   string `json:"from,omitempty"`
	Tree   string `json:"tree,omitempty"`
	Index  string `json:"index,omitempty"`
}

// Apply brings what a goal did in its own checkout to the user's directory, or to
// a new branch. Without Result it only says what would change; with Result, From
// and Tree of what it said, it does it, if that is still so.
type Apply struct {
	Branch string `json:"branch,omitempty"`
	// Commits brings the commits that the goal made along.
	Commits bool `json:"commits,omitempty"`
	// Conflicts has files with conflicts get git's conflict marks.
	Conflicts bool   `json:"conflicts,omitempty"`
	Message   string `json:"message,omitempty"`
	Result    string `json:"result,omitempty"`
	From      string `json:"from,omitempty"`
	Tree      string `json:"tree,omitempty"`
}

// Fork begins a new goal where another one stood after an event; At 0 is the
// latest. Text is its first message.
type Fork struct {
	At   uint64 `json:"at,omitempty"`
	Text string `json:"text,omitempty"`
}

// GiveUp ends the right to advance a goal here; To says where it goes.
type GiveUp struct {
	To string `json:"to"`
}

// RemoveWorktree removes the checkout that a goal has of its own.
type RemoveWorktree struct {
	// Discard removes it also when its result was applied nowhere.
	Discard bool `json:"discard,omitempty"`
}

// Policy is what a goal may do without a question.
type Policy struct {
	Approve event.ApproveMode `json:"approve"`
	Rules   []event.Rule      `json:"rules"`
}

// ChangePolicy changes it, on record.
type ChangePolicy struct {
	Approve event.ApproveMode `json:"approve,omitempty"`
	Add     []event.Rule      `json:"add,omitempty"`
	Remove  []string          `json:"remove,omitempty"`
}

// ChangeModel names the model that answers from now on, as provider:name.
type ChangeModel struct {
	Model string `json:"model"`
}

// Explain judges a command as a goal on Repo would.
type Explain struct {
	Command string   `json:"command"`
	Repo    string   `json:"repo"`
	Tests   []string `json:"tests,omitempty"`
	// Network is what the command asks for: none (the default), loopback, full.
	Network string `json:"network,omitempty"`
}

// Rules are policy rules.
type Rules struct {
	Rules []event.Rule `json:"rules"`
	// Warnings are rules of the repository that were dropped.
	Warnings []string `json:"warnings,omitempty"`
}

// Revoke names rules of the user's that are to go, all of them or none.
type Revoke struct {
	IDs []string `json:"ids"`
}

// RuleFile is a policy file: one named belay.yaml is a repository's, any other
// the user's.
type RuleFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Revoked are the ids of rules that were removed.
type Revoked struct {
	Revoked []string `json:"revoked"`
}

// Forget names what is to be remembered of a repository no longer: ids, or all.
type Forget struct {
	Repo string   `json:"repo"`
	IDs  []string `json:"ids,omitempty"`
	All  bool     `json:"all,omitempty"`
}

// Forgotten is what is remembered no longer, and the goals that hold the word.
type Forgotten struct {
	Repo  string   `json:"repo"`
	Items []string `json:"items"`
	Goals []string `json:"goals"`
}

// Diff is what the workspace differs in from its start.
type Diff struct {
	Diff     string         `json:"latest_diff"`
	Stat     []event.Change `json:"diff_stat"`
	Revision event.Revision `json:"revision"`
}

// Operation is one operation with everything on record about it.
type Operation struct {
	Op     string  `json:"op_id"`
	Events []Event `json:"events"`
}

// Event is an event as it goes over the wire.
type Event struct {
	Goal    string      `json:"goal"`
	Seq     uint64      `json:"seq"`
	ID      string      `json:"id"`
	Type    event.Type  `json:"type"`
	Version int         `json:"version"`
	Time    moment.Time `json:"time"`
	Turn    string      `json:"turn_id,omitempty"`
	Op      string      `json:"op_id,omitempty"`
	Cause   string      `json:"cause,omitempty"`
	Actor   event.Actor `json:"actor"`
	Fence   uint64      `json:"fence"`
	// Payload depends on type: docs/events.md.
	Payload json.RawMessage `json:"payload"`
	Hash    string          `json:"hash"`
}

// Output is a piece of what a command prints.
type Output struct {
	Text string `json:"text"`
}

// Version says what answers.
type Version struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Finding is one line of doctor.
type Finding struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional,omitempty"`
	Detail   string `json:"detail"`
	Remedy   string `json:"remedy,omitempty"`
}

// Self is the caller as the server knows it, and what a page needs to know to
// offer starting a goal.
type Self struct {
	Name  string `json:"name"`
	Scope string `json:"scope"`
	// Model is the server's default model, "" for none.
	Model string `json:"model,omitempty"`
}

// Health is the answer of a live server.
type Health struct {
	Status string `json:"status"`
}

// Head is a place in a goal's stream.
type Head struct {
	Head uint64 `json:"head"`
}

// Problem is an error as RFC 9457 has it. Code tells problems of one status
// apart for programs.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable,omitempty"`
}

// Error says the problem in words.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}
