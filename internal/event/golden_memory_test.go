package event_test

import "belay/internal/event"

// goldenMemory holds what came with what outlives a goal.
const goldenMemory = "testdata/golden-memory.jsonl"

// goldenInstructions holds what came with the repository's words in folders.
const goldenInstructions = "testdata/golden-instructions.jsonl"

// instructions is a goal that comes to a folder with words of its own, which
// then change and go.
func (w *writer) instructions() {
	w.goal, w.fence, w.prev = "goal-instructions", 1, event.Genesis
	w.add(received(false))
	w.turn = "t1"
	w.add(with[event.TurnStarted](nil))
	w.add(with(func(p *event.WorkspaceAttached) { p.Tree, p.InstructionsPath = "tree0", "CLAUDE.md" }))
	w.add(event.InstructionsFound{Path: "web/AGENTS.md", Text: event.Text{Head: "use tabs", Whole: event.RefOf([]byte("use tabs, please"), "text/plain"), Cut: true}, Hash: "h1", By: "op1"})
	w.add(event.InstructionsFound{Path: "web/AGENTS.md", Text: event.Text{Head: "use spaces"}, Hash: "h2", Changed: true, By: "external"})
	w.add(event.ContextCompacted{Through: 5, Summary: event.Text{Head: "s"}, Reason: "r"})
	w.add(event.InstructionsFound{Path: "web/AGENTS.md", Changed: true, By: "op2"})
	w.add(with(func(p *event.TurnEnded) { p.Reason = event.StopYielded }))
}

// memory is a goal that is told of earlier ones, takes decisions back, and has
// something forgotten by a person.
func (w *writer) memory() {
	w.goal, w.fence, w.prev = "goal-memory", 1, event.Genesis
	w.add(received(false))
	w.turn = "t1"
	w.add(with[event.TurnStarted](nil))
	w.add(with(func(p *event.WorkspaceAttached) { p.Tree = "tree0" }))
	item := func(id string, k event.MemoryKind) event.MemoryItem {
		return event.MemoryItem{ID: id, Kind: k, Text: "what " + id + " says"}
	}
	w.add(event.MemoryRecalled{More: 3, Items: []event.MemoryItem{item("d1", event.MemoryDecision), item("c1", event.MemoryCommand), item("c2", event.MemoryCommand)}})
	w.add(event.DecisionRecorded{Decision: "one", Reason: "because", Scope: "repository"})
	w.add(event.DecisionRecorded{Decision: "two", Reason: "because", Scope: "internal/**"})
	w.add(event.DecisionRevoked{Decision: event.DecisionID("goal-memory", 5), Reason: "it was wrong", By: event.ActorModel})
	w.add(event.DecisionRevoked{Decision: "d1", Reason: "it is old", By: event.ActorModel})
	w.add(event.MemoryForgotten{Repo: "/w", Items: []string{"c1"}, All: false, Through: map[string]uint64{"goal-memory": 8, "goal-1": 40}})
	w.add(with(func(p *event.TurnEnded) { p.Reason = event.StopYielded }))
	w.add(event.MemoryForgotten{Repo: "/w", All: true, Through: map[string]uint64{"goal-memory": 5}})
}
