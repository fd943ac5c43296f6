package core

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

func TestTheEnvironmentIsRecordedWhenItIsNewAndDeepOnceForEachTree(t *testing.T) {
	t.Parallel()
	s := State{Status: lifecycle.Verifying, Head: 5, Fence: 1, Revision: event.Revision{N: 1, Tree: "t1"}}
	s.Todos = []event.Todo{{ID: "1", Content: "a", Status: event.TodoCompleted}, {ID: "2", Content: "b", Status: event.TodoPending}}
	w := &step{s: s, in: Input{By: event.ActorRuntime}}
	facts := map[string]string{"files": "3"}
	w.captured(event.DepthLight, nil)
	w.captured(event.DepthLight, facts)
	w.captured(event.DepthLight, facts) // nothing new, though the todos stand in what was recorded
	if len(w.events) != 1 || w.s.Captured.Light["files"] != "3" || w.s.Captured.Light["todos"] != "1 of 2 completed" {
		t.Fatalf("%+v, %+v", w.events, w.s.Captured)
	}
	w.captured(event.DepthLight, map[string]string{"files": "4"})
	if !w.s.wantsDeep() {
		t.Error("a verification wants no deep facts")
	}
	w.captured(event.DepthDeep, map[string]string{"symbols": "9"})
	if w.s.wantsDeep() || len(w.events) != 3 {
		t.Errorf("the deep facts of this tree are wanted again, after %d events", len(w.events))
	}
	if all := w.s.Captured.All(); all["files"] != "4" || all["symbols"] != "9" {
		t.Errorf("%v", all)
	}
	w.s.Revision.Tree = "t2"
	if !w.s.wantsDeep() {
		t.Error("another tree wants none")
	}
	w.s.Status = lifecycle.Active
	if w.s.wantsDeep() {
		t.Error("deep facts are wanted between two milestones")
	}
	if n, d := describe(w.events[0]); n != "environment_captured: light" || d != "files: 3; todos: 1 of 2 completed" {
		t.Errorf("%s, %s", n, d)
	}
}

// Whatever is said of the environment, what is recorded is bounded, and recording
// it a second time records nothing.
func TestFactsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		facts := map[string]string{}
		for i := range rapid.IntRange(1, 200).Draw(t, "facts") {
			facts[fmt.Sprintf("k%d", i)] = strings.Repeat(rapid.SampledFrom([]string{"a", "文", ""}).Draw(t, "text"), rapid.IntRange(0, 500).Draw(t, "times"))
		}
		w := &step{s: State{Head: 1, Fence: 1, Status: lifecycle.Active}}
		w.captured(event.DepthLight, facts)
		w.captured(event.DepthLight, facts)
		if len(w.events) != 1 || len(w.s.Captured.Light) > maxFacts || len(w.s.Captured.Light) != min(len(facts), maxFacts) {
			t.Fatalf("%d events, %d facts of %d", len(w.events), len(w.s.Captured.Light), len(facts))
		}
		for k, v := range w.s.Captured.Light {
			if len(k) > maxFactBytes || len(v) > maxFactBytes {
				t.Fatalf("%s: %d bytes", k, len(v))
			}
		}
	})
}
