package core_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/event"
)

// changesCanBeTakenBack: whatever an operation changed in the workspace, there
// is a checkpoint from before it, in the same commit as its start: of the very
// tree, or of the tree before the first edit of its response.
func changesCanBeTakenBack(*sim) checker {
	kept, looks := map[string]bool{}, map[string]bool{}
	request, effect, edits := map[string]string{}, map[string]event.EffectClass{}, map[string]int{}
	return checker{
		step: func(_ core.State, in core.Input, r core.Ready) error {
			for i, e := range r.Events {
				c, ok := e.Payload.(event.CheckpointCreated)
				if !ok || c.Trigger != event.CheckpointEdit && c.Trigger != event.CheckpointCommand && c.Trigger != event.CheckpointDiscard {
					continue
				}
				if i+1 == len(r.Events) || r.Events[i+1].Type != event.TypeOperationStarted || r.Events[i+1].Op != e.Op {
					return fmt.Errorf("checkpoint %s is not in the commit that starts %s", c.Checkpoint, e.Op)
				}
			}
			return nil
		},
		event: func(prev, st core.State, e event.Event, _ core.Input) error {
			switch p := e.Payload.(type) {
			case event.OperationProposed:
				request[e.Op], effect[e.Op] = p.Request, p.Effect
				looks[e.Op] = p.Access.Command == "ls" // what changes meanwhile is not its doing
			case event.CheckpointCreated:
				if p.Tree != prev.Revision.Tree {
					return fmt.Errorf("checkpoint %s is of another tree than the revision", p.Checkpoint)
				}
				kept[p.Tree] = true
				if p.Trigger == event.CheckpointEdit {
					if edits[request[e.Op]]++; edits[request[e.Op]] > 1 {
						return fmt.Errorf("a second checkpoint before the edits of %s", request[e.Op])
					}
				}
			case event.OperationStarted:
				if p.Intent.Destructive && !kept[p.Tree] {
					return fmt.Errorf("%s can discard work, and what is there has no checkpoint", e.Op)
				}
			case event.RepoStateMutated:
				if p.By != "external" && !looks[p.By] && !kept[p.From] && (effect[p.By] != event.Verifiable || edits[request[p.By]] == 0) {
					return fmt.Errorf("%s (%s of %q) changed %s, which has no checkpoint", p.By, effect[p.By], request[p.By], p.From)
				}
			}
			return nil
		},
	}
}

func TestEveryChangeOfAnOperationCanBeTakenBack(t *testing.T) {
	holds(t, invariant{changesCanBeTakenBack}, func(t *rapid.T) knobs { return knobs{kill: drawKill(t)} }, "checkpoint_created", "repo_state_mutated")
}

// atRest is a paused goal that has looked at its workspace.
func atRest(t *testing.T) core.State {
	t.Helper()
	var s core.State
	in := func(b core.Body) {
		t.Helper()
		r, err := core.Step(s, core.Input{Now: 1, By: event.ActorUser, Body: b})
		if err != nil {
			t.Fatal(err)
		}
		s = r.State
	}
	in(core.Start{Goal: "g", Spec: event.GoalSpec{Text: "do"}, Settings: event.Settings{Model: "script:s", Plan: event.PlanNever, Approve: event.ApproveAsk}, Repo: "/w"})
	in(core.Pause{})
	s.Workspace, s.Revision.Tree = &event.WorkspaceAttached{Tree: "T0"}, "T0"
	return s
}

func mark(s core.State, name string, o *core.Observation) (core.State, error) {
	r, err := core.Step(s, core.Input{Now: 1, By: event.ActorUser, Body: core.MarkCheckpoint{Name: name, Observation: o}})
	return r.State, err
}

func TestANamedCheckpointIsOneOfItsName(t *testing.T) {
	t.Parallel()
	s, err := mark(atRest(t), "green", nil)
	if err != nil || len(s.Checkpoints) != 1 || s.Checkpoints[0].Name != "green" || s.Checkpoints[0].Tree != "T0" {
		t.Fatalf("%v %+v", err, s.Checkpoints)
	}
	if s, err = mark(s, "edited", &core.Observation{Tree: "T1", From: "T0", DiffChanges: []event.Change{{Path: "a", Added: 3, Deleted: 1}}}); err != nil {
		t.Fatal(err)
	}
	if c := s.Checkpoints[1]; c.Tree != "T1" || c.Size != (event.DiffSize{Files: 1, Added: 3, Deleted: 1}) || c.Trigger != event.CheckpointNamed {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"", " ", " x", "cp7", "before-op1", "todo:x", "event:3", "a\nb", "a\x1b[2J", strings.Repeat("x", 81), "green", s.Checkpoints[0].ID, "\xff"} {
		if _, err := mark(s, bad, nil); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
	if _, err := mark(s, "late", &core.Observation{Tree: "T2", From: "T0"}); err == nil {
		t.Error("a look at what was there before counts")
	}
}

// TestTheListOfCheckpointsForgetsOnlyAutomaticOnes: a goal of ten thousand
// steps still knows its start and every name that a person gave.
func TestTheListOfCheckpointsForgetsOnlyAutomaticOnes(t *testing.T) {
	t.Parallel()
	s := atRest(t)
	add := func(c event.CheckpointCreated) {
		s = core.Fold(s, []event.Event{{Seq: s.Head + 1, ID: fmt.Sprint(s.Head), Type: event.TypeCheckpointCreated, Fence: s.Fence, Payload: c}})
	}
	add(event.CheckpointCreated{Checkpoint: "cp0", Name: "start", Tree: "T0"})
	for i := range 2000 {
		name := ""
		if i == 700 {
			name = "mine"
		}
		add(event.CheckpointCreated{Checkpoint: fmt.Sprint("cp", i+1), Name: name, Tree: "T0"})
	}
	var named []string
	for _, c := range s.Checkpoints {
		if c.Name != "" {
			named = append(named, c.Name)
		}
	}
	if len(s.Checkpoints) != 512 || strings.Join(named, " ") != "start mine" || s.Checkpoints[511].ID != "cp2000" || s.Refuse != "" {
		t.Errorf("%d, %v, %s %s", len(s.Checkpoints), named, s.Checkpoints[511].ID, s.Refuse)
	}
}
