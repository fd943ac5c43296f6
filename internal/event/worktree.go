package event

// Standing is where git stands in a working tree.
type Standing struct {
	Head   string `json:"head,omitempty"`
	Branch string `json:"branch,omitempty"` // "" when HEAD is detached
	// Doing is what is going on, in words: a merge, a rebase.
	Doing string `json:"doing,omitempty"`
}

// Worktree is a checkout of a goal's own, made at the exact state in which the
// user's directory was.
type Worktree struct {
	// Of is the directory that it was made from: what belay apply brings the
	// result to.
	Of string `json:"of"`
	// Dir is the top of the checkout.
	Dir    string `json:"dir"`
	Head   string `json:"head,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Copied and Linked are the ignored paths that it was given.
	Copied []string `json:"copied,omitempty"`
	Linked []string `json:"linked,omitempty"`
	// Setup are the shell commands by which the user has it prepared, in order,
	// before the model is asked for the first time.
	Setup []string `json:"setup,omitempty"`
}

// The types of what happens to a goal's own checkout and its result.
const (
	TypeResultApplied   Type = "result_applied"
	TypeWorktreeRemoved Type = "worktree_removed"
	TypeHeadMoved       Type = "head_moved"
	TypeHeadAnswered    Type = "head_answered"
	TypeGoalGivenUp     Type = "goal_given_up"
	TypeGoalImported    Type = "goal_imported"
	TypeGoalForked      Type = "goal_forked"
)

// ResultApplied says that what a goal did was brought to the user's directory or
// repository, by the user's word.
type ResultApplied struct {
	// How is patch (into the files) or branch (as commits on a new branch).
	How  string `json:"how"`
	Into string `json:"into"`
	// Base is the tree that the goal found, Result the one that it left.
	Base   string `json:"base"`
	Result string `json:"result"`
	// From and Tree are the directory's before and after, of a patch.
	From string `json:"from,omitempty"`
	Tree string `json:"tree,omitempty"`
	// Marked are the files that were given conflict marks, or left as they were,
	// because both sides had changed them in ways that do not fit.
	Marked []string `json:"marked,omitempty"`
	// Branch and Commit are what was made, of a branch.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// WorktreeRemoved says that a goal's own checkout was removed, by the user's
// word. The tree that it held stays known by its name.
type WorktreeRemoved struct {
	Dir  string `json:"dir"`
	Tree string `json:"tree"`
	// Discarded says that its result had been applied nowhere.
	Discarded bool `json:"discarded,omitempty"`
}

// HeadMoved says that git stands elsewhere in the workspace: another commit,
// another branch, a merge or a rebase that has begun or ended.
type HeadMoved struct {
	From Standing `json:"from,omitzero"`
	To   Standing `json:"to"`
	// By is an op_id, "external", or "" where the directory is another one.
	By string `json:"by,omitempty"`
	// Asked says that it was moved by somebody else under the running goal: the
	// user is asked whether it goes on.
	Asked bool `json:"asked,omitempty"`
}

// HeadAnswered is the user's word on a HEAD that somebody else moved.
type HeadAnswered struct {
	GoOn bool `json:"go_on"`
}

// GoalGivenUp ends the right to advance the goal at a place, under a new fence: it
// goes on where the file that it was exported to is imported.
type GoalGivenUp struct {
	To    string `json:"to"`
	Place string `json:"place,omitempty"`
	// Tree is the workspace's tree then.
	Tree string `json:"tree"`
}

// GoalImported says that the goal came in a file, under a new fence. What the
// user's configuration says at the new place counts from here on.
type GoalImported struct {
	From  string `json:"from,omitempty"`
	Place string `json:"place,omitempty"`
	// Repo is the directory that holds the tree there.
	Repo string `json:"repo,omitempty"`
	Tree string `json:"tree,omitempty"`
	// Copy says that the goal goes on where it was exported: this is to look at.
	Copy      bool     `json:"copy,omitempty"`
	Rules     []Rule   `json:"rules,omitempty"`
	Protected []string `json:"protected,omitempty"`
	Sandbox   string   `json:"sandbox,omitempty"`
}

// GoalForked begins a goal where another one stood after an event. The events
// before this one are copies of that goal's, with the same ids and times; what
// was open then has been closed.
type GoalForked struct {
	From string `json:"from"`
	// At is the last event that was copied, Hash its hash in the other stream.
	At   uint64 `json:"at"`
	Hash string `json:"hash"`
	Tree string `json:"tree"`
	// Place, Repo and Worktree are where it works.
	Place    string    `json:"place,omitempty"`
	Repo     string    `json:"repo"`
	Worktree *Worktree `json:"worktree,omitempty"`
	// Limits are of a budget of its own, of which nothing is used.
	Limits Limits `json:"limits,omitzero"`
	// Foreign says that the history came in a file: what the user's configuration
	// says here, the next three, stands in place of what it says.
	Foreign   bool     `json:"foreign,omitempty"`
	Rules     []Rule   `json:"rules,omitempty"`
	Protected []string `json:"protected,omitempty"`
	Sandbox   string   `json:"sandbox,omitempty"`
}

// EventType returns TypeGoalGivenUp.
func (GoalGivenUp) EventType() Type { return TypeGoalGivenUp }

// EventType returns TypeGoalImported.
func (GoalImported) EventType() Type { return TypeGoalImported }

// EventType returns TypeGoalForked.
func (GoalForked) EventType() Type { return TypeGoalForked }

// EventType returns TypeHeadMoved.
func (HeadMoved) EventType() Type { return TypeHeadMoved }

// EventType returns TypeHeadAnswered.
func (HeadAnswered) EventType() Type { return TypeHeadAnswered }

// EventType returns TypeResultApplied.
func (ResultApplied) EventType() Type { return TypeResultApplied }

// EventType returns TypeWorktreeRemoved.
func (WorktreeRemoved) EventType() Type { return TypeWorktreeRemoved }

func init() {
	register[ResultApplied]()
	register[WorktreeRemoved]()
	register[HeadMoved]()
	register[HeadAnswered]()
	register[GoalGivenUp]()
	register[GoalImported]()
	register[GoalForked]()
}
