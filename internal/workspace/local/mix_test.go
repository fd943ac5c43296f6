package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The paths that are picked are as in the other tree, present or not; the rest
// stays; and neither the directory nor the two trees change.
func TestMix(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a.go": "old code", "a_test.go": "old test", "gone_test.go": "old", "t/x": "a file below t", "u": "u is a file"})
	w := open2(t, root, Options{})
	before, err := w.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(root, "gone_test.go"))
	os.RemoveAll(filepath.Join(root, "t"))
	os.Remove(filepath.Join(root, "u"))
	put(t, root, map[string]string{"a.go": "new code", "a_test.go": "new test", "more_test.go": "new", "t": "t is a file", "u/x": "a file below u"})
	after, err := w.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := w.Mix(t.Context(), after, before, func(p string) bool { return strings.HasSuffix(p, "_test.go") || p == "t/x" || p == "u" })
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	entries, err := w.Entries(t.Context(), mixed)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range entries {
		paths = append(paths, e.Path)
	}
	contents, err := w.Contents(t.Context(), mixed, append(paths, "nowhere"), 100)
	if err != nil {
		t.Fatal(err)
	}
	for p, b := range contents {
		got[p] = string(b)
	}
	want := map[string]string{"a.go": "new code", "a_test.go": "old test", "gone_test.go": "old", "t/x": "a file below t", "u": "u is a file"}
	if len(got) != len(want) || len(paths) != len(want) {
		t.Errorf("the mixed tree has %v, want %v", got, want)
	}
	for p, c := range want {
		if got[p] != c {
			t.Errorf("%s is %q, want %q", p, got[p], c)
		}
	}
	if now, err := w.Observe(t.Context()); err != nil || now != after {
		t.Errorf("mixing changed the directory: %s, was %s (%v)", now, after, err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := w.Materialise(t.Context(), mixed, dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a_test.go")); err != nil || string(b) != "old test" {
		t.Errorf("the copy has %q (%v)", b, err)
	}
	cut, err := w.Contents(t.Context(), mixed, []string{"a.go", "u"}, 3)
	if err != nil || string(cut["a.go"]) != "new" || string(cut["u"]) != "u i" {
		t.Errorf("cut contents are %q (%v)", cut, err)
	}
}

// Branches and commits are read without a look at any setting, hook or program
// of the repository, and without a write.
func TestCommitsOfTheUsersRepository(t *testing.T) {
	t.Parallel()
	root, mark := booby(t)
	start := run(t, root, "rev-parse", "HEAD")
	run(t, root, "update-ref", "refs/heads/feature", run(t, root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "Repair the cache\n\ncommit of a body"))
	os.Remove(mark)
	w := open2(t, root, Options{})
	if tip, err := w.Branch(t.Context(), "feature"); err != nil || tip == "" || tip == start {
		t.Errorf("branch feature is at %q (%v)", tip, err)
	}
	if tip, err := w.Branch(t.Context(), "nowhere"); err != nil || tip != "" {
		t.Errorf("a branch that is not there is at %q (%v)", tip, err)
	}
	if tip, err := w.Branch(t.Context(), "--all"); err != nil || tip != "" {
		t.Errorf("an option for a name gives %q (%v)", tip, err)
	}
	cs, err := w.Commits(t.Context(), "feature", start, 10)
	if err != nil || len(cs) != 1 || !strings.HasPrefix(cs[0].Message, "Repair the cache") {
		t.Errorf("commits since the start: %q (%v)", cs, err)
	}
	if cs, err = w.Commits(t.Context(), "feature", "", 10); err != nil || len(cs) != 2 {
		t.Errorf("all commits: %q (%v)", cs, err)
	}
	if b, err := os.ReadFile(mark); err == nil {
		t.Errorf("programs of the repository ran:\n%s", b)
	}
	plain := open2(t, t.TempDir(), Options{})
	if _, err := plain.Branch(t.Context(), "main"); err == nil {
		t.Error("a directory without a repository has branches")
	}
}
