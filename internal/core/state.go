package core

import (
	"belay/internal/core/approval"
	"belay/internal/core/budget"
	"belay/internal/core/children"
	"belay/internal/core/evidence"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/core/progress"
	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/policy"
)

// StateSchema is the version of State's shape. A cached state of another
// schema is ignored and rebuilt from the ledger.
const StateSchema = 21

// State is where a goal stands: only ever the fold of its ledger. It is bounded:
// it holds what decisions need, not the conversation.
type State struct {
	Goal string `json:"goal"`
	// Head is the seq of the last event folded in, HeadID its id.
	Head   uint64 `json:"head"`
	HeadID string `json:"head_id"`
	// Mark is Head without the facts that change nothing for an effect in
	// flight; effects are named by it.
	Mark    uint64      `json:"mark"`
	Updated moment.Time `json:"updated"`
	Created moment.Time `json:"created"`
	Fence   uint64      `json:"fence"`

	Version  int            `json:"goal_version"`
	Spec     event.GoalSpec `json:"spec"`
	Settings event.Settings `json:"settings"`
	Repo     string         `json:"repo"`
	Parent   string         `json:"parent,omitempty"`
	// Worktree is set when Repo is a checkout of the goal's own.
	Worktree *event.Worktree `json:"worktree,omitempty"`
	// SetUp counts the commands of its setup that have succeeded, SetupFailed is
	// the one that did not, until the user resumes the goal.
	SetUp       int           `json:"set_up,omitempty"`
	SetupFailed *SetupFailure `json:"setup_failed,omitempty"`
	// ParentOp, Depth and Share are of a child goal: the operation that started
	// it, how many goals are above it, and its limits at the start. Ordered is
	// the latest order of its parent that it obeyed; ParentTold says that the
	// parent has recorded its end.
	ParentOp   string       `json:"parent_op,omitempty"`
	Depth      int          `json:"depth,omitempty"`
	Share      event.Limits `json:"share,omitzero"`
	Ordered    uint64       `json:"ordered,omitempty"`
	ParentTold bool         `json:"parent_told,omitempty"`
	// Children are the goals that this one has started.
	Children children.Book `json:"children,omitempty"`
	// Report is what the latest claim said of the work.
	Report string `json:"report,omitempty"`

	Status lifecycle.Status   `json:"status"`
	Wait   *event.GoalWaiting `json:"wait,omitempty"`
	Pause  *event.GoalPaused  `json:"pause,omitempty"`
	Fault  *Fault             `json:"fault,omitempty"`
	How    event.CompletedHow `json:"how,omitempty"`
	// HandOff is the latest report to the user, until the goal goes on.
	HandOff *event.GoalHandedOff `json:"hand_off,omitempty"`

	// Refuse is set when an event cannot be understood or is not legal: the
	// goal is shown but never advanced.
	Refuse string `json:"refuse,omitempty"`

	Mode     event.PermissionMode `json:"permission_mode"`
	Plan     *event.Plan          `json:"plan,omitempty"`
	PlanHash string               `json:"plan_hash,omitempty"`
	// Confirmed are criteria that plans proposed and that were confirmed.
	Confirmed []event.Criterion `json:"confirmed_criteria,omitempty"`
	Todos     []event.Todo      `json:"todos,omitempty"`
	Decisions []Decision        `json:"decisions,omitempty"`
	// Memory is what the goal was told of earlier ones.
	Memory *Recalled `json:"memory,omitempty"`
	// Instructions are the repository's words that it was shown beside those at
	// the root, and changes of any of them, in the order of the events.
	Instructions []Instructions `json:"instructions,omitempty"`

	Turn   *Turn  `json:"turn,omitempty"`
	Holder Holder `json:"holder"`
	Turns  int    `json:"turns"`
	// Takeovers counts workers that died in a row without a response between
	// them, Blocked the tries in a row in which no worker could work on it.
	Takeovers int `json:"takeovers,omitempty"`
	Blocked   int `json:"blocked,omitempty"`
	// Request is the open model request.
	Request  *Request `json:"request,omitempty"`
	Requests int      `json:"requests"`
	// Retry is set between a failed request and the next attempt.
	Retry *Retry `json:"retry,omitempty"`
	// Compacted is the seq through which a summary stands for the conversation;
	// Talk is what is known of its size and beginnings.
	Compacted uint64       `json:"compacted,omitempty"`
	Talk      Conversation `json:"conversation,omitzero"`

	// Open are the operations that owe their outcome, in the order given.
	Open []operation.Op `json:"open,omitempty"`
	// InDoubt are operations with an unknown outcome that nobody reconciled.
	InDoubt []operation.Op `json:"in_doubt,omitempty"`
	Ops     int            `json:"ops"`
	// Asked is the operation whose question the user was asked last.
	Asked string `json:"asked,omitempty"`
	// Deeds are the latest finished operations, each in one line.
	Deeds []Deed `json:"deeds,omitempty"`
	// LastOp is the latest finished operation, for the snapshot.
	LastOp *LastResult `json:"last_op,omitempty"`

	Approvals approval.Book    `json:"approvals"`
	Budget    budget.Ledger    `json:"budget"`
	Progress  progress.Counter `json:"progress"`
	// Way is the watch over the way as a whole.
	Way progress.Watch `json:"way"`
	// Strikes counts refused claims with no operation in between.
	Strikes int64 `json:"strikes,omitempty"`

	Workspace *event.WorkspaceAttached `json:"workspace,omitempty"`
	Revision  event.Revision           `json:"revision"`
	// Index is what is staged in the user's repository, "" when that is not known
	// or there is none.
	Index string `json:"index,omitempty"`
	// Place is where the workspace is; Packs are what another place can restore
	// it from.
	Place string `json:"place,omitempty"`
	Packs Packs  `json:"packs,omitzero"`
	// Unseen is the op_id whose effect on the tree has not been observed yet;
	// UnseenRun is its result, which becomes evidence with the observation.
	Unseen    string      `json:"unseen,omitempty"`
	UnseenRun *PendingRun `json:"unseen_run,omitempty"`
	// UnseenEffect is the effect class of that operation.
	UnseenEffect event.EffectClass `json:"unseen_effect,omitempty"`
	// Git is where git stood when it was last looked at, nil when that is not
	// known; Moved is the open question whether the goal goes on although somebody
	// else moved it. Trusted says that the user resumed the goal since.
	Git     *event.Standing  `json:"git,omitempty"`
	Moved   *event.HeadMoved `json:"moved,omitempty"`
	Trusted bool             `json:"trusted,omitempty"`
	// Fresh says that the workspace was observed in this turn.
	Fresh bool              `json:"fresh,omitempty"`
	Diff  event.DiffUpdated `json:"diff"`
	// Files is what the model knows of files: path to content hash.
	Files map[string]string `json:"files,omitempty"`
	// ownsFiles says that no other state shares the map.
	ownsFiles bool
	// RecentFiles are the last paths read or written, newest last.
	RecentFiles []FileContext `json:"recent_files,omitempty"`
	Checkpoints []Checkpoint  `json:"checkpoints,omitempty"`
	// Applied is the tree that was last brought to the user's directory or
	// repository; Removed says that the goal's own checkout is gone.
	Applied string `json:"applied,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	// Left says that the goal was given up and goes on elsewhere; Copy that it is
	// a copy of one that does. ForkedFrom is where a forked goal comes from.
	Left *event.GoalGivenUp `json:"left,omitempty"`
	Copy bool               `json:"copy,omitempty"`
	// Imported says that the history, or a part of it, came in a file.
	Imported   bool    `json:"imported,omitempty"`
	ForkedFrom *Origin `json:"forked_from,omitempty"`

	// Captured is what was last known of the environment.
	Captured Captured `json:"captured,omitzero"`

	Evidence evidence.Shelf             `json:"evidence,omitempty"`
	Checks   evidence.Checks            `json:"checks,omitempty"`
	Failures []TestFailure              `json:"failures,omitempty"`
	Answers  map[string]evidence.Answer `json:"answers,omitempty"`

	// Claim is the open claim of completion.
	Claim *Claim `json:"claim,omitempty"`
	// Verification is the running one; Verdict the latest that counted.
	Verification  *Verification `json:"verification,omitempty"`
	Verifications int           `json:"verifications"`
	// Stale is the latest verification that was given up, until a worker brings
	// what it saw for it.
	Stale   *Verification  `json:"stale_verification,omitempty"`
	Verdict *event.Verdict `json:"verdict,omitempty"`

	// Inbox are user messages that no request has taken in yet.
	Inbox []Mail `json:"inbox,omitempty"`
	// Said are the user's messages, verbatim, for compaction.
	Said []Mail `json:"said,omitempty"`
}

// Fault is the error a goal failed or was handed off with, in short.
type Fault struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Decision is a recorded decision.
type Decision struct {
	ID       string `json:"id"`
	Seq      uint64 `json:"seq"`
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	Scope    string `json:"scope,omitempty"`
}

// Turn is the open turn.
type Turn struct {
	ID     string `json:"turn_id"`
	Worker string `json:"worker"`
	Fence  uint64 `json:"fence"`
	Steps  int64  `json:"steps"`
	// Replies counts responses in this turn.
	Replies int `json:"replies"`
	// Calls is how many tool calls the latest response had.
	Calls int `json:"calls"`
}

// Request is an open model request.
type Request struct {
	ID        string   `json:"request"`
	Turn      string   `json:"turn_id"`
	Event     string   `json:"event"`
	Attempt   int      `json:"attempt"`
	MaxOutput int64    `json:"max_output"`
	Through   uint64   `json:"through"`
	Taken     []uint64 `json:"taken,omitempty"`
	// Compaction is set when it asks for words that go with one.
	Compaction *event.Compaction `json:"compaction,omitempty"`
}

// Retry is a wait between two attempts at a request.
type Retry struct {
	Since   moment.Time `json:"since"`
	Attempt int         `json:"attempt"` // attempts made so far
	// Replies counts those of them that may have been charged.
	Replies int         `json:"replies,omitempty"`
	At      moment.Time `json:"at"`
}

// LastResult is an operation's result as the snapshot shows it.
type LastResult struct {
	Op      string        `json:"op_id"`
	Tool    string        `json:"tool_name"`
	Status  string        `json:"status"`
	Outcome event.Outcome `json:"outcome"`
	Output  string        `json:"output,omitempty"`
	Seq     uint64        `json:"seq"`
}

// PendingRun is a command's result that waits for the observation that makes
// it evidence.
type PendingRun struct {
	Op      string              `json:"op_id"`
	Access  event.Access        `json:"access"`
	Tree    string              `json:"tree"`
	Command event.CommandResult `json:"command"`
	Counts  event.TestCounts    `json:"counts"`
	Fault   string              `json:"fault_signature,omitempty"`
	Tail    string              `json:"tail,omitempty"`
	// Criterion is set when belay ran it for that criterion.
	Criterion   string            `json:"criterion,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// FileContext is one recently used file.
type FileContext struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
	Op   string `json:"op_id"`
	Seq  uint64 `json:"seq"`
}

