package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"belay/internal/fault"
	"belay/internal/workspace"
)

func content(t testing.TB, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func noTemps(t testing.TB, root string) {
	t.Helper()
	_ = filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		if isTemp(filepath.Base(p)) {
			t.Errorf("%s was left behind", p)
		}
		return err
	})
}

func TestApplyKeepsModeAndAttributes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"script": "#!/bin/sh\n", "ro": "r"})
	for name, mode := range map[string]os.FileMode{"script": 0o755, "ro": 0o440} {
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	xattr := unix.Setxattr(filepath.Join(root, "script"), "user.note", []byte("kept"), 0) == nil
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(root, "script"), 1234, 1235); err != nil {
			t.Fatal(err)
		}
	}
	w := open2(t, root, Options{})
	if err := w.Apply(context.Background(), []workspace.Edit{
		{Path: "script", Base: sum("#!/bin/sh\n"), Content: []byte("#!/bin/sh\nx\n")},
		{Path: "ro", Base: sum("r"), Content: []byte("R"), Mode: 0o777},
		{Path: "new/deep/run", Content: []byte("n"), Mode: 0o755},
		{Path: "new/plain", Content: []byte("p")},
	}); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"script": 0o755, "ro": 0o440, "new/deep/run": 0o755, "new/plain": 0o644} {
		fi, err := os.Stat(filepath.Join(root, name))
		if err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, fi.Mode(), err)
		}
	}
	if content(t, root, "script") != "#!/bin/sh\nx\n" || content(t, root, "new/plain") != "p" {
		t.Error("content")
	}
	if xattr {
		b := make([]byte, 10)
		if n, err := unix.Getxattr(filepath.Join(root, "script"), "user.note", b); err != nil || string(b[:n]) != "kept" {
			t.Errorf("attribute: %q %v", b[:max(n, 0)], err)
		}
	}
	if os.Geteuid() == 0 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(root, "script"), &st); err != nil || st.Uid != 1234 || st.Gid != 1235 {
			t.Errorf("owner: %d:%d %v", st.Uid, st.Gid, err)
		}
	}
	noTemps(t, root)
}

func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		bad  workspace.Edit
		kind fault.Kind
	}{
		{"stale base", workspace.Edit{Path: "c", Base: sum("other"), Content: []byte("C")}, fault.StaleEdit},
		{"file is gone", workspace.Edit{Path: "none", Base: sum("x"), Content: []byte("C")}, fault.StaleEdit},
		{"file is there", workspace.Edit{Path: "c", Content: []byte("C")}, fault.AlreadyExists},
		{"removing what is not there", workspace.Edit{Path: "none", Remove: true}, fault.NotFound},
		{"same file twice", workspace.Edit{Path: "l", Base: sum("a"), Content: []byte("C")}, fault.InvalidArguments},
		{"outside", workspace.Edit{Path: "../x", Content: []byte("C")}, fault.Outside},
		{"protected", workspace.Edit{Path: ".git/config", Content: []byte("C")}, fault.Protected},
		{"a file as folder", workspace.Edit{Path: "c/d", Content: []byte("C")}, fault.InvalidArguments},
		{"name too long", workspace.Edit{Path: "made/" + strings.Repeat("n", 300), Content: []byte("C")}, fault.InvalidArguments},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put(t, root, map[string]string{"a": "a", "b": "b", "c": "c", "l": "-> a"})
			w := open2(t, root, Options{})
			before := prints(t, root)
			err := w.Apply(context.Background(), []workspace.Edit{
				{Path: "a", Base: sum("a"), Content: []byte("A")}, {Path: "b", Base: sum("b"), Remove: true},
				{Path: "new/x", Content: []byte("X")}, c.bad,
			})
			if kindOfError(err) != c.kind {
				t.Errorf("want %s, got %v", c.kind, err)
			}
			after := prints(t, root)
			delete(before, root)
			delete(after, root)
			same(t, "after a refusal", before, after)
		})
	}
}

