package local

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"belay/internal/event"
)

// doings are what git leaves while something is going on in a working tree, and
// the words for it.
var doings = []struct{ path, word string }{
	{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase or am"}, {"MERGE_HEAD", "a merge"}, {"CHERRY_PICK_HEAD", "a cherry-pick"},
	{"REVERT_HEAD", "a revert"}, {"BISECT_LOG", "a bisect"},
}

// Standing implements workspace.Workspace. It reads a few small files: an
// observation asks for it each time.
func (w *Workspace) Standing(ctx context.Context) (event.Standing, error) {
	g := gitAbove(w.path)
	if !g.found() {
		return event.Standing{}, nil
	}
	b, err := os.ReadFile(filepath.Join(g.dir, "HEAD"))
	if errors.Is(err, fs.ErrNotExist) {
		return event.Standing{}, nil // it is being made or removed
	}
	if err != nil {
		return event.Standing{}, storageFault(err)
	}
	var s event.Standing
	text := strings.TrimSpace(string(b))
	if ref, ok := strings.CutPrefix(text, "ref: "); ok {
		s.Branch = strings.TrimPrefix(ref, "refs/heads/")
		if s.Head, err = refAt(g, ref); err != nil {
			return s, storageFault(err)
		}
		if s.Head == "" && ref == "refs/heads/.invalid" { // refs are not kept in files there
			if s.Head, s.Branch, err = w.head(ctx, g); err != nil {
				return s, err
			}
		}
	} else {
		s.Head = text
	}
	for _, d := range doings {
		if _, err := os.Lstat(filepath.Join(g.dir, d.path)); err == nil {
			s.Doing = d.word
			break
		}
	}
	return s, nil
}

// refAt is the commit that a ref names, "" for one that is not there.
func refAt(g gitDir, ref string) (string, error) {
	for range 5 { // a ref may name another
		b, err := os.ReadFile(filepath.Join(g.common, filepath.FromSlash(ref)))
		if err == nil {
			text := strings.TrimSpace(string(b))
			next, symbolic := strings.CutPrefix(text, "ref: ")
			if !symbolic {
				return text, nil
			}
			ref = next
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return packedRef(g, ref)
	}
	return "", nil
}

func packedRef(g gitDir, ref string) (string, error) {
	f, err := os.Open(filepath.Join(g.common, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref {
			return id, nil
		}
	}
	return "", lines.Err()
}
