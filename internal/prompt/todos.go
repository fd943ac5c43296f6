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
	todos, done := olderDone(todos)
	if len(done) > 0 {
		items = append(items, todoMarks[event.TodoCompleted]+" "+strings.Join(done, ", "))
	}
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

// shownDone is how many completed todos are shown with their words.
const shownDone = 3

// olderDone splits off the completed todos but for the last few: what they were
// stands in the conversation, or in its summary, and the block is sent anew
// with every request.
func olderDone(todos []event.Todo) (rest []event.Todo, ids []string) {
	left := -shownDone
	for _, t := range todos {
		if t.Status == event.TodoCompleted {
			left++
		}
	}
	for _, t := range todos {
		if t.Status == event.TodoCompleted && left > 0 {
			ids = append(ids, t.ID)
			left--
			continue
		}
		rest = append(rest, t)
	}
	return rest, ids
}
