package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belay/internal/workspace"
)

// Restore implements workspace.Workspace. The files come first and the index
// after them, because what is tracked decides with the ignore files what counts:
// only then can be seen whether all is there.
func (w *Workspace) Restore(ctx context.Context, r workspace.Restore) (written int, left []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	leave := map[string]bool{}
	for _, p := range r.Leave {
		leave[p] = true
	}
	known := []string{r.From}
	if written, err = w.moveTo(ctx, r.Tree, known, leave); err != nil {
		return written, nil, err
	}
	if r.Staged != nil {
		if left, err = w.restage(ctx, *r.Staged); err != nil {
			return written, left, err
		}
	}
	return written, left, w.arrived(ctx, r.Tree, known, leave)
}

// uncounted deals with files that stand there though no revision counts them
// now, because they came to be ignored. One that is as in the tree to come is not
// written over with itself. One that is as in a known tree is the goal's own, and
// is given to moveIn as what it replaces: an interrupted move had restored the
// ignore file before it came to the file.
func (w *Workspace) uncounted(ctx context.Context, todo []delta, tree string, known []string, stamps map[string]stamp) ([]delta, error) {
	was := map[string]delta{}
	if slices.ContainsFunc(todo, func(d delta) bool { return d.oldMode == noMode && w.stands(d.path) }) {
		for _, k := range known {
			if ok, err := w.Holds(ctx, k); err != nil || !ok {
				if err != nil {
					return nil, err
				}
				continue
			}
			list, err := w.deltas(ctx, k, tree, false)
			if err != nil {
				return nil, err
			}
			for _, d := range list {
				if d.oldMode != noMode && d.newMode != noMode {
					was[d.path] = d
				}
			}
		}
	}
	out := todo[:0:0]
	for _, d := range todo {
		if d.oldMode != noMode || !w.stands(d.path) {
			out = append(out, d)
			continue
		}
		st, mode, id := w.present(d.path)
		if mode == d.newMode && id == d.newID {
			continue
		}
		if k, ok := was[d.path]; ok && mode == k.oldMode && id == k.oldID {
			d.oldMode, d.oldID, stamps[d.path] = k.oldMode, k.oldID, st
		}
		out = append(out, d)
	}
	return out, ctx.Err()
}

// stands reports whether a file or link is there, with no link on the way.
func (w *Workspace) stands(path string) bool {
	st, err := lstatAt(w.fd, path)
	return err == nil && (st.isRegular() || st.isLink()) && w.plainPath(path)
}

// present is the file or link at a path, the zero values where it cannot be
// read.
func (w *Workspace) present(path string) (st stamp, mode, id string) {
	st, err := lstatAt(w.fd, path)
	if err != nil {
		return stamp{}, "", ""
	}
	h, err := w.hashFile(path, st, oid{}, nil)
	if err != nil {
		return stamp{}, "", ""
	}
	e := entry{st: st}
	return st, e.mode(), h.String()
}

// plainPath reports whether no folder of a path is a link.
func (w *Workspace) plainPath(path string) bool {
	for p := parent(path); p != ""; p = parent(p) {
		if st, err := lstatAt(w.fd, p); err != nil || !st.isDir() {
			return false
		}
	}
	return true
}

// InTheWay implements workspace.Workspace.
func (w *Workspace) InTheWay(ctx context.Context, from, to string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.deltas(ctx, from, to, false)
	if err != nil {
		return nil, err
	}
	var left []string
	gone := map[string]bool{}
	for _, d := range all {
		if d.newMode == noMode {
			gone[d.path] = true
		}
	}
	for _, d := range all {
		if d.oldMode != noMode {
			continue
		}
		if w.stands(d.path) {
			if _, mode, id := w.present(d.path); mode == d.newMode && id == d.newID {
				continue
			}
		}
		if w.taken(d.path, gone) {
			left = append(left, d.path)
		}
	}
	if len(gone) > 0 {
		hidden, err := w.ignoredThen(ctx, to, gone)
		if err != nil {
			return nil, err
		}
		left = append(left, hidden...)
	}
	slices.Sort(left)
	return left, nil
}

// taken reports whether a path that is to be written meets something that no
// revision counts: at its own place, or at the place of one of its folders.
func (w *Workspace) taken(path string, gone map[string]bool) bool {
	for p := parent(path); p != ""; p = parent(p) {
		if st, err := lstatAt(w.fd, p); err == nil && !st.isDir() {
			return !gone[p]
		}
	}
	st, err := lstatAt(w.fd, path)
	if err != nil || gone[path] {
		return false
	}
	// A folder gives way when all that is in it goes.
	return !st.isDir() || !w.emptied(path, gone)
}

// emptied reports whether a folder holds nothing but files that go.
func (w *Workspace) emptied(dir string, gone map[string]bool) bool {
	f, err := w.root.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	for {
		list, err := f.ReadDir(256)
		for _, e := range list {
			path := join(dir, e.Name())
			if e.IsDir() && w.emptied(path, gone) || gone[path] {
				continue
			}
			return false
		}
		if err != nil {
			return err == io.EOF
		}
	}
}

// ignoredThen are the paths that the ignore files of a tree ignore. They are
// laid out in a scratch directory, where git is asked: a file that was ignored
// then was never recorded, so it is somebody's own, though it counts now.
func (w *Workspace) ignoredThen(ctx context.Context, tree string, paths map[string]bool) ([]string, error) {
	items, err := w.items(ctx, tree)
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(it item) bool { return base(it.path) != ignoreName || it.mode == linkMode })
	dir, err := os.MkdirTemp(w.private, "tmp_rules_")
	if err != nil {
		return nil, storageFault(err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, storageFault(err)
	}
	defer root.Close()
	prefix := ""
	g := gitAbove(w.path)
	if g.found() {
		prefix = w.prefixIn(g)
	}
	for i := range items {
		items[i].path = prefix + items[i].path
	}
	if err := w.writeItems(ctx, root, items); err != nil {
		return nil, err
	}
	for up := strings.TrimSuffix(prefix, "/"); up != ""; up = parent(up) { // the rules above the workspace are as they are now
		b, err := os.ReadFile(filepath.Join(g.top, parent(up), ignoreName))
		if err == nil {
			err = root.WriteFile(join(parent(up), ignoreName), b, 0o600)
		}
		if err != nil && !os.IsNotExist(err) {
			return nil, storageFault(err)
		}
	}
	return w.askRules(ctx, g, dir, prefix, paths)
}

func (w *Workspace) askRules(ctx context.Context, g gitDir, dir, prefix string, paths map[string]bool) ([]string, error) {
	sc := &scope{git: g, cwd: w.path}
	excludes, err := w.excludesFile(ctx, sc)
	if err != nil {
		return nil, err
	}
	c := call{dir: dir, gitDir: w.store.dir, workTree: dir, excludes: excludes, okExit: 1,
		args: []string{"check-ignore", "--no-index", "-z", "--stdin"}}
	if g.found() {
		c.gitDir = g.dir
	}
	var in strings.Builder
	for p := range paths {
		fmt.Fprintf(&in, "./%s\x00", prefix+p)
	}
	c.stdin = []byte(in.String())
	out, err := w.git.run(ctx, c)
	if err != nil {
		return nil, err
	}
	var left []string
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p, ok := strings.CutPrefix(p, "./"+prefix); ok && p != "" {
			left = append(left, p)
		}
	}
	return left, nil
}
