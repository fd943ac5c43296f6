package control_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool/control"
)

func TestPlanStepsMayBeStringsOrObjectsAndAllGetIDs(t *testing.T) {
	t.Parallel()
	got, err := control.DecodePlan(json.RawMessage(`{"summary":"s","steps":["a",{"text":"b"},{"id":"1","text":"c"},{"id":"x","text":"d"}],
		"scope":["src/**"],"open_questions":["why?"]}`))
	want := event.Plan{Summary: "s", Scope: []string{"src/**"}, OpenQuestions: []string{"why?"},
		Steps: []event.PlanStep{{ID: "2", Text: "a"}, {ID: "3", Text: "b"}, {ID: "1", Text: "c"}, {ID: "x", Text: "d"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTodosAreReadWhole(t *testing.T) {
	t.Parallel()
	got, err := control.DecodeTodos(json.RawMessage(`{"todos":[{"content":"a","status":"completed","evidence":"op1"},{"id":"1","content":"b","status":"pending"}]}`))
	want := []event.Todo{{ID: "2", Content: "a", Status: event.TodoCompleted, Evidence: "op1"}, {ID: "1", Content: "b", Status: event.TodoPending}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := control.DecodeTodos(json.RawMessage(`{"todos":[]}`)); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

func TestTheOtherControlToolsAreRead(t *testing.T) {
	t.Parallel()
	d, err := control.DecodeDecision(json.RawMessage(`{"decision":"d","reason":"r","scope":"s"}`))
	if want := (control.Decision{DecisionRecorded: event.DecisionRecorded{Decision: "d", Reason: "r", Scope: "s"}}); err != nil || d != want {
		t.Errorf("decision %+v, %v", d, err)
	}
	d, err = control.DecodeDecision(json.RawMessage(`{"revokes":"d1","reason":"r"}`))
	if want := (control.Decision{DecisionRecorded: event.DecisionRecorded{Reason: "r"}, Revokes: "d1"}); err != nil || d != want {
		t.Errorf("revocation %+v, %v", d, err)
	}
	q, err := control.DecodeQuestion(json.RawMessage(`{"question":"q","options":["a","b"]}`))
	if err != nil || q.Question != "q" || len(q.Options) != 2 {
		t.Errorf("question %+v, %v", q, err)
	}
	for _, args := range []string{"", "{}", `{"summary":""}`} {
		if c, err := control.DecodeFinish(json.RawMessage(args)); err != nil || c.Summary != "" {
			t.Errorf("finish %q: %+v, %v", args, c, err)
		}
	}
}

func TestWhatCanNotBeMeantIsRefusedNamingTheField(t *testing.T) {
	t.Parallel()
	plan := func(b json.RawMessage) error { _, err := control.DecodePlan(b); return err }
	todos := func(b json.RawMessage) error { _, err := control.DecodeTodos(b); return err }
	decision := func(b json.RawMessage) error { _, err := control.DecodeDecision(b); return err }
	question := func(b json.RawMessage) error { _, err := control.DecodeQuestion(b); return err }
	finish := func(b json.RawMessage) error { _, err := control.DecodeFinish(b); return err }
	for _, c := range []struct {
		decode      func(json.RawMessage) error
		args, names string
	}{
		{plan, `{}`, "steps"},
		{plan, `{"steps":[]}`, "steps"},
		{plan, `{"steps":[" "]}`, "steps[0].text"},
		{plan, `{"steps":[{"id":"a","text":"x"},{"id":"a","text":"y"}]}`, "steps[1].id"},
		{plan, `{"steps":[{"texte":"x"}]}`, "texte"},
		{plan, `{"steps":["x"],"scoop":[]}`, "scoop"},
		{plan, `{"steps":3}`, "steps"},
		{todos, `{}`, "todos"},
		{todos, `{"todos":[{"content":"","status":"pending"}]}`, "todos[0].content"},
		{todos, `{"todos":[{"content":"x","status":"maybe"}]}`, "todos[0].status"},
		{todos, `{"todos":[{"id":"1","content":"x","status":"pending"},{"id":"1","content":"y","status":"pending"}]}`, "todos[1].id"},
		{decision, `{"reason":"x"}`, "decision"},
		{decision, `{"revokes":"d1"}`, "reason"},
		{question, `{"options":["a"]}`, "question"},
		{finish, `{"done":true}`, "done"},
		{finish, `{`, "EOF"},
	} {
		err := c.decode(json.RawMessage(c.args))
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.InvalidArguments || !strings.Contains(f.Message, c.names) {
			t.Errorf("%s: %v does not name %s", c.args, err, c.names)
		}
	}
}
