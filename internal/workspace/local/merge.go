package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"belay/internal/workspace"
)

// side is what one tree has at a path; the zero side has nothing there.
type side struct{ mode, id string }

func (s side) absent() bool { return s.mode == "" }
func (s side) text() bool   { return !s.absent() && s.mode != linkMode }

// Merge implements workspace.Workspace. Paths are compared by belay and contents
// merged by git merge-file, which reads no attributes: no merge driver that a
// repository names has a say, and a renamed file is one deleted and one added.
func (w *Workspace) Merge(ctx context.Context, base, ours, theirs string, mark bool) (workspace.Merged, error) {
	var out workspace.Merged
	todo, err := w.deltas(ctx, base, theirs, false)
	if err != nil {
		return out, err
	}
	mine, err := w.items(ctx, ours)
	if err != nil {
		return out, err
	}
	at, folders := map[string]side{}, map[string]bool{}
	for _, it := range mine {
		at[it.path] = side{it.mode, it.id}
		for p := parent(it.path); p != ""; p = parent(p) {
			folders[p] = true
		}
	}
	changed := map[string]side{}
	for _, d := range todo {
		was, is := sideOf(d.oldMode, d.oldID), sideOf(d.newMode, d.newID)
		have := at[d.path]
		if have == was {
			changed[d.path] = is
			continue
		}
		if have == is {
			continue
		}
		got, c, err := w.mergePath(ctx, d.path, was, have, is)
		if err != nil {
			return out, err
		}
		if c != nil {
			out.Conflicts = append(out.Conflicts, *c)
		}
		changed[d.path] = got
	}
	out.Conflicts = append(out.Conflicts, misplaced(changed, at, folders)...)
	if len(out.Conflicts) > 0 && !mark {
		return out, nil
	}
	for p := range changed {
		if clash(p, changed, at, folders) {
			delete(changed, p) // ours stays; the conflict names it
		}
	}
	var items []item
	for _, it := range mine {
		if _, ok := changed[it.path]; !ok {
			items = append(items, it)
		}
	}
	for p, s := range changed {
		if !s.absent() {
			items = append(items, item{mode: s.mode, id: s.id, path: p})
		}
	}
	if out.Tree, err = w.treeOf(ctx, items); err == nil {
		err = w.syncStore() // what follows begins to write it into a directory
	}
	return out, err
}

func sideOf(mode, id string) side {
	if mode == noMode {
		return side{}
	}
	return side{mode, id}
}

// clash reports whether a new path cannot stand where ours has a folder, or
// below what is a file of ours.
func clash(path string, changed, at map[string]side, folders map[string]bool) bool {
	if changed[path].absent() {
		return false
	}
	for p := parent(path); p != ""; p = parent(p) {
		if s, moved := changed[p]; !at[p].absent() && !moved || moved && !s.absent() {
			return true
		}
	}
	if !folders[path] {
		return false
	}
	for p, s := range at {
		if strings.HasPrefix(p, path+"/") && !s.absent() {
			if now, moved := changed[p]; !moved || !now.absent() {
				return true
			}
		}
	}
	return false
}

func misplaced(changed, at map[string]side, folders map[string]bool) []workspace.Conflict {
	var out []workspace.Conflict
	for p := range changed {
		if clash(p, changed, at, folders) {
			out = append(out, workspace.Conflict{Path: p, Why: "one side has a folder where the other has a file"})
		}
	}
	return out
}

