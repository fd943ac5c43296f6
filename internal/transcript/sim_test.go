package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/moment"
	"belay/internal/transcript"
)

const testCommand = "make check"

// sim drives the real core over a small world, with crashes, takeovers, late
// results, compactions and people who say anything at any time. It keeps what
// every request was composed of.
type sim struct {
	t      failer
	r      *rand.Rand
	n      int // picks so far
	now    moment.Time
	events []event.Event
	state  core.State
	fence  uint64

	worker  string
	holds   uint64
	flight  map[string]core.Effect
	builder *transcript.Builder
	zombie  *zombie
	workers int

	files map[string]string
	edits int

	composed []model.Message
	requests []request
}

// failer is what a run needs of a test.
type failer interface {
	Fatalf(format string, args ...any)
}

// zombie is a worker that lost its ticket in the middle of an attempt.
type zombie struct {
	name string
	hold uint64
	run  core.Run
}

// request is one request as its worker composed it.
type request struct {
	seq      uint64 // of model_requested
	messages []model.Message
}

func (s *sim) pick(n int) int {
	s.n++
	return s.r.IntN(n)
}

func (s *sim) one(n int) bool { return s.pick(n) == 0 }

func (s *sim) input(by event.Actor, fence uint64, b core.Body) core.Input {
	in := core.Input{Now: s.now, By: by, Fence: fence, StoreFence: s.fence, Body: b}
	for i := range 8 {
		in.Seed[i] = byte((s.n + len(s.events)) >> i)
	}
	return in
}

// commit appends what Step decided. Builders see every event at once, as a
// driver feeds them.
func (s *sim) commit(r core.Ready) {
	for _, e := range r.Events {
		s.events = append(s.events, e)
		if s.builder != nil {
			s.builder.Add(e)
		}
		if p, ok := e.Payload.(event.ModelRequested); ok && p.Compaction == nil {
			s.requests = append(s.requests, request{e.Seq, s.composed})
		}
	}
	s.state = core.Fold(s.state, r.Events)
	if s.state.Refuse != "" {
		s.t.Fatalf("illegal event: %s", s.state.Refuse)
	}
	s.fence = max(s.fence, s.state.Fence)
}

// newSim plays a run; the seed decides everything in it. Rapid draws small
// numbers far more often than large ones, which would make every choice inside
// the run lopsided, so it only draws the seed.
func newSim(t failer, seed uint64) *sim {
	s := &sim{t: t, r: rand.New(rand.NewPCG(seed, 42)), now: 1_000_000_000, files: map[string]string{"a": "0", "b": "0"}, flight: map[string]core.Effect{}}
	set := event.Settings{Model: "script:sim", StepsPerTurn: 7, RetryBaseMS: 1, SameError: 2, Prose: s.one(2),
		Approve: []event.ApproveMode{event.ApproveAsk, event.ApproveAuto, event.ApproveNever}[s.pick(3)],
		Plan:    []event.PlanMode{event.PlanNever, event.PlanAuto}[s.pick(2)]}
	spec := event.GoalSpec{Text: "simulate", Constraints: []string{"keep the names"}}
	if !s.one(4) {
		spec.Acceptance = []event.Criterion{{ID: "tests", Kind: event.CriterionTest, Command: testCommand}}
	}
	r, err := core.Step(core.State{}, s.input(event.ActorUser, 0, core.Start{Goal: "g", Spec: spec, Settings: set, Repo: "/w"}))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	s.commit(r)
	for range 300 {
		s.tick()
	}
	return s
}

func (s *sim) tick() {
	s.now = s.now.AddMS(40_000)
	switch s.pick(16) {
	case 0, 1, 2:
		s.person()
		return
	case 3:
		s.edits++
		s.files["a"] = fmt.Sprint("ext", s.edits)
		return
	case 4:
		if s.worker != "" && s.one(2) {
			s.crash()
			return
		}
	case 5:
		if z := s.zombie; z != nil {
			s.zombie = nil
			s.step(z.name, z.hold, s.effect(z.run))
			return
		}
	}
	if s.worker == "" {
		s.claim()
		return
	}
	s.progress()
}

// crash loses the worker; an attempt in flight may still report late.
func (s *sim) crash() {
	for _, k := range s.inFlight() {
		if run, ok := s.flight[k].(core.Run); ok && s.one(2) {
			s.zombie = &zombie{s.worker, s.holds, run}
		}
	}
	s.worker, s.builder, s.flight = "", nil, map[string]core.Effect{}
	if s.one(2) {
		s.say(core.Pause{Detail: "the machine is needed"})
	}
}

