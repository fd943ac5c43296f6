package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/memory"
	"belay/internal/policy"
	"belay/internal/recall"
)

// Which narrows a list of goals; zero values do not.
type Which struct {
	Status       []string
	Repo, Prefix string
	// Limit is how many at most; 0 is the server's default of 1000.
	Limit int
}

// Goals lists goals, newest first.
func (c *Client) Goals(ctx context.Context, w Which) ([]core.Overview, error) {
	q := url.Values{"status": w.Status}
	for name, v := range map[string]string{"repo": w.Repo, "prefix": w.Prefix} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if w.Limit > 0 {
		q.Set("limit", strconv.Itoa(w.Limit))
	}
	return Call[[]core.Overview](ctx, c, http.MethodGet, "/v1/goals?"+q.Encode(), nil)
}

// Start begins a goal.
func (c *Client) Start(ctx context.Context, g StartGoal) (Started, error) {
	return Call[Started](ctx, c, http.MethodPost, "/v1/goals", g)
}

// Snapshot is where a goal stands.
func (c *Client) Snapshot(ctx context.Context, goal string) (core.Snapshot, error) {
	return Call[core.Snapshot](ctx, c, http.MethodGet, goalPath(goal), nil)
}

// SnapshotAt is where a goal stood after the event with a seq.
func (c *Client) SnapshotAt(ctx context.Context, goal string, seq uint64) (core.Snapshot, error) {
	return Call[core.Snapshot](ctx, c, http.MethodGet, goalPath(goal)+"?at="+strconv.FormatUint(seq, 10), nil)
}

// Timeline returns entries of at most limit events after a seq.
func (c *Client) Timeline(ctx context.Context, goal string, after uint64, limit int) ([]core.Entry, error) {
	return Call[[]core.Entry](ctx, c, http.MethodGet, goalPath(goal, "timeline")+page(after, limit), nil)
}

// Events returns at most limit events after a seq.
func (c *Client) Events(ctx context.Context, goal string, after uint64, limit int) ([]Event, error) {
	return Call[[]Event](ctx, c, http.MethodGet, goalPath(goal, "events")+page(after, limit), nil)
}

func page(after uint64, limit int) string {
	return "?" + url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}}.Encode()
}

// Search finds again what goals went through and what repositories hold. here is
// a directory whose content is searched as well when q names neither a goal nor a
// repository.
func (c *Client) Search(ctx context.Context, q recall.Query, here string) (recall.Answer, error) {
	v := url.Values{}
	for name, s := range map[string]string{"q": q.Text, "goal": q.Goal, "repo": q.Repo, "here": here, "file": q.File, "tool": q.Tool, "outcome": q.Outcome,
		"since": q.Since.String(), "until": q.Until.String()} {
		if s != "" {
			v.Set(name, s)
		}
	}
	for _, k := range q.Kinds {
		v.Add("kind", string(k))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(min(q.Limit, recall.MaxLimit)))
	}
	return Call[recall.Answer](ctx, c, http.MethodGet, "/v1/search?"+v.Encode(), nil)
}

// Diff is what the workspace differs in from its start.
func (c *Client) Diff(ctx context.Context, goal string) (Diff, error) {
	return Call[Diff](ctx, c, http.MethodGet, goalPath(goal, "diff"), nil)
}

// Operation is everything on record about an operation.
func (c *Client) Operation(ctx context.Context, goal, op string) (Operation, error) {
	return Call[Operation](ctx, c, http.MethodGet, goalPath(goal, "operations", op), nil)
}

// Tell sends one command to a goal, by its name in the address, and returns
// where the goal stands after it.
func (c *Client) Tell(ctx context.Context, goal, command string, in any) (core.Snapshot, error) {
	return Call[core.Snapshot](ctx, c, http.MethodPost, goalPath(goal, command), in)
}

// Approve answers yes.
func (c *Client) Approve(ctx context.Context, goal string, a Answer) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "approve", a)
}

// Deny answers no.
func (c *Client) Deny(ctx context.Context, goal string, a Answer) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "deny", a)
}

// Say sends a message.
func (c *Client) Say(ctx context.Context, goal string, s Say) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "say", s)
}

// Pause stops a goal until it is resumed.
func (c *Client) Pause(ctx context.Context, goal string, p Pause) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "pause", p)
}

// Resume goes on with a goal.
func (c *Client) Resume(ctx context.Context, goal string, r Resume) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "resume", r)
}

// Cancel ends a goal.
func (c *Client) Cancel(ctx context.Context, goal string, r Cancel) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "cancel", r)
}

// Revise replaces what a goal asks for.
func (c *Client) Revise(ctx context.Context, goal string, r Revise) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "revise", r)
}

// Limit replaces the limits of a goal's budget.
func (c *Client) Limit(ctx context.Context, goal string, l event.Limits) (core.BudgetView, error) {
	return Call[core.BudgetView](ctx, c, http.MethodPost, goalPath(goal, "budget"), SetLimits{Limits: l})
}

// Reconcile settles an operation whose outcome is unknown.
func (c *Client) Reconcile(ctx context.Context, goal string, r Reconcile) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "reconcile", r)
}

// Always answers yes, and lets rules answer the like from now on.
func (c *Client) Always(ctx context.Context, goal string, a Always) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "always", a)
}

// ChangeModel has another model answer from now on.
func (c *Client) ChangeModel(ctx context.Context, goal string, in ChangeModel) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "model", in)
}

