package core_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
)

// The simulation runs whole goals against a world of values: a virtual clock,
// an in-memory ledger with the fence and head rules of the real one, a scripted
// model, people and editors that act at any time, and workers that crash
// between any commit and any effect, or live on as zombies. One seed decides
// everything; a failing seed is printed and replays alone:
//
//	go test ./internal/core -run TestSimulation -sim.seed=N -sim.v
var (
	simSeeds = flag.Int("sim.n", 10_000, "how many seeds to simulate")
	simSeed  = flag.Uint64("sim.seed", 0, "replay this one seed")
	simTrace = flag.Bool("sim.v", false, "print the trace of the replayed seed")
)

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		if err := newSim(*simSeed, *simTrace).run(); err != nil {
			t.Fatalf("seed %d: %v", *simSeed, err)
		}
		return
	}
	t.Parallel()
	var next, completed, cancelled, unknown atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed > uint64(*simSeeds) || t.Failed() {
					return
				}
				s := newSim(seed, false)
				if err := s.run(); err != nil {
					t.Errorf("seed %d: %v\nreplay: go test ./internal/core -run TestSimulation -sim.seed=%d -sim.v", seed, err, seed)
					return
				}
				switch s.fold().Status {
				case lifecycle.Completed:
					completed.Add(1)
				case lifecycle.Cancelled:
					cancelled.Add(1)
				}
				if s.sawUnknown {
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: %d goals completed, %d cancelled, %d with unknown outcomes", *simSeeds, completed.Load(), cancelled.Load(), unknown.Load())
	if !t.Failed() && *simSeeds >= 1000 && (completed.Load() == 0 || cancelled.Load() == 0 || unknown.Load() == 0) {
		t.Error("the simulation no longer reaches completion, cancellation and unknown outcomes: it tests nothing")
	}
}

const testCommand = "make check"

// world is everything outside the ledger.
type world struct {
	files map[string]string
	// ran counts real-world effects by op; touched by attempt key.
	ran map[string]int
	// shims are the commands that outlive workers: key → state.
	shims map[string]*shim
}

type shim struct {
	op      string
	done    bool
	gone    bool // killed without a result
	result  event.CommandResult
	counts  event.TestCounts
	isTest  bool
	stopped bool
	void    bool // may never start
}

