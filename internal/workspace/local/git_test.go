package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/workspace"
)

// booby makes a repository in which every program that git could be made to
// run leaves a mark.
func booby(t *testing.T) (root, mark string) {
	t.Helper()
	root = t.TempDir()
	mark = filepath.Join(t.TempDir(), "mark")
	trap := filepath.Join(t.TempDir(), "trap.sh")
	program(t, trap, "#!/bin/sh\necho \"$0 $*\" >> "+mark+"\ncat\n")
	put(t, root, map[string]string{"a.txt": "a\r\n$Id$\n", "b.bin": "b\x00", "sub/c.txt": "c\n", ".gitattributes": "* text=auto eol=crlf ident\n*.txt filter=trap diff=trap merge=trap\n", ".gitignore": "*.log\n"})
	run(t, root, "init", "-q")
	run(t, root, "add", "-A")
	run(t, root, "commit", "-qm", "one")
	run(t, root, "branch", "other")
	put(t, root, map[string]string{"stashed": "s"})
	run(t, root, "stash", "-uq")
	for _, kv := range [][2]string{
		{"filter.trap.clean", trap}, {"filter.trap.smudge", trap}, {"filter.trap.process", trap}, {"filter.trap.required", "true"},
		{"diff.trap.textconv", trap}, {"diff.trap.command", trap}, {"diff.external", trap}, {"core.fsmonitor", trap}, {"core.pager", trap},
		{"core.editor", trap}, {"core.sshCommand", trap}, {"core.untrackedCache", "true"}, {"core.autocrlf", "true"}, {"core.attributesFile", trap},
		{"alias.ls-files", "!" + trap}, {"gc.auto", "1"}, {"credential.helper", trap}, {"gpg.program", trap}, {"uploadpack.packObjectsHook", trap},
	} {
		run(t, root, "config", kv[0], kv[1])
	}
	for _, h := range []string{"post-index-change", "reference-transaction", "post-checkout", "pre-commit", "fsmonitor-watchman", "pre-auto-gc"} {
		put(t, root, map[string]string{".git/hooks/" + h: "#!/bin/sh\necho " + h + " >> " + mark + "\n"})
		if err := os.Chmod(filepath.Join(root, ".git/hooks", h), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root, mark
}

func TestTheUsersGitIsNeverWrittenAndNothingOfItRuns(t *testing.T) {
	t.Parallel()
	root, mark := booby(t)
	os.Remove(mark)
	before := prints(t, filepath.Join(root, ".git"))
	ctx := context.Background()
	state := t.TempDir()
	w := open2(t, root, Options{State: state, Lock: true, Goal: "g"})
	att, err := w.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := att.Tree
	if err := w.Keep(ctx, "checkpoint 0/../x~^:", first); err != nil {
		t.Fatal(err)
	}
	if err := w.Apply(ctx, []workspace.Edit{
		{Path: "a.txt", Base: sum("a\r\n$Id$\n"), Content: []byte("A\r\n$Id$\n")}, {Path: "new.txt", Content: []byte("n\n")}, {Path: "b.bin", Base: sum("b\x00"), Remove: true},
	}); err != nil {
		t.Fatal(err)
	}
	second := observe(t, w)
	if second != fresh(t, root) || second == first {
		t.Errorf("trees: %s then %s", first, second)
	}
	if _, err := w.Attach(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Changes(ctx, first, second); err != nil {
		t.Fatal(err)
	}
	diff, err := w.Diff(ctx, first, second)
	if err != nil || !strings.Contains(string(diff), "-a\r\n+A\r\n") || !strings.Contains(string(diff), "Binary files a/b.bin and /dev/null differ") {
		t.Errorf("diff: %s %v", diff, err)
	}
	if _, err := w.Files(ctx); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := w.Materialise(ctx, first, dir); err != nil {
		t.Fatal(err)
	}
	if content(t, dir, "a.txt") != "a\r\n$Id$\n" {
		t.Errorf("materialised %q", content(t, dir, "a.txt"))
	}
	if err := w.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	same(t, ".git", before, prints(t, filepath.Join(root, ".git")))
	if b, err := os.ReadFile(mark); err == nil {
		t.Errorf("a program of the repository ran: %s", b)
	}
	// The traps do work: git itself falls into them.
	put(t, root, map[string]string{"sub/c.txt": "C\n"})
	cmd := exec.Command("git", "status")
	cmd.Dir = root
	_, _ = cmd.CombinedOutput() // the traps are no good filters
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the traps leave no mark: %v", err)
	}
}

func TestAttachSaysWhatIsDirtyWithoutFilters(t *testing.T) {
	t.Parallel()
	root, mark := booby(t)
	os.Remove(mark)
	w := open2(t, root, Options{})
	check := func(want ...string) workspace.Attached {
		t.Helper()
		att, err := w.Attach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(att.Dirty, want) {
			t.Errorf("dirty %v, want %v", att.Dirty, want)
		}
		return att
	}
	att := check()
	if att.Git != "repository" || att.Branch != "main" || att.Head != run(t, root, "rev-parse", "HEAD") || att.Root != root {
		t.Errorf("%+v", att)
	}
	// Touched without a change, changed, staged, missing, untracked, mode.
	put(t, root, map[string]string{"sub/c.txt": "c\n", "untracked/x": "x", "ignored.log": "l"})
	check("untracked/x")
	put(t, root, map[string]string{"b.bin": "B\x00"})
	if err := os.Chmod(filepath.Join(root, "sub/c.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, ".gitignore")); err != nil {
		t.Fatal(err)
	}
	check(".gitignore", "b.bin", "ignored.log", "sub/c.txt", "untracked/x")
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
	for i := range 300 {
		put(t, root, map[string]string{fmt.Sprintf("many/%d", i): "x"})
	}
	if att, err := w.Attach(context.Background()); err != nil || len(att.Dirty) != maxDirty {
		t.Errorf("%d dirty, %v", len(att.Dirty), err)
	}
}

func TestEveryLayoutWorks(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a": "a\n", "d/b": "b\n", ".gitignore": "*.log\n", "x.log": "l"}
	main := func(t *testing.T) string {
		root := filepath.Join(t.TempDir(), "main")
		put(t, root, files)
		run(t, root, "init", "-q")
		run(t, root, "add", "-A")
		run(t, root, "commit", "-qm", "one")
		return root
	}
	plain := filepath.Join(t.TempDir(), "plain")
	put(t, plain, files)
	want := fresh(t, plain)
	for name, make := range map[string]func(t *testing.T) (root, git, branch string){
		"no git":     func(t *testing.T) (string, string, string) { return plain, "", "" },
		"repository": func(t *testing.T) (string, string, string) { return main(t), "repository", "main" },
		"unborn": func(t *testing.T) (string, string, string) {
			root := t.TempDir()
			put(t, root, files)
			run(t, root, "init", "-q")
			return root, "repository", "main"
		},
		"detached": func(t *testing.T) (string, string, string) {
			root := main(t)
			run(t, root, "checkout", "-q", "--detach")
			return root, "repository", ""
		},
		"linked worktree": func(t *testing.T) (string, string, string) {
			root := main(t)
			run(t, root, "worktree", "add", "-q", "../tree", "-b", "side")
			put(t, root+"/../tree", map[string]string{"x.log": "l"})
			return filepath.Join(filepath.Dir(root), "tree"), "worktree", "side"
		},
		"worktree whose repository is gone": func(t *testing.T) (string, string, string) {
			root := main(t)
			run(t, root, "worktree", "add", "-q", "../tree", "-b", "side")
			if err := os.RemoveAll(root); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(filepath.Dir(root), "tree"), "", ""
		},
		".git is a link": func(t *testing.T) (string, string, string) {
			root := main(t)
			if err := os.Rename(root+"/.git", root+".git"); err != nil {
				t.Fatal(err)
			}
			put(t, root, map[string]string{".git": "-> ../main.git"})
			return root, "repository", "main"
		},
		"separate git directory": func(t *testing.T) (string, string, string) {
			root := t.TempDir()
			put(t, root, files)
			run(t, root, "init", "-q", "--separate-git-dir", filepath.Join(t.TempDir(), "g"))
			return root, "repository", "main"
		},
		"submodule": func(t *testing.T) (string, string, string) {
			root := main(t)
			super := t.TempDir()
			run(t, super, "init", "-q")
			run(t, super, "submodule", "-q", "add", root, "vendor/sub")
			return filepath.Join(super, "vendor/sub"), "submodule", "main"
		},
		"folder of a repository": func(t *testing.T) (string, string, string) {
			top := t.TempDir()
			put(t, filepath.Join(top, "in/side"), files)
			put(t, top, map[string]string{"other": "o"})
			run(t, top, "init", "-q")
			run(t, top, "add", "-A")
			return filepath.Join(top, "in/side"), "repository", "main"
		},
		"folder that the repository above ignores": func(t *testing.T) (string, string, string) {
			top := t.TempDir()
			put(t, filepath.Join(top, "in/side"), files)
			put(t, top, map[string]string{".gitignore": "in/\n"})
			run(t, top, "init", "-q")
			return filepath.Join(top, "in/side"), "repository", "main"
		},
		"repository of another user": func(t *testing.T) (string, string, string) {
			root := main(t)
			if os.Geteuid() == 0 { // otherwise nobody else's can be made
				for p := range prints(t, root) {
					if err := os.Lchown(p, 1234, 1234); err != nil {
						t.Fatal(err)
					}
				}
			}
			return root, "repository", "main"
		},
		"configuration that names another working tree": func(t *testing.T) (string, string, string) {
			root := main(t)
			run(t, root, "config", "core.worktree", t.TempDir())
			return root, "repository", "main"
		},
		"sha256 repository": func(t *testing.T) (string, string, string) {
			root := t.TempDir()
			put(t, root, files)
			run(t, root, "init", "-q", "--object-format=sha256")
			run(t, root, "add", "-A")
			run(t, root, "commit", "-qm", "one")
			return root, "repository", "main"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, git, branch := make(t)
			w := open2(t, root, Options{})
			att, err := w.Attach(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if att.Tree != want {
				files, _ := w.Files(context.Background())
				t.Errorf("the tree of the same files is another one: %v", files)
			}
			if att.Git != git || att.Branch != branch {
				t.Errorf("layout %q, branch %q", att.Git, att.Branch)
			}
			if err := w.Apply(context.Background(), []workspace.Edit{{Path: "a", Base: sum("a\n"), Content: []byte("A\n")}}); err != nil {
				t.Fatal(err)
			}
			if got := observe(t, w); got == want || got != fresh(t, root) {
				t.Error("an edit does not show")
			}
			if err := os.WriteFile(filepath.Join(root, "a"), []byte("a\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if observe(t, w) != want {
				t.Error("content came back and the tree did not")
			}
		})
	}
}

func TestNestedRepositoriesCountByContent(t *testing.T) {
	t.Parallel()
	lib := t.TempDir()
	put(t, lib, map[string]string{"lib.go": "l\n"})
	run(t, lib, "init", "-q")
	run(t, lib, "add", "-A")
	run(t, lib, "commit", "-qm", "lib")
	root := t.TempDir()
	run(t, root, "init", "-q")
	run(t, root, "submodule", "-q", "add", lib, "vendor/lib")
	put(t, root, map[string]string{"a": "a", "nest/n": "n", "nest/.gitignore": "*.tmp\n", "nest/x.tmp": "x", "nest/deep/d": "d", "unborn/u": "u", "broken/.git": "gitdir: nowhere\n", "broken/b": "b", "emptynest/": "", "ignored/.gitignore": "*\n", "ignored/i": "i", "brokensub/.git": "gitdir: nowhere\n"})
	for _, n := range []string{"nest", "nest/deep", "unborn", "emptynest", "ignored"} {
		run(t, root, "-C", n, "init", "-q")
	}
	run(t, root, "-C", "nest", "add", "n", ".gitignore")
	run(t, root, "-C", "nest", "commit", "-qm", "n")
	w := open2(t, root, Options{})
	ctx := context.Background()
	first := observe(t, w)
	files, err := w.Files(ctx)
	want := []string{".gitmodules", "a", "broken/b", "nest/.gitignore", "nest/deep/d", "nest/n", "unborn/u", "vendor/lib/lib.go"}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("files %v, want %v, %v", files, want, err)
	}
	for i, f := range []string{"vendor/lib/lib.go", "nest/n", "nest/deep/d", "unborn/u", "broken/b", "emptynest/new", "vendor/lib/new"} {
		before := observe(t, w)
		if err := write(filepath.Join(root, f), fmt.Sprintf("changed %d\n", i)); err != nil {
			t.Fatal(err)
		}
		after := observe(t, w)
		if after == before || after != fresh(t, root) {
			t.Errorf("a change of %s does not show", f)
		}
		ch, err := w.Changes(ctx, before, after)
		if err != nil || len(ch) != 1 || ch[0].Path != f {
			t.Errorf("changes %v %v", ch, err)
		}
	}
	// A commit in a submodule changes no content.
	before := observe(t, w)
	run(t, root, "-C", "vendor/lib", "add", "-A")
	run(t, root, "-C", "vendor/lib", "commit", "-qm", "more")
	if observe(t, w) != before {
		t.Error("a commit changed the tree")
	}
	dir := t.TempDir()
	if err := w.Materialise(ctx, first, dir); err != nil {
		t.Fatal(err)
	}
	if got := fresh(t, dir); got != first {
		t.Error("what was materialised has another tree")
	}
}

func TestWhatTheRepositoryTracksCountsAlsoWhereItIsIgnored(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{".gitignore": "build/\n*.gen\n", "build/keep/k": "k", "build/other": "o", "x.gen": "x", "y.gen": "y", "build/deep/er/z": "z"})
	run(t, root, "init", "-q")
	w := open2(t, root, Options{})
	check := func(want ...string) {
		t.Helper()
		files, err := w.Files(context.Background())
		if err != nil || !slices.Equal(files, want) {
			t.Errorf("files %v, want %v, %v", files, want, err)
		}
		if observe(t, w) != fresh(t, root) {
			t.Error("tree")
		}
	}
	check(".gitignore")
	run(t, root, "add", "-f", "build/keep/k", "x.gen")
	check(".gitignore", "build/keep/k", "x.gen")
	for _, d := range w.snap.dirs {
		if d.path == "build/deep" {
			t.Error("an ignored directory is watched")
		}
	}
	run(t, root, "rm", "-q", "--cached", "x.gen")
	check(".gitignore", "build/keep/k")
	put(t, root, map[string]string{".git/info/exclude": "n*\n", "new": "n"})
	check(".gitignore", "build/keep/k")
}

func TestTheUsersGlobalIgnoreFileCounts(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("GIT_INDEX_FILE", "/nowhere")
	root := t.TempDir()
	put(t, root, map[string]string{"a": "a", "a.swp": "s", "b.bak": "b", "c.own": "c"})
	w := open2(t, root, Options{})
	check := func(want ...string) {
		t.Helper()
		files, err := w.Files(context.Background())
		if err != nil || !slices.Equal(files, want) {
			t.Errorf("files %v, want %v, %v", files, want, err)
		}
	}
	check("a", "a.swp", "b.bak", "c.own")
	put(t, home, map[string]string{".config/git/ignore": "*.swp\n"})
	check("a", "b.bak", "c.own")
	put(t, home, map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "*.bak\n"})
	check("a", "a.swp", "c.own")
	put(t, home, map[string]string{"mine": "*.bak\na\n"})
	check("a.swp", "c.own")
}

func TestAGcInTheUsersRepositoryTakesNothingAway(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "only here\n"})
	run(t, root, "init", "-q")
	run(t, root, "add", "-A")
	run(t, root, "commit", "-qm", "one")
	w := open2(t, root, Options{})
	first := observe(t, w)
	if err := os.RemoveAll(filepath.Join(root, ".git")); err != nil {
		t.Fatal(err)
	}
	put(t, root, map[string]string{"a": "other\n"})
	observe(t, w)
	dir := t.TempDir()
	if err := w.Materialise(context.Background(), first, dir); err != nil || content(t, dir, "a") != "only here\n" {
		t.Errorf("%v", err)
	}
}

