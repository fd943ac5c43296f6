package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// change makes the present state of a directory a tree, changes it, makes it a
// tree again, and puts the first one back.
func change(t *testing.T, w *Workspace, root string, files map[string]string) (base, result string) {
	t.Helper()
	base = observe(t, w)
	for name, text := range files {
		if err := os.Remove(filepath.Join(root, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if text != "" {
			put(t, root, map[string]string{name: text})
		}
	}
	result = observe(t, w)
	moveIn(t, w, base, result)
	return base, result
}

func TestCommitMakesOneCommitAndTouchesNothingElse(t *testing.T) {
	t.Parallel()
	root := dirtyRepo(t)
	run(t, root, "config", "user.name", "A Person")
	run(t, root, "config", "user.email", "person@example.com")
	run(t, root, "config", "core.autocrlf", "true")
	for _, h := range []string{"pre-commit", "post-commit", "reference-transaction", "commit-msg"} {
		program(t, filepath.Join(root, ".git", "hooks", h), "#!/bin/sh\ntouch "+filepath.Join(root, "hooked")+"\n")
	}
	w := open2(t, root, Options{})
	base, result := change(t, w, root, map[string]string{"dir/run.sh": "", "link": "-> dir", "fresh/crlf.txt": "a\r\nb\r\n", ".gitignore": "*.log\nnode_modules/\n.env\nmore\n"})
	head := run(t, root, "rev-parse", "HEAD")
	before := prints(t, root)
	of := workspace.CommitOf{Branch: "goal/one", Start: head, Parent: head, Base: base, Result: result, Message: "what it did\n", At: time.Unix(1_800_000_000, 0), Dry: true}
	ctx := context.Background()
	dry, err := w.Commit(ctx, of)
	if err != nil || len(dry.Conflicts) != 1 || dry.Conflicts[0].Path != "dir/run.sh" || !strings.Contains(dry.Conflicts[0].Why, "not committed when the goal started") {
		t.Fatalf("%+v, %v (its mode was changed and not committed)", dry, err)
	}
	same(t, "after a dry run", before, prints(t, root))
	base, result = change(t, w, root, map[string]string{"link": "-> dir", "fresh/crlf.txt": "a\r\nb\r\n", ".gitignore": "*.log\nnode_modules/\n.env\nmore\n"})
	of.Base, of.Result = base, result
	status := run(t, root, "status", "--porcelain")
	before = prints(t, root)
	if dry, err = w.Commit(ctx, of); err != nil || len(dry.Conflicts) > 0 || dry.Changed != 3 {
		t.Fatalf("%+v, %v", dry, err)
	}
	same(t, "after a dry run", before, prints(t, root))
	of.Dry = false
	made, err := w.Commit(ctx, of)
	if err != nil || made.Commits != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := run(t, root, "rev-parse", "refs/heads/goal/one"); got != made.Commit {
		t.Errorf("the branch is at %s, not %s", got, made.Commit)
	}
	if again, err := w.Commit(ctx, of); err != nil || again.Commit != made.Commit {
		t.Errorf("again: %+v, %v", again, err)
	}
	if got := run(t, root, "show", "--no-renames", "--name-status", "--format=%an <%ae> %s %P", "goal/one"); got != "A Person <person@example.com> what it did "+head+"\n\nM\t.gitignore\nA\tfresh/crlf.txt\nM\tlink" {
		t.Errorf("%s", got)
	}
	if got := run(t, root, "cat-file", "blob", "goal/one:fresh/crlf.txt"); got != "a\nb" {
		t.Errorf("line endings are %q: the user's git has its say", got)
	}
	if got := run(t, root, "status", "--porcelain"); got != status {
		t.Errorf("status is %q, was %q", got, status)
	}
	if _, err := os.Stat(filepath.Join(root, "hooked")); err == nil {
		t.Error("a hook ran")
	}
	run(t, root, "fsck", "--strict")
	var f *fault.Fault
	of.Message = "another"
	if _, err := w.Commit(ctx, of); !errors.As(err, &f) || f.Kind != fault.AlreadyExists {
		t.Errorf("over a branch: %v", err)
	}
	of.Branch = "no..name"
	if _, err := w.Commit(ctx, of); err == nil {
		t.Error("a name that git does not take was taken")
	}
}

func TestCommitBringsTheCommitsOfACheckout(t *testing.T) {
	t.Parallel()
	root := dirtyRepo(t)
	run(t, root, "config", "user.name", "A Person")
	run(t, root, "config", "user.email", "person@example.com")
	ctx := context.Background()
	got, err := Checkouts{Dir: t.TempDir(), Options: Options{State: t.TempDir()}}.Make(ctx, root, "g", workspace.Bring{})
	if err != nil {
		t.Fatal(err)
	}
	w, c := open2(t, root, Options{}), open2(t, got.Root, Options{})
	base := observe(t, c)
	put(t, got.Root, map[string]string{"first.txt": "1\n"})
	run(t, got.Root, "add", "first.txt")
	run(t, got.Root, "commit", "-qm", "by the goal", "--", "first.txt")
	put(t, got.Root, map[string]string{"second.txt": "2\n"})
	result := observe(t, c)
	for _, tree := range []string{base, result} {
		pack, err := c.Export(ctx, tree, "")
		if err == nil {
			err = errors.Join(w.Import(ctx, pack), pack.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := workspace.CommitOf{Branch: "series", Start: got.Head, Parent: run(t, got.Root, "rev-parse", "HEAD"), Clone: filepath.Join(got.Dir, ".git"),
		Base: base, Result: result, Message: "the rest", At: time.Unix(1_800_000_000, 0), Dry: true}
	if dry, err := w.Commit(ctx, of); err != nil || dry.Commits != 1 || dry.Changed != 1 || len(dry.Conflicts) > 0 {
		t.Fatalf("%+v, %v", dry, err)
	}
	of.Dry = false
	if made, err := w.Commit(ctx, of); err != nil || made.Commits != 2 {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := run(t, root, "log", "--format=%s", got.Head+"..series"); got != "the rest\nby the goal" {
		t.Errorf("the series is %q", got)
	}
	run(t, root, "fsck", "--strict")
}