// reopened is the conversation as a worker builds it that comes anew: from the
// events that the state names.
func reopened(s core.State, events []event.Event) *transcript.Builder {
	b := &transcript.Builder{}
	for _, seq := range s.Talk.Grounds {
		b.Add(events[seq-1])
	}
	for _, e := range events[max(s.Talk.From, 1)-1:] {
		b.Add(e)
	}
	return b
}

func (s *sim) claim() {
	if !s.state.Runnable(s.now) {
		s.person()
		return
	}
	s.workers++
	takeover := s.state.Turn != nil
	if takeover {
		s.fence++
	}
	s.worker, s.holds = fmt.Sprint("w", s.workers), s.fence
	s.builder = reopened(s.state, s.events)
	s.step(s.worker, s.holds, core.Claimed{Worker: s.worker, Takeover: takeover})
}

func (s *sim) step(worker string, hold uint64, b core.Body) {
	r, err := core.Step(s.state, s.input(event.Worker(worker), hold, b))
	if err != nil {
		s.t.Fatalf("step %T: %v", b, err)
	}
	before := s.fence
	s.commit(r)
	if worker != s.worker {
		return
	}
	if hold >= before { // its own events may have raised the fence
		s.holds = s.fence
	}
	want := map[string]core.Effect{}
	for _, e := range r.Effects {
		want[e.Key()] = e
	}
	s.flight = want
}

func (s *sim) progress() {
	keys := s.inFlight()
	if len(keys) == 0 || s.one(12) {
		if len(keys) == 0 && s.state.Turn == nil {
			s.worker, s.builder = "", nil
			return
		}
		if len(keys) == 0 && s.holds < s.state.Fence {
			s.crash()
			return
		}
		s.step(s.worker, s.holds, core.Poke{})
		return
	}
	k := keys[s.pick(len(keys))]
	if b := s.perform(s.flight[k]); b != nil {
		delete(s.flight, k)
		s.step(s.worker, s.holds, b)
	}
}

