package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"belay/internal/core"
	"belay/internal/core/evidence"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/workspace"
)

// The looks that belay takes itself while it verifies a claim. They read, or
// run a command in a private copy of a tree: the workspace stays as it is.

func (g *Goal) check(ctx context.Context, s core.State, e core.Run) (core.Body, error) {
	of, err := core.CheckArgs(e.Op)
	if err != nil {
		return g.failed(e.Op, e.Attempt, asFault(err, fault.Internal, fault.Runtime)), nil
	}
	var c event.Criterion
	for _, x := range s.Criteria() {
		if x.ID == of.Criterion {
			c = x
		}
	}
	var r event.CheckResult
	switch e.Op.Tool {
	case core.ToolCheckRun:
		return g.runCopy(ctx, s, e, c, of)
	case core.ToolCheckReview:
		return g.review(ctx, s, e, c)
	case core.ToolCheckArtifact:
		r, err = g.artifact(ctx, s, c, of.Tree)
	default:
		r, err = g.compareTests(ctx, s, c, of)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return g.failed(e.Op, e.Attempt, asFault(err, fault.Internal, fault.Environment)), nil
	}
	return core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: event.Succeeded,
		Result: event.Result{Check: &r, Output: event.Text{Head: checkWords(r)}}}, nil
}

// checkWords is what the model is told of a look.
func checkWords(r event.CheckResult) string {
	switch {
	case len(r.Findings) > 0:
		return "found: " + strings.Join(r.Findings, "; ")
	case r.Evidence != "":
		return "found " + r.Evidence
	}
	return "found nothing against it"
}

// artifact looks for what an artifact criterion names. A file is looked for
// where it stands: it may be one that git ignores.
func (g *Goal) artifact(ctx context.Context, s core.State, c event.Criterion, tree string) (event.CheckResult, error) {
	r := event.CheckResult{Tree: tree}
	if c.Path != "" {
		f, err := g.Workspace.Stat(ctx, c.Path)
		if err == nil && !f.Absent {
			f, err = g.Workspace.Read(ctx, c.Path)
		}
		var refused *fault.Fault
		switch {
		case errors.As(err, &refused):
			r.Findings = []string{refused.Message}
		case err != nil:
			return r, err
		case f.Absent:
			r.Findings = []string{c.Path + " does not exist"}
		default:
			r.Evidence = c.Path + " with SHA-256 " + f.Hash
			if lacks := evidence.HasContent(c, f.Bytes, f.Hash); lacks != "" {
				r.Findings = []string{lacks}
			}
		}
		return r, nil
	}
	tip, err := g.Workspace.Branch(ctx, c.Branch)
	var refused *fault.Fault
	switch {
	case errors.As(err, &refused):
		r.Findings = []string{refused.Message}
		return r, nil
	case err != nil:
		return r, err
	case tip == "" && c.Branch != "":
		r.Findings = []string{"there is no branch " + c.Branch}
		return r, nil
	case c.Commit == "":
		r.Evidence = "branch " + c.Branch + " at commit " + tip
		return r, nil
	}
	return r, g.commitSince(ctx, s, c, &r)
}

// maxCommits is how many commits since the start are looked through.
const maxCommits = 1000

func (g *Goal) commitSince(ctx context.Context, s core.State, c event.Criterion, r *event.CheckResult) error {
	commits, err := g.Workspace.Commits(ctx, c.Branch, s.Workspace.Head, maxCommits)
	if err != nil {
		return err
	}
	for _, k := range commits {
		if strings.Contains(k.Message, c.Commit) {
			r.Evidence = "commit " + k.ID
			return nil
		}
	}
	where := c.Branch
	if where == "" {
		where = "HEAD"
	}
	r.Findings = []string{fmt.Sprintf("none of the %d commits on %s since the start has %q in its message", len(commits), where, c.Commit)}
	return nil
}

// copied is the workspace as a command in a private copy sees it.
type copied struct {
	workspace.Workspace
	root string
}

// Root implements workspace.Workspace.
func (c copied) Root() string { return c.root }

func (g *Goal) scratch() string {
	if g.Scratch != "" {
		return g.Scratch
	}
	return filepath.Join(os.TempDir(), "belay-scratch")
}

func (g *Goal) copyEnv(s core.State, o operation.Op, of core.CheckOf, attempt int) (tool.Env, tool.Call, string, error) {
	dir := filepath.Join(g.scratch(), tool.AttemptKey(g.ID, o.ID, attempt))
	env, call := g.env(s, o.ID), g.call(s, o, attempt)
	env.Workspace, env.ReadOnly = copied{g.Workspace, filepath.Join(dir, "copy")}, false
	args, err := json.Marshal(map[string]string{"command": of.Command})
	call.Args = args
	return env, call, dir, err
}

