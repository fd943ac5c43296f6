package event

import (
	"encoding/json"

	"belay/internal/fault"
	"belay/internal/moment"
)

// GoalReceived starts a stream: what the user asked for and under which
// settings.
type GoalReceived struct {
	Version  int      `json:"version"`
	Spec     GoalSpec `json:"spec"`
	Settings Settings `json:"settings"`
	// Repo is the absolute path of the workspace root.
	Repo string `json:"repo"`
	// Parent is the goal that started this one, if any; ParentOp the operation
	// of it that did.
	Parent   string `json:"parent,omitempty"`
	ParentOp string `json:"parent_op,omitempty"`
	// Depth counts the goals above this one, Share is what its parent has
	// reserved for it.
	Depth int    `json:"depth,omitempty"`
	Share Amount `json:"share,omitzero"`
	// Worktree is set when Repo is a checkout of the goal's own.
	Worktree *Worktree `json:"worktree,omitempty"`
}

// GoalRevised replaces the spec under a new version and fence.
type GoalRevised struct {
	Version int      `json:"version"`
	Spec    GoalSpec `json:"spec"`
}

// PauseReason says why a goal is paused.
type PauseReason string

// The pause reasons of DESIGN section 5.
const (
	PausedByUser    PauseReason = "user"
	PausedBudget    PauseReason = "budget_exhausted"
	PausedNoProg    PauseReason = "no_progress"
	PausedByHandoff PauseReason = "handoff"
	// PausedByParent: the goal that started this one is paused.
	PausedByParent PauseReason = "parent"
)

// GoalPaused stops the goal until it is resumed.
type GoalPaused struct {
	Reason PauseReason `json:"reason"`
	Detail string      `json:"detail,omitempty"`
}

// GoalResumed makes a paused goal active.
type GoalResumed struct{}

// GoalCancelled ends the goal by the user's word. Commands that still run are
// stopped and recorded after it.
type GoalCancelled struct {
	Reason string `json:"reason,omitempty"`
}

// GoalFailed ends the goal because it cannot go on.
type GoalFailed struct {
	Fault fault.Fault `json:"fault"`
}

// GoalCompleted ends the goal: how, and on which verdict and tree.
type GoalCompleted struct {
	How     CompletedHow `json:"how"`
	Verdict Verdict      `json:"verdict"`
	Version int          `json:"version"`
}

// WaitReason says what an active goal waits for.
type WaitReason string

// The wait reasons of DESIGN section 5.
const (
	WaitApproval  WaitReason = "approval"
	WaitUserInput WaitReason = "user_input"
	WaitOperation WaitReason = "operation_result"
	WaitRetry     WaitReason = "retry_backoff"
	WaitChild     WaitReason = "child_goal"
)

// GoalWaiting says that the goal cannot run, and until when at the latest.
type GoalWaiting struct {
	Reason WaitReason `json:"reason"`
	// Until is the instant at which it wakes by itself; 0 for none.
	Until  moment.Time `json:"until,omitzero"`
	Detail string      `json:"detail,omitempty"`
	// Blocked says that no worker could work on the goal: its directory was
	// taken or gone, or its model could not be opened.
	Blocked bool `json:"blocked,omitempty"`
}

// GoalWoken ends a wait.
type GoalWoken struct {
	Reason WaitReason `json:"reason"`
}

// GoalHandedOff is the report to the user when belay stops by itself.
type GoalHandedOff struct {
	Why       string       `json:"why"`
	Fault     *fault.Fault `json:"fault,omitempty"`
	Done      []string     `json:"done,omitempty"`
	Missing   []string     `json:"missing,omitempty"`
	Running   []string     `json:"running,omitempty"`
	HowResume string       `json:"how_to_resume"`
}

// BudgetExtended is the user's word for more; the limits are the new ones.
type BudgetExtended struct {
	Limits Limits `json:"limits"`
}

// ModelChanged is a person's word that another model answers from now on. What
// an earlier one is still saying is not heard any more.
type ModelChanged struct {
	From  string `json:"from"`
	Model string `json:"model"`
}

