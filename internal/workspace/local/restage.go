package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// The index is the one file of the user's repository that belay ever writes,
// and only when a person takes back what was staged. It is made anew beside
// our state, by git, from a copy, with an object directory of our own above the
// user's, so that no object can come into the user's; then it takes git's own
// lock with one link and the index's name with one rename. A crash leaves the
// index as before or as after, and at worst the lock, which whoever comes next
// knows to be ours.

// restage brings the index to what it was, and returns the paths that it had to
// leave alone. The workspace is locked by the caller.
func (w *Workspace) restage(ctx context.Context, r workspace.Restage) (left []string, err error) {
	g := gitAbove(w.path)
	if !g.found() {
		return nil, noRepository(w.path)
	}
	if err := w.dropLock(g); err != nil {
		return nil, err
	}
	w.index.known = false
	now, err := w.staged(ctx)
	if err != nil {
		return nil, err
	}
	if now == r.Index {
		return nil, nil
	}
	todo, left, err := w.toStage(ctx, r, now)
	if err != nil || len(todo) == 0 {
		return left, err
	}
	err = w.exchangeIndex(ctx, g, todo)
	w.index.known = false
	return left, err
}

// toStage are the entries to set: those that differ from what is to be, except
// for what is to be left alone, what others have staged since the plan, and what
// names bytes that the user's repository has no more.
func (w *Workspace) toStage(ctx context.Context, r workspace.Restage, now string) (todo []stagedChange, left []string, err error) {
	g, all, err := w.compareStaged(ctx, now, r.Index)
	if err != nil {
		return nil, nil, err
	}
	_, moved, err := w.compareStaged(ctx, r.From, now)
	if err != nil {
		return nil, nil, err
	}
	others := map[string]bool{}
	for _, c := range moved {
		others[c.path] = true
	}
	prefix := w.prefixIn(g)
	for _, c := range all {
		path, ours := strings.CutPrefix(c.path, prefix)
		switch {
		case !ours || slices.Contains(r.Leave, path):
		case others[c.path]:
			left = append(left, path)
		default:
			todo = append(todo, c)
		}
	}
	lost, err := w.lostBytes(ctx, g, todo)
	if err != nil {
		return nil, nil, err
	}
	todo = slices.DeleteFunc(todo, func(c stagedChange) bool {
		if lost[c.path] {
			left = append(left, strings.TrimPrefix(c.path, prefix))
		}
		return lost[c.path]
	})
	return todo, left, nil
}

// lostBytes are the paths whose entry names an object that is not there.
func (w *Workspace) lostBytes(ctx context.Context, g gitDir, todo []stagedChange) (map[string]bool, error) {
	var ask bytes.Buffer
	var paths []string
	for _, c := range todo {
		for _, e := range c.new {
			if e.mode != "160000" && !e.later {
				ask.WriteString(e.id + "\n")
				paths = append(paths, c.path)
			}
		}
	}
	lost := map[string]bool{}
	if len(paths) == 0 {
		return lost, nil
	}
	check := w.topCall(g, "cat-file", "--batch-check")
	check.stdin = ask.Bytes()
	out, err := w.git.run(ctx, check)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if i < len(paths) && !strings.Contains(line, " "+blobKind+" ") {
			lost[paths[i]] = true
		}
	}
	return lost, nil
}

// exchangeIndex makes the new index and puts it in the place of the old one.
func (w *Workspace) exchangeIndex(ctx context.Context, g gitDir, todo []stagedChange) error {
	dir, err := os.MkdirTemp(w.private, "tmp_index_")
	if err != nil {
		return storageFault(err)
	}
	defer os.RemoveAll(dir)
	index := filepath.Join(g.dir, "index")
	was, err := lstat(index)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storageFault(err)
	}
	old, err := os.ReadFile(index)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storageFault(err)
	}
	fresh := filepath.Join(dir, "index")
	if old != nil {
		if err := os.WriteFile(fresh, old, 0o600); err != nil {
			return storageFault(err)
		}
	}
	if err := w.stageAll(ctx, g, dir, fresh, todo); err != nil {
		return err
	}
	made, err := os.ReadFile(fresh)
	if err != nil {
		return storageFault(err)
	}
	return w.nameIndex(g, index, was, made)
}

