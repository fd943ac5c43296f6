package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"reflect"

	"belay/client"
	"belay/internal/core"
	"belay/internal/core/children"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/service"
)

// criterionID names a criterion that came without a name.
func criterionID(kind event.CriterionKind, i int) string { return fmt.Sprintf("%s-%d", kind, i+1) }

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func openapi(c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(c.document)
	return nil
}

func self(c *call) (client.Self, error) {
	return client.Self{Name: c.token.Name, Scope: string(c.token.Scope), Model: c.Model}, nil
}

func version(c *call) (client.Version, error) { return c.Version, nil }

func doctor(c *call) ([]client.Finding, error) {
	if c.Doctor == nil {
		return []client.Finding{}, nil
	}
	return c.Doctor(c.ctx), nil
}

func listGoals(c *call) ([]core.Overview, error) {
	limit, err := c.number("limit", 1000, 100_000)
	if err != nil {
		return nil, err
	}
	q := c.r.URL.Query()
	// The list is a projection: a goal whose row was lost gets it back first.
	if err := c.Service.RebuildRows(c.ctx); err != nil {
		return nil, err
	}
	return c.Service.Overviews(c.ctx, ledger.Filter{Prefix: q.Get("prefix"), Repo: q.Get("repo"), Status: q["status"], Limit: int(limit)})
}

func diff(c *call) (client.Diff, error) {
	text, err := c.Service.Diff(c.ctx, c.goal)
	if err != nil {
		return client.Diff{}, err
	}
	snap, err := c.Service.Snapshot(c.ctx, c.goal)
	return client.Diff{Diff: text, Stat: snap.DiffStat, Revision: snap.Revision}, err
}

func snapshot(c *call) (core.Snapshot, error) {
	if c.r.URL.Query().Get("at") == "" {
		return c.Service.Snapshot(c.ctx, c.goal)
	}
	at, err := c.number("at", 0, 1<<62)
	if err != nil {
		return core.Snapshot{}, err
	}
	return c.Service.SnapshotAt(c.ctx, c.goal, at)
}

func limit(c *call, in client.SetLimits) (core.BudgetView, error) {
	if err := c.Service.ExtendBudget(c.ctx, c.goal, in.Limits); err != nil {
		return core.BudgetView{}, err
	}
	return budget(c)
}

func budget(c *call) (core.BudgetView, error) {
	snap, err := c.Service.Snapshot(c.ctx, c.goal)
	return snap.Budget, err
}

func report(c *call) error {
	format, media := service.ReportMarkdown, "text/markdown; charset=utf-8"
	switch f := c.r.URL.Query().Get("format"); f {
	case "", "markdown":
	case "html":
		format, media = service.ReportHTML, "text/html; charset=utf-8"
		// It is one page without scripts or outside references, and stays so.
		c.w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox")
	case "json":
		format, media = service.ReportJSON, "application/json"
	default:
		return bad("format is markdown, html or json, not %q", f)
	}
	text, err := c.Service.Report(c.ctx, c.goal, format)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", media)
	_, _ = io.WriteString(c.w, text)
	return nil
}

func operationDetail(c *call) (client.Operation, error) {
	op := c.r.PathValue("op")
	es, err := c.Service.OperationEvents(c.ctx, c.goal, op)
	if err != nil {
		return client.Operation{}, err
	}
	out := client.Operation{Op: op}
	for _, e := range es {
		payload, err := json.Marshal(e.Payload)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, client.Event{Goal: e.Goal, Seq: e.Seq, ID: e.ID, Type: e.Type, Version: e.Version, Time: e.Time,
			Turn: e.Turn, Op: e.Op, Cause: e.Cause, Actor: e.Actor, Fence: e.Fence, Payload: payload, Hash: e.Hash})
	}
	return out, nil
}

