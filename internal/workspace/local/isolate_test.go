package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// dirtyRepo is a repository with everything in it that a checkout must bring:
// staged, changed, deleted, untracked and ignored files, links, modes, a
// submodule and a nested repository that are dirty themselves.
func dirtyRepo(t *testing.T) string {
	t.Helper()
	sub := t.TempDir()
	put(t, sub, map[string]string{"lib.c": "lib\n"})
	run(t, sub, "init", "-q")
	run(t, sub, "add", "-A")
	run(t, sub, "commit", "-qm", "lib")
	root := t.TempDir()
	put(t, root, map[string]string{"a.txt": "a\r\n", "gone.txt": "g\n", "staged.txt": "1\n", "dir/run.sh": "echo\n", "link": "-> a.txt", ".gitignore": "*.log\nnode_modules/\n.env\n"})
	run(t, root, "init", "-q")
	run(t, root, "add", "-A")
	run(t, root, "commit", "-qm", "one")
	run(t, root, "submodule", "--quiet", "add", sub, "vendor/lib")
	run(t, root, "commit", "-qm", "two")
	run(t, root, "branch", "other")
	run(t, root, "remote", "add", "origin", "https://example.com/r.git")
	put(t, root, map[string]string{"stashed.txt": "s"})
	run(t, root, "stash", "-uq")
	put(t, root, map[string]string{"a.txt": "dirty\r\n", "staged.txt": "2\n", "new/untracked.txt": "u\n", "kept.log": "tracked though ignored\n",
		"other.log": "ignored", "node_modules/x/index.js": "x\n", ".env": "KEY=1\n", "vendor/lib/lib.c": "changed\n", "vendor/lib/more.c": "more\n", "nested/n.txt": "n\n"})
	run(t, root, "add", "staged.txt")
	run(t, root, "add", "-f", "kept.log")
	if err := errors.Join(os.Remove(filepath.Join(root, "gone.txt")), os.Chmod(filepath.Join(root, "dir/run.sh"), 0o755)); err != nil {
		t.Fatal(err)
	}
	run(t, filepath.Join(root, "nested"), "init", "-q")
	return root
}