// A failure after some edits were made is provoked by exchanging a file
// between comparing and writing, which the step itself must notice.
func TestApplyTakesBackWhatItMade(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"a", "b", "c", "new/x"} {
		t.Run(late, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put(t, root, map[string]string{"a": "a", "b": "b", "c": "c"})
			w := open2(t, root, Options{})
			ctx := context.Background()
			steps, err := w.compare(ctx, []workspace.Edit{
				{Path: "a", Base: sum("a"), Content: []byte("A")}, {Path: "b", Base: sum("b"), Remove: true},
				{Path: "new/x", Content: []byte("X")}, {Path: "c", Base: sum("c"), Content: []byte("C")},
			})
			if err != nil {
				t.Fatal(err)
			}
			j, err := w.openJournal(steps)
			if err != nil {
				t.Fatal(err)
			}
			put(t, root, map[string]string{late: "the user's"})
			before := prints(t, root)
			err = w.makeAll(ctx, steps, j)
			if kind := kindOfError(err); kind != fault.StaleEdit && kind != fault.AlreadyExists {
				t.Errorf("makeAll: %v", err)
			}
			if err := w.takeBack(steps, j); err != nil {
				t.Error(err)
			}
			after := prints(t, root)
			for _, m := range []map[string]string{before, after} {
				delete(m, root)
				delete(m, filepath.Join(root, "new"))
			}
			same(t, "taken back", before, after)
			if left, _ := os.ReadDir(filepath.Join(w.private, pendingDir)); len(left) > 0 {
				t.Errorf("journal left: %v", left)
			}
		})
	}
}

// A write between the last look and the exchange is found in what the exchange
// brought out, and put back.
func TestAWriteInTheLastInstantIsNotLost(t *testing.T) {
	t.Parallel()
	for _, remove := range []bool{false, true} {
		root := t.TempDir()
		put(t, root, map[string]string{"a": "a"})
		w := open2(t, root, Options{})
		steps, err := w.compare(context.Background(), []workspace.Edit{{Path: "a", Base: sum("a"), Content: []byte("A"), Remove: remove}})
		if err != nil {
			t.Fatal(err)
		}
		j, err := w.openJournal(steps)
		if err != nil {
			t.Fatal(err)
		}
		s := steps[0]
		if err := w.openFolder(s, j); err != nil {
			t.Fatal(err)
		}
		if err := w.stage(s); !remove && err != nil {
			t.Fatal(err)
		}
		put(t, root, map[string]string{"a": "the user's"})
		if err := s.swap(int(s.dir.Fd())); kindOfError(err) != fault.StaleEdit {
			t.Errorf("swap: %v", err)
		}
		if err := w.takeBack(steps, j); err != nil {
			t.Error(err)
		}
		if got := content(t, root, "a"); got != "the user's" {
			t.Errorf("a is %q", got)
		}
		noTemps(t, root)
	}
}

// TestACrashLeavesEachFileBeforeOrAfter stops an Apply at every point, as a
// kill does, and looks at it before and after Clean.
func TestACrashLeavesEachFileBeforeOrAfter(t *testing.T) {
	t.Parallel()
	edits := []workspace.Edit{
		{Path: "a", Base: sum("a"), Content: []byte("A")}, {Path: "b", Base: sum("b"), Remove: true},
		{Path: "new/x", Content: []byte("X")}, {Path: "l", Base: sum("c"), Remove: true}, {Path: "d/e", Base: sum("e"), Content: []byte("E")},
	}
	was := map[string]string{"a": "a", "b": "b", "new/x": "", "l": "c", "d/e": "e"}
	becomes := map[string]string{"a": "A", "b": "", "new/x": "X", "l": "", "d/e": "E"}
	for at := range 2*len(edits) + 1 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			root, state := t.TempDir(), t.TempDir()
			put(t, root, map[string]string{"a": "a", "b": "b", "c": "c", "d/e": "e", "l": "-> c", ".gitignore": "d/\n"})
			w := open2(t, root, Options{State: state})
			observe(t, w)
			steps, err := w.compare(context.Background(), edits)
			if err != nil {
				t.Fatal(err)
			}
			j, err := w.openJournal(steps)
			if err != nil {
				t.Fatal(err)
			}
			left := at
			for _, s := range steps {
				if left--; left < 0 {
					break
				}
				if err := w.openFolder(s, j); err != nil {
					t.Fatal(err)
				}
				if !s.edit.Remove {
					if err := w.stage(s); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, s := range steps {
				if left--; left < 0 {
					break
				}
				if err := s.make(); err != nil {
					t.Fatal(err)
				}
			}
			for path := range was {
				if got := contentOr(root, path); got != was[path] && got != becomes[path] {
					t.Errorf("%s is %q after the crash", path, got)
				}
			}
			w.Close()
			w = open2(t, root, Options{State: state})
			if err := w.Clean(context.Background()); err != nil {
				t.Fatal(err)
			}
			want := was
			if at == 2*len(edits) {
				want = becomes
			}
			for path := range was {
				if got := contentOr(root, path); got != want[path] {
					t.Errorf("%s is %q after Clean, want %q", path, got, want[path])
				}
			}
			if _, err := os.Lstat(filepath.Join(root, "new")); err == nil && at < 2*len(edits) {
				t.Error("a folder that was made is left")
			}
			noTemps(t, root)
		})
	}
}