func startGoal(c *call, in client.StartGoal) (client.Started, error) {
	if in.Parent != "" {
		return startChild(c, in)
	}
	if !filepath.IsAbs(in.Repo) {
		return client.Started{}, bad("repo is %q; name the repository by its absolute path on the server's machine", in.Repo)
	}
	set(&in.Model, c.Model)
	if in.Model == "" {
		return client.Started{}, bad("name a model: openai:NAME, anthropic:NAME or script:FILE; the server has no default (BELAY_MODEL)")
	}
	if in.Image != "" {
		if in.Sandbox != "" && in.Sandbox != "container" {
			return client.Started{}, bad("image is for the sandbox container, not for %q", in.Sandbox)
		}
		in.Sandbox = "container:" + in.Image
	}
	set(&in.Sandbox, c.Sandbox)
	if in.ApprovalTimeoutMS > 0 && in.ApprovalTimeoutMS < 1000 {
		return client.Started{}, bad("approval_timeout_ms is at least 1000, not %d", in.ApprovalTimeoutMS)
	}
	set(&in.Plan, event.PlanAuto)
	set(&in.Approve, event.ApproveAsk)
	for i := range in.Acceptance {
		if in.Acceptance[i].ID == "" {
			in.Acceptance[i].ID = criterionID(in.Acceptance[i].Kind, i)
		}
	}
	started, err := c.Service.Start(c.ctx, service.StartRequest{
		Spec: event.GoalSpec{Text: in.Text, Acceptance: in.Acceptance, Constraints: in.Constraints, Limits: in.Limits},
		Settings: event.Settings{Model: in.Model, Plan: in.Plan, Approve: in.Approve, AcceptUnverified: in.AcceptUnverified,
			Sandbox: in.Sandbox, ApprovalTimeoutMS: in.ApprovalTimeoutMS, RetryWindowMS: in.RetryWindowMS, Patience: in.Patience, Prose: in.Prose,
			MaxChildren: in.MaxChildren, ChildDepth: in.ChildDepth, ParallelChildren: in.ParallelChildren, ReadOnly: in.ReadOnly},
		Repo: in.Repo, Travel: in.Travel, Worktree: in.Worktree, Bring: in.Bring,
	})
	if err == nil {
		c.w.Header().Set("Location", "/v1/goals/"+started.Goal)
	}
	return client.Started{Goal: started.Goal, Warnings: started.Warnings}, err
}

// startChild starts a goal as a child of another.
func startChild(c *call, in client.StartGoal) (client.Started, error) {
	parent, err := c.Service.Resolve(c.ctx, in.Parent)
	if err != nil {
		return client.Started{}, err
	}
	if in.SharePercent < 0 || in.SharePercent > children.MaxShare {
		return client.Started{}, bad("share_percent is from 1 to %d, not %d", children.MaxShare, in.SharePercent)
	}
	for i := range in.Acceptance {
		if in.Acceptance[i].ID == "" {
			in.Acceptance[i].ID = criterionID(in.Acceptance[i].Kind, i)
		}
	}
	started, err := c.Service.Start(c.ctx, service.StartRequest{Parent: parent, Share: in.SharePercent,
		Spec:     event.GoalSpec{Text: in.Text, Acceptance: in.Acceptance, Constraints: in.Constraints, Limits: in.Limits},
		Settings: event.Settings{Model: in.Model, Plan: in.Plan, Approve: in.Approve, ReadOnly: in.ReadOnly}})
	if err == nil {
		c.w.Header().Set("Location", "/v1/goals/"+started.Goal)
	}
	return client.Started{Goal: started.Goal}, err
}

// then answers a command with where the goal stands after it.
func (c *call) then(err error) (core.Snapshot, error) {
	if err != nil {
		return core.Snapshot{}, err
	}
	return c.Service.Snapshot(c.ctx, c.goal)
}

func approve(c *call, in client.Answer) (core.Snapshot, error) {
	return c.then(c.Service.Approve(c.ctx, c.goal, service.Answer(in)))
}

