package event

import (
	"encoding/json"

	"belay/internal/fault"
	"belay/internal/moment"
)

// Outcome says how an operation ended.
type Outcome string

// The five outcomes. Unknown is a result, not an error: the operation started
// and what it did could not be established.
const (
	Succeeded      Outcome = "succeeded"
	Failed         Outcome = "failed"
	Rejected       Outcome = "rejected" // it never started
	Cancelled      Outcome = "cancelled"
	OutcomeUnknown Outcome = "unknown"
)

// EffectClass is a tool's promise about its side effects. Recovery after a
// crash follows it alone.
type EffectClass string

// The effect classes of DESIGN section 7, and Control for the tools that the
// core answers itself (plan, todos, questions, finish), which touch nothing.
const (
	Read       EffectClass = "read"
	Verifiable EffectClass = "verifiable"
	Supervised EffectClass = "supervised"
	Keyed      EffectClass = "keyed"
	Opaque     EffectClass = "opaque"
	Control    EffectClass = "control"
)

// SideEffect reports whether an operation of this class may change the world.
func (c EffectClass) SideEffect() bool { return c != Read && c != Control }

// CriterionKind is how one item of "done" is judged.
type CriterionKind string

// The kinds of DESIGN section 10.
const (
	CriterionCommand     CriterionKind = "command"
	CriterionTest        CriterionKind = "test"
	CriterionReproduces  CriterionKind = "reproduces"
	CriterionScope       CriterionKind = "scope"
	CriterionTestsIntact CriterionKind = "tests_intact"
	CriterionArtifact    CriterionKind = "artifact"
	CriterionReview      CriterionKind = "review"
	CriterionManual      CriterionKind = "manual"
)

// Criterion is one checkable item of "done".
type Criterion struct {
	ID   string        `json:"id" yaml:"id"`
	Kind CriterionKind `json:"kind" yaml:"kind"`
	// Text says it in words; for manual it is the question to the person.
	Text string `json:"text,omitempty" yaml:"text,omitempty"`
	// Command is the shell text of a command, test or reproduces criterion.
	Command string `json:"command,omitempty" yaml:"command,omitempty"`
	// Allow and Forbid are path patterns of a scope criterion.
	Allow  []string `json:"allow,omitempty" yaml:"allow,omitempty"`
	Forbid []string `json:"forbid,omitempty" yaml:"forbid,omitempty"`
	// Path, Contains, Matches (a regular expression) and SHA256 describe the
	// file of an artifact criterion; Branch and Commit (words that the message
	// of a commit made since the start holds) what the repository must have.
	Path     string `json:"path,omitempty" yaml:"path,omitempty"`
	Contains string `json:"contains,omitempty" yaml:"contains,omitempty"`
	// Network is what Command may reach of the network: "" for nothing,
	// "loopback" or "full".
	Network string `json:"network,omitempty" yaml:"network,omitempty"`
	Matches string `json:"matches,omitempty" yaml:"matches,omitempty"`
	SHA256  string `json:"sha256,omitempty" yaml:"sha256,omitempty"`
	Branch  string `json:"branch,omitempty" yaml:"branch,omitempty"`
	Commit  string `json:"commit,omitempty" yaml:"commit,omitempty"`
	// Tests are path patterns that say which files are tests, for reproduces and
	// tests_intact; without them belay goes by names.
	Tests []string `json:"tests,omitempty" yaml:"tests,omitempty"`
	// Repeat is how many runs on one tree must pass; 0 means one.
	Repeat int64 `json:"repeat,omitempty" yaml:"repeat,omitempty"`
	// Verify is VerifyRun where belay runs a missing command or test itself.
	Verify string `json:"verify,omitempty" yaml:"verify,omitempty"`
	// Proposed says that the model proposed the criterion in its plan.
	Proposed bool `json:"proposed,omitempty" yaml:"-"`
	// Found says that belay found the criterion by looking at the repository.
	Found bool `json:"found,omitempty" yaml:"-"`
}

// VerifyRun lets belay run a command or test criterion itself when a claim
// comes without a run on the present tree.
const VerifyRun = "run"

