package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// names that clash, nest, and hit the ignore rules.
var someNames = []string{"a", "b", "a.b", "x.log", "d/a", "d/b", "d/e/a", "d/e/x.log", "ign/a", "ign/b/c", "v/a", "v/lib/x", "n/a", "n/d/b"}
var someDirs = []string{"d", "d/e", "ign", "v", "v/lib", "n", "n/d", "empty", "d/empty"}
var ignoreTexts = []string{"", "*.log\n", "ign/\n", "ign/\nb\n", "*\n", "/d/e\n!x.log\n", "d/*\n!d/b\n"}

// TestTheFastPathAgreesWithAFullObservation: whatever happened to the files,
// one observation with a long memory equals one with none. Nothing waits
// between the operations, so that most of them share a tick of the clock.
func TestTheFastPathAgreesWithAFullObservation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "belay-fast-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		state, err := os.MkdirTemp("", "belay-fast-state-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(state)
		r := &fileRobot{t: t, root: root}
		r.gitInit()
		plain, err := os.MkdirTemp("", "belay-fast-plain-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(plain)
		w, err := open(context.Background(), root, Options{State: state})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { w.Close() }()
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for range rapid.IntRange(0, 4).Draw(t, "operations") {
				r.step()
			}
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				w.Close()
				if w, err = open(context.Background(), root, Options{State: state}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := w.Observe(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if want := forgetful(t, root, plain); got != want {
				t.Fatalf("with memory %s, without %s, after\n%s", got, want, strings.Join(r.log, "\n"))
			}
		}
	})
}

// forgetful observes without a snapshot. It may have objects, which say
// nothing about the files.
func forgetful(t *rapid.T, root, state string) string {
	w, err := open(context.Background(), root, Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	os.Remove(w.snapshotPath())
	tree, err := w.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// fileRobot does to a directory what people, tools and repositories do.
type fileRobot struct {
	t    *rapid.T
	root string
	log  []string
	git  bool
}

func (r *fileRobot) path(name string) string { return filepath.Join(r.root, name) }

func (r *fileRobot) gitInit() {
	if r.git = rapid.Bool().Draw(r.t, "git"); r.git {
		r.runGit("", "init", "-q")
	}
}

func (r *fileRobot) runGit(dir string, args ...string) {
	w := &git{}
	*w, _ = newGit()
	if _, err := w.run(context.Background(), call{dir: r.path(dir), args: args}); err != nil {
		r.log = append(r.log, "  git said "+err.Error())
	}
}

func (r *fileRobot) step() {
	t := r.t
	name := rapid.SampledFrom(someNames).Draw(t, "name")
	other := rapid.SampledFrom(someNames).Draw(t, "other")
	folder := rapid.SampledFrom(someDirs).Draw(t, "folder")
	text := rapid.SampledFrom([]string{"one", "two", "six", "longer"}).Draw(t, "text")
	p := r.path(name)
	ops := []struct {
		what string
		do   func() error
	}{
		{"write " + name + " " + text, func() error { return write(p, text) }},
		{"write with old time " + name + " " + text, func() error {
			fi, err := os.Stat(p)
			if err != nil {
				return err
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				return err
			}
			return os.Chtimes(p, fi.ModTime(), fi.ModTime())
		}},
		{"set a time long ago " + name, func() error { return os.Chtimes(p, time.Unix(1e9, 0), time.Unix(1e9, 0)) }},
		{"set a time to come " + name, func() error { return os.Chtimes(p, time.Now().Add(time.Hour), time.Now().Add(time.Hour)) }},
		{"replace " + name + " " + text, func() error {
			if err := write(p+"~", text); err != nil {
				return err
			}
			return os.Rename(p+"~", p)
		}},
		{"executable " + name, func() error { return os.Chmod(p, 0o755) }},
		{"plain " + name, func() error { return os.Chmod(p, 0o644) }},
		{"rename " + name + " " + other, func() error { return os.Rename(p, r.path(other)) }},
		{"rename folder " + folder + " to moved", func() error { return os.Rename(r.path(folder), r.path("moved")) }},
		{"rename folder moved to " + folder, func() error { return os.Rename(r.path("moved"), r.path(folder)) }},
		{"exchange " + name + " " + other, func() error {
			d, err := os.Open(r.root)
			if err != nil {
				return err
			}
			defer d.Close()
			return exchange(int(d.Fd()), name, other)
		}},
		{"link " + name, func() error { os.Remove(p); return os.Symlink(other, p) }},
		{"folder becomes a link " + folder, func() error {
			if err := os.RemoveAll(r.path(folder)); err != nil {
				return err
			}
			return os.Symlink(r.root, r.path(folder))
		}},
		{"remove " + name, func() error { return os.Remove(p) }},
		{"remove folder " + folder, func() error { return os.RemoveAll(r.path(folder)) }},
		{"make folder " + folder, func() error { return os.MkdirAll(r.path(folder), 0o755) }},
		{"ignore at root", func() error { return write(r.path(".gitignore"), rapid.SampledFrom(ignoreTexts).Draw(t, "rule")) }},
		{"ignore in " + folder, func() error {
			return write(filepath.Join(r.path(folder), ".gitignore"), rapid.SampledFrom(ignoreTexts).Draw(t, "rule"))
		}},
		{"git add -f " + name, func() error { r.runGit("", "add", "-f", "--", name); return nil }},
		{"git rm --cached " + name, func() error { r.runGit("", "rm", "-q", "--cached", "--", name); return nil }},
		{"git status", func() error { r.runGit("", "status"); return nil }},
		{"nested repository in " + folder, func() error {
			if err := os.MkdirAll(r.path(folder), 0o755); err != nil {
				return err
			}
			r.runGit(folder, "init", "-q")
			return nil
		}},
		{"git add in " + folder, func() error { r.runGit(folder, "add", "-A"); return nil }},
		{"no repository any more in " + folder, func() error { return os.RemoveAll(r.path(folder + "/.git")) }},
		{"info/exclude", func() error {
			return write(r.path(".git/info/exclude"), rapid.SampledFrom(ignoreTexts).Draw(t, "rule"))
		}},
	}
	op := ops[rapid.IntRange(0, len(ops)-1).Draw(t, "operation")]
	err := op.do()
	r.log = append(r.log, fmt.Sprintf("%s: %v", op.what, err))
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
