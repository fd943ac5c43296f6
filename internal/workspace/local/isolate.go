package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// Isolate makes a checkout of a directory in a new directory to: every file
// that counts as it is now, submodules and nested repositories included, each
// repository with a git directory of its own that holds what the user's holds
// (branches, index, remotes) and shares nothing that can be written. Of the
// ignored files it brings what bring names. The user's repository is read only.
//
// A directory inside a repository gets a checkout of the whole repository; Root
// then is the directory in it. The checkout is looked at before Isolate
// returns: it is the same tree, or an error that names what differs. What an
// error leaves behind is the caller's to remove.
func Isolate(ctx context.Context, from, to string, bring workspace.Bring, opts Options) (workspace.Isolated, error) {
	opts.Lock = false
	src, err := openTop(ctx, from, opts)
	if err != nil {
		return workspace.Isolated{}, err
	}
	defer src.Close()
	i := &isolation{src: src, to: to, bring: bring, opts: opts}
	return i.make(ctx, from)
}

// openTop opens the top directory of the repository that a directory belongs
// to, or the directory itself.
func openTop(ctx context.Context, from string, opts Options) (*Workspace, error) {
	w, err := open(ctx, from, opts)
	if err != nil {
		return nil, err
	}
	g := gitAbove(w.path)
	if !g.found() || g.top == w.path {
		return w, nil
	}
	rel, err := filepath.Rel(g.top, w.path)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	c := w.repoCall(g, "check-ignore", "-z", "--stdin").with("./" + filepath.ToSlash(rel) + "\x00")
	c.dir = g.top
	ignored, err := w.git.run(ctx, c)
	if err != nil || len(ignored) > 0 {
		return w, err // the repository has nothing to say about it
	}
	top, err := open(ctx, g.top, opts)
	return top, errors.Join(err, w.Close())
}

type isolation struct {
	src   *Workspace
	to    string
	bring workspace.Bring
	opts  Options
	out   workspace.Isolated
}

func (i *isolation) make(ctx context.Context, from string) (out workspace.Isolated, err error) {
	src := i.src
	if err := i.outside(); err != nil {
		return out, err
	}
	src.mu.Lock()
	tree, err := src.observe(ctx)
	var repos []string
	if err == nil {
		repos = src.repositories()
	}
	src.mu.Unlock()
	if err != nil {
		return out, err
	}
	if err := os.MkdirAll(filepath.Dir(i.to), 0o700); err != nil {
		return out, storageFault(err)
	}
	if err := src.Materialise(ctx, tree, i.to); err != nil {
		return out, err
	}
	g := gitAbove(src.path)
	if g.found() {
		if i.out.Head, i.out.Branch, err = src.head(ctx, g); err != nil {
			return out, err
		}
	}
	for _, p := range repos {
		if err := src.cloneGit(ctx, gitAt(filepath.Join(src.path, p)), filepath.Join(i.to, p)); err != nil {
			return out, fmt.Errorf("isolate the repository %s: %w", filepath.Join(src.path, p), err)
		}
	}
	if err := i.bringIgnored(); err != nil {
		return out, err
	}
	return i.check(ctx, tree, from)
}

// outside refuses a checkout inside the directory that it is a checkout of: the
// user's git would stage it.
func (i *isolation) outside() error {
	abs, err := filepath.Abs(i.to)
	if err != nil {
		return err
	}
	// The parts of it that are there already may be links into the directory.
	for up := abs; ; up = filepath.Dir(up) {
		if real, err := filepath.EvalSymlinks(up); err == nil {
			abs = filepath.Join(real, strings.TrimPrefix(abs, up))
			break
		}
	}
	if rel, err := filepath.Rel(i.src.path, abs); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return fault.New(fault.Protected, fault.User, "the worktree "+abs+" would lie in "+i.src.path+", where git add -A would stage it",
			"keep the state directory outside of the repository (--state), or name another place for worktrees in BELAY_WORKTREES")
	}
	i.to = abs
	return nil
}

// check looks at the checkout as the goal will: the same tree, or the names of
// what differs.
func (i *isolation) check(ctx context.Context, tree, from string) (workspace.Isolated, error) {
	dst, err := open(ctx, i.to, i.opts)
	if err != nil {
		return workspace.Isolated{}, err
	}
	defer dst.Close()
	got, err := dst.Observe(ctx)
	if err != nil {
		return workspace.Isolated{}, err
	}
	if got != tree {
		return workspace.Isolated{}, i.differs(ctx, dst, tree, got)
	}
	if err := syncFileSystem(dst.handle); err != nil {
		return workspace.Isolated{}, storageFault(err)
	}
	real, err := filepath.EvalSymlinks(from)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return workspace.Isolated{}, err
	}
	rel, err := filepath.Rel(i.src.path, real)
	if err != nil {
		return workspace.Isolated{}, err
	}
	i.out.Dir, i.out.Root = dst.path, filepath.Join(dst.path, rel)
	if err := os.MkdirAll(i.out.Root, 0o755); err != nil { // it may hold ignored files alone
		return workspace.Isolated{}, storageFault(err)
	}
	return i.out, nil
}

