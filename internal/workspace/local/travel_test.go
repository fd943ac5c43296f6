package local

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/fault"
)

func packOf(t testing.TB, w *Workspace, tree, base string) []byte {
	t.Helper()
	r, err := w.Export(context.Background(), tree, base)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

func take(t testing.TB, w *Workspace, pack []byte) {
	t.Helper()
	if err := w.Import(context.Background(), bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
}

func moveIn(t testing.TB, w *Workspace, tree string, known ...string) int {
	t.Helper()
	n, err := w.MoveIn(context.Background(), tree, known)
	if err != nil {
		t.Fatal(err)
	}
	if got := fresh(t, w.Root()); got != tree {
		t.Fatalf("the directory holds %s, not %s", got, tree)
	}
	return n
}

// varied is a tree with everything that a file system and git make hard.
func varied() map[string]string {
	return map[string]string{
		"crlf.txt": "a\r\nb\n", "bad\xff": "b", "d/l": "-> ../run", "out": "-> /etc/passwd", "dir": "-> d", "run": "#!/bin/sh\n",
		"new\nline": "n", "zero": "", ".gitattributes": "* eol=crlf ident\n", "id": "$Id$\n", ".gitignore": "*.log\nbuild/\n",
		"large": strings.Repeat("0123456789abcdef", wholeMax/16+1), "deep/a/b/c": "c",
	}
}

// TestATreeTravelsExactly: whole and then step by step, into a directory that
// does not know it, links, modes and bytes included; and a step costs what
// changed.
func TestATreeTravelsExactly(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, varied())
	run(t, root, "init", "-q")
	// A nested repository with a commit of its own.
	put(t, root, map[string]string{"nested/x": "1", "nested/.gitignore": "*.tmp\n", "nested/y.tmp": "not counted"})
	run(t, filepath.Join(root, "nested"), "init", "-q")
	run(t, filepath.Join(root, "nested"), "add", "x")
	run(t, filepath.Join(root, "nested"), "commit", "-q", "-m", "x")
	if err := os.Chmod(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := open2(t, root, Options{})
	one := observe(t, a)
	b := open2(t, t.TempDir(), Options{})
	if held, err := b.Holds(context.Background(), one); err != nil || held {
		t.Fatalf("held before it came: %v %v", held, err)
	}
	take(t, b, packOf(t, a, one, ""))
	if held, err := b.Holds(context.Background(), one); err != nil || !held {
		t.Fatalf("not held after it came: %v %v", held, err)
	}
	moveIn(t, b, one)

	put(t, root, map[string]string{"deep/a/b/c": "changed", "deep/a/new": "new", "build/out.log": "ignored"})
	for _, gone := range []string{"zero", "dir", "d/l"} {
		if err := os.Remove(filepath.Join(root, gone)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, map[string]string{"dir/now/a": "a folder where a link was"})
	two := observe(t, a)
	step := packOf(t, a, two, one)
	if len(step) > 20<<10 {
		t.Errorf("a step of a few bytes takes %d", len(step))
	}
	take(t, b, step)
	if n := moveIn(t, b, two, one); n != 6 {
		t.Errorf("%d paths were written, 6 differ", n)
	}
	if _, err := os.Stat(filepath.Join(b.Root(), "d")); !os.IsNotExist(err) {
		t.Errorf("a folder that lost its last file is still there: %v", err)
	}
	if n := moveIn(t, b, two); n != 0 {
		t.Errorf("%d paths were written into a directory that held the tree", n)
	}
	moveIn(t, b, one, two) // and back
}

// TestACutOrChangedPackIsRefused: nothing of it counts.
func TestACutOrChangedPackIsRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": strings.Repeat("a line\n", 500), "b/c": "c"})
	a := open2(t, root, Options{})
	tree := observe(t, a)
	pack := packOf(t, a, tree, "")
	rapid.Check(t, func(rt *rapid.T) {
		b := open2(t, t.TempDir(), Options{})
		bad := bytes.Clone(pack)
		if at := rapid.IntRange(0, len(bad)-1).Draw(rt, "at"); rapid.Bool().Draw(rt, "cut") {
			bad = bad[:at]
		} else {
			bad[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "flip"))
		}
		if err := b.Import(context.Background(), bytes.NewReader(bad)); err == nil {
			rt.Fatal("it was taken in")
		}
		if held, err := b.Holds(context.Background(), tree); err != nil || held {
			rt.Fatalf("%v %v", held, err)
		}
	})
}

// TestMovingInNeverOverwritesWhatIsNotTheGoals: the directory stays as it is,
// and the fault names a path.
func TestMovingInNeverOverwritesWhatIsNotTheGoals(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{".gitignore": "*.o\n", "code": "1\n", "sub/x": "x\n"})
	a := open2(t, root, Options{})
	start := observe(t, a)
	put(t, root, map[string]string{"code": "2\n", "made/by/goal": "g\n"})
	now := observe(t, a)
	whole, step := packOf(t, a, start, ""), packOf(t, a, now, start)
	cases := map[string]struct {
		files map[string]string
		names string // the path that the fault names; "" when it may move in
	}{
		"an empty directory":               {map[string]string{}, ""},
		"a clone of the start":             {map[string]string{".gitignore": "*.o\n", "code": "1\n", "sub/x": "x\n", "built.o": "ignored"}, ""},
		"half moved in":                    {map[string]string{".gitignore": "*.o\n", "code": "2\n", "sub/x": "x\n"}, ""},
		"half moved in, from nothing":      {map[string]string{"made/by/goal": "g\n"}, ""},
		"another repository":               {map[string]string{"README": "mine\n"}, "README"},
		"a clone with an edit":             {map[string]string{".gitignore": "*.o\n", "code": "1\nmine\n", "sub/x": "x\n"}, "code"},
		"a clone with a file more":         {map[string]string{".gitignore": "*.o\n", "code": "1\n", "sub/x": "x\n", "notes": "mine\n"}, "notes"},
		"an ignored file in the way":       {map[string]string{".gitignore": "*.o\nmade/\n", "code": "1\n", "sub/x": "x\n", "made/by/goal": "mine\n"}, ".gitignore"},
		"a folder of others in the way":    {map[string]string{".gitignore": "*.o\n", "code/built.o": "ignored"}, "code"},
		"an empty folder in the way":       {map[string]string{"code/": "", "sub/x/deeper/": ""}, ""},
		"an empty folder is nobody's":      {map[string]string{"empty/": ""}, ""},
		"a link out of it in a file's way": {map[string]string{"sub": "-> /tmp"}, "sub"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, c.files)
			b := open2(t, dir, Options{})
			take(t, b, whole)
			take(t, b, step)
			before := prints(t, dir)
			if c.names == "" {
				moveIn(t, b, now, start)
				if _, kept := c.files["built.o"]; kept {
					if got, err := os.ReadFile(filepath.Join(dir, "built.o")); err != nil || string(got) != "ignored" {
						t.Errorf("the ignored file: %q %v", got, err)
					}
				}
				return
			}
			_, err := b.MoveIn(context.Background(), now, []string{start})
			if kindOfError(err) != fault.Foreign || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%v", err)
			}
			same(t, "refused", before, prints(t, dir))
		})
	}
}

