package cli

import (
	"fmt"
	"io"
	"strings"

	"belay/internal/core"
	"belay/internal/core/children"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/service"
)

// given refuses flags that say nothing together with --parent, and the other
// way round, and forgets defaults that would narrow a child unasked.
func (f *runFlags) given(changed func(string) bool) error {
	if f.parent == "" {
		if changed("share") {
			return usagef("--share is for a child goal; name its parent with --parent G")
		}
		return nil
	}
	for _, name := range []string{"repo", "worktree", "sandbox", "image", "travel", "max-children", "child-depth", "accept-unverified", "approval-timeout", "provider-wait", "patience"} {
		if changed(name) {
			return usagef("--%s comes from the parent goal; leave it out with --parent", name)
		}
	}
	if !changed("approve") {
		f.approve = ""
	}
	if !changed("plan") {
		f.plan = ""
	}
	return nil
}

// childRequest fills in what a person can say of a child goal.
func (a *app) childRequest(f runFlags, req *service.StartRequest) (err error) {
	if req.Spec.Limits, err = f.limits.over(req.Spec.Limits); err != nil {
		return err
	}
	req.Parent, req.Share, req.Settings.ReadOnly, req.Repo = f.parent, f.share, f.readOnly, f.repo
	req.Settings.Model = f.model
	if f.share < 1 || f.share > children.MaxShare {
		return usagef("--share is a percentage from 1 to %d, not %d", children.MaxShare, f.share)
	}
	req.Settings.Approve, req.Settings.Plan = event.ApproveMode(f.approve), event.PlanMode(f.plan)
	return checkModes(req.Settings)
}

// mayDelegate sets what the goal may have others do.
func (f runFlags) mayDelegate(s *event.Settings) error {
	s.ReadOnly = f.readOnly
	switch f.children {
	case children.DefaultMost: // as the core has it
	case 0:
		s.MaxChildren = -1
	default:
		s.MaxChildren = f.children
	}
	if f.childDepth != children.DefaultDepth {
		s.ChildDepth = f.childDepth
	}
	if f.children < 0 || f.children > 1000 || f.childDepth < 1 || f.childDepth > 8 {
		return usagef("--max-children is from 0 to 1000 and --child-depth from 1 to 8")
	}
	return checkModes(*s)
}

func checkModes(s event.Settings) error {
	switch s.Plan {
	case "", event.PlanAuto, event.PlanAlways, event.PlanNever:
	default:
		return usagef("--plan is auto, always or never, not %q", s.Plan)
	}
	switch s.Approve {
	case "", event.ApproveAsk, event.ApproveAuto, event.ApproveNever:
	default:
		return usagef("--approve is ask, auto or never, not %q", s.Approve)
	}
	return nil
}

// family puts goals under those that started them, as far as these are listed,
// and says how deep each stands.
func family(rows []ledger.Row) (ordered []ledger.Row, depth []int) {
	listed, below := map[string]bool{}, map[string][]ledger.Row{}
	for _, r := range rows {
		listed[r.Goal] = true
	}
	for _, r := range rows {
		if listed[r.Parent] {
			below[r.Parent] = append(below[r.Parent], r)
		}
	}
	var put func(r ledger.Row, d int)
	put = func(r ledger.Row, d int) {
		ordered, depth = append(ordered, r), append(depth, d)
		for i := len(below[r.Goal]) - 1; i >= 0; i-- { // in the order in which they began
			put(below[r.Goal][i], d+1)
		}
	}
	for _, r := range rows {
		if !listed[r.Parent] {
			put(r, 0)
		}
	}
	return ordered, depth
}

// branch leads in the title of a child in a list.
func branch(depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.Repeat("  ", depth-1) + "└ "
}

// children prints the goals that a goal has started, and theirs.
func (a *app) children(w io.Writer, vs []core.ChildView, depth int) {
	for _, c := range vs {
		status := c.Status
		for _, more := range []string{string(c.How), string(c.PauseReason), string(c.WaitReason)} {
			if more != "" {
				status += " (" + more + ")"
				break
			}
		}
		line := fmt.Sprintf("%s%s %s  %s  %d steps%s, %d tokens%s", strings.Repeat("  ", depth), c.Op, c.Goal, status, c.Used.Steps, of(c.Share.Steps),
			c.Used.Tokens, of(c.Share.Tokens))
		if c.Files > 0 {
			line += fmt.Sprintf(", %d files changed", c.Files)
			if !c.Applied {
				line += ", not applied"
			}
		}
		fmt.Fprintf(w, "  %s  %s\n", line, a.paint(dim, oneLine(c.Title)))
		if c.CurrentAction != "" {
			fmt.Fprintf(w, "  %s  now: %s\n", strings.Repeat("  ", depth), oneLine(c.CurrentAction))
		}
		a.children(w, c.Children, depth+1)
	}
}

func of(limit int64) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", limit)
}

// childrenAsk prints what the goals below one ask, and how to answer there.
func (a *app) childrenAsk(w io.Writer, goal string, vs []core.ChildView) {
	for _, c := range vs {
		for _, p := range c.PendingApprovals {
			fmt.Fprintf(w, "  a child waits: belay approve %s %s/%s  (%s)\n", goal, c.Goal, p.Op, p.Tool)
		}
		if c.WaitReason == event.WaitUserInput {
			fmt.Fprintf(w, "  a child asks: %s\n  answer it: belay say %s \"TEXT\"\n", block(c.WaitDetail), c.Goal)
		}
		a.childrenAsk(w, goal, c.Children)
	}
}