// CheckResult is what a look of belay's own found for a criterion.
type CheckResult struct {
	// Tree is the workspace's tree that was looked at, Baseline the one that the
	// goal found.
	Tree     string `json:"tree"`
	Baseline string `json:"baseline,omitempty"`
	// Findings are what speaks against the criterion, in words, capped; More
	// counts the rest.
	Findings []string `json:"findings,omitempty"`
	More     int      `json:"more,omitempty"`
	// Tests counts the test files that the goal found; Written lists those that
	// are new, Touched those of the old ones that differ, both capped.
	Tests   int      `json:"tests,omitempty"`
	Written []string `json:"written,omitempty"`
	Touched []string `json:"touched,omitempty"`
	// Mixed is the tree to run on: for tests_intact the present code with the
	// tests as they stood, for reproduces the code as it stood with the present
	// tests.
	Mixed string `json:"mixed,omitempty"`
	// Evidence names what was found: a file's hash, a commit.
	Evidence string `json:"evidence,omitempty"`
	// Opinion is a reviewer's: pass, fail or unknown, with its reason; Model is
	// the one that gave it.
	Opinion string `json:"opinion,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Model   string `json:"model,omitempty"`
}

// Amount is an amount in each budget dimension. Cost is in millionths of a US
// dollar; ToolMS is wall-clock milliseconds of commands.
type Amount struct {
	Turns      int64 `json:"turns,omitempty"`
	Steps      int64 `json:"steps,omitempty"`
	Tokens     int64 `json:"tokens,omitempty"`
	CostMicros int64 `json:"cost_micros,omitempty"`
	ToolMS     int64 `json:"tool_ms,omitempty"`
}

// Limits is a budget: an upper bound for each dimension, 0 for none.
type Limits struct {
	Amount
	// Deadline is the instant after which no request is sent; 0 for none.
	Deadline moment.Time `json:"deadline,omitzero"`
}

// ApproveMode says who answers what policy asks.
type ApproveMode string

// The modes of --approve.
const (
	ApproveAsk   ApproveMode = "ask"
	ApproveAuto  ApproveMode = "auto"  // asks are granted for this goal, on record
	ApproveNever ApproveMode = "never" // asks are denied (headless)
)

// PlanMode says when a plan has to be approved before anything is changed.
type PlanMode string

// The modes of --plan.
const (
	PlanAuto   PlanMode = "auto"   // policy approves a plan of small declared scope
	PlanAlways PlanMode = "always" // the user approves the plan
	PlanNever  PlanMode = "never"  // no plan gate
)

// PermissionMode is the gate in force.
type PermissionMode string

// The permission modes, under the seeds' names.
const (
	ModePlan    PermissionMode = "plan"
	ModeDefault PermissionMode = "default"
)

// Rule is one policy rule. What it matches against is described in package
// policy.
type Rule struct {
	ID       string `json:"id,omitempty" yaml:"id,omitempty"`
	Decision string `json:"decision" yaml:"decision"` // allow, ask or deny
	Tool     string `json:"tool,omitempty" yaml:"tool,omitempty"`
	Command  string `json:"command,omitempty" yaml:"command,omitempty"`
	Path     string `json:"path,omitempty" yaml:"path,omitempty"`
	// Network, "loopback" or "full": with allow, the command may reach that much
	// of the network; with ask or deny, the rule is about reaching it.
	Network  string   `json:"network,omitempty" yaml:"network,omitempty"`
	Reason   string   `json:"reason,omitempty" yaml:"reason,omitempty"`
	Match    []string `json:"match,omitempty" yaml:"match,omitempty"`
	NotMatch []string `json:"not_match,omitempty" yaml:"not_match,omitempty"`
	// Layer is where the rule came from: builtin, user, repository or goal.
	Layer string `json:"layer,omitempty" yaml:"-"`
}

// Settings are the numbers and modes that a goal keeps for its life; zero
// values mean the defaults that the core documents.
type Settings struct {
	Approve          ApproveMode `json:"approve,omitempty"`
	Plan             PlanMode    `json:"plan,omitempty"`
	AcceptUnverified bool        `json:"accept_unverified,omitempty"`
	// Model is "provider:name".
	Model string `json:"model,omitempty"`
	// MaxOutput is the most output tokens of one request.
	MaxOutput int64 `json:"max_output,omitempty"`
	// StepsPerTurn ends a turn with "yielded".
	StepsPerTurn int64 `json:"steps_per_turn,omitempty"`
	// RetryBaseMS, RetryCapMS and RetryWindowMS shape the backoff after
	// provider errors.
	RetryBaseMS   int64 `json:"retry_base_ms,omitempty"`
	RetryCapMS    int64 `json:"retry_cap_ms,omitempty"`
	RetryWindowMS int64 `json:"retry_window_ms,omitempty"`
	// RefusedClaims is how many refused claims in a row without a step between
	// them hand the goal off.
	RefusedClaims int64 `json:"refused_claims,omitempty"`
	// SameError is how often one error signature may recur before the action
	// is forbidden; one more hands the goal off.
	SameError int64 `json:"same_error,omitempty"`
	// Patience stretches the thresholds of the no-progress signals by this
	// factor; 0 and 1 leave them as they are.
	Patience int64 `json:"patience,omitempty"`
	// ParallelReads caps the read operations that run side by side.
	ParallelReads int64 `json:"parallel_reads,omitempty"`
	// Rules are the user's and the repository's policy rules as they stood
	// when the goal started.
	Rules []Rule `json:"rules,omitempty"`
	// Sandbox is how commands are confined: "none" or a backend.
	Sandbox string `json:"sandbox,omitempty"`
	// Protected are patterns of paths that no operation may write, beside those
	// that policy knows by itself: belay's own state and configuration.
	Protected []string `json:"protected,omitempty"`
	// ApprovalTimeoutMS is how long a question about an operation may stay open
	// before it counts as denied; 0 means for ever.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitempty"`
	// Prose has the model add a few words of its own to each compaction.
	Prose bool `json:"prose,omitempty"`
	// Travel keeps every observed tree as an artifact beside the events, so that
	// a worker at another place can go on.
	Travel bool `json:"travel,omitempty"`
	// MaxChildren is how many child goals the goal may start, -1 for none;
	// ChildDepth how many levels of them there may be below the goal that a
	// person started; ParallelChildren how many are open at a time.
	MaxChildren      int64 `json:"max_children,omitempty"`
	ChildDepth       int64 `json:"child_depth,omitempty"`
	ParallelChildren int64 `json:"parallel_children,omitempty"`
	// ReadOnly keeps the plan gate closed for the goal's whole life: it only
	// looks.
	ReadOnly bool `json:"read_only,omitempty"`
}