func TestChangesAndDiff(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"mod": "1\n2\n3\n", "del": "x\ny\n", "mode": "m\n", "bin": "\x00\x01", "tab\tname\nline": "t\n", "ü": "u\n", "same": "s", "kind": "k"})
	w := open2(t, root, Options{})
	ctx := context.Background()
	from := observe(t, w)
	os.Remove(filepath.Join(root, "del"))
	os.Remove(filepath.Join(root, "kind"))
	put(t, root, map[string]string{"mod": "1\nzwei\n3\n4\n", "bin": "\x00\x02", "add/ed": "n\n", "tab\tname\nline": "T\n", "ü": "U\n", "kind": "-> same"})
	if err := os.Chmod(filepath.Join(root, "mode"), 0o755); err != nil {
		t.Fatal(err)
	}
	to := observe(t, w)
	got, err := w.Changes(ctx, from, to)
	if err != nil {
		t.Fatal(err)
	}
	want := []event.Change{
		{Path: "add/ed", Status: "added", Added: 1}, {Path: "bin", Status: "modified", Binary: true}, {Path: "del", Status: "deleted", Deleted: 2},
		{Path: "kind", Status: "modified", Added: 1, Deleted: 1}, {Path: "mod", Status: "modified", Added: 2, Deleted: 1}, {Path: "mode", Status: "mode"},
		{Path: "tab\tname\nline", Status: "modified", Added: 1, Deleted: 1}, {Path: "ü", Status: "modified", Added: 1, Deleted: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("changes\n%+v\nwant\n%+v", got, want)
	}
	diff, err := w.Diff(ctx, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"diff --git a/mod b/mod", "-2\n+zwei\n", "old mode 100644\nnew mode 100755", "Binary files a/bin and b/bin differ", "+++ b/ü", "deleted file mode 100644"} {
		if !strings.Contains(string(diff), s) {
			t.Errorf("the diff does not say %q:\n%s", s, diff)
		}
	}
	if ch, err := w.Changes(ctx, to, to); err != nil || len(ch) != 0 {
		t.Errorf("%v %v", ch, err)
	}
	for _, bad := range []string{"", "HEAD", "--output=/tmp/x", strings.Repeat("0", 64), strings.ToUpper(to)} {
		if _, err := w.Diff(ctx, from, bad); kindOfError(err) != fault.NotFound {
			t.Errorf("Diff to %q: %v", bad, err)
		}
		if err := w.Keep(ctx, "n", bad); kindOfError(err) != fault.NotFound {
			t.Errorf("Keep %q: %v", bad, err)
		}
	}
}

