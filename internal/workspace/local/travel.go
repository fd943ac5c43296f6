package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"belay/internal/failpoint"
	"belay/internal/fault"
)

// emptyTree is the tree without entries; git knows it without being given it.
const emptyTree = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"

// delta is one path that differs between two trees. An absent side has the
// mode noMode.
type delta struct {
	path             string
	oldMode, newMode string
	oldID, newID     string
}

const (
	noMode     = "000000"
	folderMode = "040000"
)

// deltas lists the paths that differ; with folders also the folders above
// them.
func (w *Workspace) deltas(ctx context.Context, from, to string, folders bool) ([]delta, error) {
	args := []string{"diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev"}
	if folders {
		args = append(args, "-t")
	}
	out, err := w.git.run(ctx, w.inStore(append(args, from, to)...))
	if err != nil {
		return nil, err
	}
	var list []delta
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("local: git diff-tree said %q", fields[i])
		}
		list = append(list, delta{path: fields[i+1], oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3]})
	}
	return list, nil
}

// Holds implements workspace.Workspace.
func (w *Workspace) Holds(ctx context.Context, tree string) (bool, error) {
	err := w.known(ctx, tree)
	var f *fault.Fault
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		return false, nil
	}
	return err == nil, err
}

// Export implements workspace.Workspace. It looks at the objects alone, not at
// the directory, and so may run beside anything.
func (w *Workspace) Export(ctx context.Context, tree, base string) (io.ReadCloser, error) {
	if base == "" {
		base = emptyTree
	}
	if err := w.known(ctx, tree, base); err != nil {
		return nil, err
	}
	list, err := w.deltas(ctx, base, tree, true)
	if err != nil {
		return nil, err
	}
	ids := bytes.NewBufferString(tree + "\n")
	seen := map[string]bool{tree: true}
	for _, d := range list {
		if d.newMode != noMode && !seen[d.newID] {
			seen[d.newID] = true
			ids.WriteString(d.newID + "\n")
		}
	}
	e := &export{cmd: w.git.command(ctx, call{dir: w.store.dir, gitDir: w.store.dir, stdin: ids.Bytes(),
		args: []string{"pack-objects", "--stdout", "-q", "--window=0", "--threads=1"}})}
	e.cmd.Stderr = &e.said
	if e.out, err = e.cmd.StdoutPipe(); err == nil {
		err = e.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("git pack-objects: %w", err)
	}
	return e, nil
}

// export is the output of git pack-objects. Its end is only told once git has
// said that all went well: a cut pack must not be taken for a whole one.
type export struct {
	cmd  *exec.Cmd
	out  io.ReadCloser
	said bytes.Buffer
	over bool
	err  error
}

func (e *export) Read(b []byte) (int, error) {
	if e.over {
		return 0, e.err
	}
	n, err := e.out.Read(b)
	if err != nil {
		e.end(err)
		err = e.err
	}
	return n, err
}

func (e *export) end(err error) {
	e.over, e.err = true, err
	if werr := e.cmd.Wait(); werr != nil && (err == nil || err == io.EOF) {
		e.err = fmt.Errorf("git pack-objects: %w: %s", werr, strings.TrimSpace(e.said.String()))
	}
}

// Close ends git when it was not read to the end.
func (e *export) Close() error {
	if !e.over {
		_ = e.out.Close() // git ends by it
		e.end(io.ErrClosedPipe)
	}
	return nil
}

// Import implements workspace.Workspace. Git names each object anew by its
// content, so that nothing can come in under another name.
func (w *Workspace) Import(ctx context.Context, r io.Reader) error {
	_, err := w.git.run(ctx, call{dir: w.store.dir, gitDir: w.store.dir, input: r, args: []string{"index-pack", "--stdin"}})
	if err != nil {
		return fmt.Errorf("taking in a pack: %w", err)
	}
	failpoint.Hit(failpoint.PackTaken)
	return nil
}

// MoveIn implements workspace.Workspace.
func (w *Workspace) MoveIn(ctx context.Context, tree string, known []string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, err := w.moveTo(ctx, tree, known, nil)
	if err != nil {
		return written, err
	}
	return written, w.arrived(ctx, tree, known, nil)
}

