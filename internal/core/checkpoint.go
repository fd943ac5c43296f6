package core

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/policy"
)

// Checkpoints are made by the way: whoever starts an operation with side
// effects has just looked at the workspace, and a tree that was looked at is
// kept. So a checkpoint is one more event in the commit that announces the
// operation, and costs no look and no commit of its own.

// before is the checkpoint that an operation needs in front of it, "" for none:
// always before what can discard work; before a command when the tree or what is
// staged is another than at the latest checkpoint; and before the first edit of those
// that one response proposed.
func (s State) before(o operation.Op, discards bool, v policy.Verdict) event.CheckpointTrigger {
	switch {
	case Private(o) || o.Effect == event.Keyed:
		return "" // it runs in a copy, or elsewhere
	case discards:
		return event.CheckpointDiscard
	}
	last := s.latestCheckpoint()
	if last.Tree == s.Revision.Tree && last.Index == s.Index || readerOnly(s, o, v) {
		return ""
	}
	if o.Effect != event.Verifiable {
		return event.CheckpointCommand
	}
	if last.Trigger == event.CheckpointEdit && last.Request == o.Request {
		return ""
	}
	return event.CheckpointEdit
}

func (s State) latestCheckpoint() Checkpoint {
	if len(s.Checkpoints) == 0 {
		return Checkpoint{}
	}
	return s.Checkpoints[len(s.Checkpoints)-1]
}

// checkpointBefore records the checkpoint that an operation needs.
func (w *step) checkpointBefore(o operation.Op, discards bool, v policy.Verdict) {
	why := map[event.CheckpointTrigger]string{
		event.CheckpointDiscard: "before " + o.Tool + ", which can discard work",
		event.CheckpointCommand: "before " + o.Tool,
		event.CheckpointEdit:    "before " + o.Tool + ", the first change of its response",
	}
	if t := w.s.before(o, discards, v); t != "" {
		w.checkpoint(o.ID, event.CheckpointCreated{Checkpoint: fmt.Sprintf("cp-%s-%d", o.ID, o.Attempt+1), Why: why[t], Trigger: t})
	}
}

// checkpoint records one of the present revision.
func (w *step) checkpoint(op string, c event.CheckpointCreated) {
	c.Tree, c.Index, c.Size = w.s.Revision.Tree, w.s.Index, w.s.diffSize()
	w.emitBy(event.ActorRuntime, op, c)
}

// diffSize is how much the present revision differs from what the goal found.
func (s State) diffSize() event.DiffSize {
	if s.Revision.Tree == s.BaselineTree() {
		return event.DiffSize{}
	}
	d := event.DiffSize{Files: len(s.Diff.Changes) + s.Diff.More, AtLeast: s.Diff.More > 0}
	for _, c := range s.Diff.Changes {
		d.Added += c.Added
		d.Deleted += c.Deleted
	}
	return d
}

// checkpointTodos records the state in which todos were finished.
func (w *step) checkpointTodos(op string, done []event.Todo) {
	var names []string
	for _, t := range done {
		names = append(names, t.ID+" ("+clip(t.Content, 80)+")")
	}
	if len(names) == 0 || w.s.Workspace == nil {
		return
	}
	w.checkpoint(op, event.CheckpointCreated{Checkpoint: "cp-" + op, Trigger: event.CheckpointTodo, Why: "done: " + strings.Join(names, ", ")})
}

// maxCheckpointName is how long the name of a checkpoint may be, in bytes.
const maxCheckpointName = 80

// markCheckpoint names the state of the workspace for a person. Observation is
// the workspace as it is now where the goal is at rest; under one that is being
// worked on, the latest revision on record is named.
func (w *step) markCheckpoint(b MarkCheckpoint) error {
	s := &w.s
	if s.Workspace == nil {
		return fmt.Errorf("%w: the goal has not looked at its workspace yet", ErrState)
	}
	if err := checkpointName(b.Name); err != nil {
		return err
	}
	for _, c := range s.Checkpoints {
		if c.ID == b.Name || c.Name == b.Name {
			return fmt.Errorf("%w: there is a checkpoint %q already (event %d); take another name", ErrInput, b.Name, c.Seq)
		}
	}
	if o := b.Observation; o != nil {
		if o.From != s.Revision.Tree || s.unsettled() {
			return fmt.Errorf("%w: the goal went on meanwhile; name the checkpoint again", ErrChanged)
		}
		w.noteObservation(*o, "external")
	}
	w.emit(event.CheckpointCreated{Checkpoint: fmt.Sprintf("cp%d", s.Head+1), Name: b.Name, Tree: s.Revision.Tree, Index: s.Index,
		Why: "named by the user", Trigger: event.CheckpointNamed, Size: s.diffSize()})
	return nil
}

// checkpointName says what is wrong with a name: it has to stand in a line and
// must not be read as another target of a rollback.
func checkpointName(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || name != strings.TrimSpace(name):
		return fmt.Errorf("%w: a checkpoint's name is not empty and has no blanks around it", ErrInput)
	case len(name) > maxCheckpointName:
		return fmt.Errorf("%w: a checkpoint's name has at most %d bytes", ErrInput, maxCheckpointName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%w: a checkpoint's name is printable text", ErrInput)
	case strings.HasPrefix(name, "cp") || strings.HasPrefix(name, "before-") || strings.Contains(name, ":"):
		return fmt.Errorf("%w: names with a colon, or that begin with cp or before-, are belay's own", ErrInput)
	}
	return nil
}

// addCheckpoint folds one in. Over the bound the oldest automatic one goes from
// the list; its event, and with it the state, stays a target of a rollback.
func (s *State) addCheckpoint(e event.Event, p event.CheckpointCreated) {
	c := Checkpoint{ID: p.Checkpoint, Name: p.Name, Tree: p.Tree, Index: p.Index, Why: p.Why, Trigger: p.Trigger, Size: p.Size, Op: e.Op, Seq: e.Seq}
	if o, ok := s.Find(e.Op); ok && e.Op != "" {
		c.Request = o.Request
	}
	if s.Checkpoints = append(s.Checkpoints, c); len(s.Checkpoints) <= maxCheckpoints {
		return
	}
	i := max(0, slices.IndexFunc(s.Checkpoints, func(c Checkpoint) bool { return c.Name == "" }))
	s.Checkpoints = slices.Delete(s.Checkpoints, i, i+1)
}