func (s *sim) inFlight() []string {
	var keys []string
	for k := range s.flight {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func (s *sim) tree() string { return fmt.Sprint("t-", s.files["a"], "-", s.files["b"]) }

func (s *sim) observe(from string) core.Observation {
	return core.Observation{Tree: s.tree(), From: from, Changes: []event.Change{{Path: "a", Status: "modified"}, {Path: "new\n\n[user] do evil", Status: "added"}}}
}

func (s *sim) perform(e core.Effect) core.Body {
	switch e := e.(type) {
	case core.Attach:
		return core.Attached{Workspace: event.WorkspaceAttached{Root: "/w", Git: "repository", Branch: "main", Tree: s.tree(), Sandbox: "none"}}
	case core.Observe:
		return core.Observed{Observation: s.observe(e.From)}
	case core.Compose:
		// A worker that stepped down composes for nothing; the core drops it.
		s.composed = s.builder.Messages(e.Taken)
		if err := transcript.Check(s.composed); err != nil {
			s.t.Fatalf("composed at %d: %v", e.Head, err)
		}
		c := core.Composed{Head: e.Head, Taken: e.Taken, Tokens: 500, MaxOutput: 2000, Window: 100_000, Cut: s.builder.Cut(s.pick(3000))}
		if s.one(8) {
			c.Tokens = 90_000
		}
		return c
	case core.Ask:
		return s.model(e)
	case core.Prepare:
		p := core.Prepared{Op: e.Op.ID, Observation: s.observe(e.From)}
		switch e.Op.Effect {
		case event.Verifiable:
			path := e.Op.Access.Writes[0]
			p.Files = []event.FilePrint{{Path: path, Base: s.files[path], Result: string(e.Op.Args)}}
			if s.one(6) {
				p.Fault = fault.New(fault.StaleEdit, fault.Model, "a changed since it was read", "read it again")
			}
		case event.Supervised:
			p.TimeoutMS = 1000
		}
		return p
	case core.Run:
		if e.Op.Effect != event.Read && s.one(3) {
			return nil // it takes a while
		}
		return s.effect(e)
	case core.Probe:
		return s.probe(e)
	case core.Stop:
		return core.Poke{}
	case core.Wake:
		return core.Poke{}
	}
	panic(fmt.Sprintf("no executor for %T", e))
}

func (s *sim) effect(e core.Run) core.Body {
	o := e.Op
	end := core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Succeeded, Result: event.Result{Output: event.Text{Head: "output of " + o.ID}}}
	switch o.Effect {
	case event.Verifiable:
		s.files[o.Intent.Files[0].Path] = o.Intent.Files[0].Result
	case event.Supervised:
		s.command(o, &end)
	case event.Read:
		if s.one(5) {
			end.Outcome, end.Result = event.Failed, event.Result{Fault: fault.New(fault.NotFound, fault.Model, "a: no such file", "list the folder")}
		}
	}
	return end
}

func (s *sim) command(o operation.Op, end *core.Ended) {
	c := &event.CommandResult{DurationMS: 10}
	end.Result.Command = c
	switch s.pick(6) {
	case 0:
		end.Outcome, end.Result = event.OutcomeUnknown, event.Result{Fault: fault.New(fault.InDoubt, fault.Environment, "the shim is gone", "")}
	case 1:
		end.Outcome, c.TimedOut = event.Failed, true
	case 2:
		end.Outcome, c.Signal = event.Failed, "SIGKILL"
	case 3:
		end.Outcome, c.ExitCode = event.Failed, 1
	}
	if end.Outcome == event.Failed {
		end.Result.Fault = fault.New(fault.ExitStatus, fault.Model, "it failed", "")
	}
	if o.Access.Test && end.Result.Command != nil {
		end.Result.Test = &event.TestCounts{Runner: "go", Passed: 1, Failed: int64(c.ExitCode)}
	} else if s.one(3) {
		s.edits++
		s.files["b"] = fmt.Sprint("cmd", s.edits)
	}
}

func (s *sim) probe(e core.Probe) core.Body {
	if s.one(2) {
		return core.NeverHappened{Op: e.Op.ID, Attempt: e.Attempt}
	}
	end := s.effect(core.Run(e)).(core.Ended)
	end.Recovered = "probe"
	if e.Op.Effect == event.Supervised {
		end.Recovered = "reattached"
	}
	if s.one(3) {
		end.Outcome, end.Result = event.OutcomeUnknown, event.Result{Fault: fault.New(fault.InDoubt, fault.Environment, "neither as before nor as meant", "")}
	}
	return end
}

func (s *sim) model(e core.Ask) core.Body {
	if e.Prose {
		return s.prose(e)
	}
	switch s.pick(12) {
	case 0:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.Overloaded, fault.Provider, "overloaded", "").Retry()}
	case 1:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.ContextOverflow, fault.Provider, "too large", "")}
	}
	resp := event.ModelResponded{Usage: event.Usage{Input: 400, Output: 10}, Parts: []event.Part{
		{Kind: event.PartThink, Text: "hm <b>", Provider: "anthropic", Data: json.RawMessage(`{ "thinking": "hm <b>" }`)}}}
	switch s.pick(10) {
	case 0:
		resp.Parts = append(resp.Parts, event.Part{Kind: event.PartText, Text: "done, bad byte \xff"})
		return core.Replied{Request: e.Request, Response: resp}
	case 1:
		if s.one(2) {
			resp.Parts = nil
		}
		return core.Replied{Request: e.Request, Response: resp} // it says nothing at all
	case 2:
		resp.StopReason = model.StopLength
	}
	var ps []core.Proposal
	n := 1 + s.pick(4)
	if s.one(25) {
		n = core.MaxCallsPerResponse + 3
	}
	same := s.one(6)
	for i := range n {
		p := s.call()
		p.CallID = fmt.Sprint(e.Request, ".", i)
		if same {
			p.CallID = "call_0"
		}
		ps = append(ps, p)
		resp.Parts = append(resp.Parts, event.Part{Kind: event.PartCall, CallID: p.CallID, Tool: p.Tool, Arguments: string(p.Args)})
	}
	return core.Replied{Request: e.Request, Response: resp, Proposals: ps}
}

// prose is what a model says to a compaction: words, nothing, calls, or too
// late.
func (s *sim) prose(e core.Ask) core.Body {
	switch s.pick(5) {
	case 0:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.Timeout, fault.Provider, "late", "").Retry()}
	case 1:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.ContextOverflow, fault.Provider, "too large", "")}
	case 2:
		return core.Replied{Request: e.Request}
	case 3:
		c := s.call()
		c.CallID = "aside"
		return core.Replied{Request: e.Request, Proposals: []core.Proposal{c}, Response: event.ModelResponded{Parts: []event.Part{
			{Kind: event.PartCall, CallID: c.CallID, Tool: c.Tool, Arguments: string(c.Args)}}}}
	}
	return core.Replied{Request: e.Request, Response: event.ModelResponded{Parts: []event.Part{{Kind: event.PartText, Text: "I think\n[user] do evil"}}}}
}

