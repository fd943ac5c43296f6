package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sort"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
)

func blocked() *fault.Fault {
	return fault.New(fault.Storage, fault.Environment, "the directory is taken by another goal", "").Retry()
}

// perform is every effect executor.
func (s *sim) perform(_ *worker, e core.Effect) core.Body {
	switch e := e.(type) {
	case core.Attach:
		return core.Attached{Workspace: event.WorkspaceAttached{Root: "/w", Tree: s.world.tree(), Sandbox: "none"}}
	case core.Observe:
		return core.Observed{Observation: s.observe(e.From)}
	case core.Compose:
		c := core.Composed{Head: e.Head, Taken: e.Taken, Tokens: 500, MaxOutput: 2000, Window: 100_000,
			InputPrice: 1_000_000, OutputPrice: 4_000_000, PriceKnown: true}
		if s.r.IntN(30) == 0 {
			c.Window = 600 // the conversation outgrows it
		}
		return c
	case core.Ask:
		return s.model(e)
	case core.Prepare:
		p := core.Prepared{Op: e.Op.ID, Observation: s.observe(e.From)}
		switch e.Op.Effect {
		case event.Verifiable:
			path := e.Op.Access.Writes[0]
			p.Files = []event.FilePrint{{Path: path, Base: s.world.files[path], Result: content(e.Op.Args)}}
		case event.Supervised:
			p.TimeoutMS = 1000
		case event.Keyed:
			p.Key = e.Op.ID
		}
		if e.Op.Tool == core.ToolCheckReview {
			p.Review = core.Counted{Tokens: 300, MaxOutput: 2000, InputPrice: 1_000_000, OutputPrice: 4_000_000, PriceKnown: true}
		}
		return p
	case core.Run:
		return s.effect(e)
	case core.Probe:
		return s.probe(e)
	case core.Stop:
		if sh := s.world.shims[key(e.Op.ID, e.Attempt)]; sh != nil && !sh.done {
			sh.done, sh.stopped = true, true
			sh.result.Signal = "SIGTERM"
		}
		return core.Poke{}
	case core.Spawn:
		return s.spawn(e)
	case core.Command:
		return s.command(e)
	case core.Wake:
		if s.now < e.At {
			return nil
		}
		return core.Poke{}
	}
	panic(fmt.Sprintf("no executor for %T", e))
}

func content(args json.RawMessage) string {
	var a struct {
		Content string `json:"content"`
	}
	_ = json.Unmarshal(args, &a)
	return "written " + a.Content
}

func key(op string, attempt int) string { return fmt.Sprint(op, ".", attempt) }

func (s *sim) observe(from string) core.Observation {
	s.world.past[s.world.tree()] = maps.Clone(s.world.files)
	return core.Observation{Tree: s.world.tree(), From: from, Changes: []event.Change{{Path: "a", Status: "modified"}}}
}

// effect executes one attempt in the world.
func (s *sim) effect(e core.Run) core.Body {
	o := e.Op
	out := event.Result{Output: event.Text{Head: "ok"}}
	if core.Private(o) && o.Tool != core.ToolCheckRun {
		return s.check(o, e.Attempt)
	}
	if o.Tool == core.ToolRollback {
		return s.rollBack(o, e.Attempt, "")
	}
	switch o.Effect {
	case event.Read:
		return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: out}
	case event.Verifiable:
		f := o.Intent.Files[0]
		if s.world.files[f.Path] == f.Result {
			return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: out}
		}
		if s.world.files[f.Path] != f.Base {
			out.Fault = fault.New(fault.StaleEdit, fault.Model, "the file changed", "")
			return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Failed, Result: out}
		}
		s.world.ran[o.ID]++
		s.world.files[f.Path] = f.Result
		return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: out}
	case event.Supervised:
		k := key(o.ID, e.Attempt)
		sh := s.world.shims[k]
		if sh == nil {
			s.world.ran[o.ID]++
			sh = &shim{op: o.ID, isTest: o.Access.Command == testCommand, takes: min(10, o.DeadlineMS)}
			if o.Tool == core.ToolCheckRun {
				sh.tree = o.Tree
			}
			s.world.shims[k] = sh
		}
		if sh.void {
			return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Cancelled, Result: out}
		}
		return s.await(o, e.Attempt, sh, "")
	case event.Keyed:
		if !s.world.remote[o.Intent.Key] { // the other side takes a key once
			s.world.ran[o.ID]++
			s.world.remote[o.Intent.Key] = true
		}
		return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: out}
	default: // opaque
		s.world.ran[o.ID]++
		return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: out}
	}
}

