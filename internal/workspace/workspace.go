// Package workspace is the port to the repository that a goal works on:
// confined paths, byte-faithful edits, revision, diff and checkpoints.
//
// It must not know goals, models or the ledger. Its promise: nothing outside
// the root is reachable, the user's .git is never written, and a revision is
// content, whoever changed it.
package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"belay/internal/event"
)

// Workspace is one directory under belay's care. Methods return *fault.Fault
// errors (through errors.As) for everything a model or a person can mend.
type Workspace interface {
	// Root is the absolute path, symbolic links resolved.
	Root() string
	// Attach looks at the directory as it is found: layout, HEAD, branch, dirty
	// paths, and the tree hash of now.
	Attach(ctx context.Context) (Attached, error)
	// Observe returns the tree hash of now: tracked and untracked files that
	// are not ignored, byte for byte, nested repositories included. It keeps
	// the tree's objects, so that Changes, Diff, Materialise and Restore work
	// on it later.
	Observe(ctx context.Context) (tree string, err error)
	// Changes lists what differs between two observed trees, sorted by path.
	Changes(ctx context.Context, from, to string) ([]event.Change, error)
	// Diff is the unified diff between two observed trees (git's format, no
	// colours, binary files named only).
	Diff(ctx context.Context, from, to string) ([]byte, error)
	// Keep protects an observed tree from pruning under a name.
	Keep(ctx context.Context, name, tree string) error
	// Materialise writes an observed tree into an empty directory.
	Materialise(ctx context.Context, tree, dir string) error
	// Holds reports whether a tree can be looked at here: it was observed here or
	// came with a pack.
	Holds(ctx context.Context, tree string) (bool, error)
	// Export packs an observed tree: whole, or, with a base that was observed
	// too, what it has more than that. The cost follows what differs.
	Export(ctx context.Context, tree, base string) (io.ReadCloser, error)
	// Import takes in what Export gave, at another place. A pack that does not
	// arrive whole and unchanged is refused and leaves nothing.
	Import(ctx context.Context, r io.Reader) error
	// MoveIn makes the directory hold a tree and returns how many paths it wrote
	// or removed. It does so only over content that is nobody else's: each path
	// that stands there is one of the tree, or as in one of the known trees, all
	// of them in the same. Anything else is a fault of kind foreign_content and
	// leaves the directory as it is. Interrupted, it can be called again, and
	// folders that it had emptied go then. Files that are ignored are never
	// touched, nor is .git.
	MoveIn(ctx context.Context, tree string, known []string) (written int, err error)
	// Restore is MoveIn for a rollback: what Leave names stays as it is, and so
	// does what stands in the way and is no part of the workspace, as long as
	// Leave names it; the index of the user's repository is restored after the
	// files, and left are the paths whose entries had to be left alone beyond
	// those that Staged.Leave names. Interrupted, it can be called again.
	Restore(ctx context.Context, r Restore) (written int, left []string, err error)
	// InTheWay are the paths of a rollback from one observed tree to another that
	// have to be left alone, though the goal changed them: something stands there
	// now that is no part of the workspace, or the rules of the tree to come
	// ignore it.
	InTheWay(ctx context.Context, from, to string) ([]string, error)
	// Staged keeps what is staged in the user's repository and returns its name,
	// "" where there is no repository. It is the same for the same content.
	Staged(ctx context.Context) (index string, err error)
	// StagedChanges are the paths whose entries differ between two names that
	// Staged gave, sorted: a commit alone changes none. Lost are those of them
	// whose later bytes the repository does not hold any more.
	StagedChanges(ctx context.Context, from, to string) (changes []event.Change, lost []string, err error)
	// Present is Observe with the list of files that make the tree, at no further
	// cost: it asks no store.
	Present(ctx context.Context) (tree string, files []Entry, err error)
	// Content reads a file that Present listed, as it was then: when other bytes
	// stand there by now, or more than limit, it is a fault of kind not_found or
	// too_large.
	Content(ctx context.Context, e Entry, limit int64) ([]byte, error)
	// Entries lists the files of an observed tree, sorted by path.
	Entries(ctx context.Context, tree string) ([]Entry, error)
	// Contents reads files of an observed tree, at most limit bytes of each.
	// What the tree does not have is left out.
	Contents(ctx context.Context, tree string, paths []string, limit int64) (map[string][]byte, error)
	// Mix makes, beside the directory, the tree that has base's files but for the
	// paths that pick names: those are as in over, present or not.
	Mix(ctx context.Context, base, over string, pick func(path string) bool) (tree string, err error)
	// Merge makes, beside the directory, the tree that has in it what theirs
	// changed of base and what ours changed of it. A path that both changed in
	// ways that do not fit is a conflict: with mark the tree holds it with git's
	// conflict marks (or ours, where marks have no place), without it Tree is
	// empty then.
	Merge(ctx context.Context, base, ours, theirs string, mark bool) (Merged, error)
	// Commit makes one commit in the user's repository, by their word, and a new
	// branch that names it. Nothing else there is touched, and no hook runs.
	Commit(ctx context.Context, c CommitOf) (Committed, error)
	// Standing is where git stands in the directory, without running git. The
	// zero Standing is that of a directory in no repository.
	Standing(ctx context.Context) (event.Standing, error)
	// Branch is the commit that a branch of the user's repository names, "" when
	// there is none.
	Branch(ctx context.Context, name string) (commit string, err error)
	// Commits lists what the user's repository has in from (a branch, or HEAD
	// for "") and not in since (a commit, or "" for the beginning), newest first,
	// at most limit.
	Commits(ctx context.Context, from, since string, limit int) ([]Commit, error)
	// Files lists the paths of now that are not ignored, sorted.
	Files(ctx context.Context) ([]string, error)

	// Read reads a file. Path is relative to the root, slash-separated.
	Read(ctx context.Context, path string) (File, error)
	// Stat is Read without the bytes for paths that may be absent: the zero
	// File with Absent set is no error.
	Stat(ctx context.Context, path string) (File, error)
	// Apply writes all edits or none: every Base is compared first, each write
	// goes through a temporary file, fsync and rename. A crash in between
	// leaves each single file either as before or as after.
	Apply(ctx context.Context, edits []Edit) error
	// Clean removes temporary files that a crash of Apply left behind. A crash
	// in the middle of several edits is taken back first, unless all of them
	// had been made: call it before probing what an interrupted Apply did. Only
	// the holder of the directory lock may call it.
	Clean(ctx context.Context) error
	// Close releases the directory lock.
	Close() error
}

