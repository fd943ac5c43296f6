package core

import (
	"encoding/json"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

// Input is one thing that happened, with the values that the core cannot make
// itself.
type Input struct {
	Now moment.Time
	// Seed is 16 random bytes drawn for this input; ids and jitter come from it.
	Seed [16]byte
	// By is who it comes from.
	By event.Actor
	// Fence is the fence of the ticket under which a worker's input was made; 0
	// for people.
	Fence uint64
	// StoreFence is the fence of the goal's row. It is ahead of the events'
	// between a claim that took the goal over and the first event under it;
	// whatever is recorded meanwhile carries it.
	StoreFence uint64
	Body       Body
}

// Body is the content of an input.
type Body interface{ isInput() }

// What people say.
type (
	// Start begins a goal.
	Start struct {
		Goal     string
		Spec     event.GoalSpec
		Settings event.Settings
		Repo     string
		// Worktree is set when Repo is a checkout of the goal's own.
		Worktree *event.Worktree
		// Parent, ParentOp, Depth and Share are set for a child goal.
		Parent, ParentOp string
		Depth            int
		Share            event.Amount
		// Failed says why a child could not be given a place to work at: it is
		// on record, and has ended.
		Failed *fault.Fault
	}
	// Say is a message of the user. Mode answer answers a question.
	Say struct {
		Mode event.MessageMode
		Text string
	}
	// Approve answers a pending approval with yes; empty Op means the only one.
	// Intent, when set, must be the pending one: the person answers what they
	// were shown. With no approval pending it accepts a claim or a manual
	// criterion.
	Approve struct {
		Op, Intent string
		Criterion  string
	}
	// Deny answers with no.
	Deny struct {
		Op, Intent string
		Criterion  string
		Reason     string
	}
	// Pause stops the goal until Resume.
	Pause struct{ Detail string }
	// Resume goes on.
	Resume struct{}
	// Cancel ends the goal.
	Cancel struct{ Reason string }
	// Revise replaces the spec.
	Revise struct{ Spec event.GoalSpec }
	// ExtendBudget replaces the limits.
	ExtendBudget struct{ Limits event.Limits }
	// ChangeModel has another model answer from now on.
	ChangeModel struct{ Model string }
	// ChangePolicy adds and removes rules of this goal, and with Approve set
	// says who answers from now on. Rules that are removed are named by id.
	ChangePolicy struct {
		Add     []event.Rule
		Remove  []string
		Approve event.ApproveMode
	}
	// Reconcile settles an unknown outcome.
	Reconcile struct {
		Op      string
		Outcome event.Outcome
		Retry   bool
		Reason  string
	}
	// Adopt takes the directory at Place, as it is, for the goal's workspace.
	Adopt struct{ Place, Root string }
	// MarkCheckpoint names the state of the workspace. Observation is what it is
	// now, nil where the goal is being worked on: then the latest revision on
	// record is named.
	MarkCheckpoint struct {
		Name        string
		Observation *Observation `json:"-"` // no part of what is asked for
	}
	// Rollback has the workspace made what it was. Observation is what it is now.
	Rollback struct {
		Of          RollbackOf
		Observation Observation
	}
	// ApplyResult has the goal's result brought elsewhere. Observation is what
	// its workspace is now.
	ApplyResult struct {
		Of          ApplyOf
		Observation Observation
	}
	// GiveUp ends the right to advance the goal here. Observation is what its
	// workspace is now.
	GiveUp struct {
		To          string
		Observation Observation
	}
	// Import makes a goal that came in a file one of this place: the directory
	// Repo holds its tree. A copy is only looked at.
	Import struct {
		Place, Repo string
		Copy        bool
		Mine
	}
	// Fork begins a goal where goal From stood after its event At: the state that
	// it is stepped on is the fold of copies of that goal's events. Repo holds
	// Tree.
	Fork struct {
		From     string
		At       uint64
		Hash     string
		Tree     string
		Place    string
		Repo     string
		Worktree *event.Worktree
		Text     string
		// Foreign says that the history came in a file; Mine counts then.
		Foreign bool
		Mine
	}
	// RemoveWorktree has the goal's own checkout removed, with Discard also when
	// its result is nowhere else.
	RemoveWorktree struct {
		Observation Observation
		Discard     bool
	}
	// Forget has something remembered no longer.
	Forget struct{ Word event.MemoryForgotten }
	// Delegate starts a child goal for a person. The zero values of Model,
	// Approve and Plan leave the goal's own.
	Delegate struct {
		Spec     event.GoalSpec
		Percent  int64
		ReadOnly bool
		Model    string
		Approve  event.ApproveMode
		Plan     event.PlanMode
	}
	// Sighted settles an unknown outcome by what a look at the world
	// established, for a person who asked for the look.
	Sighted struct{ Found event.Reconciliation }
)

// What a goal is told by those above and below it, by whatever process.
type (
	// ChildDone says how a child ended.
	ChildDone struct{ Ended event.ChildEnded }
	// Ordered says what the parent wants; Seq is the parent's event that it
	// follows from.
	Ordered struct {
		Order event.ChildOrder
		Seq   uint64
	}
)

// What a worker says.
type (
	// Claimed says that the worker holds the goal's ticket.
	Claimed struct {
		Worker   string
		Takeover bool
		// Place is the state directory that the worker belongs to, "" when places
		// are not told apart.
		Place string
	}
	// Poke says that time has passed or that the ledger has news.
	Poke struct{}
	// Blocked says that the worker holds the ticket but cannot work on the goal
	// here and now: its directory is taken or gone, its model cannot be opened.
	Blocked struct{ Fault fault.Fault }
	// Released says that the worker lets go; Detail says why.
	Released struct{ Detail string }
)

// Results of effects.
type (
	// Attached is the result of Attach. Memory is what earlier goals left,
	// Environment what the tree is made of and what the machine offers for it.
	Attached struct {
		Workspace   event.WorkspaceAttached
		Memory      event.MemoryRecalled
		Environment map[string]string
	}
	// AttachFailed says that the workspace cannot be used at all.
	AttachFailed struct{ Fault fault.Fault }
	// Composed is the result of Compose: the request is ready to be sent.
	Composed struct {
		// Head is the seq of the state it was composed from; Taken the user
		// messages in it.
		Head  uint64
		Taken []uint64
		// Tokens is the counted input, an upper bound.
		Tokens int64
		// Cut is how far a compaction should go to leave the tail of the
		// conversation: the seq of an answered request, 0 for none.
		Cut uint64
		// Window and MaxOutput are the model's, 0 when unknown.
		Window, MaxOutput int64
		// Prices in millionths of a US dollar per million tokens.
		InputPrice, OutputPrice int64
		PriceKnown              bool
		Digest                  string
		Bytes, StableBytes      int64
	}
	// Replied is a whole response.
	Replied struct {
		Request   string
		Response  event.ModelResponded
		Proposals []Proposal
	}
	// ReplyFailed is a request without a response. Used is what the provider
	// told of its usage, nil when it told nothing.
	ReplyFailed struct {
		Request string
		Fault   fault.Fault
		Used    *event.Amount
	}
	// Prepared is the result of Prepare: what the operation would do now.
	Prepared struct {
		Op string
		// Fault rejects the operation.
		Fault *fault.Fault
		// Action is everything the intent's hash covers beside tool and
		// arguments.
		Action      Action
		Files       []event.FilePrint
		Preview     event.Text
		Key         string
		TimeoutMS   int64
		Destructive bool
		// Review is what a reviewer's request takes.
		Review Counted
		// Tree is the workspace as it is now, and what changed since the state's
		// revision.
		Observation Observation
	}
	// Ended is the outcome of an attempt.
	Ended struct {
		Op      string
		Attempt int
		Outcome event.Outcome
		Result  event.Result
		// Recovered is "reattached" or "probe" when the attempt was started by
		// an earlier holder.
		Recovered string
		// Instructions are the repository's words in folders that it came to.
		Instructions []event.InstructionsFound
		// After is what the workspace is now, where the executor has looked.
		After *Observation
		// Commit is what an apply to a branch made.
		Commit string
	}
	// NeverHappened is a probe's finding that the world is as before.
	NeverHappened struct {
		Op      string
		Attempt int
	}
	// Packed is the result of Pack.
	Packed event.WorkspacePacked
	// Moved is the result of Move: the directory Root holds Tree, Written paths
	// of it written or removed for that.
	Moved struct {
		Root, Tree string
		Written    int
	}
	// Unmoved says why the directory at the worker's place cannot hold the
	// goal's tree.
	Unmoved struct{ Fault fault.Fault }
	// Spawned is the result of Spawn: the child's stream exists.
	Spawned struct{ Child string }
	// Commanded is the result of Command: the child has it on record, or has
	// ended.
	Commanded struct {
		Child string
		Order event.ChildOrder
		Seq   uint64
	}
	// Told is the result of Tell: the parent has it on record.
	Told struct{}
	// Observed is the result of Observe.
	Observed struct {
		Observation Observation
		// Symbols are the facts of the index, when they were asked for.
		Symbols map[string]string
	}
)

// Counted is the size of a request that is not sent yet, and the prices of the
// model in millionths of a US dollar per million tokens.
type Counted struct {
	// Tokens is the counted input, an upper bound; MaxOutput the model's.
	Tokens, MaxOutput       int64
	InputPrice, OutputPrice int64
	PriceKnown              bool
}

// Action is what identifies an operation beside its tool and arguments.
type Action struct {
	Dir     string   `json:"dir,omitempty"`
	Env     []string `json:"env,omitempty"`
	Sandbox string   `json:"sandbox,omitempty"`
	// Network is what policy found that it reaches; the core sets it.
	Network string            `json:"network,omitempty"`
	Inputs  []event.FilePrint `json:"inputs,omitempty"`
}

// Observation is the workspace as it is.
type Observation struct {
	Tree string
	// Git is where git stands, nil when it was not looked at.
	Git *event.Standing
	// Index is what is staged in the user's repository, "" when it was not seen.
	Index string
	// From is the tree that Changes are relative to.
	From    string
	Changes []event.Change
	More    int
	// Diff is the whole diff against the baseline, set when Tree differs from
	// the tree of the last diff.
	Diff        event.Text
	DiffChanges []event.Change
	DiffMore    int
	// Instructions are the repository's words that are among the changes.
	Instructions []event.InstructionsFound
	// Environment is what the tree is made of now, when a file changed in which
	// dependencies stand.
	Environment map[string]string
}

// Proposal is one tool call of a response, with what the tool says of it by
// its arguments alone.
type Proposal struct {
	CallID string
	Tool   string
	Effect event.EffectClass
	Args   json.RawMessage
	Access event.Access
	// Fault is set when the tool is unknown or the arguments do not fit.
	Fault *fault.Fault
}

func (Start) isInput()          {}
func (Say) isInput()            {}
func (Approve) isInput()        {}
func (Deny) isInput()           {}
func (Pause) isInput()          {}
func (Resume) isInput()         {}
func (Cancel) isInput()         {}
func (Revise) isInput()         {}
func (ExtendBudget) isInput()   {}
func (ChangeModel) isInput()    {}
func (ChangePolicy) isInput()   {}
func (Reconcile) isInput()      {}
func (Sighted) isInput()        {}
func (Forget) isInput()         {}
func (MarkCheckpoint) isInput() {}
func (Rollback) isInput()       {}
func (ApplyResult) isInput()    {}
func (RemoveWorktree) isInput() {}
func (GiveUp) isInput()         {}
func (Import) isInput()         {}
func (Fork) isInput()           {}
func (Adopt) isInput()          {}
func (Packed) isInput()         {}
func (Moved) isInput()          {}
func (Unmoved) isInput()        {}
func (Claimed) isInput()        {}
func (Poke) isInput()           {}
func (Blocked) isInput()        {}
func (Released) isInput()       {}
func (Attached) isInput()       {}
func (AttachFailed) isInput()   {}
func (Composed) isInput()       {}
func (Replied) isInput()        {}
func (ReplyFailed) isInput()    {}
func (Prepared) isInput()       {}
func (Ended) isInput()          {}
func (NeverHappened) isInput()  {}
func (Observed) isInput()       {}
