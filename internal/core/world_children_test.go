package core_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/core/children"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// kid is a child goal as the simulation of its parent needs it: that it exists,
// what it obeys, and how it ended. Whole families are played by the built
// program, in cmd/belay.
type kid struct {
	share   event.Amount
	orders  map[uint64]bool
	latest  core.Command
	ended   *event.ChildEnded
	created int
}

// spawn makes a child's stream, once however often it is asked for.
func (s *sim) spawn(e core.Spawn) core.Body {
	p, ok := s.events[e.Seq-1].Payload.(event.ChildReserved)
	if !ok || p.Child != e.Child {
		panic(fmt.Sprintf("event %d reserves no child %s", e.Seq, e.Child))
	}
	if s.world.kids[e.Child] == nil {
		s.world.kids[e.Child] = &kid{share: p.Reserved, orders: map[uint64]bool{}, created: 1}
	}
	return core.Spawned{Child: e.Child}
}

func (s *sim) command(e core.Command) core.Body {
	k := s.world.kids[e.Child]
	if k == nil {
		panic("a command for a child that nobody made")
	}
	k.orders[e.Seq] = true
	if e.Seq > k.latest.Seq {
		k.latest = e
	}
	if k.latest.Order == event.OrderCancel && k.ended == nil {
		k.ended = s.endOf(e.Child, k, "cancelled")
	}
	return core.Commanded(e)
}

func (s *sim) endOf(id string, k *kid, status string) *event.ChildEnded {
	some := func(n int64) int64 {
		if n == 0 {
			return int64(s.r.IntN(3))
		}
		return s.r.Int64N(n + 1)
	}
	used := event.Amount{Turns: some(k.share.Turns), Steps: some(k.share.Steps), Tokens: some(k.share.Tokens),
		CostMicros: some(k.share.CostMicros), ToolMS: some(k.share.ToolMS)}
	if s.committed.Budget.Limits == (event.Limits{}) {
		used = event.Amount{Steps: 1, Tokens: 100}
	}
	return &event.ChildEnded{Child: id, Status: status, Used: used, Base: "base", Tree: "tree", Head: 7}
}

// kidsGoOn lets a child end, and its end be told: late, or twice.
func (s *sim) kidsGoOn(all bool) error {
	for _, id := range slices.Sorted(maps.Keys(s.world.kids)) {
		k := s.world.kids[id]
		if !all && s.r.IntN(2) == 0 || k.latest.Order == event.OrderPause {
			continue
		}
		if k.ended == nil {
			k.ended = s.endOf(id, k, []string{"completed", "completed", "failed", "cancelled"}[s.r.IntN(4)])
			if !all && s.r.IntN(2) == 0 {
				continue
			}
		}
		if c, known := s.committed.Children.Find(id); !known || !c.Open() && s.r.IntN(5) > 0 {
			continue
		}
		in := s.input(event.ActorRuntime, 0, core.ChildDone{Ended: *k.ended})
		r, err := s.decide(s.committed, in)
		if err != nil {
			return fmt.Errorf("child %s is told of: %w", id, err)
		}
		if len(r.Events) == 0 {
			s.saw["told twice"]++
			continue
		}
		if err := s.append(s.committed.Head, s.fence, in, r); err != nil {
			return err
		}
	}
	return nil
}

func TestInvariant9ChildrenAreAccountedFor(t *testing.T) {
	holds(t, invariants[8], func(t *rapid.T) knobs {
		k := knobs{kill: drawKill(t), approve: event.ApproveAuto, plan: event.PlanNever, children: true}
		if rapid.Bool().Draw(t, "bounded") {
			k.limits = &event.Limits{Amount: event.Amount{Turns: rapid.Int64Range(3, 60).Draw(t, "turns"), Steps: rapid.Int64Range(3, 90).Draw(t, "steps"),
				Tokens: rapid.Int64Range(9_000, 200_000).Draw(t, "tokens"), CostMicros: rapid.Int64Range(20_000, 900_000).Draw(t, "cost"),
				ToolMS: rapid.Int64Range(500, 50_000).Draw(t, "tool ms")}}
		}
		return k
	}, "child_reserved", "child_started", "child_ordered", "child_ended", "told twice", "waits for a child", "goal_cancelled", "goal_paused", "goal_resumed")
}

// 9: a child's share is reserved, durably, before the child exists; a child is
// made once and ends once; it is told what became of its parent; and a goal
// that has ended and come to rest has no child that goes on.
func childrenAccountedFor(s *sim) checker {
	ended := map[string]int{}
	return checker{
		step: func(_ core.State, _ core.Input, r core.Ready) error {
			for _, e := range r.Events {
				if e.Type == event.TypeChildReserved && !r.Durable {
					return errors.New("the intent to start a child is not durable")
				}
			}
			return nil
		},
		event: func(prev, st core.State, e event.Event, _ core.Input) error {
			switch p := e.Payload.(type) {
			case event.ChildReserved:
				if s.world.kids[p.Child] != nil {
					return errors.New("the child exists before its share is reserved")
				}
				if p.Reserved != st.Budget.Reserved["child:"+p.Child] {
					return fmt.Errorf("%+v is held for %+v", st.Budget.Reserved["child:"+p.Child], p.Reserved)
				}
				if p.Child != children.ID(st.Goal, e.Op) {
					return errors.New("the child's id does not follow from the operation")
				}
				if open := len(st.Children.Open()); open > children.DefaultParallel {
					return fmt.Errorf("%d children are open", open)
				}
			case event.ChildEnded:
				if ended[p.Child]++; ended[p.Child] > 1 {
					return fmt.Errorf("%s ends a second time", p.Child)
				}
				if got := st.Budget.Used.Tokens - prev.Budget.Used.Tokens; got != p.Used.Tokens {
					return fmt.Errorf("it used %d tokens, %d are settled", p.Used.Tokens, got)
				}
			case event.GoalWaiting:
				if p.Reason == event.WaitChild {
					s.saw["waits for a child"]++
				}
			case event.GoalCompleted:
				if n := len(prev.Children.Open()); n > 0 {
					return fmt.Errorf("it is completed with %d children that go on", n)
				}
			}
			return nil
		},
		end: func(st core.State) error {
			for _, c := range st.Children {
				k := s.world.kids[c.Goal]
				switch {
				case c.Phase == children.Reserved && st.Status == lifecycle.Paused:
				case k == nil:
					return fmt.Errorf("child %s was never made", c.Goal)
				case c.Open() && st.Status != lifecycle.Paused:
					return fmt.Errorf("child %s (%s) goes on under a goal that is %s", c.Goal, c.Phase, st.Status)
				case c.Open() && k.latest.Order != event.OrderPause:
					return fmt.Errorf("child %s was not told that its parent is paused", c.Goal)
				}
			}
			return nil
		},
	}
}