// moveTo makes the directory hold a tree, but for the paths to leave.
func (w *Workspace) moveTo(ctx context.Context, tree string, known []string, leave map[string]bool) (int, error) {
	now, err := w.observe(ctx)
	if err != nil || now == tree {
		return 0, err
	}
	if err := w.known(ctx, tree); err != nil {
		return 0, err
	}
	todo, err := w.deltas(ctx, now, tree, false)
	if err != nil {
		return 0, err
	}
	todo = slices.DeleteFunc(todo, func(d delta) bool { return leave[d.path] })
	if err := w.foreign(ctx, now, todo, known); err != nil {
		return 0, err
	}
	stamps := w.snap.stamps()
	if todo, err = w.uncounted(ctx, todo, tree, known, stamps); err != nil {
		return 0, err
	}
	if err := w.free(todo); err != nil {
		return 0, err
	}
	return len(todo), w.moveIn(ctx, todo, stamps)
}

// arrived checks that the directory holds the tree, but for the paths to leave,
// and clears the folders away that have become empty.
func (w *Workspace) arrived(ctx context.Context, tree string, known []string, leave map[string]bool) error {
	now, err := w.observe(ctx)
	if err != nil {
		return err
	}
	var left []delta
	if now != tree {
		if left, err = w.deltas(ctx, now, tree, false); err != nil {
			return err
		}
	}
	if left = slices.DeleteFunc(left, func(d delta) bool { return leave[d.path] }); len(left) == 0 {
		return w.hollow(ctx, tree, known)
	}
	return fault.New(fault.Foreign, fault.Environment, "the directory "+w.path+" does not count the same files as the one that the goal left ("+some(left)+
		"): git there may track or ignore other paths", "clone the repository there at the commit that the goal started from")
}

// hollow removes the folders that a known tree fills and the new one does not,
// where nothing is in them any more: a move that was interrupted after it had
// removed a folder's last file leaves it behind, and no tree shows it.
func (w *Workspace) hollow(ctx context.Context, tree string, known []string) error {
	gone := map[string]bool{}
	for _, k := range known {
		if ok, err := w.Holds(ctx, k); err != nil {
			return err
		} else if !ok {
			continue
		}
		list, err := w.deltas(ctx, k, tree, true)
		if err != nil {
			return err
		}
		for _, d := range list {
			if d.oldMode == folderMode && d.newMode == noMode {
				gone[d.path] = true
			}
		}
	}
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(gone))) { // what is deeper comes first
		if st, err := lstatAt(w.fd, p); err == nil && st.isDir() {
			_ = w.root.Remove(p) // one that is not empty stays
		}
	}
	return nil
}

// foreign says that the directory holds what the goal does not know. What
// differs from the tree to come must be as in one of the known trees, or not
// there at all.
func (w *Workspace) foreign(ctx context.Context, now string, todo []delta, known []string) error {
	ours := make(map[string]bool, len(todo))
	for _, d := range todo {
		if d.oldMode != noMode {
			ours[d.path] = true // it stands there and is not as it shall be
		}
	}
	var least []delta
	for i, k := range append(slices.Clone(known), emptyTree) {
		if ok, err := w.Holds(ctx, k); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		theirs, err := w.deltas(ctx, k, now, false)
		if err != nil {
			return err
		}
		theirs = slices.DeleteFunc(theirs, func(d delta) bool { return !ours[d.path] })
		if len(theirs) == 0 {
			return nil
		}
		if i == 0 || len(least) == 0 || len(theirs) < len(least) {
			least = theirs
		}
	}
	return fault.New(fault.Foreign, fault.Environment, "the directory "+w.path+" holds other content than the goal left or found ("+some(least)+"), which is not overwritten",
		"move it away, or belay resume --adopt, to go on from it as it is").Retry()
}

