package local

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/workspace"
)

// rollbackCase is one row of the matrix. Each part is shell, run in the root of
// the workspace.
type rollbackCase struct {
	name string
	// before makes what the goal finds, beyond a commit of the base files.
	before string
	// goal is what its operations do, others what others do after that.
	goal, others string
	// left are the paths that the plan leaves alone, staged those of which only
	// what is staged is; asNow are further files that no revision counts.
	left, staged, asNow []string
	// git is off for a directory in no repository; in names a folder of the
	// repository as the workspace, init replaces the making of the repository.
	noGit    bool
	in, init string
}

// base are the files of every case.
const baseFiles = `printf 'one\r\ntwo' > text.txt; printf 'a\000b' > bin; echo plain > plain.sh; mkdir -p old/a; echo b > old/a/b.txt; echo c > old/c.txt
ln -s plain.sh link; echo from > from.txt; echo theirs > theirs.txt; echo '*.log' > .gitignore; echo first > ignored.log; echo keep > keep.txt`

var matrix = []rollbackCase{
	{name: "dirty", before: "echo dirty >> text.txt; rm keep.txt", goal: "echo more >> text.txt; echo again > keep.txt; printf 'x\\000y' > bin"},
	{name: "staged", before: "echo s1 > text.txt; git add text.txt; echo d1 >> text.txt; git rm -q --cached keep.txt; echo new > new.txt; git add new.txt; git add -N -f ignored.log; git update-index --skip-worktree theirs.txt",
		goal: "git add -A; echo s2 > text.txt; git add text.txt; echo g > mine.txt; git add mine.txt; git reset -q old/c.txt; git rm -q --cached new.txt; chmod 755 plain.sh; git add plain.sh"},
	{name: "conflict", before: "git checkout -q -b b; echo b > text.txt; git commit -qam b; git checkout -q main; echo m > text.txt; git commit -qam m; git merge -q b || true",
		goal: "echo resolved > text.txt; git add text.txt"},
	{name: "untracked", before: "echo u > u.txt; mkdir d; echo v > d/v.txt", goal: "echo w > u.txt; rm -r d; echo new > d; mkdir -p n/e; echo n > n/e/w.txt"},
	{name: "ignored", goal: "echo second > ignored.log; echo x > x.log; echo more >> text.txt", asNow: []string{"ignored.log", "x.log"}},
	{name: "ignored files come to count", before: "mkdir build; echo o > build/o.log", goal: "echo none > .gitignore; echo n > n.txt; echo g > build/g.log",
		left: []string{"build/g.log", "build/o.log", "ignored.log"}},
	{name: "an ignored file is tracked", goal: "git add -f ignored.log; echo n > n.txt", left: []string{"ignored.log"}},
	{name: "files come to be ignored", before: "echo u > u.txt; echo v > v.txt", goal: "printf 'u.txt\\nv.txt\\n' > .gitignore; echo other > v.txt; echo more >> text.txt", left: []string{"ignored.log", "v.txt"}},
	{name: "a tracked file comes to be ignored", goal: "git rm -q --cached keep.txt; echo keep.txt >> .gitignore; echo other > ignored.log", asNow: []string{"ignored.log"}},
	{name: "modes", before: "chmod 755 text.txt", goal: "chmod 644 text.txt; chmod 755 plain.sh bin"},
	{name: "links", before: "ln -s old dirlink; ln -s nowhere dead", goal: "ln -sfn text.txt link; rm dirlink dead; echo file > dirlink; mkdir dead; echo x > dead/x; rm from.txt; ln -s text.txt from.txt"},
	{name: "renames", goal: "git mv from.txt to.txt; mv old newer; mv text.txt Text.txt; rm keep.txt; mkdir keep.txt; echo k > keep.txt/k; rm -r newer/a; echo a > newer/a"},
	{name: "nested repositories", before: "git init -q nested; cd nested; echo n > n.txt; git add n.txt; git commit -qm n; echo u > u.txt",
		goal: "cd nested; echo m > n.txt; rm u.txt; git add -A; cd ..; git init -q cloned; cd cloned; echo c > c.txt; git add c.txt; git commit -qm c"},
	{name: "submodule", before: "git init -q ../sub; cd ../sub; echo s > s.txt; git add s.txt; git commit -qm s; cd ../root; git submodule --quiet add ../sub sub; git commit -qm sub",
		goal: "cd sub; echo t > s.txt; git commit -qam t; echo u > u.txt; cd ..; git add sub"},
	{name: "stash", before: "echo dirty > text.txt; echo u > u.txt; git add u.txt", goal: "git stash -q -u"},
	{name: "commit", before: "echo s > text.txt; git add text.txt", goal: "echo m > keep.txt; git commit -qam goal; git checkout -q -b other; git rm -q from.txt; git commit -qm more"},
	{name: "others", before: "mkdir f; echo 1 > f/1; echo t > t.txt", goal: "echo more >> text.txt; echo more >> theirs.txt; rm -r f; rm t.txt; echo mine > mine.txt; git add mine.txt",
		others: "echo edited > theirs.txt; echo f > f; rm mine.txt; mkdir t.txt; echo in > t.txt/in; echo o > o.txt; git add o.txt; git reset -q from.txt; echo changed >> keep.txt; git add keep.txt",
		left:   []string{"f", "f/1", "keep.txt", "o.txt", "t.txt", "t.txt/in", "theirs.txt"}},
	{name: "others stage what the goal made", goal: "echo more >> text.txt; echo n > n.txt", others: "git add text.txt", staged: []string{"text.txt"}},
	{name: "no git", noGit: true, before: "echo u > u.txt", goal: "echo more >> text.txt; rm -r old; ln -sfn bin link; chmod 755 plain.sh; mkdir keep; echo second > ignored.log",
		asNow: []string{"ignored.log"}},
	{name: "a folder of a repository", in: "old", before: "echo s > a/b.txt; git add a/b.txt; echo out > ../text.txt", goal: "git add ../text.txt; rm -r a; echo more > c.txt; git add -A ."},
	{name: "a linked worktree", init: "git init -q ../main; cd ../main; echo w > w.txt; git add w.txt; git commit -qm w; rmdir ../root; git worktree add -q ../root; cd ../root", before: "git add text.txt",
		goal: "git add -A; echo more >> text.txt"},
	{name: "no commit yet", init: "git init -q", before: "git add text.txt", goal: "git add -A; echo more >> text.txt; git commit -qm first"},
	{name: "odd names", before: "echo 1 > 'a b'; echo 2 > \"$(printf 'n\\nl')\"; echo 3 > \"$(printf '\\303\\251')\"; echo 4 > :colon; echo 5 > -dash; git add -A .",
		goal: "rm 'a b' :colon ./-dash; echo x > \"$(printf 'n\\nl')\"; git add -A ."},
}

