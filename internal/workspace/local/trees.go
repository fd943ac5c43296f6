package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
)

// private prepares a call on the private git directory alone, from inside it,
// so that no file of the workspace has a say.
func (w *Workspace) inStore(args ...string) call {
	return call{dir: w.store.dir, gitDir: w.store.dir, args: args}
}

// known checks that an argument is a tree that was observed here. The form is
// checked first, so that it can never be read as an option or a name.
func (w *Workspace) known(ctx context.Context, trees ...string) error {
	for _, t := range trees {
		if b, err := hex.DecodeString(t); err != nil || len(b) != len(oid{}) || strings.ToLower(t) != t {
			return fault.New(fault.NotFound, fault.Runtime, fmt.Sprintf("%q is not the name of a tree", t), "use the tree of a recorded revision")
		}
		if w.store.has(oid(mustHex(t))) {
			continue
		}
		if _, err := w.git.run(ctx, w.inStore("cat-file", "-e", t+"^{tree}")); err != nil {
			var g *gitError
			if !errors.As(err, &g) {
				return err
			}
			return fault.New(fault.NotFound, fault.Environment, "the tree "+t+" is not kept in "+w.store.dir,
				"it was observed on another machine or pruned; observe again")
		}
	}
	return nil
}

func mustHex(s string) []byte {
	b, _ := hex.DecodeString(s) // checked by the caller
	return b
}

