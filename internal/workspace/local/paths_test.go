package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// confined makes a root with links of every kind, and a secret outside it.
func confined(t *testing.T) (*Workspace, string, string) {
	t.Helper()
	top := t.TempDir()
	root, outside := filepath.Join(top, "root"), filepath.Join(top, "outside")
	put(t, outside, map[string]string{"secret": "s"})
	put(t, root, map[string]string{
		"d/f": "f", "in": "-> d", "infile": "-> d/f", "abs": "-> " + filepath.Join(root, "d"), "chain": "-> in/../in/f",
		"out": "-> ../outside", "outabs": "-> " + outside, "outfile": "-> ../outside/secret", "d/up": "-> ../../outside/secret",
		"dangling": "-> d/new", "danglingout": "-> ../outside/new", "loop": "-> loop", "togit": "-> .git", "tohead": "-> .git/HEAD",
		".git/HEAD": "ref: refs/heads/main\n", "sub/.git": "gitdir: ../x", "sub/deep/.GIT/config": "c", "state/belay/x": "mine",
	})
	if err := os.Symlink(root, filepath.Join(top, "alias")); err != nil {
		t.Fatal(err)
	}
	w := open2(t, filepath.Join(top, "alias"), Options{State: filepath.Join(root, "state/belay")})
	return w, root, outside
}

func TestPathsAreConfined(t *testing.T) {
	t.Parallel()
	w, root, outside := confined(t)
	ctx := context.Background()
	before := prints(t, outside)
	for _, c := range []struct {
		path string
		kind fault.Kind
	}{
		{"", fault.InvalidArguments}, {"a\x00b", fault.InvalidArguments}, {"..", fault.Outside}, {"../outside/secret", fault.Outside},
		{"d/../../outside/secret", fault.Outside}, {outside + "/secret", fault.Outside}, {"/etc/passwd", fault.Outside},
		{root + "/../outside/secret", fault.Outside}, {root + "x/f", fault.Outside},
		{"out/secret", fault.Outside}, {"outabs/secret", fault.Outside}, {"outfile", fault.Outside}, {"d/up", fault.Outside},
		{"out/new", fault.Outside}, {"danglingout", fault.Outside}, {"in/../out/secret", fault.Outside},
		{"loop", fault.InvalidArguments}, {"d/f/g", fault.InvalidArguments},
		{".git/HEAD", fault.Protected}, {".GIT/HEAD", fault.Protected}, {"togit/HEAD", fault.Protected}, {"tohead", fault.Protected},
		{"sub/.git", fault.Protected}, {"sub/.git/hooks/pre-commit", fault.Protected}, {"vendor/new/.git/hooks/pre-commit", fault.Protected},
		{"sub/deep/.GIT/config", fault.Protected}, {".git./HEAD", fault.Protected}, {"git~1/HEAD", fault.Protected}, {".g\u200cit/HEAD", fault.Protected},
		{root + "/.git/HEAD", fault.Protected}, {"state/belay/x", fault.Protected}, {"state/belay", fault.Protected}, {tempPrefix + "1", fault.Protected},
		{strings.Repeat("n", 300), fault.InvalidArguments},
	} {
		if _, err := w.Read(ctx, c.path); kindOfError(err) != c.kind {
			t.Errorf("Read(%q): want %s, got %v", c.path, c.kind, err)
		}
		if _, err := w.Stat(ctx, c.path); kindOfError(err) != c.kind {
			t.Errorf("Stat(%q): want %s, got %v", c.path, c.kind, err)
		}
		for _, e := range []workspace.Edit{
			{Path: c.path, Content: []byte("x")}, {Path: c.path, Base: sum("s"), Content: []byte("x")}, {Path: c.path, Base: sum("s"), Remove: true},
		} {
			if c.path == "outfile" || c.path == "d/up" || c.path == "tohead" || c.path == "danglingout" || c.path == "loop" {
				if e.Remove {
					continue
				}
			}
			if err := w.Apply(ctx, []workspace.Edit{e}); kindOfError(err) != c.kind {
				t.Errorf("Apply(%q, remove %v): want %s, got %v", c.path, e.Remove, c.kind, err)
			}
		}
	}
	same(t, "outside", before, prints(t, outside))
}