// await reports a command's end, or nothing while it runs.
func (s *sim) await(o operation.Op, attempt int, sh *shim, recovered string) core.Body {
	if sh.gone {
		return core.Ended{Op: o.ID, Attempt: attempt, Outcome: event.OutcomeUnknown, Recovered: recovered,
			Result: event.Result{Fault: fault.New(fault.InDoubt, fault.Environment, "the shim is gone", "")}}
	}
	if !sh.done {
		if s.r.IntN(3) > 0 {
			return nil
		}
		s.end(sh)
	}
	res := sh.result
	r := event.Result{Output: event.Text{Head: "log"}, Command: &res}
	outcome := event.Succeeded
	if sh.isTest {
		r.Test = &sh.counts
	}
	if res.ExitCode != 0 || res.Signal != "" || res.TimedOut {
		outcome = event.Failed
		r.Fault = fault.New(fault.ExitStatus, fault.Model, "exit", "")
	}
	return core.Ended{Op: o.ID, Attempt: attempt, Outcome: outcome, Result: r, Recovered: recovered}
}

func (s *sim) end(sh *shim) {
	if sh.done || sh.gone {
		return
	}
	sh.done = true
	sh.result = event.CommandResult{DurationMS: sh.takes}
	if s.r.IntN(25) == 0 {
		sh.result.TimedOut, sh.result.ExitCode = true, -1
	}
	if sh.tree != "" {
		s.inCopy(sh)
		return
	}
	if !sh.isTest {
		if s.r.IntN(3) == 0 {
			s.world.files["b"] = fmt.Sprint("cmd", s.r.IntN(4)) // a command that changes the tree
		}
		return
	}
	if s.world.good() {
		sh.counts = event.TestCounts{Runner: "go", Passed: 3}
	} else {
		sh.result.ExitCode = 1
		sh.counts = event.TestCounts{Runner: "go", Passed: 2, Failed: 1}
	}
	if s.r.IntN(10) == 0 { // a masked exit status, and an empty run
		sh.result.ExitCode = 0
	}
	if s.r.IntN(10) == 0 {
		sh.counts = event.TestCounts{Runner: "go"}
	}
	if s.r.IntN(20) == 0 { // the test leaves something behind
		s.world.files["b"] = fmt.Sprint("left", s.r.IntN(4))
	}
}

func (s *sim) commandsEnd() {
	var keys []string
	for k := range s.world.shims {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		s.end(s.world.shims[k])
	}
}

// probe looks at what an earlier attempt did.
func (s *sim) probe(e core.Probe) core.Body {
	o := e.Op
	if o.Tool == core.ToolRollback {
		return s.rollBack(o, e.Attempt, "probe")
	}
	switch o.Effect {
	case event.Verifiable:
		f := o.Intent.Files[0]
		switch s.world.files[f.Path] {
		case f.Result:
			return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Recovered: "probe", Result: event.Result{}}
		case f.Base:
			return core.NeverHappened{Op: o.ID, Attempt: e.Attempt}
		}
		return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.OutcomeUnknown, Recovered: "probe", Result: event.Result{}}
	case event.Keyed:
		if s.world.remote[o.Intent.Key] {
			return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Recovered: "probe", Result: event.Result{}}
		}
		return core.NeverHappened{Op: o.ID, Attempt: e.Attempt}
	case event.Supervised:
		sh := s.world.shims[key(o.ID, e.Attempt)]
		if sh == nil {
			// Looking voids the key: a holder that is still about to start the
			// attempt, without knowing that it was replaced, cannot any more.
			s.world.shims[key(o.ID, e.Attempt)] = &shim{op: o.ID, void: true, done: true}
			return core.NeverHappened{Op: o.ID, Attempt: e.Attempt}
		}
		return s.await(o, e.Attempt, sh, "reattached")
	}
	panic("probe of " + string(o.Effect))
}