// Stores are where the observed states of all workspaces of a machine are kept.
type Stores interface {
	// Collect removes every state that is not kept from each store that nobody
	// uses, or with dry only says what it would. It asks keep once those stores
	// are locked, so that the answer holds until it is done. Interrupted, it has
	// lost nothing that is kept.
	Collect(ctx context.Context, keep func(context.Context) (Keep, error), dry bool) ([]Collected, error)
}

// Keep is what a collection must keep.
type Keep struct {
	// Names are those of trees and of what was staged.
	Names map[string]bool
	// Knows reports whether a goal is one of those that Names was made from; a
	// store with states of another goal is left alone.
	Knows func(goal string) bool
}

// Collected is what a collection removed from one store.
type Collected struct {
	Store   string `json:"store"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	// Skipped says why the store was left alone.
	Skipped string `json:"skipped,omitempty"`
}

// Restore is what a rollback makes of a workspace.
type Restore struct {
	// Tree is the tree to come, From the one that it was planned from.
	Tree, From string
	// Leave are paths that stay as they are.
	Leave []string
	// Staged is what becomes of the index; nil leaves it alone.
	Staged *Restage
}

// Restage is what becomes of the index of the user's repository.
type Restage struct {
	// Index is what Staged had named, From what it named when this was planned.
	Index, From string
	// Leave are paths whose entries stay as they are.
	Leave []string
}

// Entry is one file of a tree.
type Entry struct {
	Path string
	// ID identifies the bytes; Link says that they are where a link leads.
	ID   string
	Link bool
}

// Merged is a merge of trees.
type Merged struct {
	Tree      string
	Conflicts []Conflict
}

// CommitOf is a commit to be made on a new branch of the user's repository.
type CommitOf struct {
	Branch string
	// Start is the commit at which the goal found the repository, Parent the one
	// that the new one stands on: the same, or the last that the goal made
	// itself; then Clone is the git directory that they are in. Both may be "".
	Start, Parent, Clone string
	// Base and Result are the trees between which the goal's changes are.
	Base, Result string
	Message      string
	// At is the time that the commit carries.
	At time.Time
	// Dry looks whether it can be made and writes nothing.
	Dry bool
}

// Committed is what was made, or would be.
type Committed struct {
	Commit string
	// Commits counts them, Changed the files of the last one.
	Commits, Changed int
	Conflicts        []Conflict
}

// Conflict is a path that two sides changed in ways that do not fit.
type Conflict struct {
	Path string `json:"path"`
	// Why says what each side did, in words; Text shows the places, with git's
	// conflict marks, where both sides are texts.
	Why  string `json:"why"`
	Text string `json:"text,omitempty"`
}

// Bring is what a checkout of its own gets: the ignored files, relative to the
// top of the repository, with * and ?, and the commands that prepare it.
type Bring struct {
	Copy []string `json:"copy,omitempty"`
	Link []string `json:"link,omitempty"`
	// Never takes away from both.
	Never []string `json:"never,omitempty"`
	// Setup are shell commands that prepare the checkout, in order. The goal runs
	// them; making the checkout does not.
	Setup []string `json:"setup,omitempty"`
}

// Checkouts keeps the checkouts of goals that have one of their own.
type Checkouts interface {
	// Make makes a checkout of a directory at the exact state in which that is,
	// submodules and nested repositories included, with nothing in it that leads
	// a command to the user's repository. It is half made until Keep says that
	// the goal is on record.
	Make(ctx context.Context, from, goal string, bring Bring) (Isolated, error)
	Keep(dir string) error
	// Drop removes a checkout, given by Isolated.Dir. One that is gone is no
	// error.
	Drop(dir string) error
	// Abandoned lists what was being made when its maker died, by goal.
	Abandoned() (map[string]string, error)
}

// Isolated is a checkout of a goal's own.
type Isolated struct {
	// Root is the directory to work in, Dir the top of the checkout.
	Root, Dir    string
	Head, Branch string
	// Copied and Linked are the ignored paths that it was given.
	Copied, Linked []string
}

// Commit is one commit of the user's repository.
type Commit struct{ ID, Message string }

// Attached is the workspace as it was found.
type Attached struct {
	Root         string
	Git          string // "", "repository", "worktree" or "submodule"
	Head, Branch string
	// Doing is what is going on in git, in words.
	Doing        string
	Dirty        []string
	Tree         string
	TestCommands []string
	// Instructions is the beginning of the file at the root with the
	// repository's words for agents, InstructionsPath its name, "" for none.
	Instructions, InstructionsPath string
	// Files are the files of Tree, sorted by path.
	Files []Entry
}

// File is a regular file's content and identity.
type File struct {
	Path   string // as given, cleaned
	Bytes  []byte
	Hash   string // hex SHA-256 of Bytes, "" when Absent
	Mode   fs.FileMode
	Absent bool
}

// Edit replaces one file's content, or removes it.
type Edit struct {
	Path string
	// Base is the hash that the present bytes must have, "" for absent.
	Base string
	// Content are the new bytes; nil with Remove.
	Content []byte
	Remove  bool
	// Mode is for new files; an existing file keeps its own. 0 means 0644.
	Mode fs.FileMode
}

// Held is the error of opening a workspace for mutation while another goal
// mutates it.
type Held struct {
	Root string
	// Goal and PID name the holder; empty and 0 when it is not known, because
	// it works with another state directory.
	Goal string
	PID  int
}

func (h *Held) Error() string {
	who := "another belay, with another state directory"
	if h.PID != 0 {
		who = fmt.Sprintf("goal %s (process %d)", h.Goal, h.PID)
	}
	return fmt.Sprintf("%s is being changed by %s: one goal at a time mutates one directory (wait for it, pause or cancel it, or isolate this goal in a worktree)", h.Root, who)
}

// InstructionNames are the files in which a repository keeps its words for
// agents, by preference: of one folder, the first that is there counts.
func InstructionNames() []string { return []string{"AGENTS.md", "CLAUDE.md"} }

// RootInstructionNames are those that count at the root alone, after the
// others.
func RootInstructionNames() []string {
	return []string{".github/copilot-instructions.md", ".cursorrules", "GEMINI.md"}
}