func TestLinksThatStayInsideWork(t *testing.T) {
	t.Parallel()
	w, root, _ := confined(t)
	ctx := context.Background()
	text := "f"
	for i, path := range []string{"d/f", "in/f", "infile", "abs/f", "chain", "./d//f", "d/./f", root + "/d/f", w.given + "/d/f", root + "/in/f"} {
		f, err := w.Read(ctx, path)
		if err != nil || string(f.Bytes) != text || f.Hash != sum(text) {
			t.Fatalf("%s: %q %v", path, f.Bytes, err)
		}
		text = strings.Repeat("x", i+1)
		if err := w.Apply(ctx, []workspace.Edit{{Path: path, Base: f.Hash, Content: []byte(text)}}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	for link, to := range map[string]string{"infile": "d/f", "in": "d", "chain": "in/../in/f"} {
		if got, err := os.Readlink(filepath.Join(root, link)); err != nil || got != to {
			t.Errorf("link %s was replaced: %q %v", link, got, err)
		}
	}
	if f, err := w.Stat(ctx, "dangling"); err != nil || !f.Absent {
		t.Errorf("a dangling link is an absent file: %+v %v", f, err)
	}
	if err := w.Apply(ctx, []workspace.Edit{{Path: "dangling", Content: []byte("new")}}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "d/new")); err != nil || string(b) != "new" {
		t.Errorf("writing through a dangling link: %q %v", b, err)
	}
	if err := w.Apply(ctx, []workspace.Edit{{Path: "infile", Base: sum(text), Remove: true}}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "infile")); !os.IsNotExist(err) {
		t.Error("removing a link removes the link")
	}
	if _, err := os.Lstat(filepath.Join(root, "d/f")); err != nil {
		t.Error("removing a link leaves its target")
	}
}

func TestSpecialFilesAreRefusedAndSkippedWithoutWaiting(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "a", "d/": ""})
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(root, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	put(t, root, map[string]string{"dev": "-> /dev/null", "topipe": "-> pipe"})
	w := open2(t, root, Options{})
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	for path, kind := range map[string]fault.Kind{"pipe": fault.InvalidArguments, "topipe": fault.InvalidArguments,
		"sock": fault.InvalidArguments, "d": fault.InvalidArguments, ".": fault.InvalidArguments, "dev": fault.Outside} {
		if _, err := w.Read(ctx, path); kindOfError(err) != kind {
			t.Errorf("Read(%s): %v", path, err)
		}
		if err := w.Apply(ctx, []workspace.Edit{{Path: path, Content: []byte("x")}}); kindOfError(err) != kind {
			t.Errorf("Apply(%s): %v", path, err)
		}
	}
	files, err := w.Files(ctx)
	if err != nil || strings.Join(files, " ") != "a dev topipe" {
		t.Errorf("files %v %v", files, err)
	}
	if observe(t, w) != oracle(t, root) {
		t.Error("the tree is not git's")
	}
}

func TestReadSaysWhatItCannot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"big": strings.Repeat("x", 100), "empty": ""})
	w := open2(t, root, Options{MaxRead: 10})
	ctx := context.Background()
	if _, err := w.Read(ctx, "big"); kindOfError(err) != fault.TooLarge {
		t.Error(err)
	}
	if f, err := w.Stat(ctx, "big"); err != nil || f.Hash != sum(strings.Repeat("x", 100)) || f.Bytes != nil {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := w.Read(ctx, "none/at/all"); kindOfError(err) != fault.NotFound {
		t.Error(err)
	}
	if f, err := w.Read(ctx, "empty"); err != nil || f.Bytes == nil || f.Hash != sum("") || f.Mode != 0o644 {
		t.Errorf("%+v %v", f, err)
	}
}

func TestOneDirectoryHasOneIdentity(t *testing.T) {
	t.Parallel()
	top, state := t.TempDir(), t.TempDir()
	put(t, top, map[string]string{"real/repo/a": "a", "alias": "-> real", "real/link": "-> repo"})
	var first string
	for _, spelling := range []string{"real/repo", "alias/repo", "real/link", "real/../alias/link/."} {
		w := open2(t, filepath.Join(top, spelling), Options{State: state})
		if first == "" {
			first = w.private
		}
		if w.private != first || w.Root() != filepath.Join(top, "real/repo") {
			t.Errorf("%s: %s, %s", spelling, w.Root(), w.private)
		}
	}
}

func TestOpenRefusesWhatIsNoWorkingDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"file": "", ".git/hooks/": ""})
	for path, kind := range map[string]fault.Kind{"none": fault.NotFound, "file": fault.NotFound, ".git/hooks": fault.Protected} {
		if _, err := Open(context.Background(), filepath.Join(root, path), Options{State: t.TempDir()}); kindOfError(err) != kind {
			t.Errorf("%s: %v", path, err)
		}
	}
	w := open2(t, root, Options{})
	if err := os.Rename(root, root+".moved"); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root + ".moved")
	put(t, root, map[string]string{"file": "other"})
	if _, err := w.Observe(context.Background()); kindOfError(err) != fault.NotFound {
		t.Errorf("an exchanged root must be noticed: %v", err)
	}
}

func TestWithoutGitTheRemedyIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Open(context.Background(), t.TempDir(), Options{State: t.TempDir()})
	if kindOfError(err) != fault.SpawnFailed || !strings.Contains(err.Error(), "install git") {
		t.Error(err)
	}
}
