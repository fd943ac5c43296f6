package effect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
)

// packMedia names what Export gives.
const packMedia = "application/x-git-packed-objects"

// pack keeps an observed tree as an artifact. That the ledger does not take it
// is an error: nothing that follows would be taken either.
func (g *Goal) pack(ctx context.Context, e core.Pack) (core.Body, error) {
	b := core.Packed{Tree: e.Tree, Base: e.Base}
	r, err := g.Workspace.Export(ctx, e.Tree, e.Base)
	if err == nil {
		defer r.Close()
		from := &source{r: r}
		b.Pack, err = g.Ledger.PutArtifact(ctx, from, packMedia)
		if err != nil && from.err == nil && ctx.Err() == nil {
			return nil, fmt.Errorf("keep the workspace's tree %s as an artifact: %w: %w", e.Tree, errUnkept, err)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		b.Pack, b.Failed = event.Ref{}, err.Error()
	}
	return b, nil
}

// source remembers that reading failed, to tell it from a failing store.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// move makes the directory at this place the goal's.
func (g *Goal) move(ctx context.Context, e core.Move) (core.Body, error) {
	n, err := g.moveIn(ctx, e)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		f := asFault(err, fault.Internal, fault.Environment)
		f.Message = fmt.Sprintf("the workspace is at %s and cannot be had here: %s", e.From, f.Message)
		return core.Unmoved{Fault: *f}, nil
	}
	return core.Moved{Root: g.Workspace.Root(), Tree: e.Tree, Written: n}, nil
}

func (g *Goal) moveIn(ctx context.Context, e core.Move) (int, error) {
	if err := g.takeIn(ctx, e.Packs, e.Tree); err != nil {
		return 0, err
	}
	var known []string
	for _, p := range e.Packs {
		known = append(known, p.Tree)
	}
	n, err := g.Workspace.MoveIn(ctx, e.Tree, known)
	var f *fault.Fault
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		why := "it does not travel (start goals with --travel)"
		if len(e.Packs) > 0 {
			why = "its present tree was not packed before its worker ended"
		}
		return n, fault.New(fault.NotFound, fault.Environment, "the directory "+g.Workspace.Root()+" does not hold its tree, and "+why,
			"let a worker there go on; or belay resume --adopt, to go on from the directory here as it is").Retry()
	}
	return n, err
}

// takeIn imports the packs that lead to a tree, as far as they are missing
// here.
func (g *Goal) takeIn(ctx context.Context, packs []event.WorkspacePacked, tree string) error {
	if len(packs) == 0 {
		return nil
	}
	held, err := g.Workspace.Holds(ctx, tree)
	if err != nil || held {
		return err
	}
	from := len(packs)
	for from > 0 {
		held, err := g.Workspace.Holds(ctx, packs[from-1].Tree)
		if err != nil {
			return err
		}
		if held {
			break
		}
		from--
	}
	for _, p := range packs[from:] {
		if err := g.takeOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (g *Goal) takeOne(ctx context.Context, p event.WorkspacePacked) error {
	r, err := g.Ledger.OpenArtifact(ctx, p.Pack.SHA256)
	if errors.Is(err, ledger.ErrNotFound) {
		return fault.New(fault.NotFound, fault.Environment, fmt.Sprintf("the artifact %s, from which tree %s is restored, is missing in the ledger", p.Pack.SHA256, p.Tree),
			"restore the ledger's artifacts from a backup; belay audit tells what is missing").Retry()
	}
	if err != nil {
		return err
	}
	defer r.Close()
	return g.Workspace.Import(ctx, r)
}

// elsewhere says why an attempt cannot be looked at here, or "". What a command
// did to a machine can be seen only there; what an edit did, only in the
// directory that it was made in.
func (g *Goal) elsewhere(s core.State, place string, effect event.EffectClass) string {
	away := core.Elsewhere(s.Place, g.Place)
	switch {
	case effect == event.Supervised && !core.Elsewhere(place, g.Place):
		return "" // its record is here, wherever the workspace is by now
	case away:
		return "it ran at " + s.Place + ", where the workspace still is; only a worker there can look at it"
	case effect == event.Supervised:
		return "it was started at " + place + ", and only a worker there can find out how it ended; the workspace here is as it was before it started"
	}
	return ""
}
