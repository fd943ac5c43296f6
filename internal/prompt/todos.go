package prompt

import (
	"fmt"
	"sort"
	"strings"

	"belay/internal/core"
	"belay/internal/core/plan"
	"belay/internal/event"
)

var todoMarks = map[event.TodoStatus]string{event.TodoCompleted: "[x]", event.TodoInProgress: "[>]", event.TodoPending: "[ ]"}

// todos shows how far the work is: what is open matters more than what is done
// when the list is cut.
func (b *block) todos(v core.Snapshot) {
	todos := append([]event.Todo(nil), v.Todos...)
	order := map[event.TodoStatus]int{event.TodoInProgress: 0, event.TodoPending: 1, event.TodoCompleted: 2}
	if len(todos) > b.k.lines {
		sort.SliceStable(todos, func(i, j int) bool { return order[todos[i].Status] < order[todos[j].Status] })
	}
	var items []string
	for _, t := range todos {
		it := fmt.Sprintf("%s %s: %s", todoMarks[t.Status], t.ID, t.Content)
		if t.Status != event.TodoCompleted {
			if open := plan.OpenBefore(v.Todos, t); len(open) > 0 {
				it = fmt.Sprintf("%s %s (after %s): %s", todoMarks[t.Status], t.ID, strings.Join(open, ", "), t.Content)
			}
			if t.Acceptance != "" {
				it += " | done when: " + t.Acceptance
			}
		}
		items = append(items, it)
	}
	b.list(fmt.Sprintf("todos, %d of %d completed ([>] in progress):", v.Progress.TodosCompleted, v.Progress.Todos), items)
}
