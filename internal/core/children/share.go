package children

import (
	"fmt"

	"belay/internal/event"
	"belay/internal/moment"
)

// The bounds on what one goal may start.
const (
	// DefaultShare is the percentage of what is left that a child gets when
	// nothing is said, MaxShare the largest one that can be asked for: the
	// parent must be able to go on.
	DefaultShare = 20
	MaxShare     = 90
	// DefaultMost is how many children a goal may start in its life,
	// DefaultDepth how many levels of children there may be below the goal that
	// a person started, DefaultParallel how many children are open at a time.
	DefaultMost     = 16
	DefaultDepth    = 2
	DefaultParallel = 4
)

// Most, Depth and Parallel are the bounds of a goal, with their defaults. A
// negative number of children means none.
func Most(s event.Settings) int64 {
	if s.MaxChildren < 0 {
		return 0
	}
	return or(s.MaxChildren, DefaultMost)
}

// Depth is how many levels of children there may be.
func Depth(s event.Settings) int64 { return or(s.ChildDepth, DefaultDepth) }

// Parallel is how many children are open at a time.
func Parallel(s event.Settings) int64 { return or(s.ParallelChildren, DefaultParallel) }

func or(v, def int64) int64 {
	if v > 0 {
		return v
	}
	return def
}

// Allowed reports whether a goal of this depth may start children at all. It
// does not change during the goal's life.
func Allowed(s event.Settings, depth int) bool { return Most(s) > 0 && int64(depth) < Depth(s) }

// Wish is how much of its parent's budget a child is to get.
type Wish struct {
	// Percent of what is left, 0 for DefaultShare.
	Percent int64
	// Limits are absolute; where one is set, Percent does not count.
	Limits event.Limits
}

// Carve takes a child's share out of what is left of its parent's budget, in
// every dimension. It returns the child's limits and the amount to reserve for
// them: nothing where the child has no limit. short names the dimension in
// which the wish does not fit, "" when it does.
func Carve(parent event.Limits, left event.Amount, w Wish, now moment.Time) (share event.Limits, reserved event.Amount, short string) {
	percent := w.Percent
	if percent == 0 {
		percent = DefaultShare
	}
	percent = min(max(percent, 1), MaxShare)
	for _, d := range []struct {
		name              string
		limit, left, wish int64
		share, reserved   *int64
	}{
		{"turns", parent.Turns, left.Turns, w.Limits.Turns, &share.Turns, &reserved.Turns},
		{"steps", parent.Steps, left.Steps, w.Limits.Steps, &share.Steps, &reserved.Steps},
		{"tokens", parent.Tokens, left.Tokens, w.Limits.Tokens, &share.Tokens, &reserved.Tokens},
		{"cost", parent.CostMicros, left.CostMicros, w.Limits.CostMicros, &share.CostMicros, &reserved.CostMicros},
		{"tool seconds", parent.ToolMS, left.ToolMS, w.Limits.ToolMS, &share.ToolMS, &reserved.ToolMS},
	} {
		n := d.wish
		if n == 0 && d.limit > 0 {
			n = max(d.left/100*percent+d.left%100*percent/100, 1)
		}
		if d.limit > 0 && n > d.left {
			return event.Limits{}, event.Amount{}, d.name
		}
		*d.share, *d.reserved = n, n
	}
	share.Deadline = parent.Deadline
	if !w.Limits.Deadline.IsZero() && (share.Deadline.IsZero() || w.Limits.Deadline < share.Deadline) {
		share.Deadline = w.Limits.Deadline
	}
	if !share.Deadline.IsZero() && now >= share.Deadline {
		return event.Limits{}, event.Amount{}, "deadline"
	}
	return share, reserved, ""
}

// Unbounded names the first dimension that new limits would bound although an
// open child has no limit in it, or "": a bound that a child does not know
// could not be kept.
func (b Book) Unbounded(limits event.Limits) string {
	for _, c := range b {
		if !c.Open() {
			continue
		}
		for _, d := range []struct {
			name         string
			limit, share int64
		}{{"turns", limits.Turns, c.Share.Turns}, {"steps", limits.Steps, c.Share.Steps}, {"tokens", limits.Tokens, c.Share.Tokens},
			{"cost", limits.CostMicros, c.Share.CostMicros}, {"tool seconds", limits.ToolMS, c.Share.ToolMS}} {
			if d.limit > 0 && d.share == 0 {
				return d.name
			}
		}
	}
	return ""
}

// Within says in which dimension limits are wider than a share, or "".
func Within(limits, share event.Limits) string {
	for _, d := range []struct {
		name         string
		limit, share int64
	}{{"turns", limits.Turns, share.Turns}, {"steps", limits.Steps, share.Steps}, {"tokens", limits.Tokens, share.Tokens},
		{"cost", limits.CostMicros, share.CostMicros}, {"tool seconds", limits.ToolMS, share.ToolMS},
		{"deadline", int64(limits.Deadline), int64(share.Deadline)}} {
		if d.share > 0 && (d.limit == 0 || d.limit > d.share) {
			return d.name
		}
	}
	return ""
}

// Narrow are the settings of a child: those of its parent, which can only
// become stricter. gate says that the parent itself may not change anything
// now.
func Narrow(parent event.Settings, gate, readOnly bool, approve event.ApproveMode, plan event.PlanMode) event.Settings {
	s := parent
	s.Rules = append([]event.Rule(nil), parent.Rules...)
	s.Protected = append([]string(nil), parent.Protected...)
	s.ReadOnly = parent.ReadOnly || gate || readOnly
	if approve != "" && strictness(approve) > strictness(parent.Approve) {
		s.Approve = approve
	}
	if plan != "" && closing(plan) > closing(parent.Plan) {
		s.Plan = plan
	}
	// A child's claim completes the child alone; its parent takes nothing of it
	// for evidence. Nobody else is there to accept a claim that nothing can
	// check.
	s.AcceptUnverified = true
	return s
}

// strictness orders who answers what policy asks; "" is ask.
func strictness(m event.ApproveMode) int {
	switch m {
	case event.ApproveAuto:
		return 1
	case event.ApproveNever:
		return 3
	}
	return 2
}

// closing orders how long the plan gate stays closed; "" is auto.
func closing(m event.PlanMode) int {
	switch m {
	case event.PlanNever:
		return 1
	case event.PlanAlways:
		return 3
	}
	return 2
}

// CheckSettings says what is wrong with the bounds on children, or nil.
func CheckSettings(s event.Settings) error {
	switch {
	case s.MaxChildren > 1000:
		return fmt.Errorf("max_children is at most 1000, not %d", s.MaxChildren)
	case s.ChildDepth < 0 || s.ChildDepth > 8:
		return fmt.Errorf("child_depth is from 1 to 8, not %d", s.ChildDepth)
	case s.ParallelChildren < 0 || s.ParallelChildren > 64:
		return fmt.Errorf("parallel_children is from 1 to 64, not %d", s.ParallelChildren)
	}
	return nil
}
