package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/plan"
	"belay/internal/event"
)

func TestTheGateIsOpenOnlyWhenTheUserSwitchedItOff(t *testing.T) {
	t.Parallel()
	for mode, want := range map[event.PlanMode]event.PermissionMode{
		event.PlanNever: event.ModeDefault, event.PlanAuto: event.ModePlan, event.PlanAlways: event.ModePlan,
		"": event.ModePlan, "nonsense": event.ModePlan, // what is not understood does not open it
	} {
		if got := plan.Gate(mode); got != want {
			t.Errorf("%q: %s, want %s", mode, got, want)
		}
	}
}

func TestWhoApprovesAPlan(t *testing.T) {
	t.Parallel()
	small := []string{"internal/slug", "README.md"}
	for _, c := range []struct {
		mode    event.PlanMode
		approve event.ApproveMode
		scope   []string
		want    plan.Decision
	}{
		{event.PlanAuto, event.ApproveAsk, small, plan.ByPolicy},
		{event.PlanAuto, event.ApproveNever, small, plan.ByPolicy},
		{event.PlanAuto, event.ApproveAsk, nil, plan.ByUser},
		{event.PlanAuto, event.ApproveNever, nil, plan.Denied},
		{event.PlanAlways, event.ApproveAsk, small, plan.ByUser},
		{event.PlanAlways, event.ApproveNever, small, plan.Denied},
		{event.PlanAlways, event.ApproveAuto, nil, plan.ByPolicy},
		{event.PlanAuto, event.ApproveAuto, nil, plan.ByPolicy},
		{event.PlanAuto, event.ApproveAsk, []string{"**"}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"*"}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"./"}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"."}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{""}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"/etc/passwd"}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"src/**"}, plan.ByPolicy},
		{event.PlanAuto, event.ApproveAsk, []string{"a", "b", "c", "d", "e"}, plan.ByPolicy},
		{event.PlanAuto, event.ApproveAsk, []string{"a", "b", "c", "d", "e", "f"}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"*/x"}, plan.ByUser},
		{event.PlanAuto, event.ApproveAsk, []string{"{src,cmd}/x"}, plan.ByUser},
	} {
		if got := plan.Approver(c.mode, c.approve, event.Plan{Scope: c.scope}); got != c.want {
			t.Errorf("plan=%s approve=%s scope=%q: %s, want %s", c.mode, c.approve, c.scope, got, c.want)
		}
	}
}

// A plan that reaches higher than its own folder is not of a small, concrete
// scope, however it is written.
func TestAScopeThatLeavesItsFolderIsNotSmall(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"..", "../x", "a/../..", "a/../../b", "./..", "*.*", "**/*.go", "?", "*.?*", "a/.."} {
		if got := plan.Approver(event.PlanAuto, event.ApproveAsk, event.Plan{Scope: []string{s}}); got != plan.ByUser {
			t.Errorf("scope %q is approved by %s", s, got)
		}
	}
}

func TestOneWideScopeAmongSmallOnesGoesToTheUser(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,5}(/[a-z]{1,5}){0,2}`), 0, plan.SmallScope-1).Draw(t, "scope")
		wide := rapid.SampledFrom([]string{"", ".", "*", "**", "**/x", "/", "./", ".."}).Draw(t, "wide")
		at := rapid.IntRange(0, len(scope)).Draw(t, "at")
		scope = append(scope[:at:at], append([]string{wide}, scope[at:]...)...)
		if got := plan.Approver(event.PlanAuto, event.ApproveAsk, event.Plan{Scope: scope}); got != plan.ByUser {
			t.Fatalf("%q: %s", scope, got)
		}
	})
}

func TestAPlanHasStepsWithWordsAndOwnIds(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]event.Plan{
		"at least one step": {},
		"steps[1].text":     {Steps: []event.PlanStep{{ID: "1", Text: "x"}, {ID: "2", Text: " \n"}}},
		"steps[1].id":       {Steps: []event.PlanStep{{ID: "1", Text: "x"}, {ID: "1", Text: "y"}}},
	} {
		if err := plan.CheckPlan(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want a word of %q", p, err, want)
		}
	}
	if err := plan.CheckPlan(event.Plan{Steps: []event.PlanStep{{ID: "1", Text: "x"}, {ID: "2", Text: "x"}}}); err != nil {
		t.Error(err)
	}
}

// The list is accepted exactly when an independent reading of the rules finds
// nothing wrong with it.
func TestTodoListsAreJudgedByTheirRules(t *testing.T) {
	t.Parallel()
	known := func(op string) bool { return op == "op1" }
	gen := rapid.Custom(func(t *rapid.T) event.Todo {
		return event.Todo{
			ID:       rapid.SampledFrom([]string{"1", "2", "3", "4", ""}).Draw(t, "id"),
			Content:  rapid.SampledFrom([]string{"x", "y", " "}).Draw(t, "content"),
			Status:   rapid.SampledFrom([]event.TodoStatus{event.TodoPending, event.TodoInProgress, event.TodoCompleted, "done"}).Draw(t, "status"),
			Evidence: rapid.SampledFrom([]string{"", "op1", "op9"}).Draw(t, "evidence"),
			Reason:   rapid.SampledFrom([]string{"", "because", " "}).Draw(t, "reason"),
		}
	})
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		todos := rapid.SliceOfN(gen, 0, 4).Draw(t, "todos")
		running, ids, bad := 0, map[string]bool{}, ""
		for _, d := range todos {
			switch {
			case strings.TrimSpace(d.Content) == "":
				bad = "empty content"
			case d.ID == "" || ids[d.ID]:
				bad = "id"
			case d.Status == "done":
				bad = "status"
			case d.Status == event.TodoCompleted && d.Evidence == "" && strings.TrimSpace(d.Reason) == "":
				bad = "completed for no reason"
			case d.Status == event.TodoCompleted && d.Evidence == "op9":
				bad = "evidence of another goal"
			}
			ids[d.ID] = true
			if d.Status == event.TodoInProgress {
				running++
			}
		}
		if running > 1 {
			bad = "two in progress"
		}
		err := plan.CheckTodos(todos, known)
		if (err == nil) != (bad == "") {
			t.Fatalf("err %v, but: %q", err, bad)
		}
		if err == nil {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no list was accepted: the property says nothing")
	}
	err := plan.CheckTodos([]event.Todo{{ID: "a", Content: "x", Status: event.TodoInProgress}, {ID: "b", Content: "y", Status: event.TodoInProgress}}, known)
	if want := fmt.Sprintf("%q is in_progress already", "a"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the refusal %v does not name the other todo", err)
	}
}