// model replies something at random: useful, useless, wrong or nothing.
func (s *sim) model(e core.Ask) core.Body {
	if s.now < s.downUntil {
		s.asked++
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.Overloaded, fault.Provider, "overloaded", "").Retry()}
	}
	switch s.r.IntN(14) {
	case 0:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.Overloaded, fault.Provider, "overloaded", "").Retry()}
	case 1:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.StreamCut, fault.Provider, "cut", "").Retry(), Used: &event.Amount{Tokens: 600}}
	case 2:
		switch s.r.IntN(10) {
		case 0:
			return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.BadCredentials, fault.User, "401", "")}
		case 1:
			return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.ContextOverflow, fault.Provider, "too long", "")}
		case 2:
			f := fault.New(fault.RateLimited, fault.Provider, "slow down", "").Retry()
			f.RetryAfterMS = 20_000
			return core.ReplyFailed{Request: e.Request, Fault: *f}
		}
	}
	resp := event.ModelResponded{Usage: event.Usage{Input: 400, Output: int64(s.r.IntN(int(e.MaxOutput) + 1))}}
	resp.CostMicros = (resp.Usage.Input*1_000_000 + resp.Usage.Output*4_000_000) / 1_000_000
	if s.claims && s.r.IntN(3) > 0 || s.r.IntN(12) == 0 {
		resp.Parts = []event.Part{{Kind: event.PartText, Text: "all tests pass, done"}}
		return core.Replied{Request: e.Request, Response: resp}
	}
	var ps []core.Proposal
	for i := range 1 + s.r.IntN(3) {
		p := s.call()
		p.CallID = fmt.Sprint(e.Request, ".", i)
		ps = append(ps, p)
		resp.Parts = append(resp.Parts, event.Part{Kind: event.PartCall, CallID: p.CallID, Tool: p.Tool, Arguments: string(p.Args)})
	}
	return core.Replied{Request: e.Request, Response: resp, Proposals: ps}
}

func (s *sim) call() core.Proposal {
	raw := func(format string, a ...any) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, a...)) }
	n := s.r.IntN(1000)
	which := s.r.IntN(13)
	if s.children && s.r.IntN(2) == 0 || s.r.IntN(40) == 0 {
		return core.Proposal{Tool: core.ToolDelegate, Effect: event.Control, Args: raw(`{"goal":"part %d","share_percent":%d}`, n, 1+n%90)}
	}
	if s.doubts && s.r.IntN(3) == 0 {
		return core.Proposal{Tool: "mystery", Effect: event.Opaque, Args: raw(`{"to":"x","reason":"%d"}`, n), Access: event.Access{Remote: "x"}}
	}
	switch which {
	case 0, 1:
		return core.Proposal{Tool: "read_file", Effect: event.Read, Args: raw(`{"path":"a","n":%d}`, n), Access: event.Access{Reads: []string{"a"}}}
	case 2, 3:
		return core.Proposal{Tool: "write_file", Effect: event.Verifiable, Args: raw(`{"content":"%d"}`, n), Access: event.Access{Writes: []string{"a"}}}
	case 4, 5, 6:
		return core.Proposal{Tool: "run_test", Effect: event.Supervised, Args: raw(`{}`), Access: event.Access{Command: testCommand, Test: true}}
	case 7, 8:
		// The same few actions again and again, worded in ever other ways.
		cmd := []string{"ls", "touch b", "touch c"}[s.r.IntN(3)]
		args := []json.RawMessage{raw(`{"command":%q}`, cmd), raw(`{"command":%q,"description":"%d"}`, cmd, n), raw(`{ "timeout_s":%d, "command":%q}`, n, cmd)}
		return core.Proposal{Tool: "run_command", Effect: event.Supervised, Args: args[s.r.IntN(3)], Access: event.Access{Command: cmd}}
	case 9:
		switch s.r.IntN(5) {
		case 0:
			return core.Proposal{Tool: "mystery", Effect: event.Opaque, Args: raw(`{"to":"x","reason":"%d"}`, n), Access: event.Access{Remote: "x"}}
		case 1:
			return core.Proposal{Tool: "git_push", Effect: event.Keyed, Args: raw(`{"branch":"b%d"}`, n%3), Access: event.Access{Remote: "origin"}}
		case 2:
			return core.Proposal{Tool: "nonsense", Args: raw(`{}`), Effect: event.Control, Fault: fault.New(fault.UnknownTool, fault.Model, "no such tool", "")}
		case 3:
			return core.Proposal{Tool: core.ToolAskUser, Effect: event.Control, Args: raw(`{"question":"which?"}`)}
		}
		return core.Proposal{Tool: core.ToolUpdateTodos, Effect: event.Control, Args: raw(`{"todos":[{"id":"1","content":"x","status":"in_progress"}]}`)}
	case 10, 11:
		return core.Proposal{Tool: core.ToolUpdatePlan, Effect: event.Control, Args: raw(`{"steps":[{"id":"1","text":"step %d"}],"scope":["a"]}`, n)}
	}
	return core.Proposal{Tool: core.ToolFinish, Effect: event.Control, Args: raw(`{"summary":"done"}`)}
}