// mergePath merges what both sides changed at one path. What it returns with a
// conflict is what a tree with marks holds.
func (w *Workspace) mergePath(ctx context.Context, path string, was, ours, theirs side) (side, *workspace.Conflict, error) {
	conflict := func(why string) *workspace.Conflict { return &workspace.Conflict{Path: path, Why: why} }
	switch {
	case ours.absent():
		return ours, conflict("changed by the goal, deleted here"), nil
	case theirs.absent():
		return ours, conflict("deleted by the goal, changed here"), nil
	case ours.id == theirs.id: // the modes differ
		if was.mode == ours.mode {
			return theirs, nil, nil
		}
		return ours, nil, nil
	case was.id == theirs.id && was.text() && theirs.text() && ours.text(): // they changed the mode, ours the content
		return side{theirs.mode, ours.id}, nil, nil
	case was.id == ours.id && was.text() && theirs.text() && ours.text():
		return side{ours.mode, theirs.id}, nil, nil
	case !ours.text() || !theirs.text():
		return ours, conflict("a link on one side and something else on the other"), nil
	}
	mode := theirs.mode
	if was.mode == theirs.mode {
		mode = ours.mode
	}
	text, clean, err := w.mergeTexts(ctx, was, ours, theirs)
	if err != nil {
		return ours, nil, err
	}
	if text == nil {
		return ours, conflict("changed by both, and no text"), nil
	}
	id := hashObject(blobKind, text)
	sink := newLooseSink(w.store)
	if err := sink.add(blobKind, id, text); err != nil {
		sink.abandon()
		return ours, nil, storageFault(err)
	}
	if err := sink.finish(); err != nil {
		return ours, nil, err
	}
	merged := side{mode, id.String()}
	if clean {
		return merged, nil, nil
	}
	c := conflict("changed by both in the same place")
	if was.absent() {
		c.Why = "added by both with different content"
	}
	c.Text = places(text)
	return merged, c, nil
}

// mergeTexts has git merge three contents. The text is nil when one of them is
// none.
func (w *Workspace) mergeTexts(ctx context.Context, was, ours, theirs side) (text []byte, clean bool, err error) {
	dir, err := os.MkdirTemp(w.private, "tmp_merge_")
	if err != nil {
		return nil, false, storageFault(err)
	}
	defer os.RemoveAll(dir)
	var items []item
	for name, s := range map[string]side{"ours": ours, "base": was, "theirs": theirs} {
		if s.absent() || s.mode == linkMode {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				return nil, false, storageFault(err)
			}
			continue
		}
		items = append(items, item{mode: s.mode, id: s.id, path: name})
	}
	binary := false
	err = w.batch(ctx, items, func(it item, size int64, r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		binary = binary || bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
		return os.WriteFile(filepath.Join(dir, it.path), b, 0o600)
	})
	if err != nil || binary {
		return nil, false, err
	}
	cmd := w.git.command(ctx, call{dir: dir, gitDir: w.store.dir, args: []string{"merge-file", "-p", "-q",
		"-L", "yours", "-L", "as the goal found it", "-L", "the goal's", "--diff3", "ours", "base", "theirs"}})
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if err == nil {
		return nonNil(out.Bytes()), true, nil
	}
	// The status is the number of conflicts, 255 for an error.
	if code := cmd.ProcessState.ExitCode(); code > 0 && code < 128 {
		return nonNil(out.Bytes()), false, nil
	}
	return nil, false, fmt.Errorf("git merge-file: %w: %s", err, strings.TrimSpace(said.String()))
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// maxPlaces caps what a conflict shows.
const maxPlaces = 8 << 10

// places are the parts of a merged text between git's conflict marks.
func places(text []byte) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(string(text)) {
		in = in || strings.HasPrefix(line, "<<<<<<< ")
		if in {
			b.WriteString(line)
		}
		if strings.HasPrefix(line, ">>>>>>> ") {
			in = false
		}
		if b.Len() > maxPlaces {
			b.WriteString("(more)\n")
			break
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// syncStore makes what git wrote into the store durable.
func (w *Workspace) syncStore() error {
	f, err := os.Open(w.private)
	if err != nil {
		return storageFault(err)
	}
	defer f.Close()
	if err := syncFileSystem(f); err != nil {
		return storageFault(err)
	}
	return nil
}

// collect reads whole contents by path.
func collect(into map[string][]byte) func(item, int64, io.Reader) error {
	return func(it item, _ int64, r io.Reader) (err error) {
		into[it.path], err = io.ReadAll(r)
		return err
	}
}
