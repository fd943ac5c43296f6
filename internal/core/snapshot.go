package core

import (
	"belay/internal/core/approval"
	"belay/internal/core/budget"
	"belay/internal/core/children"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

// Snapshot is the one projection of where a goal stands. The prompt, the
// terminal, the API and the console all read this and nothing else.
type Snapshot struct {
	Goal string `json:"goal"`
	Text string `json:"text"`
	Repo string `json:"repo"`
	// Worktree is set when Repo is a checkout of the goal's own.
	Worktree *event.Worktree  `json:"worktree,omitempty"`
	Status   lifecycle.Status `json:"status"`
	Head     uint64           `json:"head"`
	Created  moment.Time      `json:"created"`
	Updated  moment.Time      `json:"updated"`

	// CurrentAction is what goes on right now, in a few words; "" for nothing.
	CurrentAction string `json:"current_action,omitempty"`
	// Next is what happens next, and who has to see to it.
	Next NextStep `json:"next"`

	WaitReason event.WaitReason `json:"wait_reason,omitempty"`
	WaitDetail string           `json:"wait_detail,omitempty"`
	// WaitBlocked says that no worker could work on it, so that a person may have
	// to do something.
	WaitBlocked bool               `json:"wait_blocked,omitempty"`
	WaitUntil   moment.Time        `json:"wait_until,omitzero"`
	PauseReason event.PauseReason  `json:"pause_reason,omitempty"`
	PauseDetail string             `json:"pause_detail,omitempty"`
	How         event.CompletedHow `json:"completed_how,omitempty"`
	Fault       *Fault             `json:"fault,omitempty"`
	Refuse      string             `json:"refused,omitempty"`

	// Parent is the goal that started this one, "" for none; Children are those
	// that this one has started.
	Parent   string      `json:"parent,omitempty"`
	Children []ChildView `json:"children,omitempty"`

	GoalVersion int      `json:"goal_version"`
	Fence       uint64   `json:"fence"`
	Model       string   `json:"model,omitempty"`
	Constraints []string `json:"constraints,omitempty"`
	Sandbox     string   `json:"sandbox,omitempty"`
	Turn        string   `json:"turn_id,omitempty"`

	PermissionMode event.PermissionMode `json:"permission_mode"`
	Plan           *event.Plan          `json:"plan"`
	Todos          []event.Todo         `json:"todos"`
	Decisions      []Decision           `json:"decisions,omitempty"`
	Progress       ProgressView         `json:"progress"`
	// Memory is what the goal was told of earlier ones, as far as it holds.
	Memory []event.MemoryItem `json:"memory,omitempty"`

	LatestToolResult     *LastResult     `json:"latest_tool_result"`
	LatestDiff           string          `json:"latest_diff"`
	LatestDiffWhole      event.Ref       `json:"latest_diff_whole,omitzero"`
	DiffStat             []event.Change  `json:"diff_stat,omitempty"`
	LatestSuccessfulTest *SuccessfulTest `json:"latest_successful_test"`

	PendingApprovals   []approval.Pending `json:"pending_approvals"`
	OpenOperations     []OpenOperation    `json:"open_operations"`
	InDoubt            []OpenOperation    `json:"in_doubt,omitempty"`
	RecentFileContexts []FileContext      `json:"recent_file_contexts"`
	RecentTestFailures []TestFailure      `json:"recent_test_failures"`
	Checkpoints        []Checkpoint       `json:"checkpoints,omitempty"`

	// Environment are facts of the repository and the machine, as they were last
	// captured.
	Environment map[string]string `json:"environment,omitempty"`

	Revision event.Revision       `json:"revision"`
	Criteria []CriterionView      `json:"criteria"`
	Missing  []string             `json:"missing,omitempty"`
	HandOff  *event.GoalHandedOff `json:"hand_off,omitempty"`
	Budget   BudgetView           `json:"budget"`
	// Timeline are the latest entries; the whole is read by Timeline.
	Timeline []Entry `json:"timeline"`
}

// SuccessfulTest is the newest test that passed on the repository as it is
// now. After any change it is gone until the tests pass again.
type SuccessfulTest struct {
	Op       string           `json:"op_id"`
	Command  string           `json:"command"`
	Counts   event.TestCounts `json:"counts"`
	Tree     string           `json:"tree"`
	Revision int64            `json:"repo_state_revision"`
}

// OpenOperation is an operation as lists show it.
type OpenOperation struct {
	Op      string            `json:"op_id"`
	Tool    string            `json:"tool_name"`
	Effect  event.EffectClass `json:"effect"`
	Phase   operation.Phase   `json:"phase"`
	Attempt int               `json:"attempt,omitempty"`
	Command string            `json:"command,omitempty"`
	Paths   []string          `json:"paths,omitempty"`
}

// CriterionView is a criterion with how it stands now.
type CriterionView struct {
	event.Criterion
	Result   string   `json:"result"`
	Reason   string   `json:"reason,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
}

// ChildView is a child goal as its parent shows it. What stands below Applied is
// where the child itself stands now, as far as whoever asks has looked.
type ChildView struct {
	Goal     string             `json:"goal"`
	Op       string             `json:"op_id"`
	Title    string             `json:"title"`
	Status   string             `json:"status"` // reserved until it exists
	How      event.CompletedHow `json:"completed_how,omitempty"`
	ReadOnly bool               `json:"read_only,omitempty"`
	ByUser   bool               `json:"by_user,omitempty"`
	Share    event.Limits       `json:"share,omitzero"`
	Used     event.Amount       `json:"used,omitzero"`
	Files    int                `json:"files_changed,omitempty"`
	Applied  bool               `json:"applied,omitempty"`

	WaitReason       event.WaitReason   `json:"wait_reason,omitempty"`
	WaitDetail       string             `json:"wait_detail,omitempty"`
	PauseReason      event.PauseReason  `json:"pause_reason,omitempty"`
	CurrentAction    string             `json:"current_action,omitempty"`
	PendingApprovals []approval.Pending `json:"pending_approvals,omitempty"`
	Children         []ChildView        `json:"children,omitempty"`
}

func childViews(s State) []ChildView {
	var out []ChildView
	for _, c := range s.Children {
		v := ChildView{Goal: c.Goal, Op: c.Op, Title: c.Title, Status: c.Status, How: c.How, ReadOnly: c.ReadOnly, ByUser: c.ByUser,
			Share: c.Share, Used: c.Used, Files: c.Files, Applied: c.Applied}
		switch c.Phase {
		case children.Reserved:
			v.Status = string(children.Reserved)
		case children.Started:
			v.Status = string(lifecycle.Active)
		}
		out = append(out, v)
	}
	return out
}

// Show lays where a child stands itself over what its parent knows of it.
func (v *ChildView) Show(s State) {
	v.Status, v.How, v.Used = string(s.Status), s.How, s.Budget.Used
	v.CurrentAction, v.PendingApprovals = Doing(s), s.Approvals.Pending
	if s.Wait != nil {
		v.WaitReason, v.WaitDetail = s.Wait.Reason, s.Wait.Detail
	}
	if s.Pause != nil {
		v.PauseReason = s.Pause.Reason
	}
	v.Children = childViews(s)
}

// BudgetView is the budget by dimension. Left is absent for dimensions without
// a limit.
type BudgetView struct {
	Limits   event.Limits     `json:"limits,omitzero"`
	Used     event.Amount     `json:"used"`
	Reserved event.Amount     `json:"reserved,omitzero"`
	Left     map[string]int64 `json:"left,omitempty"`
}

// View projects a state, with the latest timeline entries, into a snapshot.
func View(s State, recent []Entry) Snapshot {
	v := Snapshot{Goal: s.Goal, Text: s.Spec.Text, Repo: s.Repo, Worktree: s.Worktree, Status: s.Status, Head: s.Head, Created: s.Created,
		Updated: s.Updated, How: s.How, Fault: s.Fault, Refuse: s.Refuse, GoalVersion: s.Version, Fence: s.Fence,
		Model: s.Settings.Model, Constraints: s.Spec.Constraints, PermissionMode: s.Mode, Plan: s.Plan,
		Todos: s.Todos, Decisions: s.Decisions, LatestToolResult: s.LastOp, LatestDiff: s.Diff.Diff.Head,
		LatestDiffWhole: s.Diff.Diff.Whole, DiffStat: s.Diff.Changes, PendingApprovals: s.Approvals.Pending,
		CurrentAction: Doing(s), RecentFileContexts: s.RecentFiles, RecentTestFailures: s.Failures, Checkpoints: s.Checkpoints,
		Revision: s.Revision, HandOff: s.HandOff, Environment: s.Captured.All(), Timeline: recent}
	if v.PendingApprovals == nil {
		v.PendingApprovals = []approval.Pending{} // as after one that was answered
	}
	if s.ParentOp != "" {
		v.Parent = s.Parent
	}
	v.Children = childViews(s)
	if s.Wait != nil {
		v.WaitReason, v.WaitDetail, v.WaitUntil, v.WaitBlocked = s.Wait.Reason, s.Wait.Detail, s.Wait.Until, s.Wait.Blocked
	}
	if s.Pause != nil {
		v.PauseReason, v.PauseDetail = s.Pause.Reason, s.Pause.Detail
	}
	if s.Workspace != nil {
		v.Sandbox = s.Workspace.Sandbox
	}
	if s.Turn != nil {
		v.Turn = s.Turn.ID
	}
	if t, ok := s.Evidence.LatestPass(s.Revision.Tree); ok {
		v.LatestSuccessfulTest = &SuccessfulTest{Op: t.Op, Command: t.Command, Counts: t.Counts, Tree: t.Tree, Revision: s.Revision.N}
	}
	for _, o := range s.Open {
		v.OpenOperations = append(v.OpenOperations, openOperation(o))
	}
	for _, o := range s.InDoubt {
		v.InDoubt = append(v.InDoubt, openOperation(o))
	}
	judged := s.Judgement()
	v.Missing = judged.Missing
	for i, c := range s.Criteria() {
		r := judged.Criteria[i]
		v.Criteria = append(v.Criteria, CriterionView{Criterion: c, Result: r.Result, Reason: r.Reason, Evidence: r.Evidence})
	}
	v.Budget = budgetView(s.Budget)
	v.Progress, v.Memory = progressOf(v), s.Memory.Holding(s.Head)
	v.Next = Next(v)
	return v
}

// ClaimWaits reports whether a claim of completion waits for the person, as
// opposed to a question of the model.
func (v Snapshot) ClaimWaits() bool {
	for _, o := range v.OpenOperations {
		if o.Tool == ToolAskUser {
			return false
		}
	}
	return v.WaitReason == event.WaitUserInput
}

func openOperation(o operation.Op) OpenOperation {
	return OpenOperation{Op: o.ID, Tool: o.Tool, Effect: o.Effect, Phase: o.Phase, Attempt: o.Attempt,
		Command: o.Access.Command, Paths: append(append([]string(nil), o.Access.Reads...), o.Access.Writes...)}
}

func budgetView(b budget.Ledger) BudgetView {
	v := BudgetView{Limits: b.Limits, Used: b.Used, Reserved: b.Held(), Left: map[string]int64{}}
	left := b.Left()
	for name, n := range map[string]int64{"turns": left.Turns, "steps": left.Steps, "tokens": left.Tokens,
		"cost_micros": left.CostMicros, "tool_ms": left.ToolMS} {
		if n != budget.Unlimited {
			v.Left[name] = n
		}
	}
	return v
}

// Row projects a state into the goal's row, on which lists, claims and fences
// work.
func Row(s State) ledger.Row {
	repo := s.Repo
	if s.Worktree != nil {
		repo = s.Worktree.Of // lists are by the repository that the user knows
	}
	r := ledger.Row{Goal: s.Goal, Title: Title(s.Spec), Repo: repo, Status: string(s.Status),
		Version: s.Version, Fence: s.Fence, Runnable: s.Runnable(s.Updated), Head: s.Head, How: string(s.How),
		Steps: s.Budget.Used.Steps, Tokens: s.Budget.Used.Tokens, CostMicros: s.Budget.Used.CostMicros}
	if s.ParentOp != "" {
		r.Parent = s.Parent
	}
	if s.Wait != nil {
		r.WaitReason = string(s.Wait.Reason)
		r.WakeAt = s.Wait.Until
		if !r.WakeAt.IsZero() && !s.AnyStarted() {
			r.Runnable = false // it becomes claimable when its time comes
		}
	}
	if s.Pause != nil {
		r.PauseReason = string(s.Pause.Reason)
	}
	return r
}

// Overview is a goal as a list of goals shows it.
type Overview struct {
	ledger.Row
	// Action is what goes on right now, Left what is left of each budget
	// dimension that has a limit. Of a goal that has ended the second is empty,
	// and the first too, as soon as nothing of it runs any more.
	Action string           `json:"current_action,omitempty"`
	Left   map[string]int64 `json:"budget_left,omitempty"`
	// Held says that a live worker has the goal.
	Held bool `json:"held"`
}

func firstLine(s string) string {
	for i, c := range s {
		if c == '\n' || c == '\r' {
			return s[:i]
		}
	}
	return s
}
