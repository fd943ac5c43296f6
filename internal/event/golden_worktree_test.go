package event_test

import "belay/internal/event"

// goldenWorktree holds what came with checkouts of goals' own, and with goals that
// are exported, imported and forked.
const goldenWorktree = "testdata/golden-worktree.jsonl"

// worktree is a goal that began as a fork, works in a checkout, is applied, given
// up and imported; its checkout is removed at the end.
func (w *writer) worktree() {
	w.goal, w.fence, w.prev = "goal-worktree", 1, event.Genesis
	w.add(received(false))
	w.turn = "t1"
	w.add(with[event.TurnStarted](nil))
	w.add(with(func(p *event.WorkspaceAttached) { p.Tree = "tree0" }))
	w.add(with(func(p *event.HeadMoved) { p.By, p.Asked = "external", true }))
	w.add(with[event.TurnEnded](nil))
	w.turn = ""
	w.add(with[event.HeadAnswered](nil))
	w.fence++
	w.add(with(func(p *event.GoalForked) { p.Tree = "tree0" }))
	w.fence++
	w.add(with(func(p *event.GoalPaused) { p.Reason = event.PausedByUser }))
	w.add(with(func(p *event.ResultApplied) { p.Result = "tree0" }))
	w.fence++
	w.add(with(func(p *event.GoalGivenUp) { p.Tree = "tree0" }))
	w.fence++
	w.add(with(func(p *event.GoalImported) { p.Tree, p.Copy = "tree0", true }))
	w.fence++
	w.add(with(func(p *event.GoalImported) { p.Tree, p.Copy = "tree0", false }))
	w.add(with[event.WorktreeRemoved](nil))
}