func TestAWorktreeIsTheExactDirtyState(t *testing.T) {
	t.Parallel()
	root := dirtyRepo(t)
	before := prints(t, root)
	ctx := context.Background()
	opts := Options{State: t.TempDir()}
	c := Checkouts{Dir: filepath.Join(t.TempDir(), "state.worktrees"), Options: opts}
	got, err := c.Make(ctx, root, "g1", workspace.Bring{Copy: []string{"*.log", "node_modules"}, Link: []string{".env"}, Never: []string{"other.log"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the user's directory", before, prints(t, root))
	if a, b := fresh(t, root), fresh(t, got.Root); a != b {
		t.Errorf("the trees are %s and %s", a, b)
	}
	for _, args := range [][]string{{"status", "--porcelain=v2"}, {"diff", "--cached"}, {"log", "--oneline", "--all"}, {"remote", "-v"}, {"branch", "-a"}, {"-C", "vendor/lib", "status", "--porcelain"}} {
		a, b := run(t, root, args...), run(t, got.Root, args...)
		if args[0] == "log" {
			if !strings.Contains(a, "WIP on") || strings.Contains(b, "WIP on") || !strings.Contains(b, "two") {
				t.Errorf("log: %s", b)
			}
			continue
		}
		if a != b {
			t.Errorf("git %v says there\n%s\nand in the worktree\n%s", args, a, b)
		}
	}
	if v := content(t, got.Root, "node_modules/x/index.js"); v != "x\n" {
		t.Errorf("node_modules: %q", v)
	}
	if to, err := os.Readlink(filepath.Join(got.Root, ".env")); err != nil || to != filepath.Join(root, ".env") {
		t.Errorf(".env leads to %q, %v", to, err)
	}
	if _, err := os.Lstat(filepath.Join(got.Root, "other.log")); err == nil {
		t.Error("what is never brought was brought")
	}
	before = prints(t, root) // git status has refreshed the user's index
	// What is done there with git does not reach the user's.
	put(t, got.Root, map[string]string{"a.txt": "theirs\n"})
	run(t, got.Root, "commit", "-qam", "in the worktree")
	run(t, got.Root, "branch", "-D", "other")
	same(t, "the user's directory after a commit in the worktree", before, prints(t, root))
	if err := errors.Join(c.Keep(got.Dir), c.Drop(got.Dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Dir); !os.IsNotExist(err) {
		t.Errorf("something is left behind: %v", err)
	}
	if err := c.Drop(root); err == nil {
		t.Error("the user's own directory could be dropped")
	}
}

func TestAWorktreeOfALinkedWorktreeOfAFolderAndWithoutGit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	root := dirtyRepo(t)
	linked := filepath.Join(t.TempDir(), "linked")
	run(t, root, "worktree", "add", "-q", linked, "other")
	put(t, linked, map[string]string{"a.txt": "in the linked one\n"})
	plain := t.TempDir()
	put(t, plain, map[string]string{"a.txt": "a\n", ".gitignore": "*.log\n", "b.log": "b", "link": "-> a.txt"})
	for name, at := range map[string]string{"linked": linked, "folder": filepath.Join(root, "dir"), "no git": plain, "submodule": filepath.Join(root, "vendor/lib")} {
		c := Checkouts{Dir: filepath.Join(t.TempDir(), "w"), Options: Options{State: t.TempDir()}}
		got, err := c.Make(ctx, at, "g", workspace.Bring{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a, b := fresh(t, at), fresh(t, got.Root); a != b {
			t.Errorf("%s: the trees are %s and %s", name, a, b)
		}
		if name == "folder" && content(t, got.Dir, "a.txt") != "dirty\r\n" {
			t.Error("the rest of the repository is not there")
		}
		if name == "linked" && run(t, got.Root, "rev-parse", "HEAD") != run(t, linked, "rev-parse", "HEAD") {
			t.Error("HEAD is another")
		}
	}
}

func TestAWorktreeInTheRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	root := dirtyRepo(t)
	c := Checkouts{Dir: filepath.Join(root, "state.worktrees"), Options: Options{State: t.TempDir()}}
	_, err := c.Make(context.Background(), filepath.Join(root, "dir"), "g", workspace.Bring{})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Protected || !strings.Contains(f.Error(), "BELAY_WORKTREES") {
		t.Errorf("%v", err)
	}
	if _, err := (Checkouts{Dir: t.TempDir(), Options: Options{State: t.TempDir()}}).Make(context.Background(), root, "g", workspace.Bring{Copy: []string{"../x"}}); err == nil {
		t.Error("a path outside was brought")
	}
}

func TestALargeRepositoryIsBorrowedFrom(t *testing.T) {
	root := dirtyRepo(t)
	defer func(was int64) { borrowAbove = was }(borrowAbove)
	borrowAbove = 0
	got, err := Checkouts{Dir: t.TempDir(), Options: Options{State: t.TempDir()}}.Make(context.Background(), root, "g", workspace.Bring{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := run(t, root, "status", "--porcelain"), run(t, got.Root, "status", "--porcelain"); a != b {
		t.Errorf("status is %q, not %q", b, a)
	}
	if b := content(t, got.Root, ".git/objects/info/alternates"); !strings.Contains(b, filepath.Join(root, ".git/objects")) {
		t.Errorf("alternates: %q", b)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	const text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	base := map[string]string{"t": text, "bin": "a\x00", "gone": "g\n", "same": "s\n", "link": "-> t", "mode": "m\n", "both": "b\n", "f": "f\n", "d/x": "x\n"}
	ctx := context.Background()
	for _, tc := range []struct {
		name         string
		ours, theirs map[string]string // "" removes
		want         map[string]string
		conflicts    string
	}{
		{"nothing", nil, nil, nil, ""},
		{"only theirs", nil, map[string]string{"t": "x\n", "gone": "", "new/n": "n\n", "link": "-> mode"}, map[string]string{"t": "x\n", "gone": "", "new/n": "n\n", "link": "-> mode"}, ""},
		{"only ours", map[string]string{"t": "x\n", "mine": "m\n"}, nil, map[string]string{"t": "x\n", "mine": "m\n"}, ""},
		{"two places of one file", map[string]string{"t": strings.Replace(text, "1", "one", 1)}, map[string]string{"t": strings.Replace(text, "9", "nine", 1)},
			map[string]string{"t": strings.NewReplacer("1", "one", "9", "nine").Replace(text)}, ""},
		{"the same change", map[string]string{"t": "x\n", "gone": ""}, map[string]string{"t": "x\n", "gone": ""}, map[string]string{"t": "x\n", "gone": ""}, ""},
		{"one place", map[string]string{"t": strings.Replace(text, "5", "five", 1)}, map[string]string{"t": strings.Replace(text, "5", "cinq", 1), "same": "S\n"}, nil, "t: changed by both in the same place"},
		{"binary", map[string]string{"bin": "b\x00"}, map[string]string{"bin": "c\x00"}, nil, "bin: changed by both, and no text"},
		{"deleted here", map[string]string{"gone": ""}, map[string]string{"gone": "G\n"}, nil, "gone: changed by the goal, deleted here"},
		{"deleted by the goal", map[string]string{"gone": "G\n"}, map[string]string{"gone": ""}, nil, "gone: deleted by the goal, changed here"},
		{"added by both", map[string]string{"n": "1\n"}, map[string]string{"n": "2\n"}, nil, "n: added by both with different content"},
		{"links", map[string]string{"link": "-> bin"}, map[string]string{"link": "-> mode"}, nil, "link: a link on one side and something else on the other"},
		{"a folder for a file", nil, map[string]string{"f": "", "f/g": "g\n"}, map[string]string{"f": "", "f/g": "g\n"}, ""},
		{"a file for a folder", nil, map[string]string{"d/x": "", "d": "d\n"}, map[string]string{"d/x": "", "d": "d\n"}, ""},
		{"a folder that got a file here", map[string]string{"d/y": "y\n"}, map[string]string{"d/x": "", "d": "d\n"}, nil, "d: one side has a folder where the other has a file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			w := open2(t, root, Options{})
			trees := make([]string, 4)
			for i, with := range []map[string]string{nil, tc.ours, tc.theirs, tc.want} {
				list, err := os.ReadDir(root)
				for _, e := range list {
					err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
				}
				if err != nil {
					t.Fatal(err)
				}
				all := map[string]string{}
				for k, v := range base {
					all[k] = v
				}
				for k, v := range with {
					all[k] = v
					if v == "" {
						delete(all, k)
					}
				}
				put(t, root, all)
				trees[i] = observe(t, w)
			}
			got, err := w.Merge(ctx, trees[0], trees[1], trees[2], false)
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, c := range got.Conflicts {
				said += c.Path + ": " + c.Why
			}
			if said != tc.conflicts || tc.conflicts == "" && got.Tree != trees[3] || tc.conflicts != "" && got.Tree != "" {
				t.Errorf("conflicts %q, tree %s; want %q, %s", said, got.Tree, tc.conflicts, trees[3])
			}
			marked, err := w.Merge(ctx, trees[0], trees[1], trees[2], true)
			if err != nil || marked.Tree == "" || len(marked.Conflicts) != len(got.Conflicts) {
				t.Fatalf("%+v, %v", marked, err)
			}
			if tc.name == "one place" {
				c, err := w.Contents(ctx, marked.Tree, []string{"t", "same"}, 1<<20)
				if err != nil || !strings.Contains(string(c["t"]), "<<<<<<< yours\nfive\n") || !strings.Contains(string(c["t"]), ">>>>>>> the goal's") || string(c["same"]) != "S\n" {
					t.Errorf("%q, %v", c, err)
				}
				if !strings.Contains(got.Conflicts[0].Text, "five\n||||||| as the goal found it\n5\n=======\ncinq\n") {
					t.Errorf("shown: %s", got.Conflicts[0].Text)
				}
			}
		})
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w := open2(t, root, Options{})
	want := func(want event.Standing) {
		t.Helper()
		if got, err := w.Standing(context.Background()); err != nil || got != want {
			t.Errorf("standing %+v, %v; want %+v", got, err, want)
		}
	}
	want(event.Standing{})
	put(t, root, map[string]string{"a": "1\n"})
	run(t, root, "init", "-q")
	want(event.Standing{Branch: "main"})
	run(t, root, "add", "-A")
	run(t, root, "commit", "-qm", "one")
	head := func() string { return run(t, root, "rev-parse", "HEAD") }
	want(event.Standing{Branch: "main", Head: head()})
	run(t, root, "pack-refs", "--all")
	want(event.Standing{Branch: "main", Head: head()})
	run(t, root, "checkout", "-qb", "feature/x")
	put(t, root, map[string]string{"a": "2\n"})
	run(t, root, "commit", "-qam", "two")
	want(event.Standing{Branch: "feature/x", Head: head()})
	run(t, root, "checkout", "-q", "main")
	put(t, root, map[string]string{"a": "3\n"})
	run(t, root, "commit", "-qam", "three")
	merge := try(root, "merge", "feature/x")
	want(event.Standing{Branch: "main", Head: head(), Doing: "a merge"})
	if merge == nil {
		t.Error("the merge has no conflict")
	}
	run(t, root, "merge", "--abort")
	run(t, root, "checkout", "-q", "--detach")
	want(event.Standing{Head: head()})
	if err := try(root, "rebase", "feature/x"); err == nil {
		t.Error("the rebase has no conflict")
	}
	if got, err := w.Standing(context.Background()); err != nil || got.Doing != "a rebase" {
		t.Errorf("%+v, %v", got, err)
	}
	linked := filepath.Join(t.TempDir(), "l")
	run(t, root, "rebase", "--abort")
	run(t, root, "worktree", "add", "-q", linked, "feature/x")
	l := open2(t, linked, Options{})
	if got, err := l.Standing(context.Background()); err != nil || got.Branch != "feature/x" || got.Head != run(t, linked, "rev-parse", "HEAD") {
		t.Errorf("%+v, %v", got, err)
	}
}

// try runs git where it is to fail.
func try(dir string, args ...string) error {
	cmd := exec.Command("git", append([]string{"-c", "user.name=u", "-c", "user.email=u@example.com"}, args...)...)
	cmd.Dir = dir
	return cmd.Run()
}
