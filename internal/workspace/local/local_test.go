package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// put writes files below a directory; a content that begins with "-> " is a
// symbolic link, a name that ends with "/" a directory.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch to, link := strings.CutPrefix(content, "-> "); {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		case link:
			err = os.Symlink(to, p)
		default:
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// run runs git as a user would, without this machine's configuration.
func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=u", "-c", "user.email=u@example.com", "-c", "protocol.file.allow=always",
		"-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func open2(t testing.TB, root string, opts Options) *Workspace {
	t.Helper()
	if opts.State == "" {
		opts.State = t.TempDir()
	}
	w, err := open(context.Background(), root, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func observe(t testing.TB, w *Workspace) string {
	t.Helper()
	tree, err := w.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// fresh observes with a state that knows nothing.
func fresh(t testing.TB, root string) string {
	t.Helper()
	state, err := os.MkdirTemp("", "belay-fresh-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(state)
	w, err := open(context.Background(), root, Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return observe(t, w)
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func kindOfError(err error) fault.Kind {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

// prints describes everything below a directory: type, mode, content, and the
// times of files.
func prints(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		s := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			s += " " + fi.ModTime().String() + " " + sum(string(b))
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			s += " " + to
		}
		out[p] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t testing.TB, what string, before, after map[string]string) {
	t.Helper()
	for p, s := range before {
		if after[p] != s {
			t.Errorf("%s: %s was %q, is %q", what, p, s, after[p])
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			t.Errorf("%s: %s is new", what, p)
		}
	}
}

// oracle is the tree that git itself computes over the same files, with every
// conversion off.
func oracle(t testing.TB, root string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "core.autocrlf=false", "-c", "core.safecrlf=false"}, args...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_DIR="+dir, "GIT_WORK_TREE="+root)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "--object-format=sha256")
	if err := os.WriteFile(filepath.Join(dir, "info", "attributes"), []byte("* -text -filter -ident !eol !working-tree-encoding\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	return git("write-tree")
}

func TestTheTreeIsGitsOwn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{
		"a.txt": "a\r\nb\n", "a": "x", "a-b/c": "y", "a.b/c": "z", "d/e/f/g": "deep", "link": "-> d/e", "gone": "-> nowhere",
		"empty/": "", "e\u0301": "NFD", "é": "NFC", "bad\xffname": "bytes", "new\nline": "n", "zero": "",
		".gitignore": "ignored/\n*.log\n", "ignored/x": "i", "x.log": "l", ".gitattributes": "* text=auto eol=crlf ident\n*.txt filter=evil\n", "id": "$Id$\n",
	})
	if err := os.Chmod(filepath.Join(root, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := open2(t, root, Options{})
	if got, want := observe(t, w), oracle(t, root); got != want {
		t.Errorf("tree %s, git says %s", got, want)
	}
	// The many objects of a pack, and the few of loose files, must both be what
	// git takes them for.
	for i := range 100 {
		put(t, root, map[string]string{filepath.Join("many", strings.Repeat("d/", i%7), "f"+strings.Repeat("x", i)): strings.Repeat("content ", i*i)})
	}
	if got, want := observe(t, w), oracle(t, root); got != want {
		t.Errorf("tree of many %s, git says %s", got, want)
	}
	if packs, _ := filepath.Glob(filepath.Join(w.store.dir, "objects/pack/*.pack")); len(packs) != 1 {
		t.Errorf("want one pack, have %v", packs)
	}
	out, err := w.git.run(context.Background(), w.inStore("fsck", "--full", "--strict"))
	if err != nil {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}

var _ = workspace.File{}