func TestKeepHoldsATreeAgainstPruning(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "kept\n"})
	w := open2(t, root, Options{})
	ctx := context.Background()
	kept := observe(t, w)
	for _, name := range []string{"0", "0/1", "-x", "..", "a.lock", "with space", "ü", "@{", "HEAD"} {
		if err := w.Keep(ctx, name, kept); err != nil {
			t.Errorf("Keep %q: %v", name, err)
		}
	}
	put(t, root, map[string]string{"a": "not kept\n"})
	lost := observe(t, w)
	put(t, root, map[string]string{"a": "now\n"})
	if _, err := w.git.run(ctx, w.inStore("prune", "--expire=now")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := w.Materialise(ctx, kept, dir); err != nil || content(t, dir, "a") != "kept\n" {
		t.Errorf("kept: %v", err)
	}
	if err := w.Materialise(ctx, lost, t.TempDir()); kindOfError(err) != fault.NotFound {
		t.Errorf("pruned: %v", err)
	}
	if err := w.Materialise(ctx, kept, dir); kindOfError(err) != fault.AlreadyExists {
		t.Errorf("a directory that is not empty: %v", err)
	}
}

func TestMaterialiseIsExact(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{
		"crlf.txt": "a\r\nb\n", "run": "#!/bin/sh\n", "bad\xff": "b", "e\u0301": "nfd", "é": "nfc", "d/l": "-> ../run", "out": "-> /etc/passwd", "dir": "-> d",
		"new\nline": "n", "zero": "", ".gitattributes": "* eol=crlf ident filter=x\n", "id": "$Id$\n", "large": strings.Repeat("0123456789abcdef", wholeMax/16+1),
	})
	if err := os.Chmod(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := open2(t, root, Options{})
	tree := observe(t, w)
	if tree != oracle(t, root) {
		t.Error("the tree is not git's")
	}
	dir := filepath.Join(t.TempDir(), "made/here")
	if err := w.Materialise(context.Background(), tree, dir); err != nil {
		t.Fatal(err)
	}
	if fresh(t, dir) != tree {
		t.Error("what was materialised has another tree")
	}
	empty := t.TempDir()
	we := open2(t, empty, Options{})
	none := observe(t, we)
	if err := we.Materialise(context.Background(), none, t.TempDir()); err != nil {
		t.Errorf("an empty tree: %v", err)
	}
}

// program writes a file that is to be run. No process is started meanwhile: it
// would inherit the open file, and what has it open for writing makes it busy.
func program(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
