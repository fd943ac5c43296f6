package api

import (
	"belay/client"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/recall"
	"belay/internal/service"
	"belay/internal/token"
)

// routes is everything that the API serves.
func routes() []route {
	rs := []route{
		raw("/healthz", "", "the process is alive", "application/json", alive),
		raw("/readyz", "", "goals can be read, and the server is not stopping", "application/json", ready),
		raw("/metrics", token.Watch, "metrics as Prometheus reads them", "text/plain", exposition),
		raw("/v1/openapi.json", "", "this document", "application/json", openapi),
		ask("/v1/self", token.Watch, "who the caller is", self),
		ask("/v1/version", token.Watch, "what answers", version),
		ask("/v1/doctor", token.Watch, "what holds on this machine", doctor),
	}
	rs = append(rs, readRoutes()...)
	rs = append(rs, commandRoutes()...)
	rs = append(rs, memoryRoutes()...)
	return append(rs, policyRoutes()...)
}

func readRoutes() []route {
	page := []query{{"after", "integer", "only what has a larger seq"}, {"limit", "integer", "at most this many events are looked at (default 1000)"}}
	resume := query{"after", "integer", "begin after this seq; the header Last-Event-ID goes before it"}
	return []route{
		ask("/v1/goals", token.Watch, "goals, newest first", listGoals,
			query{"status", "array", "only these statuses"}, query{"repo", "string", "only goals of this repository (absolute path)"},
			query{"prefix", "string", "only goals whose id begins so"}, query{"limit", "integer", "at most this many (default 1000)"}),
		raw("/v1/stream", token.Watch, "the list of goals, a marker caught_up, and then each goal that changes", "text/event-stream", followGoals),
		ask("/v1/goals/{goal}", token.Watch, "where a goal stands, or stood", snapshot, query{"at", "integer", "as it was after the event with this seq"}),
		ask("/v1/goals/{goal}/spec", token.Watch, "what the goal asks for, as revise replaces it", func(c *call) (event.GoalSpec, error) { return c.Service.Spec(c.ctx, c.goal) }),
		ask("/v1/goals/{goal}/timeline", token.Watch, "a goal as a person reads it back", timeline, page...),
		ask("/v1/goals/{goal}/events", token.Watch, "the raw events", events, page...),
		raw("/v1/goals/{goal}/stream", token.Watch, "events as they come, with a marker caught_up; resumes by Last-Event-ID", "text/event-stream", followGoal,
			resume, query{"view", "string", "events (the default), or timeline: entry for what a person reads, head for the rest"}),
		ask("/v1/goals/{goal}/diff", token.Watch, "what the workspace differs in from its start", diff),
		ask("/v1/goals/{goal}/budget", token.Watch, "what is reserved, used and left", budget),
		raw("/v1/goals/{goal}/report", token.Watch, "what the goal came to, on what evidence and at what cost", "text/markdown", report,
			query{"format", "string", "markdown (the default), html or json"}),
		ask("/v1/goals/{goal}/audit", token.Watch, "the hash chain, computed anew", func(c *call) (ledger.Audit, error) { return c.Service.Audit(c.ctx, c.goal) }),
		ask("/v1/goals/{goal}/policy", token.Watch, "what the goal may do without a question", goalPolicy),
		ask("/v1/goals/{goal}/operations/{op}", token.Watch, "everything on record about an operation", operationDetail),
		raw("/v1/goals/{goal}/operations/{op}/output", token.Watch, "the whole output of an operation", "text/plain", output),
		raw("/v1/goals/{goal}/operations/{op}/stream", token.Watch, "what a running command prints (output), until the operation ends (end)", "text/event-stream", followOutput),
		ask("/v1/goals/{goal}/operations/{op}/suggest", token.Watch, "the narrowest rules that would have allowed what is asked", suggest),
		raw("/v1/goals/{goal}/export", token.Watch, "a goal as one portable file, or its events alone", "application/zstd", export,
			query{"format", "string", "bundle (the default), jsonl (the events, one JSON object a line), or jsonl-redacted (without the names of paths, user and machine)"}),
		ask("/v1/worktrees", token.Watch, "the checkouts that goals have of their own", worktrees),
		ask("/v1/search", token.Watch, "find again what goals went through and what their repositories hold, the best first", search,
			query{"q", "string", "words, and filters among them: " + recall.Filters}, query{"goal", "string", "only this goal and its repository (an id or a prefix)"},
			query{"repo", "string", "only this repository and its goals (absolute path)"}, query{"here", "string", "search this repository's content too, if a goal has worked on it (absolute path)"}, query{"file", "string", "a path, a folder or a file name"},
			query{"tool", "string", "only this tool's operations"}, query{"outcome", "string", "succeeded, failed, rejected, cancelled or unknown"},
			query{"since", "string", "how long ago (2h, 3d) or a date"}, query{"until", "string", "the same"},
			query{"kind", "array", "operation, said, fact, file or symbol"}, query{"limit", "integer", "at most this many (default 10, at most 100)"}),
		raw("/v1/artifacts/{sha256}", token.Watch, "content by its address, whole or in ranges", "application/octet-stream", artifact),
	}
}

