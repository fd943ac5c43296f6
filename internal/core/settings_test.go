package core_test

import (
	"errors"
	"testing"

	"belay/internal/core"
	"belay/internal/event"
)

func TestASettingThatMeansNothingIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]core.Start{
		"approve":  {Settings: event.Settings{Approve: "yes"}},
		"plan":     {Settings: event.Settings{Plan: "sometimes"}},
		"patience": {Settings: event.Settings{Patience: 101}},
		"timeout":  {Settings: event.Settings{ApprovalTimeoutMS: -1}},
		"window":   {Settings: event.Settings{RetryWindowMS: -1}},
		"limits":   {Spec: event.GoalSpec{Limits: event.Limits{Amount: event.Amount{Tokens: -1}}}},
	} {
		s.Goal, s.Spec.Text = "g1", "do it"
		if r, err := core.Step(core.State{}, core.Input{Now: 1, By: event.ActorUser, Body: s}); !errors.Is(err, core.ErrInput) || len(r.Events) > 0 {
			t.Errorf("%s: %d events, %v", name, len(r.Events), err)
		}
	}
	ok := core.Start{Goal: "g1", Spec: event.GoalSpec{Text: "do it"}, Settings: event.Settings{Approve: event.ApproveNever, Plan: event.PlanAlways, Patience: 100}}
	r, err := core.Step(core.State{}, core.Input{Now: 1, By: event.ActorUser, Body: ok})
	if err != nil {
		t.Fatal(err)
	}
	less := core.ExtendBudget{Limits: event.Limits{Amount: event.Amount{Steps: -5}}}
	if _, err := core.Step(r.State, core.Input{Now: 2, By: event.ActorUser, Body: less}); !errors.Is(err, core.ErrInput) {
		t.Errorf("a negative limit: %v", err)
	}
}