// runCopy runs a command in a private copy of a tree.
func (g *Goal) runCopy(ctx context.Context, s core.State, e core.Run, c event.Criterion, of core.CheckOf) (core.Body, error) {
	t, err := g.Tools(s).Lookup("run_test")
	r, ok := t.(tool.Runner)
	if err != nil || !ok {
		return g.failed(e.Op, e.Attempt, fault.New(fault.Internal, fault.Runtime, "nothing here can run a test", "")), nil
	}
	env, call, dir, err := g.copyEnv(s, e.Op, of, e.Attempt)
	if err == nil {
		err = g.makeCopy(ctx, s, c, of, dir)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		removeCopy(dir)
		return g.failed(e.Op, e.Attempt, fault.New(fault.Storage, fault.Environment, fmt.Sprintf("a private copy could not be made in %s: %v", g.scratch(), err),
			"make room there, or name another folder with BELAY_SCRATCH, which belay may write and commands may see")), nil
	}
	failpoint.Hit(failpoint.RunBefore)
	b, err := g.runWith(ctx, r, env, call, e)
	if ctx.Err() == nil {
		removeCopy(dir)
	}
	return b, err
}

// probeCopy finds the run in a private copy that an earlier worker started.
func (g *Goal) probeCopy(ctx context.Context, s core.State, e core.Probe) (core.Body, error) {
	of, err := core.CheckArgs(e.Op)
	t, lost := g.Tools(s).Lookup("run_test")
	p, ok := t.(tool.Prober)
	if err != nil || lost != nil || !ok {
		return g.unknown(e.Op, e.Attempt, "probe", event.Result{}, "no tool of this version can look at it"), nil
	}
	env, call, dir, err := g.copyEnv(s, e.Op, of, e.Attempt)
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.ProbeBefore)
	f, err := p.Probe(ctx, env, call)
	shown(env)
	if ctx.Err() == nil {
		removeCopy(dir)
	}
	return g.probed(ctx, e, "reattached", f, err)
}

// makeCopy writes a tree into a directory of its own, with the installed
// dependencies that git ignores linked in: they are not the goal's work, and
// without them no test would run. A copy that is there already is whole: the
// mark beside it is made last.
func (g *Goal) makeCopy(ctx context.Context, s core.State, c event.Criterion, of core.CheckOf, dir string) error {
	ready, tree := filepath.Join(dir, "ready"), of.Tree
	if _, err := os.Stat(ready); err == nil {
		return nil
	}
	if err := g.takeIn(ctx, s.Packs.All(), tree); err != nil {
		return err
	}
	if held, err := g.Workspace.Holds(ctx, tree); err == nil && !held {
		// A mixed tree that was made at another place, or lost with the power: it
		// is made again, and has the same name.
		of.Tree = s.Revision.Tree
		if _, err := g.compareTests(ctx, s, c, of); err != nil {
			return err
		}
	}
	removeCopy(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root := filepath.Join(dir, "copy")
	if err := g.Workspace.Materialise(ctx, tree, root); err != nil {
		return err
	}
	entries, err := g.Workspace.Entries(ctx, tree)
	if err != nil {
		return err
	}
	if err := linkInstalled(g.Workspace.Root(), root, entries); err != nil {
		return err
	}
	return os.WriteFile(ready, nil, 0o600)
}

// installed are the folders in which package managers put what a project
// depends on.
var installed = []string{"node_modules", ".venv", "venv", "vendor", "bower_components", "Pods", ".yarn"}

func linkInstalled(from, to string, entries []workspace.Entry) error {
	seen := map[string]bool{}
	for _, e := range entries {
		for dir := path.Dir(e.Path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			for _, name := range installed {
				if err := linkOne(filepath.Join(from, dir, name), filepath.Join(to, dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func linkOne(src, dst string) error {
	if info, err := os.Stat(src); err != nil || !info.IsDir() {
		return nil
	}
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		return nil // the tree has it
	}
	real, err := filepath.EvalSymlinks(src)
	if err != nil {
		return nil
	}
	return os.Symlink(real, dst)
}

// removeCopy removes a private copy. What a test made unwritable is made
// writable first; what still stays is removed with the next sweep.
func removeCopy(dir string) {
	defer func() {
		if info, err := os.Lstat(filepath.Dir(dir)); err == nil && info.IsDir() {
			_ = os.Remove(filepath.Dir(dir)) // if it was the last one
		}
	}()
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// Sweep removes the private copies of this goal that a crash left behind. Only
// the holder of the goal's ticket may call it, before anything runs.
func (g *Goal) Sweep(s core.State) {
	list, err := os.ReadDir(g.scratch())
	if err != nil {
		return // there is none, as a rule
	}
	used := map[string]bool{}
	for _, o := range s.Open {
		used[tool.AttemptKey(g.ID, o.ID, o.Attempt)] = o.Phase == operation.Started
	}
	for _, d := range list {
		if strings.HasPrefix(d.Name(), g.ID+".") && !used[d.Name()] {
			removeCopy(filepath.Join(g.scratch(), d.Name()))
		}
	}
}