func commandRoutes() []route {
	start := tell("/v1/goals", token.Operate, "start a goal; a worker takes it up", startGoal)
	start.status = 201
	back := tell("/v1/goals/{goal}/rollback", token.Operate, "say what a rollback would change, or do what was said", rollback)
	back.command = false // it names the tree it begins from, so it cannot be done twice
	forked := tell("/v1/goals/{goal}/fork", token.Operate, "begin a new goal where another one stood, in a worktree; a worker takes it up", fork)
	forked.status, forked.command = 201, false
	bring := tell("/v1/goals/{goal}/apply", token.Operate, "say what bringing a goal's result to the user's directory or a branch would change, or do what was said", applyResult)
	bring.command = false // likewise
	return []route{
		start,
		back,
		bring,
		forked,
		tell("/v1/goals/{goal}/give-up", token.Operate, "end the right to advance a goal here: it goes on where its export is imported", giveUp),
		tell("/v1/goals/{goal}/remove-worktree", token.Operate, "remove the checkout that a goal has of its own; its history stays", removeWorktree),
		tell("/v1/goals/{goal}/checkpoint", token.Operate, "name the state of the workspace, for a later rollback", checkpoint),
		tell("/v1/goals/{goal}/approve", token.Answer, "answer yes: to an operation, a plan, a manual criterion or a claim", approve),
		tell("/v1/goals/{goal}/deny", token.Answer, "answer no; the denial sticks to the exact intent", deny),
		tell("/v1/goals/{goal}/always", token.Operate, "answer yes, and let rules answer the like from now on", always),
		tell("/v1/goals/{goal}/say", token.Answer, "send a message: a turn of its own, or into the running turn", say),
		tell("/v1/goals/{goal}/reconcile", token.Answer, "settle an operation whose outcome is unknown", reconcile),
		tell("/v1/goals/{goal}/look", token.Answer, "look at an operation in doubt and settle it if that is certain; nothing is run", look),
		tell("/v1/goals/{goal}/pause", token.Operate, "pause a goal until it is resumed; what runs is recorded", pause),
		tell("/v1/goals/{goal}/resume", token.Operate, "go on with a goal; limits that are set replace its own", resume),
		tell("/v1/goals/{goal}/budget", token.Operate, "replace the limits of a goal's budget", limit),
		tell("/v1/goals/{goal}/cancel", token.Operate, "end a goal; what runs is stopped and recorded", cancel),
		tell("/v1/goals/{goal}/revise", token.Operate, "replace what a goal asks for; the newest version is judged", revise),
		tell("/v1/goals/{goal}/model", token.Operate, "have another model answer from now on", changeModel),
		tell("/v1/goals/{goal}/adopt", token.Operate, "take the directory here, as it is, for the workspace of a goal of another place", adopt),
		tell("/v1/goals/{goal}/policy", token.Operate, "change, on record, what one goal may do", changePolicy),
	}
}

func policyRoutes() []route {
	repo := query{"repo", "string", "the repository whose belay.yaml counts (absolute path)"}
	remove := route{method: "DELETE", path: "/v1/policy/rules/{id}", scope: token.Operate, status: 200, command: true,
		summary: "remove a rule of the user's; goals that have started keep theirs", out: typeOf[client.Revoked](), handle: removeRule}
	explain := tell("/v1/policy/explain", token.Watch, "judge a command, with the rule behind each verdict",
		func(c *call, in client.Explain) (service.Explanation, error) {
			if in.Command == "" || in.Repo == "" {
				return service.Explanation{}, bad("command and repo are needed")
			}
			if in.Network == "none" {
				in.Network = ""
			}
			return c.Service.Explain(c.ctx, in.Repo, event.Access{Command: in.Command, Network: in.Network}, in.Tests)
		})
	explain.command = false // it records nothing
	check := tell("/v1/policy/check", token.Watch, "check a policy file: its shape, and that every example holds", checkRules)
	check.command = false // nor does this
	return []route{
		ask("/v1/policy/rules", token.Watch, "the user's rules and the repository's", listRules, repo),
		tell("/v1/policy/rules", token.Operate, "save rules of the user's; they hold for goals that start from now on", addRules),
		remove,
		tell("/v1/policy/revoke", token.Operate, "remove several rules of the user's, all of them or none", revokeRules),
		check,
		explain,
	}
}

func timeline(c *call) ([]core.Entry, error) {
	es, err := c.page()
	out := core.Timeline(es)
	if out == nil {
		out = []core.Entry{}
	}
	return out, err
}

func events(c *call) ([]event.Event, error) {
	es, err := c.page()
	if es == nil {
		es = []event.Event{}
	}
	return es, err
}

// page reads the events that the query asks for.
func (c *call) page() ([]event.Event, error) {
	const most = 5000
	after, err := c.number("after", 0, 1<<62)
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", 1000, most)
	if err != nil || limit == 0 {
		return nil, err
	}
	return c.Service.Page(c.ctx, c.goal, after, int(limit))
}
