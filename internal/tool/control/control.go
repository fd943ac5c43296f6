// Package control reads the arguments of the control tools: those that touch
// nothing outside the ledger and that the core answers itself. The tools use
// it to refuse what can not be meant, the core to turn an accepted call into
// facts; so both read the same thing.
//
// It is pure. It must not know permission, states or who may do what when: it
// says what was asked for, never whether that is allowed now (at most one todo
// in progress, evidence for a completed one: those are the core's rules).
package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
)

// The names of the control tools.
const (
	UpdatePlan     = "update_plan"
	UpdateTodos    = "update_todos"
	RecordDecision = "record_decision"
	AskUser        = "ask_user"
	Finish         = "finish"
)

// Question is what the model asks the user.
type Question struct {
	Question string `json:"question"`
	// Options are answers to choose from; the user may always answer freely.
	Options []string `json:"options,omitempty"`
}

// Claim is the model's claim to be done.
type Claim struct {
	Summary string `json:"summary,omitempty"`
}

// step reads a plan step that is an object or a bare string.
type step event.PlanStep

func (s *step) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &s.Text)
	}
	return strict(b, (*event.PlanStep)(s))
}

// DecodePlan reads the arguments of update_plan. Steps without an id get the
// lowest number that no other step has, in order. The fault is of kind
// invalid_arguments and names the field.
func DecodePlan(args json.RawMessage) (event.Plan, error) {
	var in struct {
		Summary       string     `json:"summary"`
		Steps         []step     `json:"steps"`
		Scope         []string   `json:"scope"`
		OpenQuestions []string   `json:"open_questions"`
		Criteria      []proposed `json:"criteria"`
	}
	err := decode(UpdatePlan, args, &in)
	if err != nil {
		return event.Plan{}, err
	}
	if len(in.Steps) == 0 {
		return event.Plan{}, invalid(UpdatePlan, "steps", "at least one step")
	}
	p := event.Plan{Summary: in.Summary, Scope: in.Scope, OpenQuestions: in.OpenQuestions}
	ids := make([]string, len(in.Steps))
	for i, s := range in.Steps {
		if strings.TrimSpace(s.Text) == "" {
			return event.Plan{}, invalid(UpdatePlan, fmt.Sprintf("steps[%d].text", i), "the step in words")
		}
		ids[i] = s.ID
	}
	if twice := fill(ids); twice >= 0 {
		return event.Plan{}, invalid(UpdatePlan, fmt.Sprintf("steps[%d].id", twice), "an id that no other step has, not "+ids[twice])
	}
	for i, s := range in.Steps {
		p.Steps = append(p.Steps, event.PlanStep{ID: ids[i], Text: s.Text})
	}
	if p.Criteria, err = criteria(in.Criteria); err != nil {
		return event.Plan{}, err
	}
	return p, nil
}

// proposed is a criterion that a plan proposes. What a user alone can say in a
// goal file (the network, who runs it) is no part of it.
type proposed struct {
	ID       string              `json:"id"`
	Kind     event.CriterionKind `json:"kind"`
	Text     string              `json:"text"`
	Command  string              `json:"command"`
	Allow    []string            `json:"allow"`
	Forbid   []string            `json:"forbid"`
	Path     string              `json:"path"`
	Contains string              `json:"contains"`
	Branch   string              `json:"branch"`
	Commit   string              `json:"commit"`
}

func criteria(in []proposed) ([]event.Criterion, error) {
	if len(in) > maxCriteria {
		return nil, invalid(UpdatePlan, "criteria", fmt.Sprintf("at most %d criteria", maxCriteria))
	}
	var out []event.Criterion
	for i, c := range in {
		if strings.TrimSpace(c.ID) == "" {
			c.ID = fmt.Sprintf("plan-%d", i+1)
		}
		out = append(out, event.Criterion{ID: c.ID, Kind: c.Kind, Text: c.Text, Command: c.Command, Allow: c.Allow, Forbid: c.Forbid,
			Path: c.Path, Contains: c.Contains, Branch: c.Branch, Commit: c.Commit, Proposed: true})
	}
	return out, nil
}