func contentOr(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func TestCleanLeavesWhatSomebodyWroteAfterTheCrash(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "a", "b": "b", "loose/" + tempPrefix + "0123": "lost by a power cut"})
	w := open2(t, root, Options{})
	steps, err := w.compare(context.Background(), []workspace.Edit{
		{Path: "a", Base: sum("a"), Content: []byte("A")}, {Path: "b", Base: sum("b"), Content: []byte("B")},
	})
	if err != nil {
		t.Fatal(err)
	}
	j, err := w.openJournal(steps)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := w.openFolder(s, j); err != nil {
			t.Fatal(err)
		}
		if err := w.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := steps[0].make(); err != nil {
		t.Fatal(err)
	}
	put(t, root, map[string]string{"a": "the user's"})
	if err := w.Clean(context.Background()); err != nil {
		t.Fatal(err)
	}
	if content(t, root, "a") != "the user's" || content(t, root, "b") != "b" {
		t.Errorf("a %q b %q", content(t, root, "a"), content(t, root, "b"))
	}
	noTemps(t, root)
}

func TestTemporaryFilesAreNoPartOfARevision(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "a", "d/b": "b"})
	w := open2(t, root, Options{})
	before := observe(t, w)
	put(t, root, map[string]string{"d/" + tempPrefix + "00": "x", tempPrefix + "01": "x"})
	if observe(t, w) != before || fresh(t, root) != before {
		t.Error("a temporary file changed the tree")
	}
	if files, err := w.Files(context.Background()); err != nil || !slices.Equal(files, []string{"a", "d/b"}) {
		t.Errorf("%v %v", files, err)
	}
}

func TestExchangeWithoutTheSystemsHelp(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "a", "b": "b"})
	d, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fd := int(d.Fd())
	if err := exchangeByLink(fd, "a", "b"); err != nil {
		t.Fatal(err)
	}
	if content(t, root, "a") != "b" || content(t, root, "b") != "a" {
		t.Error("not exchanged")
	}
	if err := placeByLink(fd, "a", "b"); !os.IsExist(err) {
		t.Errorf("placed over a file: %v", err)
	}
	if err := placeByLink(fd, "a", "c"); err != nil || content(t, root, "c") != "b" {
		t.Error(err)
	}
}

// TestApplyThenReadIsWhatWasWritten over random sequences, through links and
// in new folders, with the tree agreeing with a forgetful observation.
func TestApplyThenReadIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		root, state := t.TempDir(), t.TempDir()
		put(t, root, map[string]string{"d/": "", "l": "-> d"})
		w, err := open(context.Background(), root, Options{State: state})
		if err != nil {
			rt.Fatal(err)
		}
		defer w.Close()
		model := map[string]string{}
		for range rapid.IntRange(1, 6).Draw(rt, "n") {
			var edits []workspace.Edit
			next := map[string]string{}
			for k, v := range model {
				next[k] = v
			}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "d/a", "e/f/g", "e/h"}), 1, 3, func(s string) string { return s }).Draw(rt, "names") {
				old, there := model[name]
				path := name
				if name == "d/a" && rapid.Bool().Draw(rt, "link") {
					path = "l/a"
				}
				e := workspace.Edit{Path: path}
				if there {
					e.Base = sum(old)
				}
				if there && rapid.Bool().Draw(rt, "remove") {
					e.Remove = true
					delete(next, name)
				} else {
					e.Content = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "content")
					next[name] = string(e.Content)
				}
				edits = append(edits, e)
			}
			if err := w.Apply(context.Background(), edits); err != nil {
				rt.Fatal(err)
			}
			model = next
			files, err := w.Files(context.Background())
			if err != nil || len(files) != len(model)+1 {
				rt.Fatalf("files %v, want %v, %v", files, model, err)
			}
			for name, want := range model {
				f, err := w.Read(context.Background(), name)
				if err != nil || string(f.Bytes) != want {
					rt.Fatalf("%s: %q %v, want %q", name, f.Bytes, err, want)
				}
			}
		}
		tree, err := w.Observe(context.Background())
		if err != nil {
			rt.Fatal(err)
		}
		if want := forgetful(rt, root, state); tree != want {
			rt.Fatalf("tree %s, forgetful %s", tree, want)
		}
	})
}