func deny(c *call, in client.Answer) (core.Snapshot, error) {
	return c.then(c.Service.Deny(c.ctx, c.goal, service.Answer(in)))
}

func always(c *call, in client.Always) (core.Snapshot, error) {
	if len(in.Rules) == 0 {
		return core.Snapshot{}, bad("rules are needed: those of suggest that the person has seen")
	}
	return c.then(c.Service.Always(c.ctx, c.goal, service.Answer{Op: in.Op, Intent: in.Intent}, in.Rules, in.Save))
}

func say(c *call, in client.Say) (core.Snapshot, error) {
	set(&in.Mode, event.Message)
	if in.Mode != event.Message && in.Mode != event.Steer {
		return core.Snapshot{}, bad("mode is message or steer, not %q", in.Mode)
	}
	return c.then(c.Service.Say(c.ctx, c.goal, in.Text, in.Mode))
}

func pause(c *call, in client.Pause) (core.Snapshot, error) {
	return c.then(c.Service.Pause(c.ctx, c.goal, in.Detail))
}

func resume(c *call, in client.Resume) (core.Snapshot, error) {
	snap, err := c.Service.Snapshot(c.ctx, c.goal)
	if err != nil {
		return snap, err
	}
	if in.Limits != (event.Limits{}) {
		l := snap.Budget.Limits
		over(&l.Turns, in.Limits.Turns)
		over(&l.Steps, in.Limits.Steps)
		over(&l.Tokens, in.Limits.Tokens)
		over(&l.CostMicros, in.Limits.CostMicros)
		over(&l.ToolMS, in.Limits.ToolMS)
		over(&l.Deadline, in.Limits.Deadline)
		if err := c.Service.ExtendBudget(c.ctx, c.goal, l); err != nil {
			return snap, err
		}
	}
	return c.then(c.Service.Resume(c.ctx, c.goal))
}

func over[T comparable](v *T, by T) {
	var zero T
	if by != zero {
		*v = by
	}
}

func cancel(c *call, in client.Cancel) (core.Snapshot, error) {
	return c.then(c.Service.Cancel(c.ctx, c.goal, in.Reason))
}

func revise(c *call, in client.Revise) (core.Snapshot, error) {
	spec, err := c.Service.Spec(c.ctx, c.goal)
	if err != nil {
		return core.Snapshot{}, err
	}
	if in.Text == "" && in.Acceptance == nil && in.Constraints == nil {
		return core.Snapshot{}, bad("say what changes: text, acceptance or constraints")
	}
	set(&in.Text, spec.Text)
	spec.Text = in.Text
	if in.Acceptance != nil {
		spec.Acceptance = in.Acceptance
		for i := range spec.Acceptance {
			if spec.Acceptance[i].ID == "" {
				spec.Acceptance[i].ID = criterionID(spec.Acceptance[i].Kind, i)
			}
		}
	}
	if in.Constraints != nil {
		spec.Constraints = in.Constraints
	}
	return c.then(c.Service.Revise(c.ctx, c.goal, spec))
}

func changeModel(c *call, in client.ChangeModel) (core.Snapshot, error) {
	return c.then(c.Service.ChangeModel(c.ctx, c.goal, in.Model))
}

func adopt(c *call, _ struct{}) (core.Snapshot, error) {
	return c.then(c.Service.Adopt(c.ctx, c.goal))
}

func reconcile(c *call, in client.Reconcile) (core.Snapshot, error) {
	if in.Retry == (in.Outcome != "") {
		return core.Snapshot{}, bad("name an outcome (succeeded or failed), or retry")
	}
	return c.then(c.Service.Reconcile(c.ctx, c.goal, core.Reconcile{Op: in.Op, Outcome: in.Outcome, Retry: in.Retry, Reason: in.Reason}))
}

func checkpoint(c *call, in client.NewCheckpoint) (core.Checkpoint, error) {
	return c.Service.Checkpoint(c.ctx, c.goal, in.Name)
}

