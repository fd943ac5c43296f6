package core

import (
	"fmt"
	"strings"

	"belay/internal/core/operation"
	"belay/internal/core/plan"
	"belay/internal/event"
	"belay/internal/tool/control"
)

// updateTodos takes in a new todo list.
func (w *step) updateTodos(o operation.Op) {
	todos, err := control.DecodeTodos(o.Args)
	if err == nil {
		err = plan.CheckTodos(todos, w.knownOp)
	}
	if err == nil {
		err = w.accepted(todos)
	}
	if err != nil {
		w.reject(o, argumentFault(err))
		return
	}
	done := plan.NewlyCompleted(w.s.Todos, todos)
	w.emitBy(event.ActorModel, o.ID, event.TodosUpdated{Todos: todos})
	w.checkpointTodos(o.ID, done)
	words := "The todo list is updated: " + progressWords(todos) + "."
	if t, ok := plan.Current(todos); ok && t.Status == event.TodoPending {
		words += " Next: " + t.ID + "."
	}
	w.answer(o, words)
}

// accepted refuses to complete a todo whose acceptance is a criterion that
// does not hold on the repository as it is now, unless a reason is stated. One
// that was completed before stays so, whatever has become of the criterion.
func (w *step) accepted(todos []event.Todo) error {
	for _, t := range plan.NewlyCompleted(w.s.Todos, todos) {
		if t.Acceptance == "" || strings.TrimSpace(t.Reason) != "" {
			continue
		}
		for _, c := range w.s.Judgement().Criteria {
			if c.ID == t.Acceptance && c.Result != event.Pass {
				return fmt.Errorf("todos: %q counts as completed when criterion %s passes, which is %s now: complete it then, or give a reason", t.ID, c.ID, c.Result)
			}
		}
	}
	return nil
}

func progressWords(todos []event.Todo) string {
	return fmt.Sprintf("%d of %d completed", plan.Completed(todos), len(todos))
}

// ProgressView is how far a goal is, in numbers that every step knows.
type ProgressView struct {
	TodosCompleted int `json:"todos_completed"`
	Todos          int `json:"todos"`
	// CriteriaPassed hold on the repository as it is now.
	CriteriaPassed int `json:"criteria_passed"`
	Criteria       int `json:"criteria"`
}

func progressOf(v Snapshot) ProgressView {
	p := ProgressView{TodosCompleted: plan.Completed(v.Todos), Todos: len(v.Todos), Criteria: len(v.Criteria)}
	for _, c := range v.Criteria {
		if c.Result == event.Pass {
			p.CriteriaPassed++
		}
	}
	return p
}

// todoWords is a todo in one line.
func todoWords(t event.Todo) string {
	s := fmt.Sprintf("[%s] %s: %s", t.Status, t.ID, t.Content)
	if len(t.DependsOn) > 0 {
		s += " (after " + strings.Join(t.DependsOn, ", ") + ")"
	}
	if t.Acceptance != "" {
		s += " (done when: " + t.Acceptance + ")"
	}
	return s
}