// maxCriteria is how many criteria one call may propose.
const maxCriteria = 20

// DecodeTodos reads the arguments of update_todos: the whole new list, which
// may be empty. Todos without an id get one like plan steps.
func DecodeTodos(args json.RawMessage) ([]event.Todo, error) {
	var in struct {
		Todos *[]event.Todo `json:"todos"`
	}
	if err := decode(UpdateTodos, args, &in); err != nil {
		return nil, err
	}
	if in.Todos == nil {
		return nil, invalid(UpdateTodos, "todos", "the whole list of todos")
	}
	todos := *in.Todos
	ids := make([]string, len(todos))
	for i, t := range todos {
		ids[i] = t.ID
		if strings.TrimSpace(t.Content) == "" {
			return nil, invalid(UpdateTodos, fmt.Sprintf("todos[%d].content", i), "the todo in words")
		}
		switch t.Status {
		case event.TodoPending, event.TodoInProgress, event.TodoCompleted:
		default:
			return nil, invalid(UpdateTodos, fmt.Sprintf("todos[%d].status", i), "one of pending, in_progress, completed")
		}
	}
	if twice := fill(ids); twice >= 0 {
		return nil, invalid(UpdateTodos, fmt.Sprintf("todos[%d].id", twice), "an id that no other todo has, not "+ids[twice])
	}
	for i := range todos {
		todos[i].ID = ids[i]
	}
	return todos, nil
}

// Decision is a decision to keep, one to take back, or both.
type Decision struct {
	event.DecisionRecorded
	// Revokes is the id of the decision that holds no longer.
	Revokes string `json:"revokes"`
}

// DecodeDecision reads the arguments of record_decision.
func DecodeDecision(args json.RawMessage) (Decision, error) {
	var d Decision
	if err := decode(RecordDecision, args, &d); err != nil {
		return Decision{}, err
	}
	switch {
	case strings.TrimSpace(d.Decision) == "" && d.Revokes == "":
		return Decision{}, invalid(RecordDecision, "decision", "the decision in words")
	case d.Revokes != "" && strings.TrimSpace(d.Reason) == "":
		return Decision{}, invalid(RecordDecision, "reason", "why the decision holds no longer")
	}
	return d, nil
}

// DecodeQuestion reads the arguments of ask_user.
func DecodeQuestion(args json.RawMessage) (Question, error) {
	var q Question
	if err := decode(AskUser, args, &q); err != nil {
		return Question{}, err
	}
	if strings.TrimSpace(q.Question) == "" {
		return Question{}, invalid(AskUser, "question", "the question in words")
	}
	return q, nil
}

// DecodeFinish reads the arguments of finish.
func DecodeFinish(args json.RawMessage) (Claim, error) {
	var c Claim
	err := decode(Finish, args, &c)
	return c, err
}

// fill gives ids to the empty places and returns the index of an id that
// occurs a second time, or -1.
func fill(ids []string) int {
	used := map[string]bool{}
	for i, id := range ids {
		if id != "" && used[id] {
			return i
		}
		used[id] = true
	}
	next := 1
	for i, id := range ids {
		if id != "" {
			continue
		}
		for used[strconv.Itoa(next)] {
			next++
		}
		ids[i] = strconv.Itoa(next)
		used[ids[i]] = true
	}
	return -1
}

func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func decode(tool string, args json.RawMessage, into any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if err := strict(args, into); err != nil {
		return fault.New(fault.InvalidArguments, fault.Model, tool+": "+strings.TrimPrefix(err.Error(), "json: "),
			"call it again with arguments as in its schema")
	}
	return nil
}

func invalid(tool, field, expected string) error {
	return fault.New(fault.InvalidArguments, fault.Model, fmt.Sprintf("%s: argument %q: expected %s", tool, field, expected),
		"call it again with that argument mended")
}