// stageAll changes the copy of the index.
func (w *Workspace) stageAll(ctx context.Context, g gitDir, dir, fresh string, todo []stagedChange) error {
	objects := filepath.Join(dir, "objects")
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return storageFault(err)
	}
	run := func(in []byte, args ...string) ([]byte, error) {
		c := w.topCall(g, append([]string{"-c", "core.splitIndex=false", "--literal-pathspecs"}, args...)...)
		c.stdin = in
		c.env = []string{"GIT_INDEX_FILE=" + fresh, "GIT_OBJECT_DIRECTORY=" + objects,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(g.common, "objects")}
		return w.git.run(ctx, c)
	}
	flags, err := run(nil, "ls-files", "-z", "-v")
	if err != nil {
		return err
	}
	var entries, later, skip, assume bytes.Buffer
	wanted := map[string]bool{}
	for _, c := range todo {
		none := strings.Repeat("0", len(anID(c)))
		fmt.Fprintf(&entries, "0 %s\t%s\x00", none, c.path)
		for _, e := range c.new {
			if e.later {
				later.WriteString(c.path + "\x00")
				continue
			}
			wanted[c.path] = true
			fmt.Fprintf(&entries, "%s %s %c\t%s\x00", e.mode, e.id, e.stage, c.path)
		}
	}
	if _, err := run(entries.Bytes(), "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	// What a person has told git of a path stays told.
	for line := range strings.SplitSeq(string(flags), "\x00") {
		if len(line) < 3 || !wanted[line[2:]] {
			continue
		}
		if line[0] == 'S' || line[0] == 's' {
			skip.WriteString(line[2:] + "\x00")
		}
		if line[0] >= 'a' && line[0] <= 'z' {
			assume.WriteString(line[2:] + "\x00")
		}
	}
	for _, more := range []struct {
		in   bytes.Buffer
		args []string
	}{
		{skip, []string{"update-index", "-z", "--skip-worktree", "--stdin"}},
		{assume, []string{"update-index", "-z", "--assume-unchanged", "--stdin"}},
		{later, []string{"add", "--intent-to-add", "--force", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"}},
	} {
		if more.in.Len() == 0 {
			continue
		}
		if _, err := run(more.in.Bytes(), more.args...); err != nil {
			return err
		}
	}
	return nil
}

func anID(c stagedChange) string {
	for _, e := range append(slices.Clone(c.old), c.new...) {
		return e.id
	}
	return ""
}

// ourIndex is the name in the repository under which a new index waits: one for
// each workspace, so that whoever finds it knows whose it is.
func (w *Workspace) ourIndex(g gitDir) string {
	return filepath.Join(g.dir, "index.belay-"+filepath.Base(w.private))
}

// nameIndex takes git's lock with the finished content, looks whether the index
// is still the one that was read, and gives it its name.
func (w *Workspace) nameIndex(g gitDir, index string, was stamp, content []byte) error {
	temp, lock := w.ourIndex(g), filepath.Join(g.dir, "index.lock")
	if err := writeSynced(temp, content, 0o600); err != nil {
		return storageFault(err)
	}
	if was != (stamp{}) {
		if err := os.Chmod(temp, os.FileMode(was.mode).Perm()); err != nil {
			return storageFault(errors.Join(err, os.Remove(temp)))
		}
	} else if err := os.Chmod(temp, 0o644); err != nil {
		return storageFault(errors.Join(err, os.Remove(temp)))
	}
	failpoint.Hit(failpoint.IndexStaged)
	w.hit(indexStaged)
	if err := os.Link(temp, lock); err != nil {
		err = errors.Join(err, os.Remove(temp))
		if errors.Is(err, fs.ErrExist) {
			return busyIndex(lock)
		}
		return storageFault(err)
	}
	failpoint.Hit(failpoint.IndexLocked)
	w.hit(indexLocked)
	if now, err := lstat(index); err == nil && now != was || err != nil && was != (stamp{}) {
		return errors.Join(busyIndex(index), os.Remove(lock), os.Remove(temp))
	}
	if err := os.Rename(lock, index); err != nil {
		return storageFault(errors.Join(err, os.Remove(lock), os.Remove(temp)))
	}
	failpoint.Hit(failpoint.IndexNamed)
	w.hit(indexNamed)
	if err := os.Remove(temp); err != nil {
		return storageFault(err)
	}
	return storageErr(syncPath(g.dir))
}

func storageErr(err error) error {
	if err == nil {
		return nil
	}
	return storageFault(err)
}

func busyIndex(path string) error {
	return fault.New(fault.Foreign, fault.Environment, "git is at work on the index ("+path+")", "let it end; where no git runs, remove the lock").Retry()
}

// dropLock takes away what a crash of ours left in the user's repository. The
// lock is ours if it is the very file that waits under our name.
func (w *Workspace) dropLock(g gitDir) error {
	temp, lock := w.ourIndex(g), filepath.Join(g.dir, "index.lock")
	mine, err := os.Lstat(temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return storageFault(err)
	}
	if theirs, err := os.Lstat(lock); err == nil && os.SameFile(mine, theirs) {
		if err := os.Remove(lock); err != nil {
			return storageFault(err)
		}
	}
	return storageErr(os.Remove(temp))
}