// Checkpoint is a restorable state.
type Checkpoint struct {
	ID      string                  `json:"checkpoint"`
	Name    string                  `json:"name,omitempty"`
	Tree    string                  `json:"tree"`
	Index   string                  `json:"index,omitempty"`
	Why     string                  `json:"why"`
	Trigger event.CheckpointTrigger `json:"trigger,omitempty"`
	Size    event.DiffSize          `json:"size,omitzero"`
	// Op is the operation that it was made for, Request the response that
	// proposed that.
	Op      string `json:"op_id,omitempty"`
	Request string `json:"request,omitempty"`
	Seq     uint64 `json:"seq"`
}

// TestFailure is a recent failing test run.
type TestFailure struct {
	Op        string   `json:"op_id"`
	Seq       uint64   `json:"seq"`
	Command   string   `json:"command"`
	ExitCode  int      `json:"exit_code"`
	Failing   []string `json:"failing,omitempty"`
	Signature string   `json:"signature,omitempty"`
	Tail      string   `json:"tail,omitempty"`
	Tree      string   `json:"tree"`
}

// Claim is an open claim of completion: by the operation finish, or by a final
// text (then Op is empty).
type Claim struct {
	Op      string `json:"op_id,omitempty"`
	Event   string `json:"event"`
	Summary string `json:"summary,omitempty"`
	// Asked says that a person has been asked to accept it.
	Asked bool `json:"asked,omitempty"`
	// Stale counts its verifications that were given up.
	Stale int `json:"stale,omitempty"`
}

