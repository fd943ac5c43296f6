package plan

import (
	"fmt"
	"slices"
	"strings"

	"belay/internal/event"
)

// CheckTodos says what is wrong with a todo list, or nil. known reports
// whether an evidence reference names a recorded operation.
func CheckTodos(todos []event.Todo, known func(op string) bool) error {
	seen := map[string]bool{}
	running := ""
	for i, t := range todos {
		if strings.TrimSpace(t.Content) == "" {
			return fmt.Errorf("todos[%d].content: is empty", i)
		}
		if t.ID == "" || seen[t.ID] {
			return fmt.Errorf("todos[%d].id: %q is empty or used twice", i, t.ID)
		}
		seen[t.ID] = true
		switch t.Status {
		case event.TodoPending:
		case event.TodoInProgress:
			if running != "" {
				return fmt.Errorf("todos[%d].status: %q is in_progress already; at most one todo is", i, running)
			}
			running = t.ID
		case event.TodoCompleted:
			if t.Evidence == "" && strings.TrimSpace(t.Reason) == "" {
				return fmt.Errorf("todos[%d]: a completed todo needs evidence (an op_id) or a reason", i)
			}
			if t.Evidence != "" && !known(t.Evidence) {
				return fmt.Errorf("todos[%d].evidence: %q is no operation of this goal", i, t.Evidence)
			}
		default:
			return fmt.Errorf("todos[%d].status: %q is not pending, in_progress or completed", i, t.Status)
		}
	}
	return checkOrder(todos)
}

// checkOrder holds the dependencies: they name todos of the list, they lead in
// no circle, and nothing is begun before what comes first without a reason.
func checkOrder(todos []event.Todo) error {
	at := places(todos)
	for i, t := range todos {
		for j, d := range t.DependsOn {
			k, ok := at[d]
			switch {
			case !ok:
				return fmt.Errorf("todos[%d].depends_on: there is no todo %q", i, d)
			case k == i:
				return fmt.Errorf("todos[%d].depends_on: %q is the todo itself", i, d)
			case slices.Contains(t.DependsOn[:j], d):
				return fmt.Errorf("todos[%d].depends_on: %q is named twice", i, d)
			}
		}
	}
	if c := circle(todos, at); len(c) > 0 {
		return fmt.Errorf("todos: %s depend on each other in a circle", strings.Join(c, ", "))
	}
	for i, t := range todos {
		if open := OpenBefore(todos, t); len(open) > 0 && t.Status != event.TodoPending && strings.TrimSpace(t.Reason) == "" {
			return fmt.Errorf("todos[%d].status: %q depends on %s, which is not completed: complete that first, or give a reason for the other order",
				i, t.ID, strings.Join(open, ", "))
		}
	}
	return nil
}

func places(todos []event.Todo) map[string]int {
	at := make(map[string]int, len(todos))
	for i, t := range todos {
		at[t.ID] = i
	}
	return at
}

// circle returns the todos that are left when all are taken away, one after
// the other, that depend on nothing any more: those in a circle, and what
// depends on them.
func circle(todos []event.Todo, at map[string]int) []string {
	gone := make([]bool, len(todos))
	for left := len(todos); left > 0; {
		before := left
		for i, t := range todos {
			if gone[i] || slices.ContainsFunc(t.DependsOn, func(d string) bool { return !gone[at[d]] }) {
				continue
			}
			gone[i] = true
			left--
		}
		if left == before {
			var ids []string
			for i, t := range todos {
				if !gone[i] {
					ids = append(ids, t.ID)
				}
			}
			return ids
		}
	}
	return nil
}

// OpenBefore are the todos that t depends on and that are not completed.
func OpenBefore(todos []event.Todo, t event.Todo) []string {
	var open []string
	for _, d := range t.DependsOn {
		for _, o := range todos {
			if o.ID == d && o.Status != event.TodoCompleted {
				open = append(open, d)
			}
		}
	}
	return open
}

// Current is the todo to work on: the one in progress, else the first pending
// one that waits for no other; false when nothing is left.
func Current(todos []event.Todo) (event.Todo, bool) {
	for _, t := range todos {
		if t.Status == event.TodoInProgress {
			return t, true
		}
	}
	for _, t := range todos {
		if t.Status == event.TodoPending && len(OpenBefore(todos, t)) == 0 {
			return t, true
		}
	}
	return event.Todo{}, false
}

// Completed counts the todos that are done.
func Completed(todos []event.Todo) int {
	n := 0
	for _, t := range todos {
		if t.Status == event.TodoCompleted {
			n++
		}
	}
	return n
}

// NewlyCompleted are the todos that are completed in now and were not before.
func NewlyCompleted(before, now []event.Todo) []event.Todo {
	done := map[string]bool{}
	for _, t := range before {
		done[t.ID] = t.Status == event.TodoCompleted
	}
	var out []event.Todo
	for _, t := range now {
		if t.Status == event.TodoCompleted && !done[t.ID] {
			out = append(out, t)
		}
	}
	return out
}

// Same reports whether two lists say the same.
func Same(a, b []event.Todo) bool {
	return slices.EqualFunc(a, b, func(x, y event.Todo) bool {
		return x.ID == y.ID && x.Content == y.Content && x.Status == y.Status && x.Evidence == y.Evidence &&
			x.Reason == y.Reason && x.Acceptance == y.Acceptance && slices.Equal(x.DependsOn, y.DependsOn)
	})
}