// TestMovingInCanBeInterruptedAnywhere: what stands there then is a mix that is
// known again, and no temporary file stays.
func TestMovingInCanBeInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	root, files := t.TempDir(), map[string]string{}
	for i := range 30 {
		files["f"+strings.Repeat("x", i)+"/a"] = "1"
	}
	put(t, root, files)
	a := open2(t, root, Options{})
	start := observe(t, a)
	for name := range files {
		if len(name)%3 == 0 {
			os.RemoveAll(filepath.Join(root, filepath.Dir(name)))
		} else {
			put(t, root, map[string]string{name: "2", name + "b": "new"})
		}
	}
	now := observe(t, a)
	whole, step := packOf(t, a, start, ""), packOf(t, a, now, start)
	for n := range 40 {
		dir := t.TempDir()
		b := open2(t, dir, Options{})
		take(t, b, whole)
		moveIn(t, b, start)
		take(t, b, step)
		todo, err := b.deltas(context.Background(), start, now, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(todo) > n {
			// A kill after n paths, with a temporary file left behind.
			if err := b.moveIn(context.Background(), todo[:n], b.snap.stamps()); err != nil {
				t.Fatal(err)
			}
			put(t, dir, map[string]string{tempPrefix + "0123": "half"})
			// Or just before the emptied folder goes too.
			for _, d := range todo[:n] {
				if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(d.path)), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Clean(context.Background()); err != nil {
			t.Fatal(err)
		}
		moveIn(t, b, now, start)
		for p := range prints(t, dir) {
			if isTemp(filepath.Base(p)) {
				t.Errorf("%s stays", p)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if files, err := os.ReadDir(filepath.Join(dir, e.Name())); e.IsDir() && (err != nil || len(files) == 0) {
				t.Errorf("after %d paths: the folder %s stays, with nothing in it (%v)", n, e.Name(), err)
			}
		}
	}
}
