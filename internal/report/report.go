// Package report is the projection of a goal for the person who was not there:
// what it came to and on what evidence, what it changed, where the time and the
// money went, what was asked and who answered, what failed how often, and what
// is missing. Every number is read off the ledger; no model writes a word of
// it.
//
// It must not know a store or a face: events in, a value and its renderings
// out.
package report

import (
	"sort"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/moment"
)

// Report is one goal, reported.
type Report struct {
	core.Snapshot
	// Ended is the time of the last event.
	Ended moment.Time `json:"ended"`
	// Times are where the time went, in milliseconds.
	Times Times `json:"times"`
	// TodoTimes are the todos with how long each was in progress.
	TodoTimes []TodoTime `json:"todo_times"`
	Runs      []Run      `json:"test_runs"`
	Tests     Tests      `json:"tests"`
	// Cycles counts write-run-debug rounds: test runs on a tree that no test had
	// run on before.
	Cycles    int          `json:"cycles"`
	Errors    []ErrorCount `json:"errors"`
	Usage     Usage        `json:"usage"`
	Approvals []Approval   `json:"approvals"`
	Unknowns  []Unknown    `json:"unknowns"`
	Claims    []Claim      `json:"claims"`
}

// Times are in milliseconds. Waiting is time without a turn.
type Times struct {
	Total   int64 `json:"total_ms"`
	Turns   int64 `json:"turns_ms"`
	Model   int64 `json:"model_ms"`
	Tools   int64 `json:"tools_ms"`
	Waiting int64 `json:"waiting_ms"`
}

// TodoTime is a todo with the time it was in progress.
type TodoTime struct {
	event.Todo
	DurationMS int64 `json:"duration_ms"`
}

// Run is one run of a test or check.
type Run struct {
	Seq      uint64           `json:"seq"`
	Op       string           `json:"op_id"`
	Command  string           `json:"command"`
	ExitCode int              `json:"exit_code"`
	Counts   event.TestCounts `json:"counts"`
	Tree     string           `json:"tree"`
	// Evidence says that it holds for the repository as the goal left it.
	Evidence bool `json:"evidence"`
	// Criterion is set when belay ran it itself for that criterion, Copy when
	// that was in a private copy of Tree.
	Criterion string `json:"criterion,omitempty"`
	Copy      bool   `json:"copy,omitempty"`
	// Tools are the programs that it ran with.
	Tools map[string]string `json:"tools,omitempty"`
}

// ErrorCount is how often one kind of error came up, with its latest words.
type ErrorCount struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// Usage is what the model cost.
type Usage struct {
	Requests       int   `json:"requests"`
	FailedRequests int   `json:"failed_requests"`
	Input          int64 `json:"input_tokens"`
	CachedInput    int64 `json:"cached_input_tokens"`
	Output         int64 `json:"output_tokens"`
	CostMicros     int64 `json:"cost_micros"`
}

// Approval is a question to a person and its answer.
type Approval struct {
	Seq    uint64      `json:"seq"`
	Op     string      `json:"op_id"`
	Tool   string      `json:"tool"`
	Why    []string    `json:"why,omitempty"`
	Answer string      `json:"answer"` // granted, denied, withdrawn or pending
	By     event.Actor `json:"by,omitempty"`
	Reason string      `json:"reason,omitempty"`
}

// Unknown is an operation whose outcome was unknown, and how it was settled.
type Unknown struct {
	Seq     uint64 `json:"seq"`
	Op      string `json:"op_id"`
	Tool    string `json:"tool"`
	Detail  string `json:"detail,omitempty"`
	Settled string `json:"settled,omitempty"`
}

// Claim is a claim of completion and what was said to it.
type Claim struct {
	Seq     uint64   `json:"seq"`
	Summary string   `json:"summary,omitempty"`
	Verdict string   `json:"verdict,omitempty"`
	Missing []string `json:"missing,omitempty"`
}

// Build projects a goal's events.
func Build(es []event.Event) Report {
	s := core.Fold(core.State{}, es)
	b := builder{errors: map[string]*ErrorCount{}, trees: map[string]bool{}, began: map[string]moment.Time{}, spent: map[string]int64{}}
	for _, e := range es {
		b.add(e)
	}
	r := b.r
	r.Snapshot = core.View(s, core.Timeline(es))
	r.Ended = s.Updated
	r.Times.Total = s.Updated.SinceMS(s.Created)
	r.Times.Turns += b.openTurn(s.Updated)
	r.Times.Waiting = max(r.Times.Total-r.Times.Turns, 0)
	for _, t := range s.Todos {
		d := b.spent[t.ID]
		if at, running := b.began[t.ID]; running {
			d += s.Updated.SinceMS(at)
		}
		r.TodoTimes = append(r.TodoTimes, TodoTime{Todo: t, DurationMS: d})
	}
	for i := range r.Runs {
		r.Runs[i].Evidence = r.Runs[i].Tree == s.Revision.Tree
	}
	r.Tests = b.checks.tests(s, r.Runs)
	r.Runs = append(r.Runs, b.checks.runs...)
	sort.SliceStable(r.Runs, func(i, j int) bool { return r.Runs[i].Seq < r.Runs[j].Seq })
	for _, c := range b.errors {
		r.Errors = append(r.Errors, *c)
	}
	sort.Slice(r.Errors, func(i, j int) bool {
		if r.Errors[i].Count != r.Errors[j].Count {
			return r.Errors[i].Count > r.Errors[j].Count
		}
		return r.Errors[i].Kind < r.Errors[j].Kind
	})
	return r
}