// Adopt takes the directory on the server's machine for the goal's workspace.
func (c *Client) Adopt(ctx context.Context, goal string) (core.Snapshot, error) {
	return c.Tell(ctx, goal, "adopt", struct{}{})
}

// Checkpoint names the state of a goal's workspace.
func (c *Client) Checkpoint(ctx context.Context, goal, name string) (core.Checkpoint, error) {
	return Call[core.Checkpoint](ctx, c, http.MethodPost, goalPath(goal, "checkpoint"), NewCheckpoint{Name: name})
}

// Spec is what a goal asks for now.
func (c *Client) Spec(ctx context.Context, goal string) (event.GoalSpec, error) {
	return Call[event.GoalSpec](ctx, c, http.MethodGet, goalPath(goal, "spec"), nil)
}

// Audit is the hash chain, computed anew.
func (c *Client) Audit(ctx context.Context, goal string) (ledger.Audit, error) {
	return Call[ledger.Audit](ctx, c, http.MethodGet, goalPath(goal, "audit"), nil)
}

// Report is what a goal came to: format is markdown, html or json.
func (c *Client) Report(ctx context.Context, goal, format string) (string, error) {
	return c.text(ctx, goalPath(goal, "report")+"?format="+url.QueryEscape(format))
}

// Output is the whole output of an operation that has ended.
func (c *Client) Output(ctx context.Context, goal, op string) (string, error) {
	return c.text(ctx, goalPath(goal, "operations", op, "output"))
}

func (c *Client) text(ctx context.Context, path string) (string, error) {
	answer, err := c.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("read the server's answer to GET %s: %w", path, err)
	}
	return string(b), nil
}

// Suggest returns the narrowest rules that would have allowed what is asked.
func (c *Client) Suggest(ctx context.Context, goal, op string) (Rules, error) {
	return Call[Rules](ctx, c, http.MethodGet, goalPath(goal, "operations", op, "suggest"), nil)
}

// Policy is what a goal may do without a question.
func (c *Client) Policy(ctx context.Context, goal string) (Policy, error) {
	return Call[Policy](ctx, c, http.MethodGet, goalPath(goal, "policy"), nil)
}

// ChangePolicy changes it, on record.
func (c *Client) ChangePolicy(ctx context.Context, goal string, p ChangePolicy) (Policy, error) {
	return Call[Policy](ctx, c, http.MethodPost, goalPath(goal, "policy"), p)
}

// Rules are the user's rules, and with a repository those of it too.
func (c *Client) Rules(ctx context.Context, repo string) (Rules, error) {
	return Call[Rules](ctx, c, http.MethodGet, "/v1/policy/rules?repo="+url.QueryEscape(repo), nil)
}

// AddRules saves rules of the user's.
func (c *Client) AddRules(ctx context.Context, rules []event.Rule) (Rules, error) {
	return Call[Rules](ctx, c, http.MethodPost, "/v1/policy/rules", Rules{Rules: rules})
}

// Memory is what is remembered of a repository (an absolute path), best first.
func (c *Client) Memory(ctx context.Context, repo string) ([]memory.Item, error) {
	return Call[[]memory.Item](ctx, c, http.MethodGet, "/v1/memory?repo="+url.QueryEscape(repo), nil)
}

// Forget has things remembered no longer.
func (c *Client) Forget(ctx context.Context, f Forget) (Forgotten, error) {
	return Call[Forgotten](ctx, c, http.MethodPost, "/v1/memory/forget", f)
}

// RemoveRules removes rules of the user's by id: all of them or none.
func (c *Client) RemoveRules(ctx context.Context, ids ...string) (Revoked, error) {
	return Call[Revoked](ctx, c, http.MethodPost, "/v1/policy/revoke", Revoke{IDs: ids})
}

// CheckRules reads the text of a policy file.
func (c *Client) CheckRules(ctx context.Context, f RuleFile) (Rules, error) {
	return Call[Rules](ctx, c, http.MethodPost, "/v1/policy/check", f)
}

// Explanation is the judgement of a command, and what would allow it.
type Explanation struct {
	Command  string         `json:"command"`
	Verdict  policy.Verdict `json:"verdict"`
	Suggest  []event.Rule   `json:"suggest,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
}

// Explain judges a command.
func (c *Client) Explain(ctx context.Context, e Explain) (Explanation, error) {
	return Call[Explanation](ctx, c, http.MethodPost, "/v1/policy/explain", e)
}

// Self is who the caller is.
func (c *Client) Self(ctx context.Context) (Self, error) {
	return Call[Self](ctx, c, http.MethodGet, "/v1/self", nil)
}

// Version is what answers.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return Call[Version](ctx, c, http.MethodGet, "/v1/version", nil)
}

// Doctor is what holds on the server's machine.
func (c *Client) Doctor(ctx context.Context) ([]Finding, error) {
	return Call[[]Finding](ctx, c, http.MethodGet, "/v1/doctor", nil)
}

// Artifact opens content by its address, from an offset on.
func (c *Client) Artifact(ctx context.Context, sha256 string, from int64) (io.ReadCloser, error) {
	h := http.Header{}
	if from > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	answer, err := c.Do(ctx, http.MethodGet, "/v1/artifacts/"+url.PathEscape(sha256), nil, h)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Bytes is content by its address, whole.
func (c *Client) Bytes(ctx context.Context, sha256 string) ([]byte, error) {
	r, err := c.Artifact(ctx, sha256, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the artifact %s: %w", sha256, err)
	}
	return b, nil
}