// some names a few paths.
func some(list []delta) string {
	var names []string
	for _, d := range list[:min(len(list), 5)] {
		names = append(names, d.path)
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// free checks that what is to be written meets nothing that no revision
// counts: ignored files, links and folders of others.
func (w *Workspace) free(todo []delta) error {
	leaves := map[string]bool{}
	folders := map[string]bool{} // that lose a file
	for _, d := range todo {
		if d.newMode == noMode {
			leaves[d.path] = true
			for p := parent(d.path); p != ""; p = parent(p) {
				folders[p] = true
			}
		}
	}
	for _, d := range todo {
		if d.newMode == noMode {
			continue
		}
		for part := range strings.SplitSeq(d.path, "/") {
			if isGitName(part) || isTemp(part) || part == ".." || part == "." || part == "" {
				return fmt.Errorf("local: the tree to restore has the path %q", d.path)
			}
		}
		for p := parent(d.path); p != ""; p = parent(p) {
			if st, err := lstatAt(w.fd, p); err == nil && !st.isDir() && !leaves[p] || w.owned(p) {
				return inTheWay(w.path, p)
			}
		}
		st, err := lstatAt(w.fd, d.path)
		taken := err == nil && d.oldMode == noMode && !(st.isDir() && (folders[d.path] || w.emptied(d.path, nil)))
		if taken || w.owned(d.path) {
			return inTheWay(w.path, d.path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return pathFault(d.path, err)
		}
	}
	return nil
}

func inTheWay(root, path string) error {
	return fault.New(fault.Foreign, fault.Environment, "the directory "+root+" holds "+path+", which is no part of the goal's workspace and stands where one of its files belongs",
		"move it away").Retry()
}

// moveIn removes, then writes. Each path changes in one step, so that at any
// instant it is as before or as in the tree.
func (w *Workspace) moveIn(ctx context.Context, todo []delta, stamps map[string]stamp) error {
	var items []item
	for _, d := range todo {
		if d.newMode != noMode {
			items = append(items, item{mode: d.newMode, id: d.newID, path: d.path})
			continue
		}
		if err := w.same(d, stamps); err != nil {
			return err
		}
		if err := w.root.Remove(d.path); err != nil {
			return storageFault(err)
		}
		failpoint.Hit(failpoint.MoveRemoved)
		w.hit(moveRemoved)
		for p := parent(d.path); p != "" && w.root.Remove(p) == nil; p = parent(p) {
			continue // a folder that is not empty stays
		}
	}
	old := map[string]delta{}
	for _, d := range todo {
		old[d.path] = d
	}
	made := map[string]bool{}
	err := w.batch(ctx, items, func(it item, size int64, r io.Reader) error {
		temp := join(parent(it.path), tempPrefix+token())
		if err := putItem(w.root, item{mode: it.mode, id: it.id, path: temp}, size, r, made); err != nil {
			_ = w.root.Remove(temp)
			return err
		}
		if err := w.same(old[it.path], stamps); err != nil {
			_ = w.root.Remove(temp)
			return err
		}
		failpoint.Hit(failpoint.MoveStaged)
		w.hit(moveStaged)
		if old[it.path].oldMode == noMode {
			w.clear(it.path)
		}
		move := w.root.Rename
		if old[it.path].oldMode == noMode {
			// A name that is not free any more is not taken.
			move = func(from, to string) error { return place(w.fd, from, to) }
		}
		if err := move(temp, it.path); err != nil {
			_ = w.root.Remove(temp)
			return storageFault(fmt.Errorf("moving %s in: %w", it.path, err))
		}
		failpoint.Hit(failpoint.MoveNamed)
		w.hit(moveNamed)
		return nil
	})
	if err != nil {
		return err
	}
	if err := syncFileSystem(w.handle); err != nil {
		return storageFault(err)
	}
	return nil
}

// clear takes an empty folder away from where a file is to be: a move that was
// interrupted after it had removed the last file of a folder leaves it behind.
func (w *Workspace) clear(path string) {
	st, err := lstatAt(w.fd, path)
	if err != nil || !st.isDir() || !w.emptied(path, nil) {
		return
	}
	list, err := fs.ReadDir(w.root.FS(), path)
	if err != nil {
		return
	}
	for _, e := range list {
		w.clear(join(path, e.Name()))
	}
	_ = w.root.Remove(path) // one that somebody has filled stays, and is in the way
}

// stamps are those of the counted files.
func (s *snapshot) stamps() map[string]stamp {
	all := map[string]stamp{}
	for _, d := range s.dirs {
		for _, e := range d.files {
			all[e.path] = e.st
		}
	}
	return all
}

// same checks that a file that is to go was not touched since it was observed.
func (w *Workspace) same(d delta, stamps map[string]stamp) error {
	if d.oldMode == noMode {
		return nil
	}
	if st, err := lstatAt(w.fd, d.path); err != nil || st != stamps[d.path] {
		return fault.New(fault.Foreign, fault.Environment, d.path+" in "+w.path+" was changed while the goal's workspace was being moved there", "leave the directory alone for a moment").Retry()
	}
	return nil
}