// PolicyChanged is a person's word on what this goal may do from now on. It
// holds the whole of it, not the difference.
type PolicyChanged struct {
	Rules   []Rule      `json:"rules"`
	Approve ApproveMode `json:"approve"`
	// Added and Removed name what changed, by the ids of rules.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// TurnStarted opens a turn under a ticket.
type TurnStarted struct {
	Worker string `json:"worker"`
	// Takeover says that the ticket was taken from a holder whose lease ended.
	Takeover bool `json:"takeover,omitempty"`
	// Place names the state directory, and with it the machine, that the worker
	// belongs to: what it starts can be found again only there.
	Place string `json:"place,omitempty"`
}

// StopReason says why a turn ended.
type StopReason string

// The stop reasons of DESIGN section 6.
const (
	StopFinished      StopReason = "finished"
	StopNeedsApproval StopReason = "needs_approval"
	StopNeedsUser     StopReason = "needs_user"
	StopBudget        StopReason = "budget_exhausted"
	StopNoProgress    StopReason = "no_progress"
	StopPaused        StopReason = "paused"
	StopCancelled     StopReason = "cancelled"
	StopSuperseded    StopReason = "superseded"
	StopFailed        StopReason = "failed"
	StopYielded       StopReason = "yielded"
	StopHandedOff     StopReason = "handed_off"
)

// TurnEnded closes a turn.
type TurnEnded struct {
	Reason StopReason `json:"reason"`
	Detail string     `json:"detail,omitempty"`
}

// MessageMode says how a user message is taken in.
type MessageMode string

// The modes of DESIGN section 5.
const (
	Message MessageMode = "message"
	Steer   MessageMode = "steer"
	Answer  MessageMode = "answer"
)

// UserMessage is what a person said.
type UserMessage struct {
	Mode MessageMode `json:"mode"`
	Text string      `json:"text"`
}

// ModelRequested reserves budget and announces a request. The request itself
// is rebuilt from the ledger up to this event; Digest and Bytes identify it.
type ModelRequested struct {
	Request   string `json:"request"`
	Model     string `json:"model"`
	Attempt   int    `json:"attempt"`
	MaxOutput int64  `json:"max_output"`
	// Reserved is the most that the request can cost.
	Reserved Amount `json:"reserved"`
	// Through is the seq of the last event that the request's messages show.
	Through uint64 `json:"through"`
	// Taken are the seqs of the user messages that it takes in.
	Taken  []uint64 `json:"taken,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Bytes  int64    `json:"bytes,omitempty"`
	// StableBytes is how many leading bytes are equal to the request before.
	StableBytes int64 `json:"stable_bytes,omitempty"`
	// Compaction is set when the request asks for a few words that go with a
	// compaction. It is no part of the conversation, nor is its response.
	Compaction *Compaction `json:"compaction,omitempty"`
}

// Compaction is a compaction that is about to be made.
type Compaction struct {
	Through uint64 `json:"through"`
	Before  int64  `json:"bytes_before"`
	Reason  string `json:"reason"`
}

// ModelResponded is a whole response with its usage settled.
type ModelResponded struct {
	Request    string `json:"request"`
	Model      string `json:"model,omitempty"` // as the provider names it
	Parts      []Part `json:"parts"`
	StopReason string `json:"stop_reason,omitempty"`
	Usage      Usage  `json:"usage"`
	CostMicros int64  `json:"cost_micros,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// ModelFailed is a request that brought no response. What it may have cost is
// charged: the usage if the provider told it, else all that was reserved.
type ModelFailed struct {
	Request string      `json:"request"`
	Fault   fault.Fault `json:"fault"`
	Charged Amount      `json:"charged"`
	// RetryAt is when the next attempt is due; 0 when there is none.
	RetryAt moment.Time `json:"retry_at,omitzero"`
}

// ContextCompacted replaces the conversation through an event by a summary in
// every later request. The events stay.
type ContextCompacted struct {
	Through uint64 `json:"through"`
	Summary Text   `json:"summary"`
	Before  int64  `json:"bytes_before"`
	After   int64  `json:"bytes_after"`
	Reason  string `json:"reason"`
	// Prose are words of the model that go with the summary. They are shown as
	// such, and no fact depends on them.
	Prose string `json:"prose,omitempty"`
	// Level says how hard: from 2 on nothing stays beside what the model has not
	// answered yet, and less of that with each level. 0 is level 1.
	Level int `json:"level,omitempty"`
}

// PlanModeEntered closes the gate: the repository is read-only.
type PlanModeEntered struct{}

// PlanUpdated records a plan. Recording is not approving.
type PlanUpdated struct {
	Plan Plan   `json:"plan"`
	Hash string `json:"hash"`
}

// PlanModeExited opens the gate, by whose word.
type PlanModeExited struct {
	By   Actor  `json:"by"`
	Plan string `json:"plan_hash"`
}

// CriteriaConfirmed adds criteria that a plan proposed to those of the goal, by
// whose word. They only add: nothing that the user asked for is replaced.
type CriteriaConfirmed struct {
	By       Actor       `json:"by"`
	Plan     string      `json:"plan_hash"`
	Criteria []Criterion `json:"criteria"`
}

// TodosUpdated replaces the todo list.
type TodosUpdated struct {
	Todos []Todo `json:"todos"`
}

// DecisionRecorded is a decision that the model wants kept. Scope says where
// it holds: "repository", or paths in it, for later goals too; anything else is
// this goal.
type DecisionRecorded struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	Scope    string `json:"scope,omitempty"`
}

// OperationProposed is one logical action that the model (or the runtime, for
// a check) asks for. The envelope's op_id is its identity for life.
type OperationProposed struct {
	Tool      string          `json:"tool"`
	Effect    EffectClass     `json:"effect"`
	CallID    string          `json:"call_id,omitempty"`
	Request   string          `json:"request,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
	Access    Access          `json:"access"`
	// Criterion is set when the runtime proposes a check for it.
	Criterion string `json:"criterion,omitempty"`
	// Setup is set when the runtime proposes a command that prepares the goal's
	// worktree: which one of them, from 1.
	Setup int `json:"setup,omitempty"`
}

// OperationRejected closes an operation that never started.
type OperationRejected struct {
	Outcome Outcome     `json:"outcome"` // rejected, or cancelled when it was withdrawn
	Fault   fault.Fault `json:"fault"`
}

// ApprovalRequested asks a person about one exact intent.
type ApprovalRequested struct {
	Tool   string   `json:"tool"`
	Intent Intent   `json:"intent"`
	Access Access   `json:"access"`
	Why    []string `json:"why,omitempty"` // the rules that asked
	// Renewed says that an earlier approval became void because its content
	// changed.
	Renewed bool `json:"renewed,omitempty"`
}

// ApprovalGranted answers one exact intent, once.
type ApprovalGranted struct {
	Tool   string `json:"tool"`
	Intent string `json:"intent"`
	By     Actor  `json:"by"`
}

// ApprovalDenied closes the operation as rejected; the denial sticks to the
// intent.
type ApprovalDenied struct {
	Tool   string `json:"tool"`
	Intent string `json:"intent"`
	By     Actor  `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// OperationStarted is the durable intent before an effect.
type OperationStarted struct {
	Attempt int    `json:"attempt"`
	Intent  Intent `json:"intent"`
	// Tree is the workspace's tree just before.
	Tree string `json:"tree,omitempty"`
	// DeadlineMS is the time limit of a command, in milliseconds.
	DeadlineMS int64 `json:"deadline_ms,omitempty"`
	// Place is where the attempt runs: only there can be seen what it did to
	// the machine. Empty in events from before places were recorded.
	Place string `json:"place,omitempty"`
	// Reserved is the most that it can cost beside the time of a command.
	Reserved Amount `json:"reserved,omitzero"`
	// MaxOutput is the output limit of a request that it sends, in tokens.
	MaxOutput int64 `json:"max_output,omitempty"`
}

// OperationFinished is the outcome of the latest attempt.
type OperationFinished struct {
	Tool    string  `json:"tool"`
	Attempt int     `json:"attempt"`
	Outcome Outcome `json:"outcome"`
	Result  Result  `json:"result"`
	// Recovered says how the outcome was established after a crash: "probe",
	// "reattached" or "" for the ordinary way.
	Recovered string `json:"recovered,omitempty"`
	// Late says that the attempt belonged to an older fence: a fact that
	// advances nothing.
	Late bool `json:"late,omitempty"`
}

// OperationReconciled settles an unknown outcome, by evidence or by the user.
type OperationReconciled struct {
	Outcome Outcome `json:"outcome"` // succeeded or failed; "" with Retry
	Retry   bool    `json:"retry,omitempty"`
	By      Actor   `json:"by"`
	Reason  string  `json:"reason,omitempty"`
	// Result is what a probe found, if one did.
	Result *Result `json:"result,omitempty"`
}

// WorkspaceAttached is the state that the goal found.
type WorkspaceAttached struct {
	Root string `json:"root"`
	// Git is "", "repository", "worktree" or "submodule".
	Git    string `json:"git,omitempty"`
	Head   string `json:"head,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Doing is what was going on in git, in words: a merge, a rebase.
	Doing string `json:"doing,omitempty"`
	// Dirty lists paths that differed from HEAD, capped.
	Dirty []string `json:"dirty,omitempty"`
	Tree  string   `json:"tree"`
	// Index is what is staged in the user's repository.
	Index string `json:"index,omitempty"`
	// TestCommands are what belay found by looking at the repository.
	TestCommands []string `json:"test_commands,omitempty"`
	// Instructions are the repository's own words for agents, InstructionsPath
	// the file at the root that holds them; "" in older events means AGENTS.md.
	Instructions     Text   `json:"instructions,omitzero"`
	InstructionsPath string `json:"instructions_path,omitempty"`
	// Sandbox is how commands are confined on this machine, in words.
	Sandbox string `json:"sandbox"`
	// Place is the state directory and machine that the directory belongs to.
	Place string `json:"place,omitempty"`
}

// WorkspaceObserved says that the workspace was looked at and had not changed.
type WorkspaceObserved struct {
	Tree string `json:"tree"`
	// After is the op_id whose effect was looked at, "" at the start of a turn
	// or of a verification.
	After string `json:"after,omitempty"`
}

// RepoStateMutated says that the tree changed: which paths, and by what.
type RepoStateMutated struct {
	From     string   `json:"from"`
	Revision Revision `json:"revision"`
	Changes  []Change `json:"changes,omitempty"` // capped
	More     int      `json:"more,omitempty"`    // how many paths the cap left out
	// By is an op_id or "external".
	By string `json:"by"`
}

// DiffUpdated is the diff of the workspace against its baseline.
type DiffUpdated struct {
	Revision Revision `json:"revision"`
	Diff     Text     `json:"diff"`
	Changes  []Change `json:"changes,omitempty"`
	More     int      `json:"more,omitempty"`
}

// CheckpointCreated names a restorable state of the workspace.
type CheckpointCreated struct {
	Checkpoint string `json:"checkpoint"`
	Name       string `json:"name,omitempty"`
	Tree       string `json:"tree"`
	Why        string `json:"why"`
	// Trigger is what it was made for.
	Trigger CheckpointTrigger `json:"trigger,omitempty"`
	// Index is what was staged in the user's repository.
	Index string `json:"index,omitempty"`
	// Size is how much the tree differs from the one that the goal found.
	Size DiffSize `json:"size,omitzero"`
}

// IndexChanged says that what is staged in the user's repository is another than
// was seen last.
type IndexChanged struct {
	From  string `json:"from,omitempty"`
	Index string `json:"index"`
	By    string `json:"by"` // the op_id, or "external"
}

// WorkspaceRestored says that a checkpoint was restored.
type WorkspaceRestored struct {
	Checkpoint string   `json:"checkpoint"`
	Tree       string   `json:"tree"`
	Kept       []string `json:"kept,omitempty"` // paths left alone, changed by others
	// KeptStaged are paths whose files were restored but not what is staged of
	// them.
	KeptStaged []string `json:"kept_staged,omitempty"`
}

// WorkspacePacked says that an observed tree was kept as an artifact, so that
// another place can restore it.
type WorkspacePacked struct {
	Tree string `json:"tree"`
	// Base is the tree whose pack this one builds on; "" when it is whole.
	Base string `json:"base,omitempty"`
	Pack Ref    `json:"pack,omitzero"`
	// Failed says why there is no pack of this tree.
	Failed string `json:"failed,omitempty"`
}

// WorkspaceMoved says that the goal's workspace is another directory from now
// on: the one at another place, which holds the same tree.
type WorkspaceMoved struct {
	From string `json:"from,omitempty"`
	// Place names a state directory on a machine; a worker belongs to one.
	Place string `json:"place"`
	Root  string `json:"root"`
	Tree  string `json:"tree"`
	// Written is how many paths had to be written or removed for it.
	Written int `json:"written,omitempty"`
	// Adopted says that a person took the directory there as it was, whatever
	// its tree: the next observation tells what differs.
	Adopted bool `json:"adopted,omitempty"`
}

// The depths of EnvironmentCaptured.
const (
	// DepthLight is what the tree is made of, what the machine offers, and where
	// the task stands.
	DepthLight = "light"
	// DepthDeep is how much of the repository's symbols is known.
	DepthDeep = "deep"
)

// EnvironmentCaptured is what the repository is made of and what the machine
// offers: files, manifests, tools and versions, symbols.
type EnvironmentCaptured struct {
	Depth string            `json:"depth"` // light or deep
	Facts map[string]string `json:"facts"`
}

// TestCompleted is evidence: a command, how it ended, and the tree it ran on.
type TestCompleted struct {
	Command  string     `json:"command"`
	Dir      string     `json:"dir,omitempty"`
	ExitCode int        `json:"exit_code"`
	TimedOut bool       `json:"timed_out,omitempty"`
	Counts   TestCounts `json:"counts"`
	// Test says that it was run as a test: then at least one must have
	// executed to count as a pass.
	Test bool `json:"test"`
	// TreeBefore and TreeAfter differ when the run itself changed the
	// workspace; then it is no evidence for either.
	TreeBefore string `json:"tree_before"`
	TreeAfter  string `json:"tree_after"`
	Log        Ref    `json:"log,omitzero"`
	// Tail is the end of a failing log, for people and the prompt.
	Tail string `json:"tail,omitempty"`
	// Signature identifies the failure.
	Signature string `json:"signature,omitempty"`
	// Criterion is set when belay ran it for that criterion.
	Criterion string `json:"criterion,omitempty"`
	// Environment names the tools: resolved path, and version or file hash.
	Environment map[string]string `json:"environment,omitempty"`
}

// CompletionClaimed says that the model claims to be done. It moves nothing by
// itself.
type CompletionClaimed struct {
	Summary string `json:"summary,omitempty"`
	// ByText says that a final text without tool calls made the claim.
	ByText bool `json:"by_text,omitempty"`
}

// VerificationStarted moves the goal to verifying under a new fence.
type VerificationStarted struct {
	Verification string   `json:"verification"`
	Version      int      `json:"version"`
	Criteria     []string `json:"criteria"`
}

// VerificationFinished is a verdict. A stale one is kept as a fact with
// Refused set.
type VerificationFinished struct {
	Verification string  `json:"verification"`
	Version      int     `json:"version"`
	Verdict      Verdict `json:"verdict"`
	// NeedsPerson says that only a person's answer is missing: the claim waits
	// for it.
	NeedsPerson bool   `json:"needs_person,omitempty"`
	Refused     string `json:"refused,omitempty"`
	// GivenUp says that the verification was running until then and ends with
	// it: the verdict is how the criteria stood.
	GivenUp bool `json:"given_up,omitempty"`
}

// CriterionAnswered is a person's answer to a manual criterion, or to a claim
// that nothing can check.
type CriterionAnswered struct {
	Criterion string `json:"criterion,omitempty"`
	Accepted  bool   `json:"accepted"`
	// Tree is what the person was shown.
	Tree   string `json:"tree,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ProgressAlarm says that the goal seems to make no progress.
type ProgressAlarm struct {
	Signal string `json:"signal"`
	Detail string `json:"detail"`
	Count  int64  `json:"count"`
	// Advice is what the model is told besides; empty when it is told nothing.
	Advice string `json:"advice,omitempty"`
}

// ActionForbidden says that an action is refused from now on because it failed
// in the same way too often.
type ActionForbidden struct {
	Tool      string `json:"tool"`
	Signature string `json:"signature"`
	Action    string `json:"action"`
	Count     int64  `json:"count"`
}

// LateFact keeps what a stale holder brought back when nothing else has a
// place for it; it changes no state.
type LateFact struct {
	What   string          `json:"what"`
	Detail json.RawMessage `json:"detail,omitempty"`
}