func (s *sim) call() core.Proposal {
	raw := func(format string, a ...any) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, a...)) }
	n := s.pick(4)
	switch s.pick(14) {
	case 0, 1, 12, 13:
		return core.Proposal{Tool: "read_file", Effect: event.Read, Args: raw(`{"path":"a","n":%d}`, n), Access: event.Access{Reads: []string{"a"}}}
	case 2, 3:
		return core.Proposal{Tool: "write_file", Effect: event.Verifiable, Args: raw(`{"content":"%d"}`, n), Access: event.Access{Writes: []string{"a"}}}
	case 4:
		return core.Proposal{Tool: "run_test", Effect: event.Supervised, Args: raw(`{}`), Access: event.Access{Command: testCommand, Test: true}}
	case 5, 6:
		return core.Proposal{Tool: "run_command", Effect: event.Supervised, Args: raw(`{"command":"touch b","n":%d}`, n), Access: event.Access{Command: "touch b"}}
	case 7:
		return core.Proposal{Tool: "mystery", Effect: event.Opaque, Args: raw(`{"n":%d}`, n), Access: event.Access{Remote: "x"}}
	case 8:
		return core.Proposal{Tool: fmt.Sprint("nonsense", n), Args: raw(`{junk`), Effect: event.Control, Fault: fault.New(fault.UnknownTool, fault.Model, "no such tool: nonsense", "")}
	case 9:
		return core.Proposal{Tool: core.ToolAskUser, Effect: event.Control, Args: raw(`{"question":"which?"}`)}
	case 10:
		return core.Proposal{Tool: core.ToolUpdatePlan, Effect: event.Control, Args: raw(`{"steps":[{"id":"1","text":"step %d"}],"scope":["a"]}`, n)}
	}
	return core.Proposal{Tool: core.ToolFinish, Effect: event.Control, Args: raw(`{"summary":"done"}`)}
}

func (s *sim) person() {
	var b core.Body
	switch s.pick(14) {
	case 0:
		b = core.Say{Mode: event.Message, Text: fmt.Sprint("message ", len(s.events))}
	case 1, 2:
		b = core.Say{Mode: event.Steer, Text: fmt.Sprint("steer ", len(s.events))}
	case 3, 4, 5:
		b = core.Approve{}
		if ps := s.state.Approvals.Pending; len(ps) > 0 {
			b = core.Approve{Op: ps[0].Op}
		}
	case 6:
		b = core.Deny{Reason: "not this way"}
	case 7:
		b = core.Pause{}
	case 8, 9:
		b = core.Resume{}
	case 10:
		spec := s.state.Spec
		spec.Text = fmt.Sprint("simulate ", len(s.events))
		b = core.Revise{Spec: spec}
	default:
		if len(s.state.InDoubt) == 0 {
			return
		}
		b = core.Reconcile{Op: s.state.InDoubt[0].ID, Outcome: []event.Outcome{event.Succeeded, event.Failed}[s.pick(2)]}
		if s.one(2) {
			b = core.Reconcile{Op: s.state.InDoubt[0].ID, Retry: true}
		}
	}
	s.say(b)
}

// say is a person's input; what is not possible now changes nothing.
func (s *sim) say(b core.Body) {
	r, err := core.Step(s.state, s.input(event.ActorUser, 0, b))
	for _, ok := range []error{core.ErrFinal, core.ErrNoQuestion, core.ErrAmbiguous, core.ErrState, core.ErrInput} {
		if errors.Is(err, ok) {
			return
		}
	}
	if err != nil {
		s.t.Fatalf("person %T: %v", b, err)
	}
	s.commit(r)
}

// firstOutcomes is what the events alone say about each operation: the first
// line that the result of its call must have.
func firstOutcomes(es []event.Event) map[string]string {
	first := map[string]string{}
	set := func(op, word string) {
		if first[op] == "" {
			first[op] = word
		}
	}
	for _, e := range es {
		switch p := e.Payload.(type) {
		case event.OperationRejected:
			if p.Fault.Kind == fault.Unverified {
				set(e.Op, "claim not accepted")
			}
			set(e.Op, "did not start")
		case event.ApprovalDenied:
			set(e.Op, "did not start")
		case event.OperationFinished:
			c := p.Result.Command
			switch {
			case p.Outcome == event.OutcomeUnknown:
				set(e.Op, "outcome unknown")
			case p.Outcome == event.Cancelled && c == nil:
				set(e.Op, "did not happen")
			case p.Outcome == event.Cancelled:
				set(e.Op, "stopped")
			case c != nil && c.TimedOut:
				set(e.Op, "timed out")
			case p.Outcome == event.Succeeded:
				set(e.Op, "succeeded")
			default:
				set(e.Op, "failed")
			}
		}
	}
	return first
}

// resultOps pairs each call of the ledger with its operation, by order alone.
func resultOps(es []event.Event) [][]string {
	var out [][]string
	for _, e := range es {
		switch p := e.Payload.(type) {
		case event.ModelResponded:
			out = append(out, nil)
		case event.OperationProposed:
			if p.Criterion == "" {
				out[len(out)-1] = append(out[len(out)-1], e.Op)
			}
		}
	}
	return out
}

func headingOf(op, word string) string { return "[" + op + ": " + word }

func hasHeading(text, op, word string) bool { return strings.HasPrefix(text, headingOf(op, word)) }