func (i *isolation) differs(ctx context.Context, dst *Workspace, want, got string) error {
	pack, err := dst.Export(ctx, got, "")
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := i.src.Import(ctx, pack); err != nil {
		return err
	}
	list, err := i.src.deltas(ctx, want, got, false)
	if err != nil {
		return err
	}
	return fault.New(fault.Foreign, fault.Environment, "the worktree "+i.to+" does not hold what "+i.src.path+" holds ("+some(list)+
		"): the directory changed meanwhile, or git tracks or ignores other paths there", "try again; if it stays so, run the goal in place").Retry()
}

// repositories are the directories with a git directory of their own, the root
// first. The caller holds the lock and has just observed.
func (w *Workspace) repositories() []string {
	var list []string
	for _, d := range w.snap.dirs {
		if gitAt(filepath.Join(w.path, d.path)).found() {
			list = append(list, d.path)
		}
	}
	slices.Sort(list)
	return list
}

// bringIgnored copies and links ignored files, as the user wants it. What counts
// is there already, and what lies outside is not reached.
func (i *isolation) bringIgnored() error {
	for _, kind := range []struct {
		patterns []string
		done     *[]string
		do       func(rel string) error
	}{{i.bring.Copy, &i.out.Copied, i.copyOne}, {i.bring.Link, &i.out.Linked, i.linkOne}} {
		for _, p := range kind.patterns {
			paths, err := i.match(p)
			if err != nil {
				return err
			}
			for _, rel := range paths {
				if _, err := os.Lstat(filepath.Join(i.to, rel)); err == nil {
					continue // it counts, or was brought by another pattern
				}
				if err := kind.do(rel); err != nil {
					return storageFault(fmt.Errorf("bring %s into the worktree: %w", rel, err))
				}
				*kind.done = append(*kind.done, rel)
			}
		}
	}
	return nil
}

// match resolves a pattern, relative to the top of the checkout.
func (i *isolation) match(pattern string) ([]string, error) {
	if !filepath.IsLocal(pattern) {
		return nil, fault.New(fault.Outside, fault.User, "the worktree cannot bring "+pattern+": it leads out of the directory", "name a path below it")
	}
	found, err := fs.Glob(i.src.root.FS(), filepath.ToSlash(filepath.Clean(pattern)))
	if err != nil {
		return nil, fault.New(fault.InvalidArguments, fault.User, "the worktree's pattern "+pattern+": "+err.Error(), "write it as a path with * and ?")
	}
	var out []string
	for _, rel := range found {
		no := func(part string) bool { return isGitName(part) }
		if slices.ContainsFunc(strings.Split(rel, "/"), no) || slices.ContainsFunc(i.bring.Never, func(p string) bool { return covers(p, rel) }) || i.src.owned(rel) {
			continue
		}
		out = append(out, rel)
	}
	return out, nil
}

// covers reports whether a pattern names a path or a folder above it.
func covers(pattern, rel string) bool {
	pattern = filepath.ToSlash(filepath.Clean(pattern))
	for p := rel; p != ""; p = parent(p) {
		if ok, err := filepath.Match(pattern, p); err == nil && ok {
			return true
		}
	}
	return false
}

// copyOne copies a file or folder: links as links, modes kept, and the blocks
// shared where the file system can do that.
func (i *isolation) copyOne(rel string) error {
	src, dst := filepath.Join(i.src.path, rel), filepath.Join(i.to, rel)
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, below)
		if slices.ContainsFunc(i.bring.Never, func(p string) bool { return covers(p, filepath.ToSlash(filepath.Join(rel, below))) }) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return os.MkdirAll(to, info.Mode().Perm()|0o700)
		case e.Type()&fs.ModeSymlink != 0:
			name, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(name, to)
		case e.Type().IsRegular():
			if _, err := os.Lstat(to); err == nil {
				return nil // it counts: the checkout has it
			}
			return copyFile(path, to, info.Mode().Perm())
		}
		return nil // pipes and sockets belong to whoever runs
	})
}

// linkOne puts a link to the user's file or folder; commands in the sandbox can
// read through it and not write. A pattern that ends in a slash ignores no link,
// so the checkout is told to ignore it.
func (i *isolation) linkOne(rel string) error {
	dst := filepath.Join(i.to, rel)
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(i.src.path, rel), dst); err != nil {
		return err
	}
	info := filepath.Join(i.to, ".git", "info")
	if _, err := os.Stat(filepath.Dir(info)); err != nil {
		return nil // no repository: then nothing but .gitignore can ignore it, and the check tells
	}
	if err := os.MkdirAll(info, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(info, "exclude"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("/" + excludeLiteral(rel) + "\n")
	return errors.Join(err, f.Close())
}

// excludeLiteral writes a path so that an ignore file takes it as it is.
func excludeLiteral(rel string) string {
	var b strings.Builder
	for _, c := range rel {
		if strings.ContainsRune(`*?[]\!# `, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