// Verification is a running verification.
type Verification struct {
	ID      string `json:"verification"`
	Event   string `json:"event"`
	Version int    `json:"goal_version"`
	Fence   uint64 `json:"fence"`
	// Tree is the one that it judges, "" before it was observed.
	Tree string `json:"tree,omitempty"`
	// Tried counts the looks that brought nothing, GivenUp says why there are no
	// more of them; both by the key of the need.
	Tried   map[string]int    `json:"tried,omitempty"`
	GivenUp map[string]string `json:"given_up,omitempty"`
}

// Mail is a user message.
type Mail struct {
	Seq  uint64            `json:"seq"`
	Mode event.MessageMode `json:"mode"`
	Text string            `json:"text"`
}

// The bounds that keep a state small over thousands of steps.
const (
	maxFiles       = 4096
	maxRecentFiles = 20
	maxFailures    = 5
	maxCheckpoints = 512
	maxSaid        = 1000
	maxDecisions   = 200
	headText       = 2000 // characters of output kept for the snapshot
)

// Clone copies the state so that the copy can be folded on. Slices that are
// only ever replaced or appended to are shared up to their length.
func (s State) Clone() State {
	s.Approvals = s.Approvals.Clone()
	s.Budget = s.Budget.Clone()
	s.Progress = s.Progress.Clone()
	s.Way = s.Way.Clone()
	s.Open = append([]operation.Op(nil), s.Open...)
	s.InDoubt = append([]operation.Op(nil), s.InDoubt...)
	s.ownsFiles = false // the largest map by far: copied by whoever writes to it
	s.Answers = cloneMap(s.Answers)
	s.RecentFiles = append([]FileContext(nil), s.RecentFiles...)
	s.Failures = append([]TestFailure(nil), s.Failures...)
	s.Deeds = append([]Deed(nil), s.Deeds...)
	s.Checkpoints = append([]Checkpoint(nil), s.Checkpoints...)
	s.Inbox = append([]Mail(nil), s.Inbox...)
	s.Said = append([]Mail(nil), s.Said...)
	s.Talk.Grounds = append([]uint64(nil), s.Talk.Grounds...)
	s.Decisions = append([]Decision(nil), s.Decisions...)
	if s.Turn != nil {
		t := *s.Turn
		s.Turn = &t
	}
	if s.Claim != nil {
		c := *s.Claim
		s.Claim = &c
	}
	if s.Verification != nil {
		v := *s.Verification
		v.Tried, v.GivenUp = cloneMap(v.Tried), cloneMap(v.GivenUp)
		s.Verification = &v
	}
	return s
}