// rolledBack is what a rollback would change, and whether it did.
type rolledBack struct {
	Plan             service.RollbackPlan `json:"plan"`
	Done             bool                 `json:"done"`
	LatestToolResult *core.LastResult     `json:"latest_tool_result,omitempty"`
}

func rollback(c *call, in client.Rollback) (rolledBack, error) {
	p, err := c.Service.PlanRollback(c.ctx, c.goal, in.Target)
	if err != nil || in.Tree == "" || p.Empty() {
		return rolledBack{Plan: p}, err
	}
	if in.From != p.From || in.Tree != p.Tree || in.Index != p.Index {
		return rolledBack{}, fmt.Errorf("%w: the workspace is another by now; ask again what would change", core.ErrChanged)
	}
	snap, err := c.Service.Rollback(c.ctx, c.goal, p)
	r := snap.LatestToolResult
	return rolledBack{Plan: p, Done: r != nil && r.Tool == core.ToolRollback && r.Outcome == event.Succeeded, LatestToolResult: r}, err
}

func look(c *call, in client.Look) (service.Sight, error) {
	return c.Service.Look(c.ctx, c.goal, in.Op)
}

func suggest(c *call) (client.Rules, error) {
	rules, err := c.Service.Suggest(c.ctx, c.goal, c.r.PathValue("op"))
	return client.Rules{Rules: orNone(rules)}, err
}

func goalPolicy(c *call) (client.Policy, error) {
	rules, mode, err := c.Service.Policy(c.ctx, c.goal)
	return client.Policy{Approve: mode, Rules: orNone(rules)}, err
}

func changePolicy(c *call, in client.ChangePolicy) (client.Policy, error) {
	for i := range in.Add {
		set(&in.Add[i].ID, "goal-"+event.RefOf([]byte(in.Add[i].Tool+"\x00"+in.Add[i].Command+"\x00"+in.Add[i].Path), "").SHA256[:8])
		in.Add[i].Layer = "goal"
	}
	err := c.Service.ChangePolicy(c.ctx, c.goal, core.ChangePolicy{Approve: in.Approve, Add: in.Add, Remove: in.Remove})
	if err != nil {
		return client.Policy{}, err
	}
	return goalPolicy(c)
}

func listRules(c *call) (client.Rules, error) {
	repo := c.r.URL.Query().Get("repo")
	if repo == "" {
		repo = string(filepath.Separator)
	}
	rules, warnings, err := c.Service.ListRules(c.ctx, repo)
	return client.Rules{Rules: orNone(rules), Warnings: warnings}, err
}

func checkRules(c *call, in client.RuleFile) (client.Rules, error) {
	if in.Name == "" {
		return client.Rules{}, bad("name is needed: it says what kind of file it is")
	}
	rules, warnings, err := c.Service.CheckRules(c.ctx, in.Name, []byte(in.Text))
	return client.Rules{Rules: orNone(rules), Warnings: warnings}, err
}

func addRules(c *call, in client.Rules) (client.Rules, error) {
	if len(in.Rules) == 0 {
		return client.Rules{}, bad("rules are needed")
	}
	saved, err := c.Service.SaveRules(c.ctx, in.Rules)
	return client.Rules{Rules: orNone(saved)}, err
}

func removeRule(c *call) error {
	id := c.r.PathValue("id")
	if err := c.Service.DropRules(c.ctx, []string{id}); err != nil {
		return err
	}
	return c.json(http.StatusOK, client.Revoked{Revoked: []string{id}})
}

func revokeRules(c *call, in client.Revoke) (client.Revoked, error) {
	if len(in.IDs) == 0 {
		return client.Revoked{}, bad("ids are needed")
	}
	return client.Revoked{Revoked: in.IDs}, c.Service.DropRules(c.ctx, in.IDs)
}

func orNone(rules []event.Rule) []event.Rule {
	if rules == nil {
		return []event.Rule{}
	}
	return rules
}
