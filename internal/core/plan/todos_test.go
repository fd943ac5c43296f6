package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/plan"
	"belay/internal/event"
)

func anyOp(string) bool { return true }

// list is a todo list in short: "a<b,c>" depends on b and c; a mark before the
// id says its status (> in progress, x completed), one behind it that a reason
// is stated (!).
func list(words ...string) []event.Todo {
	var out []event.Todo
	for _, w := range words {
		t := event.Todo{Content: "do " + w, Status: event.TodoPending}
		if rest, ok := strings.CutPrefix(w, ">"); ok {
			t.Status, w = event.TodoInProgress, rest
		} else if rest, ok := strings.CutPrefix(w, "x"); ok {
			t.Status, t.Evidence, w = event.TodoCompleted, "op1", rest
		}
		if rest, ok := strings.CutSuffix(w, "!"); ok {
			t.Reason, w = "because", rest
		}
		id, deps, _ := strings.Cut(w, "<")
		t.ID = id
		if deps != "" {
			t.DependsOn = strings.Split(strings.TrimSuffix(deps, ">"), ",")
		}
		out = append(out, t)
	}
	return out
}

func TestTheOrderOfTodosIsHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		todos []event.Todo
		want  string // a part of the refusal, "" for accepted
	}{
		{list("a", "b<a>"), ""},
		{list(">a", "b<a>"), ""},
		{list("xa", ">b<a>"), ""},
		{list("b<a>", "xa"), ""},
		{list("a", ">b<a>"), `"b" depends on a, which is not completed`},
		{list(">a", "xb<a>"), `"b" depends on a`},
		{list("a", ">b<a>!"), ""},
		{list("a", "xb<a>!"), ""},
		{list("a<z>"), `there is no todo "z"`},
		{list("a<a>"), "the todo itself"},
		{list("a", "b<a,a>"), "named twice"},
		{list("a<b>", "b<a>"), "in a circle"},
		{list("a<c>", "b<a>", "c<b>", "d"), "a, b, c depend on each other"},
	} {
		err := plan.CheckTodos(c.todos, anyOp)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.todos, err, c.want)
		}
	}
}

// Whatever list is accepted leads to its end: as long as something is open
// there is a todo to work on that waits for nothing, and working on it is
// accepted.
func TestAnAcceptedListLeadsToItsEnd(t *testing.T) {
	t.Parallel()
	worked, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		todos := make([]event.Todo, n)
		for i := range todos {
			todos[i] = event.Todo{ID: fmt.Sprint(i), Content: "x", Status: event.TodoPending}
			for j := range n {
				if rapid.IntRange(0, 4).Draw(t, "edge") == 0 {
					todos[i].DependsOn = append(todos[i].DependsOn, fmt.Sprint(j))
				}
			}
		}
		if err := plan.CheckTodos(todos, anyOp); err != nil {
			// It is refused for a circle, and then no order of all of them exists.
			if order(todos, nil) {
				t.Fatalf("%v, but there is an order: %+v", err, todos)
			}
			refused++
			return
		}
		for range n {
			c, ok := plan.Current(todos)
			if !ok || len(plan.OpenBefore(todos, c)) > 0 {
				t.Fatalf("no todo to work on in %+v (%+v)", todos, c)
			}
			i := slices.IndexFunc(todos, func(t event.Todo) bool { return t.ID == c.ID })
			for _, status := range []event.TodoStatus{event.TodoInProgress, event.TodoCompleted} {
				todos[i].Status, todos[i].Evidence = status, "op1"
				if err := plan.CheckTodos(todos, anyOp); err != nil {
					t.Fatalf("the current todo %s may not be %s: %v", c.ID, status, err)
				}
			}
			worked++
		}
		if _, ok := plan.Current(todos); ok || plan.Completed(todos) != n {
			t.Fatalf("it does not end: %+v", todos)
		}
	})
	if worked == 0 || refused == 0 {
		t.Errorf("%d worked on, %d refused: the property says too little", worked, refused)
	}
}

// order reports whether the todos can be put in an order, by trying them all.
func order(todos []event.Todo, done []string) bool {
	if len(done) == len(todos) {
		return true
	}
	for _, t := range todos {
		if slices.Contains(done, t.ID) || slices.ContainsFunc(t.DependsOn, func(d string) bool { return !slices.Contains(done, d) }) {
			continue
		}
		return order(todos, append(done, t.ID)) // which of the free ones comes first does not matter
	}
	return false
}

func TestOnlyWhatWasNotCompletedBeforeIsNewlyCompleted(t *testing.T) {
	t.Parallel()
	got := plan.NewlyCompleted(list("xa", ">b", "c"), list("xa", "xb", "c", "xd"))
	if len(got) != 2 || got[0].ID != "b" || got[1].ID != "d" {
		t.Errorf("%+v", got)
	}
	a := list("xa", "b<a>")
	if !plan.Same(a, list("xa", "b<a>")) || plan.Same(a, list("xa", "b")) || plan.Same(a, list("xa")) {
		t.Error("lists are not told apart by what they say")
	}
}