type builder struct {
	r      Report
	errors map[string]*ErrorCount
	trees  map[string]bool
	began  map[string]moment.Time // todo → since when it is in progress
	spent  map[string]int64
	turn   moment.Time
	checks checks
}

func (b *builder) openTurn(now moment.Time) int64 {
	if b.turn.IsZero() {
		return 0
	}
	return now.SinceMS(b.turn)
}

func (b *builder) fail(kind, words string) {
	if kind == "" {
		return
	}
	c := b.errors[kind]
	if c == nil {
		c = &ErrorCount{Kind: kind}
		b.errors[kind] = c
	}
	c.Count++
	c.Example = words
}

func (b *builder) add(e event.Event) {
	b.checks.add(e)
	switch p := e.Payload.(type) {
	case event.TurnStarted:
		b.turn = e.Time
	case event.TurnEnded:
		b.r.Times.Turns += b.openTurn(e.Time)
		b.turn = 0
	case event.ModelRequested:
		b.r.Usage.Requests++
	case event.ModelResponded:
		u := &b.r.Usage
		u.Input, u.Output, u.CachedInput = u.Input+p.Usage.Input, u.Output+p.Usage.Output, u.CachedInput+p.Usage.CachedInput
		u.CostMicros += p.CostMicros
		b.r.Times.Model += p.DurationMS
	case event.ModelFailed:
		b.r.Usage.FailedRequests++
		b.r.Usage.CostMicros += p.Charged.CostMicros
		b.fail(string(p.Fault.Kind), p.Fault.Message)
	case event.TodosUpdated:
		b.todos(e, p.Todos)
	case event.TestCompleted:
		b.test(e, p)
	case event.CompletionClaimed:
		b.r.Claims = append(b.r.Claims, Claim{Seq: e.Seq, Summary: p.Summary})
	case event.VerificationFinished:
		if n := len(b.r.Claims); n > 0 {
			c := &b.r.Claims[n-1]
			c.Verdict, c.Missing = p.Verdict.Verdict, p.Verdict.Missing
			if p.Refused != "" {
				c.Verdict, c.Missing = "refused", []string{p.Refused}
			}
		}
	default:
		b.operation(e)
	}
}

func (b *builder) todos(e event.Event, ts []event.Todo) {
	running := map[string]bool{}
	for _, t := range ts {
		if t.Status == event.TodoInProgress {
			running[t.ID] = true
			if _, known := b.began[t.ID]; !known {
				b.began[t.ID] = e.Time
			}
		}
	}
	for id, at := range b.began {
		if !running[id] {
			b.spent[id] += e.Time.SinceMS(at)
			delete(b.began, id)
		}
	}
}

func (b *builder) test(e event.Event, p event.TestCompleted) {
	tree := p.TreeBefore
	if p.TreeAfter != tree {
		tree = "" // it is evidence for neither
	}
	b.r.Runs = append(b.r.Runs, Run{Seq: e.Seq, Op: e.Op, Command: p.Command, ExitCode: p.ExitCode, Counts: p.Counts, Tree: tree,
		Criterion: p.Criterion, Tools: p.Environment})
	if p.Test && !b.trees[p.TreeBefore] {
		b.trees[p.TreeBefore] = true
		b.r.Cycles++
	}
}

func (b *builder) operation(e event.Event) {
	switch p := e.Payload.(type) {
	case event.ApprovalRequested:
		b.r.Approvals = append(b.r.Approvals, Approval{Seq: e.Seq, Op: e.Op, Tool: p.Tool, Why: p.Why, Answer: "pending"})
	case event.ApprovalGranted:
		b.answer(e.Op, "granted", p.By, "")
	case event.ApprovalDenied:
		b.answer(e.Op, "denied", p.By, p.Reason)
	case event.OperationRejected:
		b.answer(e.Op, "withdrawn", e.Actor, p.Fault.Message)
		if b.checks.own(e.Op) {
			break // for the verdict to say
		}
		b.fail(string(p.Fault.Kind), p.Fault.Message)
	case event.OperationFinished:
		if p.Result.Command != nil {
			b.r.Times.Tools += p.Result.Command.DurationMS
		}
		if p.Result.Fault != nil && !b.checks.own(e.Op) { // old code is meant to fail some checks
			b.fail(string(p.Result.Fault.Kind), p.Result.Fault.Message)
		}
		if p.Outcome == event.OutcomeUnknown {
			u := Unknown{Seq: e.Seq, Op: e.Op, Tool: p.Tool}
			if p.Result.Fault != nil {
				u.Detail = p.Result.Fault.Message
			}
			b.r.Unknowns = append(b.r.Unknowns, u)
		}
	case event.OperationReconciled:
		b.settled(e.Op, p)
	}
}

// answer closes the open question of an operation.
func (b *builder) answer(op, word string, by event.Actor, reason string) {
	for i := len(b.r.Approvals) - 1; i >= 0; i-- {
		if a := &b.r.Approvals[i]; a.Op == op && a.Answer == "pending" {
			a.Answer, a.By, a.Reason = word, by, reason
			return
		}
	}
}

func (b *builder) settled(op string, p event.OperationReconciled) {
	word := string(p.Outcome)
	if p.Retry {
		word = "run again"
	}
	for i := len(b.r.Unknowns) - 1; i >= 0; i-- {
		if u := &b.r.Unknowns[i]; u.Op == op && u.Settled == "" {
			u.Settled = word + " by " + string(p.By)
			return
		}
	}
}