// GoalSpec is what the user asked for, one version of it.
type GoalSpec struct {
	Text        string      `json:"text"`
	Acceptance  []Criterion `json:"acceptance,omitempty"`
	Constraints []string    `json:"constraints,omitempty"`
	Limits      Limits      `json:"limits,omitzero"`
}

// PlanStep is one step of the plan.
type PlanStep struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Plan is what the model intends to do, and within which paths.
type Plan struct {
	Summary string     `json:"summary,omitempty"`
	Steps   []PlanStep `json:"steps"`
	// Scope is the declared scope: path patterns that the plan will change.
	Scope         []string `json:"scope,omitempty"`
	OpenQuestions []string `json:"open_questions,omitempty"`
	// Criteria are what the model wants to be judged by beside what the goal
	// says. They count once they are confirmed.
	Criteria []Criterion `json:"criteria,omitempty"`
}

// TodoStatus is the state of one todo.
type TodoStatus string

// The todo states.
const (
	TodoPending    TodoStatus = "pending"
	TodoInProgress TodoStatus = "in_progress"
	TodoCompleted  TodoStatus = "completed"
)

// Todo is one item of work. A completed one says why it counts as done: an
// evidence reference (an op_id) or a stated reason. One that is begun or
// completed before what it depends on says why, too.
type Todo struct {
	ID       string     `json:"id"`
	Content  string     `json:"content"`
	Status   TodoStatus `json:"status"`
	Evidence string     `json:"evidence,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	// DependsOn are the ids of the todos that come first.
	DependsOn []string `json:"depends_on,omitempty"`
	// Acceptance says when it counts as done: in words, or by the id of one of
	// the goal's criteria.
	Acceptance string `json:"acceptance,omitempty"`
}

// PartKind is the kind of one part of a model's response.
type PartKind string

// The part kinds. Opaque is provider data that must be sent back unchanged
// (signed or encrypted reasoning) and is shown to nobody.
const (
	PartText   PartKind = "text"
	PartCall   PartKind = "tool_call"
	PartThink  PartKind = "thinking"
	PartOpaque PartKind = "opaque"
)

// Part is one part of a model's response, in the order it came.
type Part struct {
	Kind PartKind `json:"kind"`
	Text string   `json:"text,omitempty"`
	// Call fields.
	CallID    string `json:"call_id,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Arguments string `json:"arguments,omitempty"` // JSON text exactly as the model wrote it
	// Provider is the wire that may get Data back; others drop the part.
	Provider string          `json:"provider,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Usage is what one request used, in tokens. Input counts all input, cached
// and cache-write tokens included.
type Usage struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input,omitempty"`
	CacheWrite  int64 `json:"cache_write,omitempty"`
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning,omitempty"`
}