// shell runs a part of a case as a user would.
func shell(t testing.TB, dir, text string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@e", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@e",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main", "GIT_CONFIG_KEY_1=protocol.file.allow", "GIT_CONFIG_VALUE_1=always")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// disk is every file and link below a directory, with mode and bytes: those of
// git directories, but for indexes and logs of them, or all others.
func disk(t testing.TB, dir string, ofGit bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		inGit := strings.HasPrefix("/"+filepath.ToSlash(rel), "/.git/") || strings.Contains(filepath.ToSlash(rel), "/.git/") || d.Name() == ".git"
		if inGit != ofGit || ofGit && strings.HasPrefix(d.Name(), "index") {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			out[rel] = "-> " + to
			return err
		}
		b, err := os.ReadFile(p)
		out[rel] = fi.Mode().Perm().String() + " " + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stagedIn is what a repository's index holds, with what a person told git of
// each path.
func stagedIn(t testing.TB, dir string, git bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	if !git {
		return out
	}
	for line := range strings.SplitSeq(run(t, dir, "ls-files", "-z", "--stage", "-v", "--full-name", ":/"), "\x00") {
		if meta, path, ok := strings.Cut(line, "\t"); ok {
			out[path] += meta + ";"
		}
	}
	for line := range strings.SplitSeq(run(t, dir, "diff", "-z", "--name-only", "--diff-filter=A", "--no-ext-diff"), "\x00") {
		if line != "" {
			out[line] += "later;"
		}
	}
	return out
}

// rolled is a case that has been set up: what there was, and what is there now.
type rolled struct {
	c           rollbackCase
	root, state string
	restore     workspace.Restore
	then, now   map[string]string
	thenStaged  map[string]string
	nowStaged   map[string]string
	git         map[string]string
	nowTree     string
	nowIndex    string
}

func (c rollbackCase) set(t *testing.T) *rolled {
	t.Helper()
	dir := t.TempDir()
	r := &rolled{c: c, root: filepath.Join(dir, "root"), state: filepath.Join(dir, "state")}
	if err := os.Mkdir(r.root, 0o755); err != nil {
		t.Fatal(err)
	}
	switch {
	case c.noGit:
		shell(t, r.root, baseFiles)
	case c.init != "":
		shell(t, r.root, c.init+"\n"+baseFiles)
	default:
		shell(t, r.root, "git init -q\n"+baseFiles+"\ngit add -A; git commit -qm one")
	}
	top := r.root
	r.root = filepath.Join(r.root, c.in)
	shell(t, r.root, c.before)
	w := open2(t, r.root, Options{State: r.state})
	see := func() (string, string) {
		index, err := w.Staged(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return observe(t, w), index
	}
	thenTree, thenIndex := see()
	r.then, r.thenStaged = disk(t, r.root, false), stagedIn(t, r.root, !c.noGit)
	shell(t, r.root, c.goal)
	goalTree, goalIndex := see()
	if c.others != "" {
		shell(t, r.root, c.others)
	}
	r.nowTree, r.nowIndex = see()
	r.now, r.nowStaged, r.git = disk(t, r.root, false), stagedIn(t, r.root, !c.noGit), disk(t, top, true)
	r.restore = plan(t, w, r, [2]string{thenTree, thenIndex}, [2]string{goalTree, goalIndex})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

// plan is what the service plans, for the two steps of a case.
func plan(t *testing.T, w *Workspace, r *rolled, then, goal [2]string) workspace.Restore {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	others := map[string]bool{}
	theirs, err := w.Changes(ctx, goal[0], r.nowTree)
	must(err)
	for _, c := range theirs {
		others[c.Path] = true
	}
	blocked, err := w.InTheWay(ctx, r.nowTree, then[0])
	must(err)
	for _, p := range blocked {
		others[p] = true
	}
	whole, err := w.Changes(ctx, r.nowTree, then[0])
	must(err)
	to := workspace.Restore{From: r.nowTree, Leave: core.LeftAlone(whole, others)}
	to.Tree, err = w.Mix(ctx, then[0], r.nowTree, func(p string) bool { return slices.Contains(to.Leave, p) })
	must(err)
	if !slices.Equal(to.Leave, r.c.left) {
		t.Errorf("it leaves %q alone, want %q", to.Leave, r.c.left)
	}
	if then[1] == "" {
		return to
	}
	staged := map[string]bool{}
	theirs, _, err = w.StagedChanges(ctx, goal[1], r.nowIndex)
	must(err)
	for _, c := range theirs {
		staged[c.Path] = true
	}
	for _, p := range to.Leave {
		staged[p] = true
	}
	whole, lost, err := w.StagedChanges(ctx, r.nowIndex, then[1])
	must(err)
	if len(lost) > 0 {
		t.Errorf("lost: %q", lost)
	}
	to.Staged = &workspace.Restage{Index: then[1], From: r.nowIndex, Leave: core.LeftAlone(whole, staged)}
	return to
}

// check holds the workspace against what it is to be: as it was, or with
// forward as it was before the rollback.
func (r *rolled) check(t *testing.T, when string, forward bool) {
	t.Helper()
	want, staged := maps.Clone(r.then), maps.Clone(r.thenStaged)
	if forward {
		want, staged = r.now, r.nowStaged
	}
	for _, p := range slices.Concat(r.c.left, r.c.asNow) {
		if is, ok := r.now[p]; ok {
			want[p] = is
		} else {
			delete(want, p)
		}
	}
	if r.restore.Staged != nil && !forward {
		prefix := ""
		if r.c.in != "" {
			prefix = r.c.in + "/"
			for p, is := range r.nowStaged { // what is outside of the workspace is none of its business
				if !strings.HasPrefix(p, prefix) {
					staged[p] = is
				}
			}
		}
		for _, p := range slices.Concat(r.restore.Staged.Leave, r.c.left, r.c.staged) {
			if is, ok := r.nowStaged[prefix+p]; ok {
				staged[prefix+p] = is
			} else {
				delete(staged, prefix+p)
			}
		}
	}
	differ(t, when, want, disk(t, r.root, false))
	differ(t, when+": staged", staged, stagedIn(t, r.root, !r.c.noGit))
	top := strings.TrimSuffix(r.root, "/"+r.c.in)
	differ(t, when+": .git", r.git, disk(t, top, true))
	for _, left := range []string{".git/index.lock"} {
		if _, err := os.Lstat(filepath.Join(top, left)); err == nil {
			t.Errorf("%s: %s is left behind", when, left)
		}
	}
}

func differ(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for p, w := range want {
		if g, ok := got[p]; !ok {
			t.Errorf("%s: %s is missing", what, p)
		} else if g != w {
			t.Errorf("%s: %s is %q, want %q", what, p, g, w)
		}
	}
	for p, g := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is there (%q)", what, p, g)
		}
	}
}

type killed struct{ at string }

// named are the instants in words.
var named = map[instant]string{
	moveRemoved: "removed", moveStaged: "staged", moveNamed: "named", indexStaged: "index staged", indexLocked: "index locked",
	indexNamed: "index named", storePacked: "packed", storeForgot: "forgot", storeSwept: "swept",
}

// do restores, and with at > 0 dies at that failpoint of it; it returns the
// failpoints that it came to.
func (r *rolled) do(t *testing.T, to workspace.Restore, at int) (hits []string) {
	t.Helper()
	w, err := open(context.Background(), r.root, Options{State: r.state, Lock: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.crash = func(i instant) {
		if hits = append(hits, named[i]); len(hits) == at {
			panic(killed{named[i]})
		}
	}
	defer func() {
		if p := recover(); p != nil {
			if _, ours := p.(killed); !ours {
				panic(p)
			}
		}
	}()
	if err := w.Clean(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, left, err := w.Restore(context.Background(), to)
	if err != nil {
		t.Errorf("restoring: %v", err)
	}
	if len(left) > 0 {
		t.Errorf("what is staged of %q was left", left)
	}
	return hits
}

// forward plans the way back to what there was before the rollback.
func (r *rolled) forward(t *testing.T) workspace.Restore {
	t.Helper()
	ctx := context.Background()
	w := open2(t, r.root, Options{State: r.state})
	defer w.Close()
	to := workspace.Restore{Tree: r.nowTree, From: observe(t, w)}
	var err error
	if to.Leave, err = w.InTheWay(ctx, to.From, to.Tree); err != nil {
		t.Fatal(err)
	}
	if r.nowIndex != "" {
		index, err := w.Staged(ctx)
		if err != nil {
			t.Fatal(err)
		}
		to.Staged = &workspace.Restage{Index: r.nowIndex, From: index}
	}
	return to
}

// TestRollbacksByteForByte: each row is rolled back, exactly, with nothing of
// the user's repository touched but the index; rolled forward, exactly; and
// again with a crash at the failpoints of the restore, of which each name is
// met, at its first, a middle and its last instant.
func TestRollbacksByteForByte(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	t.Run("cases", func(t *testing.T) {
		results := make([][]string, len(matrix))
		t.Cleanup(func() {
			for _, hits := range results {
				for _, n := range hits {
					reached[n] = true
				}
			}
		})
		for i, c := range matrix {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r := c.set(t)
				if t.Failed() {
					return
				}
				results[i] = r.do(t, r.restore, 0)
				r.check(t, "rolled back", false)
				forward := r.forward(t)
				r.do(t, forward, 0)
				r.check(t, "rolled forward", true)
				for _, at := range instants(results[i]) {
					r.do(t, r.restore, at)
					r.do(t, r.restore, 0)
					r.check(t, fmt.Sprintf("after a crash at %d (%s)", at, results[i][at-1]), false)
					r.do(t, forward, 0)
					r.check(t, "forward again", true)
					if t.Failed() {
						return
					}
				}
			})
		}
	})
	for _, i := range []instant{moveRemoved, moveStaged, moveNamed, indexStaged, indexLocked, indexNamed} {
		if !reached[named[i]] {
			t.Errorf("no row comes to %s", named[i])
		}
	}
}

// instants are the first, a middle and the last hit of each failpoint.
func instants(hits []string) []int {
	at := map[string][]int{}
	for i, n := range hits {
		at[n] = append(at[n], i+1)
	}
	var list []int
	for _, all := range at {
		list = append(list, all[0], all[len(all)/2], all[len(all)-1])
	}
	slices.Sort(list)
	return slices.Compact(list)
}