// Changes implements workspace.Workspace.
func (w *Workspace) Changes(ctx context.Context, from, to string) ([]event.Change, error) {
	if err := w.known(ctx, from, to); err != nil {
		return nil, err
	}
	if from == to {
		return nil, nil
	}
	out, err := w.git.run(ctx, w.inStore("diff-tree", "-r", "--raw", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", from, to))
	if err != nil {
		return nil, err
	}
	return parseChanges(string(out))
}

// parseChanges reads git's raw and numstat records, each ended by NUL: first
// ":modes ids status" and the path for every change, then "added deleted path".
func parseChanges(out string) ([]event.Change, error) {
	at := map[string]*event.Change{}
	fields := strings.Split(out, "\x00")
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		if f == "" {
			continue
		}
		if f[0] == ':' {
			raw := strings.Fields(f)
			if len(raw) != 5 || i+1 >= len(fields) {
				return nil, fmt.Errorf("local: git diff-tree said %q", f)
			}
			i++
			at[fields[i]] = &event.Change{Path: fields[i], Status: statusOf(raw)}
			continue
		}
		num := strings.SplitN(f, "\t", 3)
		if len(num) != 3 || at[num[2]] == nil {
			return nil, fmt.Errorf("local: git diff-tree said %q", f)
		}
		c := at[num[2]]
		if num[0] == "-" {
			c.Binary = true
			continue
		}
		c.Added, _ = strconv.ParseInt(num[0], 10, 64)
		c.Deleted, _ = strconv.ParseInt(num[1], 10, 64)
	}
	list := make([]event.Change, 0, len(at))
	for _, c := range at {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b event.Change) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// statusOf reads mode, mode, id, id, letter.
func statusOf(raw []string) string {
	switch {
	case raw[4] == "A":
		return "added"
	case raw[4] == "D":
		return "deleted"
	case raw[2] == raw[3]:
		return "mode"
	}
	return "modified"
}

// Diff implements workspace.Workspace.
func (w *Workspace) Diff(ctx context.Context, from, to string) ([]byte, error) {
	if err := w.known(ctx, from, to); err != nil {
		return nil, err
	}
	if from == to {
		return nil, nil
	}
	return w.git.run(ctx, w.inStore("diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=histogram", "--no-indent-heuristic", "--unified=3", from, to))
}

// Keep implements workspace.Workspace. The object is durable since it was
// observed; the name keeps a later pruning away from it.
func (w *Workspace) Keep(ctx context.Context, name, tree string) error {
	if err := w.known(ctx, tree); err != nil {
		return err
	}
	if name == "" {
		return fault.New(fault.InvalidArguments, fault.User, "the checkpoint has no name", "name it")
	}
	failpoint.Hit(failpoint.KeepBefore)
	_, err := w.git.run(ctx, w.inStore("update-ref", "refs/belay/"+refName(name), tree))
	failpoint.Hit(failpoint.KeepAfter)
	return err
}

// refName writes any name as one component that git accepts as a reference.
func refName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' && b.Len() > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// Materialise implements workspace.Workspace. Files are written by belay and
// not checked out by git, so that they are the bytes that were observed.
func (w *Workspace) Materialise(ctx context.Context, tree, dir string) (err error) {
	if err := w.known(ctx, tree); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return storageFault(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return storageFault(err)
	}
	if len(list) > 0 {
		return fault.New(fault.AlreadyExists, fault.Runtime, "the directory "+dir+" is not empty", "name an empty directory")
	}
	items, err := w.items(ctx, tree)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return storageFault(err)
	}
	defer root.Close()
	// Links last: nothing is ever written through one.
	slices.SortStableFunc(items, func(a, b item) int {
		return strings.Compare(b2s(a.mode == linkMode), b2s(b.mode == linkMode))
	})
	return w.writeItems(ctx, root, items)
}

const linkMode = "120000"

type item struct{ mode, id, path string }

func b2s(b bool) string { return strconv.FormatBool(b) }

func (w *Workspace) writeItems(ctx context.Context, root *os.Root, items []item) error {
	made := map[string]bool{}
	return w.batch(ctx, items, func(it item, size int64, r io.Reader) error { return putItem(root, it, size, r, made) })
}

// batch reads the content of many objects, in order, from one git.
func (w *Workspace) batch(ctx context.Context, items []item, each func(it item, size int64, r io.Reader) error) error {
	if len(items) == 0 {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ask bytes.Buffer
	for _, it := range items {
		ask.WriteString(it.id + "\n")
	}
	cmd := w.git.command(ctx, call{dir: w.store.dir, gitDir: w.store.dir, stdin: ask.Bytes(), args: []string{"cat-file", "--batch", "--buffer"}})
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	r := bufio.NewReaderSize(pipe, 1<<18)
	for _, it := range items {
		if err := readItem(it, r, each); err != nil {
			stop()
			_ = cmd.Wait() // ended by us
			return storageFault(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	return nil
}

// readItem reads "id kind size\n", the bytes and a newline.
func readItem(it item, r *bufio.Reader, each func(it item, size int64, r io.Reader) error) error {
	head, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("reading %s from the private git directory: %w", it.path, err)
	}
	f := strings.Fields(head)
	if len(f) != 3 || f[0] != it.id || f[1] != blobKind {
		return fmt.Errorf("reading %s from the private git directory: %q", it.path, strings.TrimSpace(head))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return fmt.Errorf("reading %s: %w", it.path, err)
	}
	if err := each(it, size, io.LimitReader(r, size)); err != nil {
		return err
	}
	_, err = r.Discard(1)
	return err
}

// putItem writes a file or link under a name that is free.
func putItem(root *os.Root, it item, size int64, r io.Reader, made map[string]bool) error {
	if up := parent(it.path); up != "" && !made[up] {
		if err := root.MkdirAll(up, 0o755); err != nil {
			return err
		}
		made[up] = true
	}
	if it.mode != linkMode {
		return writeFile(root, it, r)
	}
	to := make([]byte, size)
	if _, err := io.ReadFull(r, to); err != nil {
		return err
	}
	return root.Symlink(string(to), it.path)
}

func writeFile(root *os.Root, it item, r io.Reader) error {
	mode := os.FileMode(0o644)
	if it.mode == "100755" {
		mode = 0o755
	}
	out, err := root.OpenFile(it.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	// The process's umask may have taken the executable bit away.
	return errors.Join(err, out.Chmod(mode), out.Close())
}