// Total is the number of tokens that a budget counts.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Access is what an operation is going to touch, read off its arguments alone.
type Access struct {
	// Reads and Writes are slash-separated paths relative to the workspace
	// root, as the model gave them after lexical cleaning.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
	// Command is shell text, Dir its working directory relative to the root.
	Command string `json:"command,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// Test says that the command is run as a test.
	Test bool `json:"test,omitempty"`
	// Network is the network access it asks for: "none", "loopback" or "full";
	// "" leaves it to policy.
	Network string `json:"network,omitempty"`
	// Remote names a remote resource that the operation changes.
	Remote string `json:"remote,omitempty"`
}

// FilePrint is the fingerprint of one file around an operation: the SHA-256 of
// its bytes before and after ("" for absent).
type FilePrint struct {
	Path   string `json:"path"`
	Base   string `json:"base,omitempty"`
	Result string `json:"result,omitempty"`
	// BaseMode and ResultMode are Unix permission bits.
	BaseMode   uint32 `json:"base_mode,omitempty"`
	ResultMode uint32 `json:"result_mode,omitempty"`
}

// Intent is the exact action that policy judges, a person approves and
// recovery compares the world with.
type Intent struct {
	// Hash identifies the action: tool, normalised arguments, working
	// directory, environment keys that matter, sandbox, and the content of the
	// files it names. Incidental text (descriptions, time-outs) is no part.
	Hash string `json:"hash"`
	// Files are the fingerprints of a verifiable operation.
	Files []FilePrint `json:"files,omitempty"`
	// Preview is what a person is shown: a unified diff, or the command.
	Preview Text `json:"preview,omitzero"`
	// Key is the idempotency key of a keyed operation.
	Key string `json:"key,omitempty"`
	// Destructive says that the action can discard work or rewrite history.
	Destructive bool `json:"destructive,omitempty"`
	// Network is what the command reaches of the network when it runs: "" for
	// nothing, "loopback" or "full".
	Network string `json:"network,omitempty"`
}

// Text is text that may be long: Head is what is shown at once; when Whole is
// set, the complete text is that artifact.
type Text struct {
	Head  string `json:"head"`
	Whole Ref    `json:"whole,omitzero"`
	// Cut says that Head is not the complete text.
	Cut bool `json:"cut,omitempty"`
}

// TestCounts is what a test runner reported.
type TestCounts struct {
	Runner  string   `json:"runner"` // "go", "pytest", … or "" when unrecognised
	Passed  int64    `json:"passed"`
	Failed  int64    `json:"failed"`
	Skipped int64    `json:"skipped"`
	Failing []string `json:"failing,omitempty"` // names, capped
}

// Executed is how many tests really ran.
func (t TestCounts) Executed() int64 { return t.Passed + t.Failed }

// FileSeen is one file that an operation read or wrote: the bytes the model
// now knows.
type FileSeen struct {
	Path string `json:"path"`
	Hash string `json:"hash"` // SHA-256 of the bytes, "" for absent
}

// CommandResult is how a command ended.
type CommandResult struct {
	ExitCode int `json:"exit_code"`
	// Signal is set when a signal ended it.
	Signal string `json:"signal,omitempty"`
	// TimedOut says that the deadline ended it.
	TimedOut   bool  `json:"timed_out,omitempty"`
	DurationMS int64 `json:"duration_ms"`
	// Output is the merged standard output and error, whole up to a cap.
	Output Ref `json:"output,omitzero"`
	// OutputDropped is how many bytes past the cap were not kept.
	OutputDropped int64 `json:"output_dropped,omitempty"`
	// Survivors is how many processes of its tree had to be ended after it.
	Survivors int `json:"survivors,omitempty"`
}

// Result is what an operation brought back.
type Result struct {
	// Output is what the model is told.
	Output Text `json:"output"`
	// Fault is set for every outcome but succeeded.
	Fault   *fault.Fault   `json:"fault,omitempty"`
	Seen    []FileSeen     `json:"seen,omitempty"`
	Command *CommandResult `json:"command,omitempty"`
	Test    *TestCounts    `json:"test,omitempty"`
	// Files are the effect fingerprints: what really stands on disk now.
	Files []FilePrint `json:"files,omitempty"`
	// Remote is the effect fingerprint of a keyed operation.
	Remote string `json:"remote,omitempty"`
	// Check is what a look for a criterion found.
	Check *CheckResult `json:"check,omitempty"`
	// Used is what the operation cost beside the time of a command.
	Used *Amount `json:"used,omitempty"`
	// Environment names the tools that a command ran with: resolved path, and
	// version or file hash.
	Environment map[string]string `json:"environment,omitempty"`
	// Reconciles is what a look at another operation established, when it is
	// certain and settles that operation's unknown outcome.
	Reconciles *Reconciliation `json:"reconciles,omitempty"`
}

// Reconciliation settles an operation's unknown outcome by what was seen.
type Reconciliation struct {
	Op      string  `json:"op_id"`
	Outcome Outcome `json:"outcome"` // succeeded, or failed also when it never happened
	Reason  string  `json:"reason"`
	// What follows is the operation's own result, as far as it has one.
	Output  Text           `json:"output,omitzero"`
	Fault   *fault.Fault   `json:"fault,omitempty"`
	Command *CommandResult `json:"command,omitempty"`
	Test    *TestCounts    `json:"test,omitempty"`
	Remote  string         `json:"remote,omitempty"`
}

// Result is the operation's own result, nil where it has none.
func (r Reconciliation) Result() *Result {
	if r.Output == (Text{}) && r.Fault == nil && r.Command == nil {
		return nil
	}
	return &Result{Output: r.Output, Fault: r.Fault, Command: r.Command, Test: r.Test, Remote: r.Remote}
}

// Change is one changed path between two trees.
type Change struct {
	Path    string `json:"path"`
	Status  string `json:"status"` // added, modified, deleted, mode
	Added   int64  `json:"added,omitempty"`
	Deleted int64  `json:"deleted,omitempty"`
	Binary  bool   `json:"binary,omitempty"`
}

// Revision is the repository's state: a counter and a content hash.
type Revision struct {
	N    int64  `json:"n"`
	Tree string `json:"tree"`
}

// CriterionResult is the judgement of one criterion.
type CriterionResult struct {
	ID     string `json:"id"`
	Result string `json:"result"` // pass, fail or unknown
	Reason string `json:"reason,omitempty"`
	// Evidence are op_ids, or "user" for a person's answer.
	Evidence []string `json:"evidence,omitempty"`
}

// The results of a criterion.
const (
	Pass          = "pass"
	Fail          = "fail"
	ResultUnknown = "unknown"
)

// Verdict is the judgement of a claim.
type Verdict struct {
	Verdict  string            `json:"verdict"` // complete, incomplete or unknown
	Criteria []CriterionResult `json:"criteria"`
	Missing  []string          `json:"missing,omitempty"`
	// Tree is the revision that was judged.
	Tree string `json:"tree"`
}

// The verdicts.
const (
	Complete       = "complete"
	Incomplete     = "incomplete"
	VerdictUnknown = "unknown"
)

// CompletedHow says on what a completion rests. The four are never shown
// alike.
type CompletedHow string

// The ways to complete.
const (
	Verified           CompletedHow = "verified"
	Judged             CompletedHow = "judged"
	Attested           CompletedHow = "attested"
	AcceptedUnverified CompletedHow = "accepted_unverified"
)

// CheckpointTrigger is what a checkpoint was made for.
type CheckpointTrigger string

// The triggers of checkpoints.
const (
	// CheckpointStart is the state that the goal found.
	CheckpointStart CheckpointTrigger = "start"
	// CheckpointEdit precedes the edits of one response of the model.
	CheckpointEdit CheckpointTrigger = "edit"
	// CheckpointCommand precedes a command, where the tree is another than at
	// the latest checkpoint.
	CheckpointCommand CheckpointTrigger = "command"
	// CheckpointDiscard precedes an operation that can discard work.
	CheckpointDiscard CheckpointTrigger = "discard"
	// CheckpointTodo is the state in which a todo was finished.
	CheckpointTodo CheckpointTrigger = "todo"
	// CheckpointNamed was asked for by a person.
	CheckpointNamed CheckpointTrigger = "named"
	// CheckpointRollback precedes a rollback, and undoes it.
	CheckpointRollback CheckpointTrigger = "rollback"
)

// DiffSize is the size of a diff between two trees.
type DiffSize struct {
	Files   int   `json:"files"`
	Added   int64 `json:"added"`
	Deleted int64 `json:"deleted"`
	// AtLeast says that more files differ than the record lists: lines are
	// counted in those alone.
	AtLeast bool `json:"at_least,omitempty"`
}
