package core

import (
	"slices"

	"belay/internal/event"
)

// The bounds on the repository's words in folders.
const (
	// MaxInstructions is how many bytes of them are shown, each as it is now.
	MaxInstructions = 12 << 10
	// maxTold is how often a change of them is told between two compactions.
	maxTold = 12
)

// Instructions are words of the repository that the goal was shown, since the
// event with this seq.
type Instructions struct {
	Seq uint64 `json:"seq"`
	event.InstructionsFound
}

// rootInstructions is the file at the root that was found at the start.
func (s State) rootInstructions() string {
	switch w := s.Workspace; {
	case w == nil || w.Instructions.Head == "":
		return ""
	case w.InstructionsPath != "":
		return w.InstructionsPath
	}
	return "AGENTS.md"
}

// latestInstructions are the words of a file as they were told last.
func (s State) latestInstructions(path string) (event.InstructionsFound, bool) {
	for i := len(s.Instructions) - 1; i >= 0; i-- {
		if s.Instructions[i].Path == path {
			return s.Instructions[i].InstructionsFound, true
		}
	}
	return event.InstructionsFound{}, false
}

// ShownInstructions reports whether the goal was shown the words of a file, and
// they are still there.
func (s State) ShownInstructions(path string) bool {
	if f, ok := s.latestInstructions(path); ok {
		return f.Hash != ""
	}
	return path != "" && path == s.rootInstructions()
}

// KnowsInstructions reports whether the goal was shown exactly these words.
func (s State) KnowsInstructions(path, hash string) bool {
	f, ok := s.latestInstructions(path)
	return ok && f.Hash == hash
}

// InstructionsAt are the words that stood when the event with this seq had
// happened, each file as it was then, in the order in which they were found.
func (s State) InstructionsAt(seq uint64) []event.InstructionsFound {
	var out []event.InstructionsFound
	for _, f := range s.Instructions {
		if f.Seq > seq {
			break
		}
		if i := slices.IndexFunc(out, func(o event.InstructionsFound) bool { return o.Path == f.Path }); i >= 0 {
			out[i] = f.InstructionsFound
			continue
		}
		out = append(out, f.InstructionsFound)
	}
	return out
}

// noteInstructions records words of the repository that are new to the goal.
// What has no room left is told by its path alone.
func (w *step) noteInstructions(found []event.InstructionsFound, by string) {
	for _, f := range found {
		if w.s.KnowsInstructions(f.Path, f.Hash) || len(w.s.Instructions) >= maxTold+len(w.s.InstructionsAt(w.s.Head)) {
			continue
		}
		if f.Changed = w.s.ShownInstructions(f.Path); f.Hash == "" && !f.Changed {
			continue
		}
		if f.By == "" {
			f.By = by
		}
		room := MaxInstructions
		for _, o := range w.s.InstructionsAt(w.s.Head) {
			if o.Path != f.Path {
				room -= len(o.Text.Head)
			}
		}
		if len(f.Text.Head) > room {
			f.Text.Head, f.Text.Cut = "", true
		}
		w.emitBy(event.ActorRuntime, opOf(f.By), f)
	}
}

func (s *State) applyInstructions(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.InstructionsFound:
		s.Instructions = append(s.Instructions[:len(s.Instructions):len(s.Instructions)], Instructions{Seq: e.Seq, InstructionsFound: p})
	default:
		return false
	}
	return true
}

// settleInstructions drops the words that a compaction has put behind it: of
// each file, what stood at the seq is kept, and what came later.
func (s *State) settleInstructions(seq uint64) {
	var kept []Instructions
	for i, f := range s.Instructions {
		later := slices.ContainsFunc(s.Instructions[i+1:], func(o Instructions) bool { return o.Path == f.Path && o.Seq <= seq })
		if f.Seq > seq || !later {
			kept = append(kept, f)
		}
	}
	s.Instructions = kept
}

func foundWords(f event.InstructionsFound) string {
	switch {
	case f.Hash == "":
		return f.Path + " is gone"
	case f.Changed:
		return f.Path + " has changed"
	}
	return f.Path
}