func cloneMap[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	return c
}

// Find returns an open or in-doubt operation.
func (s State) Find(op string) (operation.Op, bool) {
	for _, o := range s.Open {
		if o.ID == op {
			return o, true
		}
	}
	for _, o := range s.InDoubt {
		if o.ID == op {
			return o, true
		}
	}
	return operation.Op{}, false
}

// Doubt returns an operation whose outcome is unknown.
func (s State) Doubt(op string) (operation.Op, bool) {
	for _, o := range s.InDoubt {
		if o.ID == op {
			return o, true
		}
	}
	return operation.Op{}, false
}

// AnyStarted reports whether an attempt is open: something may be running.
func (s State) AnyStarted() bool {
	for _, o := range s.Open {
		if o.Phase == operation.Started {
			return true
		}
	}
	return false
}

// BaselineTree is the tree the goal found, "" before it was attached.
func (s State) BaselineTree() string {
	if s.Workspace == nil {
		return ""
	}
	return s.Workspace.Tree
}

// Criteria are the criteria that count: those of the goal, or, when it names
// none, those that belay found by looking at the repository; and those that a
// plan proposed, once they are confirmed.
func (s State) Criteria() []event.Criterion {
	own := s.ownCriteria()
	if len(s.Confirmed) == 0 {
		return own
	}
	return append(own[:len(own):len(own)], s.Confirmed...)
}

func (s State) ownCriteria() []event.Criterion {
	if len(s.Spec.Acceptance) > 0 || s.Workspace == nil || s.Settings.ReadOnly {
		return s.Spec.Acceptance
	}
	var found []event.Criterion
	for _, cmd := range s.Workspace.TestCommands {
		found = append(found, event.Criterion{ID: "tests", Kind: event.CriterionTest, Command: cmd, Found: true,
			Text: "the repository's tests pass"},
			event.Criterion{ID: "tests-intact", Kind: event.CriterionTestsIntact, Command: cmd, Found: true,
				Text: "the tests that stood before are there and pass"})
		break
	}
	return found
}

// testCommand is the command that stands for the goal's tests, "" for none.
func (s State) testCommand() string {
	for _, c := range s.Criteria() {
		if c.Kind == event.CriterionTest {
			return c.Command
		}
	}
	if s.Workspace != nil && len(s.Workspace.TestCommands) > 0 {
		return s.Workspace.TestCommands[0]
	}
	return ""
}

// TestCommands are the shell texts that count as the goal's tests.
func (s State) TestCommands() []string {
	var cmds []string
	for _, c := range s.Criteria() {
		if c.Command != "" {
			cmds = append(cmds, c.Command)
		}
	}
	if s.Workspace != nil {
		cmds = append(cmds, s.Workspace.TestCommands...)
	}
	return cmds
}

// Policy is what this goal's operations are judged by.
func (s State) Policy() policy.Config {
	c := policy.Config{Rules: s.Settings.Rules, TestCommands: s.TestCommands(), Root: s.Repo, Protected: s.Settings.Protected}
	for _, k := range s.Criteria() {
		if k.Command != "" && k.Network != "" {
			if c.TestNetwork == nil {
				c.TestNetwork = map[string]string{}
			}
			c.TestNetwork[k.Command] = k.Network
		}
	}
	return c
}
