package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// Entries implements workspace.Workspace.
func (w *Workspace) Entries(ctx context.Context, tree string) ([]workspace.Entry, error) {
	items, err := w.items(ctx, tree)
	if err != nil {
		return nil, err
	}
	out := make([]workspace.Entry, len(items))
	for i, it := range items {
		out[i] = workspace.Entry{Path: it.path, ID: it.id, Link: it.mode == linkMode}
	}
	return out, nil
}

// items lists a tree's files in git's order, which is by path.
func (w *Workspace) items(ctx context.Context, tree string) ([]item, error) {
	if err := w.known(ctx, tree); err != nil {
		return nil, err
	}
	out, err := w.git.run(ctx, w.inStore("ls-tree", "-r", "-z", "--full-tree", tree))
	if err != nil {
		return nil, err
	}
	var items []item
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		meta, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 {
			return nil, fmt.Errorf("local: git ls-tree said %q", line)
		}
		items = append(items, item{mode: f[0], id: f[2], path: path})
	}
	return items, nil
}

// Contents implements workspace.Workspace.
func (w *Workspace) Contents(ctx context.Context, tree string, paths []string, limit int64) (map[string][]byte, error) {
	items, err := w.items(ctx, tree)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(paths))
	for _, p := range paths {
		wanted[p] = true
	}
	items = slices.DeleteFunc(items, func(it item) bool { return !wanted[it.path] })
	out := make(map[string][]byte, len(items))
	err = w.batch(ctx, items, func(it item, size int64, r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, limit))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		out[it.path] = b
		return err
	})
	return out, err
}

// Mix implements workspace.Workspace. Both trees' files are there already, so
// only folders are new. The tree can be made again at any time; its objects
// need not outlive a power cut.
func (w *Workspace) Mix(ctx context.Context, base, over string, pick func(path string) bool) (string, error) {
	a, err := w.items(ctx, base)
	if err != nil {
		return "", err
	}
	b, err := w.items(ctx, over)
	if err != nil {
		return "", err
	}
	var mixed []item
	taken, folders := map[string]bool{}, map[string]bool{}
	for _, it := range b {
		if pick(it.path) {
			mixed = append(mixed, it)
			taken[it.path] = true
			for p := parent(it.path); p != ""; p = parent(p) {
				folders[p] = true
			}
		}
	}
	for _, it := range a {
		if pick(it.path) || folders[it.path] || belowFile(it.path, taken) {
			continue // a folder took the place of a file, or a file that of a folder
		}
		mixed = append(mixed, it)
	}
	return w.treeOf(ctx, mixed)
}

// treeOf makes the tree of files whose contents are in the store.
func (w *Workspace) treeOf(ctx context.Context, items []item) (string, error) {
	temp, err := os.MkdirTemp(w.private, "tmp_mix_")
	if err != nil {
		return "", storageFault(err)
	}
	defer os.RemoveAll(temp)
	var index bytes.Buffer
	for _, it := range items {
		fmt.Fprintf(&index, "%s %s\t%s\x00", it.mode, it.id, it.path)
	}
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index")}
	fill := w.inStore("update-index", "-z", "--index-info")
	fill.env, fill.stdin = env, index.Bytes()
	if _, err := w.git.run(ctx, fill); err != nil {
		return "", err
	}
	write := w.inStore("write-tree")
	write.env = env
	out, err := w.git.run(ctx, write)
	return strings.TrimSpace(string(out)), err
}

// belowFile reports whether one of the folders of a path is a file.
func belowFile(path string, files map[string]bool) bool {
	for p := parent(path); p != ""; p = parent(p) {
		if files[p] {
			return true
		}
	}
	return false
}

// Branch implements workspace.Workspace.
func (w *Workspace) Branch(ctx context.Context, name string) (string, error) {
	g := gitAbove(w.path)
	if !g.found() {
		return "", noRepository(w.path)
	}
	ref := "refs/heads/" + name
	if name == "" {
		ref = "HEAD"
	}
	out, err := w.git.run(ctx, w.repoCall(g, "rev-parse", "--quiet", "--verify", ref+"^{commit}"))
	return strings.TrimSpace(string(out)), err
}

func noRepository(path string) error {
	return fault.New(fault.NotFound, fault.User, path+" is in no git repository", "a branch or commit can be asked for only in one")
}

// Commits implements workspace.Workspace. The commits are read as objects: no
// setting of the repository has a say in how they look.
func (w *Workspace) Commits(ctx context.Context, from, since string, limit int) ([]workspace.Commit, error) {
	tip, err := w.Branch(ctx, from)
	if err != nil || tip == "" {
		return nil, err
	}
	args := []string{"rev-list", fmt.Sprintf("--max-count=%d", limit), "--format=raw", tip}
	if since != "" {
		args = append(args, "^"+since)
	}
	out, err := w.git.run(ctx, w.repoCall(gitAbove(w.path), args...))
	if err != nil {
		return nil, err
	}
	var list []workspace.Commit
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutPrefix(line, "commit "); ok {
			id, _, _ = strings.Cut(strings.TrimSpace(id), " ")
			list = append(list, workspace.Commit{ID: id})
		} else if text, ok := strings.CutPrefix(line, "    "); ok && len(list) > 0 {
			list[len(list)-1].Message += text
		}
	}
	return list, nil
}
