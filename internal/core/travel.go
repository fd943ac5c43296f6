package core

import (
	"fmt"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/fault"
)

const (
	// MaxPacks is how many packs in a row build on one another before a whole
	// one is made again: restoring reads all of them.
	MaxPacks = 32
)

// Packs are the artifacts from which another place can restore the workspace.
type Packs struct {
	// First is the pack of the tree that the goal found: what a fresh clone at
	// another place is likely to hold.
	First *event.WorkspacePacked `json:"first,omitempty"`
	// Chain ends in the latest pack; each builds on the one before, and the
	// first one is whole.
	Chain []event.WorkspacePacked `json:"chain,omitempty"`
	// Missed is the tree whose packing failed last, Why the reason.
	Missed string `json:"missed,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Holder is the worker of the latest turn, open or not.
type Holder struct {
	Worker string `json:"worker,omitempty"`
	Place  string `json:"place,omitempty"`
}

// Elsewhere reports whether two places are known to be different ones.
func Elsewhere(a, b string) bool { return a != "" && b != "" && a != b }

// away reports whether the workspace is at another place than the worker of
// the open turn.
func (s State) away() bool { return s.Turn != nil && Elsewhere(s.Place, s.Holder.Place) }

// stranded reports whether the goal goes on but could not be had at the place of
// its latest worker, which therefore looks at nothing: what an attempt did is
// found out where the workspace is, and is not unknown for not being here.
func (s State) stranded() bool {
	return s.Turn == nil && Elsewhere(s.Place, s.Holder.Place) && (s.Status == lifecycle.Active || s.Status == lifecycle.Verifying)
}

// All lists the packs in the order in which they can be taken in.
func (p Packs) All() []event.WorkspacePacked {
	if p.First == nil || len(p.Chain) > 0 && p.Chain[0].Tree == p.First.Tree && p.Chain[0].Base == "" {
		return p.Chain
	}
	return append([]event.WorkspacePacked{*p.First}, p.Chain...)
}

// last is the newest packed tree, "" for none.
func (p Packs) last() string {
	if n := len(p.Chain); n > 0 {
		return p.Chain[n-1].Tree
	}
	return ""
}

// base is the tree that the next pack builds on, "" when it should be whole:
// there is none yet, or what builds on the whole one has become as large, or
// too many pieces.
func (p Packs) base() string {
	if len(p.Chain) == 0 || len(p.Chain) >= MaxPacks {
		return ""
	}
	var more int64
	for _, c := range p.Chain[1:] {
		more += c.Pack.Size
	}
	if more > p.Chain[0].Pack.Size+1<<20 {
		return ""
	}
	return p.last()
}

func (p *Packs) add(e event.WorkspacePacked) {
	if e.Failed != "" {
		p.Missed, p.Why = e.Tree, e.Failed
		return
	}
	if p.First == nil {
		p.First = &e
	}
	if e.Base == "" {
		p.Chain = nil
	}
	p.Chain = append(p.Chain[:len(p.Chain):len(p.Chain)], e)
	p.Missed, p.Why = "", ""
}

// wantedPack is the packing of the present tree. It runs beside everything
// else and is wanted until it is recorded, also after the end of the turn.
func (s State) wantedPack(by event.Actor) []Effect {
	tree := s.Revision.Tree
	switch {
	case !s.Settings.Travel || s.Workspace == nil || s.Status.Final() || event.Worker(s.Holder.Worker) != by,
		Elsewhere(s.Place, s.Holder.Place), s.Packs.last() == tree, s.Packs.Missed == tree:
		return nil
	}
	return []Effect{Pack{Tree: tree, Base: s.Packs.base()}}
}

func (s State) wantedMove() Effect {
	return Move{Tree: s.Revision.Tree, From: s.Place, Packs: s.Packs.All(), Head: s.Mark}
}

// packed records a pack, if it still is the next one.
func (w *step) packed(b Packed) {
	if !w.holder() || w.s.Packs.last() == b.Tree || b.Base != "" && b.Base != w.s.Packs.last() {
		return
	}
	w.emitBy(event.ActorRuntime, "", event.WorkspacePacked(b))
}

// moved records that the workspace stands at the worker's place now.
func (w *step) moved(b Moved) {
	if !w.holder() || !w.s.away() || b.Tree != w.s.Revision.Tree {
		return
	}
	w.emitBy(event.ActorRuntime, "", event.WorkspaceMoved{From: w.s.Place, Place: w.s.Holder.Place, Root: b.Root, Tree: b.Tree, Written: b.Written})
	w.commit() // the place that had it must not go on with its own
}

// stranded lets a goal wait whose workspace cannot be had at the worker's
// place: the place that has it may come back.
func (w *step) stranded(f fault.Fault) {
	if !w.holder() || !w.s.away() {
		return
	}
	w.emit(event.TurnEnded{Reason: event.StopYielded, Detail: f.Message})
	w.waitBlocked(*f.Retry())
}

// unobserved is the fault of a goal whose last operation was not looked at
// before its place was lost: what it left there did not travel.
func unobserved(op, place string) *fault.Fault {
	return fault.New(fault.NotFound, fault.Environment,
		"the workspace is at "+place+", and what "+op+" left there was not observed before its worker ended: the tree to restore is not known",
		"let a worker there go on; or belay resume --adopt, to go on from the directory here as it is").Retry()
}

// adopt takes the directory at a person's place, as it is, for the goal's.
func (w *step) adopt(b Adopt) error {
	if err := w.alive(); err != nil {
		return err
	}
	if !Elsewhere(w.s.Place, b.Place) {
		return fmt.Errorf("%w: the goal's workspace is the directory here already", ErrState)
	}
	if w.s.Turn != nil {
		w.emit(event.TurnEnded{Reason: event.StopSuperseded, Detail: "the user took another directory for the goal's"})
	}
	w.emit(event.WorkspaceMoved{From: w.s.Place, Place: b.Place, Root: b.Root, Tree: w.s.Revision.Tree, Adopted: true})
	if wt := w.s.Wait; wt != nil && wt.Blocked {
		w.emit(event.GoalWoken{Reason: wt.Reason})
	}
	return nil
}

func (s *State) applyTravel(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.WorkspacePacked:
		s.Packs.add(p)
	case event.WorkspaceMoved:
		s.Place, s.Blocked = p.Place, 0
		s.Git, s.Moved = nil, nil // another clone stands where it stands
		if p.Adopted {
			s.Fresh, s.Unseen, s.UnseenRun = false, "", nil
			break
		}
		s.Budget.Used.Turns++ // the turn that began before it is one of the goal's from here on
		s.observed()
	default:
		return false
	}
	return true
}

// quiet are facts that change nothing that an effect in flight depends on.
func quiet(t event.Type) bool { return t == event.TypeWorkspacePacked || t == event.TypeLateFact }
