package service

import (
	"context"
	"io"
	"iter"

	"belay/internal/core"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/memory"
	"belay/internal/recall"
)

// Door is what a person's face needs of the use cases. They are done in this
// process (Service), or by a running server that is asked to (package remote):
// the face does not know which.
//
// A new use case of the command line is a method here, a route of the API and a
// call of package remote; TestEveryCommandHasItsRoute names what is missing.
type Door interface {
	Reader
	Teller
	Ruler
	Rememberer
	// Serves says that a server works on every goal that can run, so that this
	// process does not.
	Serves() bool
	// Start records a new goal. Nothing runs yet.
	Start(context.Context, StartRequest) (Started, error)
	// Attend sees a goal through until it comes to rest, and works on it unless
	// a server does.
	Attend(ctx context.Context, goal string, o AttendOptions) (core.Snapshot, error)
}

// Live sees what streams: a model's words, a command's output.
type Live = effect.Live

// Reader is the part of the door that changes nothing.
type Reader interface {
	Resolve(ctx context.Context, prefix string) (string, error)
	Goals(context.Context, ledger.Filter) ([]ledger.Row, error)
	Overviews(context.Context, ledger.Filter) ([]core.Overview, error)
	Snapshot(ctx context.Context, goal string) (core.Snapshot, error)
	SnapshotAt(ctx context.Context, goal string, seq uint64) (core.Snapshot, error)
	Spec(ctx context.Context, goal string) (event.GoalSpec, error)
	Events(ctx context.Context, goal string, after uint64) ([]event.Event, error)
	Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error]
	Watch(ctx context.Context, goal, op string, attempt int, live Live) error
	Diff(ctx context.Context, goal string) (string, error)
	Output(ctx context.Context, goal, op string) (event.Text, error)
	Whole(context.Context, event.Text) (string, error)
	Report(ctx context.Context, goal string, f ReportFormat) (string, error)
	Audit(ctx context.Context, goal string) (ledger.Audit, error)
	Held(ctx context.Context, goal string) (bool, error)
	Worktrees(ctx context.Context) ([]WorktreeOf, error)
	// Bundle writes a goal as one portable file, ExportLines its events alone.
	Bundle(ctx context.Context, goal string, out io.Writer) error
	ExportLines(ctx context.Context, goal string, private bool, out io.Writer) error
	Search(ctx context.Context, q recall.Query, here string) (recall.Answer, error)
	// Event is an event as a text that holds everything of it.
	Event(ctx context.Context, ref string) (string, error)
}

// Teller is the part that sends what people say to a goal.
type Teller interface {
	Say(ctx context.Context, goal, text string, mode event.MessageMode) error
	Approve(ctx context.Context, goal string, a Answer) error
	Deny(ctx context.Context, goal string, a Answer) error
	Always(ctx context.Context, goal string, a Answer, rules []event.Rule, save bool) error
	Pause(ctx context.Context, goal, detail string) error
	Resume(ctx context.Context, goal string) error
	ExtendBudget(ctx context.Context, goal string, l event.Limits) error
	ChangeModel(ctx context.Context, goal, model string) error
	Cancel(ctx context.Context, goal, reason string) error
	Revise(ctx context.Context, goal string, spec event.GoalSpec) error
	Adopt(ctx context.Context, goal string) error
	Reconcile(ctx context.Context, goal string, r core.Reconcile) error
	Look(ctx context.Context, goal, op string) (Sight, error)
	Checkpoint(ctx context.Context, goal, name string) (core.Checkpoint, error)
	PlanRollback(ctx context.Context, goal, target string) (RollbackPlan, error)
	Rollback(ctx context.Context, goal string, p RollbackPlan) (core.Snapshot, error)
	PlanApply(ctx context.Context, goal string, r ApplyRequest) (ApplyPlan, error)
	Apply(ctx context.Context, goal string, p ApplyPlan) (core.Snapshot, error)
	RemoveWorktree(ctx context.Context, goal string, discard bool) error
	Fork(ctx context.Context, goal string, r ForkRequest) (Started, error)
	GiveUp(ctx context.Context, goal, to string) error
}

// Ruler is the part about what needs no question.
type Ruler interface {
	Explain(ctx context.Context, repo string, a event.Access, tests []string) (Explanation, error)
	Suggest(ctx context.Context, goal, op string) ([]event.Rule, error)
	Policy(ctx context.Context, goal string) ([]event.Rule, event.ApproveMode, error)
	ChangePolicy(ctx context.Context, goal string, c core.ChangePolicy) error
	// ListRules are the user's rules and those of the repository.
	ListRules(ctx context.Context, repo string) (rules []event.Rule, warnings []string, err error)
	SaveRules(ctx context.Context, rules []event.Rule) ([]event.Rule, error)
	DropRules(ctx context.Context, ids []string) error
	// CheckRules reads a policy file, belay.yaml or another, by its name and text.
	CheckRules(ctx context.Context, name string, text []byte) (rules []event.Rule, warnings []string, err error)
}

// Rememberer is the part about what outlives the goals of a repository.
type Rememberer interface {
	Memory(ctx context.Context, repo string) ([]memory.Item, error)
	Forget(ctx context.Context, repo string, ids []string, all bool) (Forgotten, error)
}

var _ Door = (*Service)(nil)

// Serves implements Door: this process does it itself.
func (s *Service) Serves() bool { return false }
