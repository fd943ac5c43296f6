package core_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// whoActs counts who had to act in the states that the property has seen.
type whoActs struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *whoActs) add(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[who]++
}

// What is said to come next is what the core then wants: a person is named
// only when nothing is asked of the model, the model only when nobody else is
// waited for, nobody only at the end.
func TestWhatComesNextFollowsFromTheState(t *testing.T) {
	var seen whoActs
	t.Cleanup(func() {
		for _, who := range []string{core.NextUser, core.NextModel, core.NextBelay, core.NextProvider, core.NextNobody} {
			if seen.n[who] == 0 && !t.Failed() {
				t.Errorf("no state was seen in which %s has to act: the property says too little", who)
			}
		}
	})
	holds(t, invariant{func(*sim) checker {
		return checker{event: func(_, st core.State, _ event.Event, _ core.Input) error {
			v := core.View(st, nil)
			seen.add(v.Next.Who)
			if again := core.Next(v); js(again) != js(v.Next) {
				return fmt.Errorf("the same snapshot has two answers: %s and %s", js(v.Next), js(again))
			}
			return nextFits(st, v)
		}}
	}}, func(*rapid.T) knobs { return knobs{} })
}

func nextFits(st core.State, v core.Snapshot) error {
	n := v.Next
	asks := slices.ContainsFunc(core.Wanted(st, st.Fence, event.Worker(st.Holder.Worker)), func(e core.Effect) bool {
		return strings.HasPrefix(e.Key(), "ask:") || strings.HasPrefix(e.Key(), "compose:")
	})
	switch {
	case n.What == "" || strings.ContainsAny(n.What, "\n\r"):
		return fmt.Errorf("what comes next is not one line: %q", n.What)
	case n.Who == core.NextUser && asks:
		return fmt.Errorf("the user is to act (%s), but the model is asked", n.What)
	case n.Who == core.NextUser && len(n.How) == 0:
		return fmt.Errorf("the user is not told how: %s", n.What)
	case n.Who == core.NextModel && (st.Status != lifecycle.Active || st.Wait != nil || st.Turn == nil):
		return fmt.Errorf("the model is to act (%s), but the goal is %s (%v)", n.What, st.Status, st.Wait)
	case n.Who == core.NextProvider && (st.Wait == nil || st.Wait.Reason != event.WaitRetry):
		return fmt.Errorf("the provider is to act without a wait for it")
	case (n.Who == core.NextNobody) && !st.Status.Final():
		return fmt.Errorf("nobody is to act on a goal that is %s", st.Status)
	}
	if st.Status.Final() {
		return nil
	}
	for _, c := range v.Criteria {
		if missing := slices.Contains(n.Missing, c.ID); missing != (c.Result != event.Pass) {
			return fmt.Errorf("criterion %s is %s; missing: %t", c.ID, c.Result, missing)
		}
	}
	return nil
}
