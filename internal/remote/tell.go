package remote

import (
	"context"
	"net/http"
	"net/url"

	"belay/client"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/memory"
	"belay/internal/service"
)

// say sends a command whose answer is the goal's snapshot.
func say(ctx context.Context, f func(context.Context) (core.Snapshot, error)) error {
	_, err := tell(ctx, f)
	return err
}

// Say implements service.Door.
func (d *Door) Say(ctx context.Context, goal, text string, mode event.MessageMode) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) {
		return d.c.Say(ctx, goal, client.Say{Text: text, Mode: mode})
	})
}

// Approve implements service.Door.
func (d *Door) Approve(ctx context.Context, goal string, a service.Answer) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) { return d.c.Approve(ctx, goal, client.Answer(a)) })
}

// Deny implements service.Door.
func (d *Door) Deny(ctx context.Context, goal string, a service.Answer) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) { return d.c.Deny(ctx, goal, client.Answer(a)) })
}

// Always implements service.Door.
func (d *Door) Always(ctx context.Context, goal string, a service.Answer, rules []event.Rule, save bool) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) {
		return d.c.Always(ctx, goal, client.Always{Op: a.Op, Intent: a.Intent, Rules: rules, Save: save})
	})
}

// Pause implements service.Door.
func (d *Door) Pause(ctx context.Context, goal, detail string) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) {
		return d.c.Pause(ctx, goal, client.Pause{Detail: detail})
	})
}

// Resume implements service.Door.
func (d *Door) Resume(ctx context.Context, goal string) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) { return d.c.Resume(ctx, goal, client.Resume{}) })
}

// ExtendBudget implements service.Door.
func (d *Door) ExtendBudget(ctx context.Context, goal string, l event.Limits) error {
	_, err := tell(ctx, func(ctx context.Context) (core.BudgetView, error) { return d.c.Limit(ctx, goal, l) })
	return err
}

// Cancel implements service.Door.
func (d *Door) Cancel(ctx context.Context, goal, reason string) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) {
		return d.c.Cancel(ctx, goal, client.Cancel{Reason: reason})
	})
}

// Revise implements service.Door. The whole of what is asked for goes, limits
// excepted: those are set by ExtendBudget.
func (d *Door) Revise(ctx context.Context, goal string, spec event.GoalSpec) error {
	r := client.Revise{Text: spec.Text, Acceptance: spec.Acceptance, Constraints: spec.Constraints}
	// Nothing is something else than left as it is.
	if r.Acceptance == nil {
		r.Acceptance = []event.Criterion{}
	}
	if r.Constraints == nil {
		r.Constraints = []string{}
	}
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) { return d.c.Revise(ctx, goal, r) })
}

// ChangeModel implements service.Door.
func (d *Door) ChangeModel(ctx context.Context, goal, model string) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) {
		return d.c.ChangeModel(ctx, goal, client.ChangeModel{Model: model})
	})
}

// Adopt implements service.Door.
func (d *Door) Adopt(ctx context.Context, goal string) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) { return d.c.Adopt(ctx, goal) })
}

// Reconcile implements service.Door.
func (d *Door) Reconcile(ctx context.Context, goal string, r core.Reconcile) error {
	return say(ctx, func(ctx context.Context) (core.Snapshot, error) {
		return d.c.Reconcile(ctx, goal, client.Reconcile{Op: r.Op, Outcome: r.Outcome, Retry: r.Retry, Reason: r.Reason})
	})
}

func post[Out any](d *Door, goal, command string, in any) func(context.Context) (Out, error) {
	return func(ctx context.Context) (Out, error) {
		return client.Call[Out](ctx, d.c, http.MethodPost, "/v1/goals/"+url.PathEscape(goal)+"/"+command, in)
	}
}

// Look implements service.Door.
func (d *Door) Look(ctx context.Context, goal, op string) (service.Sight, error) {
	return tell(ctx, post[service.Sight](d, goal, "look", client.Look{Op: op}))
}

