package eval

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingOfARunLeadsACheckOutside: what a model left in its workspace, links
// above all, must not make the runner write, or wait, anywhere else.
func TestNothingOfARunLeadsACheckOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside, start, repo := filepath.Join(dir, "outside"), filepath.Join(dir, "start"), filepath.Join(dir, "repo")
	for d, files := range map[string]map[string]string{outside: {"test_a.py": "mine\n"}, start: {"tests/test_a.py": "x\n", "code.py": "old\n"}, repo: {"code.py": "new\n"}} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := putFiles(d, files); err != nil {
			t.Fatal(err)
		}
	}
	// The folder of the tests is a link out of the workspace now, and a pipe that
	// nobody writes to stands beside it.
	if err := os.Symlink(outside, filepath.Join(repo, "tests")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(repo, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	patch := filepath.Join(dir, "test.patch")
	if err := os.WriteFile(patch, []byte("--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-x\n+y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay")
	if err := putFileIn(overlay, "tests/test_a.py", "theirs\n"); err != nil {
		t.Fatal(err)
	}
	c := Case{Dir: dir}
	w := &world{dir: dir, start: start, repo: repo}
	for name, ch := range map[string]Check{"patch": {Patch: "test.patch"}, "overlay": {Overlay: "overlay"}, "files": {Files: map[string]string{"tests/test_a.py": "theirs\n"}}} {
		if err := c.lay(context.Background(), w, start, ch, filepath.Join(dir, name+"-start")); err != nil {
			t.Errorf("%s does not fit the start: %v", name, err)
		}
		if err := c.lay(context.Background(), w, repo, ch, filepath.Join(dir, name+"-end")); err == nil {
			t.Errorf("%s was laid over a link out of the workspace", name)
		}
	}
	if b, err := os.ReadFile(filepath.Join(outside, "test_a.py")); err != nil || string(b) != "mine\n" {
		t.Errorf("the file outside: %q %v", b, err)
	}
	if got, err := differing(start, repo); err != nil || !reflect.DeepEqual(got, []string{"code.py", "pipe", "tests", "tests/test_a.py"}) {
		t.Errorf("%v %v", got, err)
	}
	u := unmet{}
	u.file(repo, "pipe", File{})
	if len(u.all) != 1 {
		t.Errorf("a pipe is taken for a file: %v", u.all)
	}
	if err := putFile(repo, "../up.txt", "x", os.O_TRUNC); err == nil {
		t.Error("written outside")
	}
}

func putFileIn(dir, name, content string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return putFile(dir, name, content, os.O_TRUNC)
}
