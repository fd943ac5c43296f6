package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGitReadsThePacksThatWeWrite: any objects, written as a pack, are read
// back by git, and its own check of the pack finds no fault.
func TestGitReadsThePacksThatWeWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		g, err := newGit()
		if err != nil {
			rt.Fatal(err)
		}
		w := &Workspace{git: g, private: dir, store: store{filepath.Join(dir, "git")}}
		if err := w.initStore(context.Background()); err != nil {
			rt.Fatal(err)
		}
		p, err := newPackSink(w.store)
		if err != nil {
			rt.Fatal(err)
		}
		blobs := map[oid][]byte{}
		for range rapid.IntRange(1, 20).Draw(rt, "n") {
			content := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 30).Draw(rt, "content"), rapid.IntRange(0, 300).Draw(rt, "times"))
			id := hashObject(blobKind, content)
			blobs[id] = content
			if err := p.add(blobKind, id, content); err != nil {
				rt.Fatal(err)
			}
		}
		if err := p.finish(); err != nil {
			rt.Fatal(err)
		}
		if out, err := w.git.run(context.Background(), w.inStore("fsck", "--full", "--strict")); err != nil {
			rt.Fatalf("%v %s", err, out)
		}
		for id, want := range blobs {
			got, err := w.git.run(context.Background(), w.inStore("cat-file", "blob", id.String()))
			if err != nil || !bytes.Equal(got, want) {
				rt.Fatalf("%s: %q %v, want %q", id, got, err, want)
			}
		}
	})
}

func TestADamagedSnapshotCostsOnlyTime(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	put(t, root, map[string]string{"a": "a", "d/b": "b", "v/.gitignore": "*\n"})
	w := open2(t, root, Options{State: state})
	want := observe(t, w)
	whole, err := os.ReadFile(w.snapshotPath())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	s, err := decodeSnapshot(whole)
	if err != nil || !bytes.Equal(encodeSnapshot(s), whole) {
		t.Fatalf("the snapshot does not come back: %v", err)
	}
	for cut := 0; cut < len(whole); cut += 7 {
		if _, err := decodeSnapshot(whole[:cut]); err == nil {
			t.Errorf("cut at %d: accepted", cut)
		}
		flipped := bytes.Clone(whole)
		flipped[cut] ^= 0x41
		if _, err := decodeSnapshot(flipped); err == nil {
			t.Errorf("flipped at %d: accepted", cut)
		}
	}
	if err := os.WriteFile(w.snapshotPath(), whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if got := observe(t, open2(t, root, Options{State: state})); got != want {
		t.Error("another tree")
	}
}

func TestWhenTheStoreCannotBeWrittenNothingIsRemembered(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"a": "a"})
	w := open2(t, root, Options{})
	observe(t, w)
	objects := filepath.Join(w.store.dir, "objects")
	put(t, root, map[string]string{"a": "b"})
	// A file in the way stops the super-user, too.
	if err := os.Rename(objects, objects+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(objects, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Observe(context.Background()); err == nil {
		t.Fatal("observed without a store")
	}
	os.Remove(objects)
	if err := os.Rename(objects+".away", objects); err != nil {
		t.Fatal(err)
	}
	tree := observe(t, w)
	dir := t.TempDir()
	if err := w.Materialise(context.Background(), tree, dir); err != nil || content(t, dir, "a") != "b" {
		t.Errorf("%v", err)
	}
}

// TestCostFollowsWhatChanged: an edit adds the edited bytes and the folders
// above them, whatever else there is, and nothing at all when nothing changed.
func TestCostFollowsWhatChanged(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{".gitignore": "ign/\n", "big": strings.Repeat("big", wholeMax/3+10), "d/e/f": "f"})
	for i := range 300 {
		put(t, root, map[string]string{fmt.Sprintf("many/%d", i): fmt.Sprint(i), fmt.Sprintf("ign/%d/x", i): "x"})
	}
	w := open2(t, root, Options{})
	observe(t, w)
	for _, d := range w.snap.dirs {
		if strings.HasPrefix(d.path, "ign") {
			t.Errorf("the ignored directory %s is watched", d.path)
		}
	}
	before := objectCount(t, w)
	observe(t, w)
	if n := objectCount(t, w) - before; n != 0 {
		t.Errorf("%d objects for no change", n)
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(root, "big"), now, now); err != nil {
		t.Fatal(err)
	}
	observe(t, w)
	if n := objectCount(t, w) - before; n != 0 {
		t.Errorf("%d objects for a touched file", n)
	}
	put(t, root, map[string]string{"d/e/f": "changed"})
	observe(t, w)
	if n := objectCount(t, w) - before; n != 4 { // the file, d/e, d, the root
		t.Errorf("%d objects for one changed file", n)
	}
}

func objectCount(t *testing.T, w *Workspace) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(w.store.dir, "objects"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