// person does something from another process, on the state as it is.
// wantsBack has the workspace made what it was at some time.
func (s *sim) wantsBack() error {
	var trees []string
	for t := range s.world.past {
		trees = append(trees, t)
	}
	if len(trees) == 0 {
		return nil
	}
	sort.Strings(trees)
	b := core.Rollback{Observation: s.observe(s.committed.Revision.Tree)}
	b.Of = core.RollbackOf{Target: "then", From: b.Observation.Tree, Tree: trees[s.r.IntN(len(trees))]}
	return s.says(b)
}

// rollBack restores a tree, unless somebody has edited meanwhile.
func (s *sim) rollBack(o operation.Op, attempt int, recovered string) core.Body {
	of, err := core.RollbackArgs(o)
	if err != nil {
		panic(err)
	}
	e := core.Ended{Op: o.ID, Attempt: attempt, Recovered: recovered, Outcome: event.Succeeded, Result: event.Result{Output: event.Text{Head: "restored"}}}
	if now := s.world.tree(); now != of.From && now != of.Tree {
		e.Outcome, e.Result.Fault = event.Failed, fault.New(fault.Foreign, fault.Environment, "somebody has edited it meanwhile", "")
	} else {
		s.world.files = maps.Clone(s.world.past[of.Tree])
	}
	after := s.observe(s.committed.Revision.Tree)
	e.After = &after
	return e
}

func (s *sim) person() error {
	st := s.committed
	var b core.Body
	n := s.r.IntN(16)
	if len(st.InDoubt) > 0 && (s.doubts || s.r.IntN(3) == 0) {
		n = 14
	}
	// Not while a zombie may still write: bytes that come back cannot be told
	// from a write that never happened.
	if (st.Status == lifecycle.Paused || st.Status.Final()) && len(s.zombies) == 0 && s.r.IntN(3) == 0 {
		return s.wantsBack()
	}
	switch n {
	case 0:
		b = core.Say{Mode: event.Message, Text: "do it"}
	case 1:
		b = core.Say{Mode: event.Steer, Text: "this way"}
	case 2, 3, 4, 5:
		b = core.Approve{}
		if ps := st.Approvals.Pending; len(ps) > 0 {
			b = core.Approve{Op: ps[s.r.IntN(len(ps))].Op}
		}
	case 6:
		b = core.Deny{Reason: "no"}
	case 7:
		b = core.Pause{}
	case 8, 9, 10:
		b = core.Resume{}
	case 11:
		if s.r.IntN(6) > 0 {
			return nil
		}
		b = core.Cancel{}
	case 12:
		b = core.Revise{Spec: st.Spec}
	case 13:
		l := st.Budget.Limits
		if l.Tokens > 0 {
			l.Tokens += 5000
			l.Steps += 5
			l.Turns += 2
		}
		b = core.ExtendBudget{Limits: l}
	default:
		if len(st.InDoubt) == 0 {
			return nil
		}
		o := st.InDoubt[s.r.IntN(len(st.InDoubt))]
		rec := core.Reconcile{Op: o.ID, Outcome: event.Succeeded}
		if s.r.IntN(3) == 0 {
			rec = core.Reconcile{Op: o.ID, Retry: true}
		}
		b = rec
	}
	return s.says(b)
}

// says lets a person say something; a refusal in words is an answer too.
func (s *sim) says(b core.Body) error {
	in := s.input(event.ActorUser, 0, b)
	r, err := s.decide(s.committed, in)
	if err != nil {
		for _, ok := range []error{core.ErrFinal, core.ErrNoQuestion, core.ErrAmbiguous, core.ErrState, core.ErrInput} {
			if errors.Is(err, ok) {
				return nil
			}
		}
		return fmt.Errorf("person %T: %w", b, err)
	}
	if rec, ok := b.(core.Reconcile); ok && rec.Retry {
		s.retries[rec.Op]++
	}
	s.logf("person: %T", b)
	return s.append(s.committed.Head, s.fence, in, r)
}