func (w *world) tree() string {
	var names []string
	for n := range w.files {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%s=%s;", n, w.files[n])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// good decides whether the tests pass on the present tree.
func (w *world) good() bool { return sha256.Sum256([]byte(w.tree()))[0]%2 == 0 }

// worker is one process: a state in memory, a ticket, effects in flight.
type worker struct {
	id     string
	fence  uint64
	state  core.State
	flight map[string]core.Effect
	zombie bool
}

type sim struct {
	seed       uint64
	r          *rand.Rand
	trace      bool
	world      world
	now        moment.Time
	events     []event.Event
	committed  core.State
	fence      uint64 // of the goal's row
	worker     *worker
	zombies    []*worker
	workers    int
	sawUnknown bool
	retried    map[string]bool
	edits      int
	kill       float64
}

func newSim(seed uint64, trace bool) *sim {
	r := rand.New(rand.NewPCG(seed, 42))
	return &sim{seed: seed, r: r, trace: trace, now: 1_000_000_000, retried: map[string]bool{}, kill: r.Float64() * 0.08,
		world: world{files: map[string]string{"a": "0", "b": "0"}, ran: map[string]int{}, shims: map[string]*shim{}}}
}

func (s *sim) logf(format string, a ...any) {
	if s.trace {
		fmt.Printf(format+"\n", a...)
	}
}

// fold is the state of the committed events, folded as they were appended.
func (s *sim) fold() core.State { return s.committed }

func (s *sim) input(by event.Actor, fence uint64, b core.Body) core.Input {
	in := core.Input{Now: s.now, By: by, Fence: fence, StoreFence: s.fence, Body: b}
	for i := range in.Seed {
		in.Seed[i] = byte(s.r.UintN(256))
	}
	return in
}

var errFenced, errConflict = errors.New("fenced"), errors.New("conflict")

// append is the ledger's transaction.
func (s *sim) append(head, fence uint64, r core.Ready) error {
	if len(s.events) > 0 && fence != s.fence {
		return errFenced
	}
	if head != uint64(len(s.events)) {
		return errConflict
	}
	for i, e := range r.Events {
		if e.Seq != head+uint64(i)+1 {
			return fmt.Errorf("event %d has seq %d", head+uint64(i)+1, e.Seq)
		}
		if s.trace {
			s.logf("  %4d %-24s %-5s f%d %s %.160s", e.Seq, e.Type, e.Op, e.Fence, e.Actor, js(e.Payload))
		}
	}
	before := s.committed
	s.events = append(s.events, r.Events...)
	if n := len(r.Events); n > 0 {
		s.fence = r.Events[n-1].Fence
	}
	st, err := s.check(before, r.Events)
	s.committed = st
	return err
}

func js(v any) string { b, _ := json.Marshal(v); return string(b) }

// check states the invariants on what was just appended.
func (s *sim) check(before core.State, es []event.Event) (core.State, error) {
	st := before
	for _, e := range es {
		prev := st
		st = core.Apply(st, e)
		if st.Refuse != "" {
			return st, fmt.Errorf("illegal event in the ledger: %s", st.Refuse)
		}
		if st.Fence < prev.Fence {
			return st, fmt.Errorf("event %d lowers the fence", e.Seq)
		}
		if prev.Status.Final() && st.Status != prev.Status {
			return st, fmt.Errorf("event %d leaves the final status %s", e.Seq, prev.Status)
		}
		switch p := e.Payload.(type) {
		case event.OperationStarted:
			o, _ := prev.Find(e.Op)
			if o.Effect.SideEffect() && prev.Mode == event.ModePlan && o.Access.Command != "ls" {
				return st, fmt.Errorf("event %d starts %s in plan mode", e.Seq, o.Tool)
			}
			if o.Effect.SideEffect() && prev.Status != lifecycle.Active {
				return st, fmt.Errorf("event %d starts %s on a goal that is %s", e.Seq, o.Tool, prev.Status)
			}
			if o.Tool == "write_file" && o.Phase != operation.Approved && p.Attempt == 1 && !s.retried[e.Op] {
				return st, fmt.Errorf("event %d starts a write that nobody approved", e.Seq)
			}
		case event.OperationFinished:
			if p.Outcome == event.OutcomeUnknown {
				s.sawUnknown = true
			}
		case event.GoalCompleted:
			if err := s.checkCompletion(prev, p); err != nil {
				return st, fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		held := st.Budget.Held()
		if l := st.Budget.Limits.Tokens; l > 0 && st.Budget.Used.Tokens+held.Tokens > l {
			return st, fmt.Errorf("event %d: %d tokens used and %d reserved of %d", e.Seq, st.Budget.Used.Tokens, held.Tokens, l)
		}
		if l := st.Budget.Limits.Steps; l > 0 && st.Budget.Used.Steps+held.Steps > l {
			return st, fmt.Errorf("event %d: %d steps used and %d reserved of %d", e.Seq, st.Budget.Used.Steps, held.Steps, l)
		}
	}
	return st, nil
}

// checkCompletion re-derives from the raw events, not from the state, that the
// completion has evidence for its tree.
func (s *sim) checkCompletion(prev core.State, p event.GoalCompleted) error {
	if p.Verdict.Tree != prev.Revision.Tree {
		return fmt.Errorf("completed on tree %s, the repository is at %s", p.Verdict.Tree, prev.Revision.Tree)
	}
	for _, e := range s.events {
		if tc, ok := e.Payload.(event.TestCompleted); ok && tc.Command == testCommand && tc.ExitCode == 0 &&
			tc.TreeBefore == p.Verdict.Tree && tc.TreeAfter == p.Verdict.Tree && tc.Counts.Passed > 0 && tc.Counts.Failed == 0 {
			return nil
		}
	}
	return errors.New("completed without a successful test on its tree")
}

// run plays one goal to its end and judges the end.
func (s *sim) run() error {
	if err := s.start(); err != nil {
		return err
	}
	for range 120 {
		if err := s.tick(); err != nil {
			return err
		}
	}
	return s.settle()
}

func (s *sim) start() error {
	modes := []event.ApproveMode{event.ApproveAsk, event.ApproveAuto, event.ApproveAuto, event.ApproveNever}
	plans := []event.PlanMode{event.PlanNever, event.PlanAuto, event.PlanAlways}
	set := event.Settings{Approve: modes[s.r.IntN(4)], Plan: plans[s.r.IntN(3)], Model: "script:sim",
		StepsPerTurn: int64(3 + s.r.IntN(20)), RetryBaseMS: 1000, RetryWindowMS: 100_000}
	spec := event.GoalSpec{Text: "simulate", Acceptance: []event.Criterion{{ID: "tests", Kind: event.CriterionTest, Command: testCommand}}}
	if s.r.IntN(3) == 0 {
		spec.Limits.Tokens = int64(20_000 + s.r.IntN(100_000))
		spec.Limits.Steps = int64(3 + s.r.IntN(40))
	}
	r, err := core.Step(core.State{}, s.input(event.ActorUser, 0, core.Start{Goal: "g", Spec: spec, Settings: set, Repo: "/w"}))
	if err != nil {
		return err
	}
	return s.append(0, 0, r)
}

// tick does one random thing.
func (s *sim) tick() error {
	s.now = s.now.AddMS(int64(s.r.IntN(500)))
	p := s.r.Float64()
	switch {
	case s.worker != nil && p < s.kill:
		s.crash(s.r.IntN(2) == 0)
		return nil
	case p < 0.14:
		return s.person()
	case p < 0.17:
		// Somebody edits. Never back to bytes that stood there before: an edit
		// that undoes a write to the letter cannot be told from a write that
		// never happened, and is then written again, which is harmless.
		s.edits++
		s.world.files["a"] = fmt.Sprint("ext", s.edits)
		s.logf("external edit → %s", s.world.tree())
		return nil
	case p < 0.22:
		s.commandsEnd()
		return nil
	case p < 0.25 && len(s.zombies) > 0:
		return s.progress(s.zombies[s.r.IntN(len(s.zombies))])
	case p < 0.27:
		s.now = s.now.AddMS(60_000)
	}
	if s.worker == nil {
		return s.claim()
	}
	return s.progress(s.worker)
}

// crash loses a worker's memory; sometimes it lives on without knowing that
// its lease has ended.
func (s *sim) crash(zombie bool) {
	s.logf("crash of %s (zombie %t)", s.worker.id, zombie)
	if zombie {
		s.worker.zombie = true
		s.zombies = append(s.zombies, s.worker)
	} else {
		for _, e := range s.worker.flight {
			if run, ok := e.(core.Run); ok && s.r.IntN(2) == 0 {
				s.effect(run) // the effect happens, its result is lost
			}
		}
	}
	s.worker = nil
	if s.r.IntN(4) == 0 {
		for _, sh := range s.world.shims {
			if !sh.done {
				sh.gone = true
			}
		}
	}
}

func (s *sim) claim() error {
	st := s.fold()
	if !st.Runnable(s.now) && s.r.IntN(5) > 0 {
		return nil
	}
	s.workers++
	takeover := st.Turn != nil || s.r.IntN(3) == 0
	if takeover {
		s.fence++ // the store's claim transaction
	}
	w := &worker{id: fmt.Sprint("w", s.workers), fence: s.fence, state: st, flight: map[string]core.Effect{}}
	s.logf("claim by %s fence %d takeover %t", w.id, w.fence, takeover)
	s.worker = w
	if err := s.step(w, core.Claimed{Worker: w.id, Takeover: takeover}); err != nil {
		return err
	}
	return nil
}

// step is the driver: Step, append, start what is wanted.
func (s *sim) step(w *worker, b core.Body) error {
	for {
		r, err := core.Step(w.state, s.input(event.Worker(w.id), w.fence, b))
		if err != nil {
			return fmt.Errorf("step %T: %w", b, err)
		}
		expect := max(w.fence, s.fence) // of the row: a stale holder records facts
		if s.r.Float64() < s.kill/4 && w == s.worker {
			s.crash(false) // before the commit
			return nil
		}
		fenceBefore := s.fence
		if len(r.Events) > 0 {
			err = s.append(w.state.Head, expect, r)
		}
		switch {
		case errors.Is(err, errConflict), errors.Is(err, errFenced):
			w.state = core.Fold(w.state, s.events[w.state.Head:])
			if _, isClaim := b.(core.Claimed); isClaim {
				return nil
			}
			continue
		case err != nil:
			return err
		}
		if n := len(r.Events); n > 0 {
			if w.fence >= w.state.Fence && w.fence == max(w.state.Fence, fenceBefore) {
				w.fence = max(w.fence, r.Events[n-1].Fence) // raised by its own events
			}
			w.state = core.Fold(w.state, r.Events)
			if s.r.IntN(200) == 0 && js(w.state) != js(r.State) { // costly, so now and then
				return fmt.Errorf("step %T: its state is not the fold of its events:\n%s\n%s", b, js(r.State), js(w.state))
			}
		}
		if s.r.Float64() < s.kill/2 && w == s.worker {
			s.crash(false) // after the commit, before any effect
			return nil
		}
		want := map[string]core.Effect{}
		for _, e := range r.Effects {
			want[e.Key()] = e
			if w.flight[e.Key()] == nil {
				s.logf("    %s wants %s", w.id, e.Key())
				w.flight[e.Key()] = e
			}
		}
		for k := range w.flight {
			if want[k] == nil {
				delete(w.flight, k)
			}
		}
		return nil
	}
}

// progress lets one effect in flight end, or tells the worker the news.
func (s *sim) progress(w *worker) error {
	if int(w.state.Head) < len(s.events) && s.r.IntN(2) == 0 {
		w.state = core.Fold(w.state, s.events[w.state.Head:])
		return s.step(w, core.Poke{})
	}
	var keys []string
	for k := range w.flight {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		if w.zombie {
			s.zombies = nil
			return nil
		}
		s.logf("%s has nothing to do", w.id)
		s.worker = nil
		if w.state.Turn != nil && w.state.Turn.Worker == w.id && s.fence == w.state.Fence {
			return s.step(w, core.Released{})
		}
		return nil
	}
	sort.Strings(keys)
	k := keys[s.r.IntN(len(keys))]
	e := w.flight[k]
	body := s.perform(w, e)
	if body == nil {
		return nil
	}
	if w != s.worker && !w.zombie {
		return nil // it crashed meanwhile
	}
	delete(w.flight, k)
	s.logf("  %s: %s → %T", w.id, k, body)
	return s.step(w, body)
}

// perform is every effect executor.
func (s *sim) perform(w *worker, e core.Effect) core.Body {
	switch e := e.(type) {
	case core.Attach:
		return core.Attached{Workspace: event.WorkspaceAttached{Root: "/w", Tree: s.world.tree(), Sandbox: "none"}}
	case core.Observe:
		return core.Observed{Observation: s.observe(e.From)}
	case core.Compose:
		return core.Composed{Head: e.Head, Taken: e.Taken, Tokens: 500, MaxOutput: 2000, Window: 100_000}
	case core.Ask:
		return s.model(e)
	case core.Prepare:
		p := core.Prepared{Op: e.Op.ID, Observation: s.observe(e.From)}
		if e.Op.Effect == event.Verifiable {
			path := e.Op.Access.Writes[0]
			p.Files = []event.FilePrint{{Path: path, Base: s.world.files[path], Result: string(e.Op.Args)}}
		}
		if e.Op.Effect == event.Supervised {
			p.TimeoutMS = 1000
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
	case core.Wake:
		if s.now < e.At {
			return nil
		}
		return core.Poke{}
	}
	panic(fmt.Sprintf("no executor for %T", e))
}

func key(op string, attempt int) string { return fmt.Sprint(op, ".", attempt) }

func (s *sim) observe(from string) core.Observation {
	return core.Observation{Tree: s.world.tree(), From: from, Changes: []event.Change{{Path: "a", Status: "modified"}}}
}

// effect executes one attempt in the world.
func (s *sim) effect(e core.Run) core.Body {
	o := e.Op
	out := event.Result{Output: event.Text{Head: "ok"}}
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
			sh = &shim{op: o.ID, isTest: o.Access.Command == testCommand}
			s.world.shims[k] = sh
		}
		if sh.void {
			return core.Ended{Op: o.ID, Attempt: e.Attempt, Outcome: event.Cancelled, Result: out}
		}
		return s.await(o, e.Attempt, sh, "")
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
	if res.ExitCode != 0 || res.Signal != "" {
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
	sh.result = event.CommandResult{DurationMS: 10}
	if sh.isTest {
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
	} else if s.r.IntN(3) == 0 {
		s.world.files["b"] = fmt.Sprint("cmd", s.r.IntN(4)) // a command that changes the tree
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
	switch s.r.IntN(14) {
	case 0:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.Overloaded, fault.Provider, "overloaded", "").Retry()}
	case 1:
		return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.StreamCut, fault.Provider, "cut", "").Retry(), Used: &event.Amount{Tokens: 600}}
	case 2:
		if s.r.IntN(10) == 0 {
			return core.ReplyFailed{Request: e.Request, Fault: *fault.New(fault.BadCredentials, fault.User, "401", "")}
		}
	}
	resp := event.ModelResponded{Usage: event.Usage{Input: 400, Output: int64(s.r.IntN(int(e.MaxOutput) + 1))}}
	if s.r.IntN(12) == 0 {
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
	switch s.r.IntN(12) {
	case 0, 1:
		return core.Proposal{Tool: "read_file", Effect: event.Read, Args: raw(`{"path":"a","n":%d}`, n), Access: event.Access{Reads: []string{"a"}}}
	case 2, 3:
		return core.Proposal{Tool: "write_file", Effect: event.Verifiable, Args: raw(`{"content":"%d"}`, n), Access: event.Access{Writes: []string{"a"}}}
	case 4, 5, 6:
		return core.Proposal{Tool: "run_test", Effect: event.Supervised, Args: raw(`{}`), Access: event.Access{Command: testCommand, Test: true}}
	case 7:
		cmd := []string{"ls", "touch b"}[s.r.IntN(2)]
		return core.Proposal{Tool: "run_command", Effect: event.Supervised, Args: raw(`{"command":%q,"n":%d}`, cmd, n), Access: event.Access{Command: cmd}}
	case 8:
		switch s.r.IntN(4) {
		case 0:
			return core.Proposal{Tool: "mystery", Effect: event.Opaque, Args: raw(`{"n":%d}`, n), Access: event.Access{Remote: "x"}}
		case 1:
			return core.Proposal{Tool: "nonsense", Args: raw(`{}`), Effect: event.Control, Fault: fault.New(fault.UnknownTool, fault.Model, "no such tool", "")}
		case 2:
			return core.Proposal{Tool: core.ToolAskUser, Effect: event.Control, Args: raw(`{"question":"which?"}`)}
		}
		return core.Proposal{Tool: core.ToolUpdateTodos, Effect: event.Control, Args: raw(`{"todos":[{"id":"1","content":"x","status":"in_progress"}]}`)}
	case 9, 10:
		return core.Proposal{Tool: core.ToolUpdatePlan, Effect: event.Control, Args: raw(`{"steps":[{"id":"1","text":"step %d"}],"scope":["a"]}`, n)}
	}
	return core.Proposal{Tool: core.ToolFinish, Effect: event.Control, Args: raw(`{"summary":"done"}`)}
}

// person does something from another process, on the state as it is.
func (s *sim) person() error {
	st := s.fold()
	var b core.Body
	switch s.r.IntN(16) {
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
	r, err := core.Step(st, s.input(event.ActorUser, 0, b))
	if err != nil {
		for _, ok := range []error{core.ErrFinal, core.ErrNoQuestion, core.ErrAmbiguous, core.ErrState, core.ErrInput} {
			if errors.Is(err, ok) {
				return nil
			}
		}
		return fmt.Errorf("person %T: %w", b, err)
	}
	if rec, ok := b.(core.Reconcile); ok && rec.Retry {
		s.retried[rec.Op] = true
	}
	s.logf("person: %T", b)
	return s.append(st.Head, s.fence, r)
}

// settle lets everything end: crashes stop, a person answers, and the goal
// must come to rest with every operation closed or waiting for a person.
func (s *sim) settle() error {
	s.kill = 0
	s.zombies = nil
	s.worker = nil
	for range 3000 {
		s.now = s.now.AddMS(1000)
		s.commandsEnd()
		st := s.fold()
		if s.worker == nil && s.fence == st.Fence && !st.Runnable(s.now) && (st.Wait == nil || st.Wait.Reason != event.WaitRetry) {
			return s.judgeEnd(st)
		}
		if st.Budget.Used.Steps > 60 && !st.Status.Final() {
			r, err := core.Step(st, s.input(event.ActorUser, 0, core.Cancel{}))
			if err == nil {
				err = s.append(st.Head, s.fence, r)
			}
			if err != nil {
				return err
			}
		}
		if s.worker == nil {
			if err := s.claim(); err != nil {
				return err
			}
			continue
		}
		if err := s.progress(s.worker); err != nil {
			return err
		}
	}
	return fmt.Errorf("the goal does not come to rest: %s", js(s.fold()))
}

func (s *sim) judgeEnd(st core.State) error {
	if st.AnyStarted() {
		return fmt.Errorf("at rest with an open attempt: %s", js(st.Open))
	}
	if st.Turn != nil {
		return fmt.Errorf("at rest with an open turn")
	}
	if st.Request != nil {
		return fmt.Errorf("at rest with an open request")
	}
	if st.Status.Final() && len(st.Open) > 0 {
		return fmt.Errorf("final with open operations: %s", js(st.Open))
	}
	if len(st.Budget.Reserved) > 0 {
		return fmt.Errorf("at rest with reservations: %v", st.Budget.Reserved)
	}
	outcomes := map[string]int{}
	for _, e := range s.events {
		switch p := e.Payload.(type) {
		case event.OperationRejected, event.ApprovalDenied:
			outcomes[e.Op]++
		case event.OperationFinished:
			outcomes[e.Op]++
		case event.OperationReconciled:
			if p.Retry {
				outcomes[e.Op]--
			}
		}
	}
	for op, n := range outcomes {
		if n > 1 {
			return fmt.Errorf("%s has %d outcomes", op, n)
		}
	}
	for op, n := range s.world.ran {
		limit := 1
		if s.retried[op] {
			limit = 10
		}
		if n > limit {
			return fmt.Errorf("%s had its effect %d times", op, n)
		}
	}
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	var back core.State
	if err := json.Unmarshal(b, &back); err != nil {
		return err
	}
	want := js(core.Fold(st, nil))
	if js(core.Fold(core.State{}, s.events)) != want {
		return errors.New("folding the ledger afresh gives another state")
	}
	if js(core.Fold(back, nil)) != want {
		return errors.New("the state does not survive its cache")
	}
	if strings.TrimSpace(s.events[len(s.events)-1].ID) == "" {
		return errors.New("an event without an id")
	}
	return nil
}
