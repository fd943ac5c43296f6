package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"belay/internal/workspace"
)

// watchOpens tells of every directory and file below some directories that any
// process opens, git's included, from now on.
func watchOpens(t *testing.T, dirs ...string) (opened func() []string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	names := map[int32]string{}
	for _, d := range dirs {
		wd, err := unix.InotifyAddWatch(fd, d, unix.IN_OPEN|unix.IN_ACCESS)
		if err != nil {
			t.Fatal(err)
		}
		names[int32(wd)] = d
	}
	return func() []string {
		var out []string
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if errors.Is(err, unix.EAGAIN) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < n; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
				name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+int(e.Len)]), "\x00")
				out = append(out, filepath.Join(names[e.Wd], name))
				at += unix.SizeofInotifyEvent + int(e.Len)
			}
		}
	}
}

// TestNothingWalksIgnoredDirectories: not belay and not the git that it asks, in
// a first look, after a change, in a rollback and where what is staged is read.
func TestNothingWalksIgnoredDirectories(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	run(t, root, "init", "-q")
	files := map[string]string{".gitignore": "node_modules/\n*.cache\n", "a.txt": "1\n", "src/.gitignore": "out\n", "src/b.txt": "1\n"}
	var hidden []string
	for _, dir := range []string{"node_modules", "src/out", "src/x.cache", "deep/er/node_modules"} {
		for i := range 3 {
			files[fmt.Sprintf("%s/m%d/f.js", dir, i)] = "x"
			hidden = append(hidden, filepath.Join(root, dir, fmt.Sprint("m", i)))
		}
		hidden = append(hidden, filepath.Join(root, dir))
	}
	files["deep/er/c.txt"] = "1\n"
	put(t, root, files)
	run(t, root, "add", "-A")
	run(t, root, "commit", "-qm", "one")
	opened := watchOpens(t, hidden...)
	// The watch works: this is seen.
	if _, err := os.ReadDir(hidden[0]); err != nil {
		t.Fatal(err)
	}
	if len(opened()) == 0 {
		t.Fatal("the watch sees nothing")
	}
	none := func(when string) {
		t.Helper()
		if got := opened(); len(got) > 0 {
			t.Errorf("%s opened %q", when, got)
		}
	}
	ctx := context.Background()
	w := open2(t, root, Options{State: state, Lock: true})
	then := observe(t, w)
	none("a first look")
	put(t, root, map[string]string{"a.txt": "2\n", "new/n.txt": "n\n", "src/c.txt": "c\n"})
	run(t, root, "add", "a.txt")
	opened() // git add is the user's
	now := observe(t, w)
	none("a look at changes")
	index, err := w.Staged(ctx)
	if err != nil {
		t.Fatal(err)
	}
	none("a look at what is staged")
	if _, err := w.Attach(ctx); err != nil {
		t.Fatal(err)
	}
	none("attaching")
	if _, err := w.InTheWay(ctx, now, then); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Restore(ctx, workspace.Restore{Tree: then, From: now, Staged: &workspace.Restage{Index: index, From: index}}); err != nil {
		t.Fatal(err)
	}
	none("a rollback")
	if err := w.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	none("cleaning up")
}
