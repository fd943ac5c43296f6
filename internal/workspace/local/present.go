package local

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// Present implements workspace.Workspace.
func (w *Workspace) Present(ctx context.Context) (string, []workspace.Entry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tree, err := w.observe(ctx)
	if err != nil {
		return "", nil, err
	}
	return tree, w.entries(), nil
}

// entries are the files of the snapshot.
func (w *Workspace) entries() []workspace.Entry {
	var out []workspace.Entry
	for _, d := range w.snap.dirs {
		for _, e := range d.files {
			out = append(out, workspace.Entry{Path: e.path, ID: e.id.String(), Link: e.st.isLink()})
		}
	}
	slices.SortFunc(out, func(a, b workspace.Entry) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Content implements workspace.Workspace.
func (w *Workspace) Content(ctx context.Context, e workspace.Entry, limit int64) ([]byte, error) {
	t, err := w.locate(e.Path)
	if err != nil {
		return nil, err
	}
	if t.absent() {
		return nil, notFound(e.Path)
	}
	if t.info.Size() > limit {
		return nil, fault.New(fault.TooLarge, fault.Environment, fmt.Sprintf("the file %s has %d bytes, more than %d", e.Path, t.info.Size(), limit), "")
	}
	f, err := w.Read(ctx, e.Path)
	if err != nil {
		return nil, err
	}
	if hashObject(blobKind, f.Bytes).String() != e.ID {
		return nil, fault.New(fault.NotFound, fault.Environment, "the file "+e.Path+" has changed since it was listed", "list the files again").Retry()
	}
	return f.Bytes, nil
}