// Checkpoint implements service.Door.
func (d *Door) Checkpoint(ctx context.Context, goal, name string) (core.Checkpoint, error) {
	return tell(ctx, func(ctx context.Context) (core.Checkpoint, error) {
		return d.c.Checkpoint(ctx, goal, name)
	})
}

// rolledBack is what a rollback would change, and whether it did.
type rolledBack struct {
	Plan service.RollbackPlan `json:"plan"`
}

// PlanRollback implements service.Door.
func (d *Door) PlanRollback(ctx context.Context, goal, target string) (service.RollbackPlan, error) {
	r, err := post[rolledBack](d, goal, "rollback", client.Rollback{Target: target})(ctx)
	return r.Plan, told(err)
}

// Rollback implements service.Door. The server makes the plan anew and refuses
// when it is another by now.
func (d *Door) Rollback(ctx context.Context, goal string, p service.RollbackPlan) (core.Snapshot, error) {
	if _, err := post[rolledBack](d, goal, "rollback", client.Rollback{Target: p.Target, From: p.From, Tree: p.Tree})(ctx); err != nil {
		return core.Snapshot{}, told(err)
	}
	return d.Snapshot(ctx, goal)
}

// Explain implements service.Door.
func (d *Door) Explain(ctx context.Context, repo string, a event.Access, tests []string) (service.Explanation, error) {
	e, err := d.c.Explain(ctx, client.Explain{Command: a.Command, Repo: repo, Tests: tests, Network: a.Network})
	return service.Explanation(e), told(err)
}

// Suggest implements service.Door.
func (d *Door) Suggest(ctx context.Context, goal, op string) ([]event.Rule, error) {
	r, err := d.c.Suggest(ctx, goal, op)
	return r.Rules, told(err)
}

// Policy implements service.Door.
func (d *Door) Policy(ctx context.Context, goal string) ([]event.Rule, event.ApproveMode, error) {
	p, err := d.c.Policy(ctx, goal)
	return p.Rules, p.Approve, told(err)
}

// ChangePolicy implements service.Door.
func (d *Door) ChangePolicy(ctx context.Context, goal string, c core.ChangePolicy) error {
	_, err := tell(ctx, func(ctx context.Context) (client.Policy, error) {
		return d.c.ChangePolicy(ctx, goal, client.ChangePolicy{Approve: c.Approve, Add: c.Add, Remove: c.Remove})
	})
	return err
}

// ListRules implements service.Door.
func (d *Door) ListRules(ctx context.Context, repo string) ([]event.Rule, []string, error) {
	r, err := d.c.Rules(ctx, repo)
	return r.Rules, r.Warnings, told(err)
}

// SaveRules implements service.Door.
func (d *Door) SaveRules(ctx context.Context, rules []event.Rule) ([]event.Rule, error) {
	r, err := tell(ctx, func(ctx context.Context) (client.Rules, error) { return d.c.AddRules(ctx, rules) })
	return r.Rules, err
}

// DropRules implements service.Door.
func (d *Door) DropRules(ctx context.Context, ids []string) error {
	// It is not sent again under a key: rules are not in a ledger that knows it.
	_, err := d.c.RemoveRules(ctx, ids...)
	return told(err)
}

// CheckRules implements service.Door.
func (d *Door) CheckRules(ctx context.Context, name string, text []byte) ([]event.Rule, []string, error) {
	r, err := d.c.CheckRules(ctx, client.RuleFile{Name: name, Text: string(text)})
	return r.Rules, r.Warnings, told(err)
}

// Memory implements service.Door.
func (d *Door) Memory(ctx context.Context, repo string) ([]memory.Item, error) {
	items, err := d.c.Memory(ctx, repo)
	return items, told(err)
}

// Forget implements service.Door. It is not sent again under a key: what is
// forgotten is not known any more the second time.
func (d *Door) Forget(ctx context.Context, repo string, ids []string, all bool) (service.Forgotten, error) {
	f, err := d.c.Forget(ctx, client.Forget{Repo: repo, IDs: ids, All: all})
	return service.Forgotten(f), told(err)
}
