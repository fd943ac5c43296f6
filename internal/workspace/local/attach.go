package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belay/internal/workspace"
)

const (
	// maxDirty caps Attached.Dirty.
	maxDirty = 200
	// maxInstructions caps Attached.Instructions, in bytes.
	maxInstructions = 32 << 10
)

// Attach implements workspace.Workspace. It writes nothing outside belay's
// state, and runs no program that the repository names.
func (w *Workspace) Attach(ctx context.Context) (workspace.Attached, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := workspace.Attached{Root: w.path}
	var err error
	if out.Tree, err = w.observe(ctx); err != nil {
		return out, err
	}
	out.Files = w.entries()
	g := gitAbove(w.path)
	if g.found() {
		out.Git = layoutOf(g)
		at, err := w.Standing(ctx)
		if err != nil {
			return out, err
		}
		out.Head, out.Branch, out.Doing = at.Head, at.Branch, at.Doing
		if out.Dirty, err = w.dirty(ctx, g); err != nil {
			return out, err
		}
	}
	files, err := w.files(ctx)
	if err != nil {
		return out, err
	}
	out.TestCommands = w.testCommands(files)
	for _, name := range append(workspace.InstructionNames(), workspace.RootInstructionNames()...) {
		if words := w.head32k(name); strings.TrimSpace(string(words)) != "" {
			out.Instructions, out.InstructionsPath = string(words), name
			break
		}
	}
	return out, nil
}

// head32k reads the beginning of a file that belay itself looks at, and
// nothing when it is not there or is no text that can be read.
func (w *Workspace) head32k(path string) []byte {
	t, err := w.locate(path)
	if err != nil || t.absent() || t.regular() != nil {
		return nil
	}
	f, err := w.root.Open(t.real)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, maxInstructions)
	n := 0
	for n < len(b) {
		m, err := f.Read(b[n:])
		n += m
		if err != nil {
			break
		}
	}
	if n == maxInstructions {
		return []byte(strings.ToValidUTF8(string(b), ""))
	}
	return b[:n]
}

func layoutOf(g gitDir) string {
	fi, err := os.Stat(filepath.Join(g.top, ".git"))
	switch {
	case err == nil && fi.IsDir():
		return "repository"
	case g.dir != g.common:
		return "worktree"
	}
	// A .git file without a shared directory is how a submodule stands, and a
	// repository made with --separate-git-dir.
	if strings.Contains(filepath.ToSlash(g.dir), "/modules/") {
		return "submodule"
	}
	return "repository"
}

func (w *Workspace) repoCall(g gitDir, args ...string) call {
	return call{dir: w.path, gitDir: g.dir, workTree: g.top, args: args, okExit: 1}
}

func (w *Workspace) head(ctx context.Context, g gitDir) (head, branch string, err error) {
	out, err := w.git.run(ctx, w.repoCall(g, "rev-parse", "--quiet", "--verify", "HEAD"))
	if err != nil {
		return "", "", err
	}
	ref, err := w.git.run(ctx, w.repoCall(g, "symbolic-ref", "--quiet", "--short", "HEAD"))
	return strings.TrimSpace(string(out)), strings.TrimSpace(string(ref)), err
}

// dirty lists what differs from HEAD: staged, changed, missing and untracked
// paths. `git status` would tell, but it runs the clean filters that the
// repository configures; so git is only asked for names and recorded stamps,
// and what does not match its stamp is compared by its bytes.
func (w *Workspace) dirty(ctx context.Context, g gitDir) ([]string, error) {
	rel, err := filepath.Rel(g.top, w.path)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if rel != "." {
		prefix = filepath.ToSlash(rel) + "/"
	}
	set := map[string]bool{}
	staged, err := w.git.run(ctx, w.repoCall(g, "diff-index", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "HEAD"))
	unborn := err != nil
	var said *gitError
	if err != nil && !errors.As(err, &said) {
		return nil, err
	}
	for _, p := range strings.Split(string(staged), "\x00") {
		if p, ok := strings.CutPrefix(p, prefix); ok && p != "" {
			set[p] = true
		}
	}
	out, err := w.git.run(ctx, w.repoCall(g, "ls-files", "-z", "--stage", "--debug"))
	if err != nil {
		return nil, err
	}
	tracked := map[string]bool{}
	for _, r := range parseIndex(out) {
		tracked[r.path] = true
		if unborn || w.differs(r) {
			set[r.path] = true
		}
	}
	nested := map[string]bool{}
	for path := range tracked {
		if st, err := lstatAt(w.fd, path); err == nil && st.isDir() {
			nested[path] = true
		}
	}
	for _, d := range w.snap.dirs {
		for _, e := range d.files {
			if !tracked[e.path] && !under(nested, e.path) {
				set[e.path] = true
			}
		}
	}
	list := make([]string, 0, len(set))
	for p := range set {
		list = append(list, p)
	}
	slices.Sort(list)
	return list[:min(len(list), maxDirty)], nil
}

func under(dirs map[string]bool, path string) bool {
	for p := parent(path); p != ""; p = parent(p) {
		if dirs[p] {
			return true
		}
	}
	return false
}

// indexed is one record of a user's index.
type indexed struct {
	path, mode, id string
	debug          string
}

// parseIndex reads "mode id stage\tpath NUL" records, each followed by lines
// of recorded times, which begin with two blanks.
func parseIndex(out []byte) []indexed {
	var list []indexed
	for len(out) > 0 {
		rec, rest, ok := bytes.Cut(out, []byte{0})
		if !ok {
			break
		}
		n := 0
		for bytes.HasPrefix(rest[n:], []byte("  ")) {
			end := bytes.IndexByte(rest[n:], '\n')
			if end < 0 {
				break
			}
			n += end + 1
		}
		meta, path, ok := strings.Cut(string(rec), "\t")
		if f := strings.Fields(meta); ok && len(f) == 3 {
			list = append(list, indexed{path: path, mode: f[0], id: f[1], debug: string(rest[:n])})
		}
		out = rest[n:]
	}
	return list
}

// differs compares a tracked file with its record. A submodule counts as
// changed only by its absence here; its own files are part of the revision.
func (w *Workspace) differs(r indexed) bool {
	st, err := lstatAt(w.fd, r.path)
	if r.mode == "160000" {
		return err != nil || !st.isDir()
	}
	if err != nil {
		return !strings.Contains(r.debug, "flags: 4000") // left out by a sparse checkout
	}
	e := entry{st: st}
	if !st.isRegular() && !st.isLink() || e.mode() != r.mode {
		return true
	}
	if r.sameStamp(st) {
		return false
	}
	content, err := w.content(r.path, st)
	if err != nil {
		return true
	}
	if gitID(content, len(r.id)) == r.id {
		return false
	}
	// Committed with line endings converted.
	unix := bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	return gitID(unix, len(r.id)) != r.id
}

func (w *Workspace) content(path string, st stamp) ([]byte, error) {
	if st.isLink() {
		to, err := w.root.Readlink(path)
		return []byte(to), err
	}
	if st.size > w.maxRead {
		return nil, errChanging // too large to compare: said to differ
	}
	return w.root.ReadFile(path)
}
