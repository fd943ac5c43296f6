package core_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/event"
)

// At any time the words that stand are the latest of each file; what stood at
// the last compaction stays known until the next one, and what is kept is
// bounded.
func TestTheRepositorysWordsAreThoseOfTheirTime(t *testing.T) {
	t.Parallel()
	changes, dropped := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := core.State{}
		es := []event.Event{}
		add := func(p event.Payload) {
			e := event.Event{Goal: "g", Seq: s.Head + 1, ID: fmt.Sprint(s.Head), Type: p.EventType(), Version: 1, Fence: 1, Payload: p}
			es = append(es, e)
			s = core.Apply(s, e)
		}
		add(event.GoalReceived{Version: 1, Repo: "/w", Spec: event.GoalSpec{Text: "x"}})
		add(event.WorkspaceAttached{Root: "/w", Tree: "t", Instructions: event.Text{Head: "root"}})
		at := func(seq uint64) map[string]string { // read off the events, not the state
			words := map[string]string{}
			for _, e := range es {
				if f, ok := e.Payload.(event.InstructionsFound); ok && e.Seq <= seq {
					words[f.Path] = f.Text.Head
				}
			}
			return words
		}
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			if rapid.IntRange(0, 5).Draw(t, "compact") == 0 {
				add(event.ContextCompacted{Through: rapid.Uint64Range(s.Compacted, s.Head).Draw(t, "through")})
				continue
			}
			hash := rapid.SampledFrom([]string{"", "h1", "h2", "h3"}).Draw(t, "hash")
			add(event.InstructionsFound{Path: rapid.SampledFrom([]string{"AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"}).Draw(t, "path"), Hash: hash, Text: event.Text{Head: hash}})
			changes++
		}
		for _, seq := range []uint64{s.Compacted, s.Head} {
			want := at(seq)
			got := s.InstructionsAt(seq)
			for _, f := range got {
				if w, ok := want[f.Path]; !ok || w != f.Text.Head {
					t.Fatalf("at %d %s says %q, want %q (%t)", seq, f.Path, f.Text.Head, w, ok)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("at %d %d files, want %d", seq, len(got), len(want))
			}
		}
		for path, words := range at(s.Head) {
			if s.ShownInstructions(path) != (words != "") || !s.KnowsInstructions(path, words) {
				t.Fatalf("%s: shown %t", path, s.ShownInstructions(path))
			}
		}
		dropped += len(es) - 2 - len(s.Instructions)
	})
	if changes == 0 || dropped == 0 {
		t.Errorf("%d changes, %d dropped: the property says nothing", changes, dropped)
	}
}
