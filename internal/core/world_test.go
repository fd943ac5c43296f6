package core_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/transcript"
)

// The simulation runs whole goals against a world of values: a virtual clock,
// an in-memory ledger with the fence and head rules of the real one, a scripted
// model, people and editors that act at any time, and workers that crash
// between any commit and any effect, or live on as zombies. One seed decides
// everything that its knobs leave open.

const testCommand = "make check"

// knobs are what a test fixes or lets rapid choose; zero values are left to the
// seed.
type knobs struct {
	ticks   int     // 120
	kill    float64 // how often a worker dies, per tick; -1 for never
	approve event.ApproveMode
	plan    event.PlanMode
	limits  *event.Limits
	// criteria is "test", "manual", "both", "none", "accept", or one that
	// checked knows.
	criteria string
	cancelAt int  // the tick from which the user cancels as soon as something runs
	zombies  int  // how many more zombies than else, in percent of the ticks
	claims   bool // the model mostly claims to be done
	doubts   bool // the model mostly does what cannot be looked up
	children bool // the model mostly has others work for it
	// outageMS is how long the provider is down, from a third of the ticks on.
	outageMS int64
}

// world is everything outside the ledger.
type world struct {
	files map[string]string
	// ran counts real-world effects by op.
	ran map[string]int
	// shims are the commands that outlive workers: key → state.
	shims map[string]*shim
	// remote is what keyed operations did, by their key.
	remote map[string]bool
	// kids are the child goals, by id.
	kids map[string]*kid
	// past are the files behind the trees that were seen.
	past map[string]map[string]string
}

type shim struct {
	op      string
	done    bool
	gone    bool  // killed without a result
	takes   int64 // milliseconds
	result  event.CommandResult
	counts  event.TestCounts
	isTest  bool
	tree    string // of the private copy that it runs in, "" for the workspace
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
	knobs
	seed      uint64
	r         *rand.Rand
	trace     bool
	world     world
	now       moment.Time
	events    []event.Event
	committed core.State
	fence     uint64 // of the goal's row
	worker    *worker
	zombies   []*worker
	workers   int
	// retries counts, by op, how often a person had it run again.
	retries map[string]int
	edits   int
	talk    *transcript.Builder
	checks  []checker
	// downUntil is when the provider is back; asked counts requests meanwhile.
	downUntil moment.Time
	asked     int
	// thorough turns on the checks that cost more than they find in a long run.
	thorough bool
	saw      map[string]int
}

func newSim(seed uint64, trace bool, k knobs, invariants ...invariant) *sim {
	r := rand.New(rand.NewPCG(seed, 42))
	s := &sim{knobs: k, seed: seed, r: r, trace: trace, now: 1_000_000_000, retries: map[string]int{}, talk: &transcript.Builder{}, saw: map[string]int{},
		world: world{files: map[string]string{"a": "0", "b": "0"}, ran: map[string]int{}, shims: map[string]*shim{}, remote: map[string]bool{}, kids: map[string]*kid{}, past: map[string]map[string]string{}}}
	if s.ticks == 0 {
		s.ticks = 120
	}
	switch {
	case s.kill == 0:
		s.kill = r.Float64() * 0.08
	case s.kill < 0:
		s.kill = 0
	}
	for _, i := range invariants {
		s.checks = append(s.checks, i.begin(s))
	}
	return s
}

func (s *sim) logf(format string, a ...any) {
	if s.trace {
		fmt.Printf(format+"\n", a...)
	}
}

func js(v any) string { b, _ := json.Marshal(v); return string(b) }

func (s *sim) input(by event.Actor, fence uint64, b core.Body) core.Input {
	in := core.Input{Now: s.now, By: by, Fence: fence, StoreFence: s.fence, Body: b}
	for i := range in.Seed {
		in.Seed[i] = byte(s.r.UintN(256))
	}
	return in
}

// decide is Step, held against every invariant that looks at a step.
func (s *sim) decide(st core.State, in core.Input) (core.Ready, error) {
	r, err := core.Step(st, in)
	for _, c := range s.checks {
		if c.step == nil || err != nil {
			continue
		}
		if err := c.step(st, in, r); err != nil {
			return r, fmt.Errorf("step %T by %s under fence %d: %w", in.Body, in.By, in.Fence, err)
		}
	}
	return r, err
}

var errFenced, errConflict = errors.New("fenced"), errors.New("conflict")

// append is the ledger's transaction.
func (s *sim) append(head, fence uint64, in core.Input, r core.Ready) error {
	if len(s.events) > 0 && fence != s.fence {
		return errFenced
	}
	if head != uint64(len(s.events)) {
		return errConflict
	}
	for _, e := range r.Events {
		if e.Seq != uint64(len(s.events))+1 {
			return fmt.Errorf("event %d has seq %d", len(s.events)+1, e.Seq)
		}
		if s.trace {
			s.logf("  %4d %-24s %-5s f%d %s %.160s", e.Seq, e.Type, e.Op, e.Fence, e.Actor, js(e.Payload))
		}
		if err := s.take(e, in); err != nil {
			return fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
		}
	}
	if n := len(r.Events); n > 0 {
		s.fence = r.Events[n-1].Fence
	}
	return nil
}

// take folds one event and holds it against every invariant.
func (s *sim) take(e event.Event, in core.Input) error {
	prev := s.committed
	st := core.Apply(prev, e)
	if st.Refuse != "" {
		return fmt.Errorf("illegal in the ledger: %s", st.Refuse)
	}
	for _, c := range s.checks {
		if c.event == nil {
			continue
		}
		if err := c.event(prev, st, e, in); err != nil {
			return err
		}
	}
	s.saw[string(e.Type)]++
	if p, ok := e.Payload.(event.OperationFinished); ok {
		s.saw["outcome "+string(p.Outcome)]++
	}
	s.events, s.committed = append(s.events, e), st
	s.talk.Add(e)
	return nil
}

// run plays one goal to its end and judges the end.
func (s *sim) run() error {
	if err := s.start(); err != nil {
		return err
	}
	for i := range s.ticks {
		if s.cancelAt > 0 && i >= s.cancelAt && (s.committed.AnyStarted() || i == s.ticks-1) {
			s.cancelAt = 0
			if err := s.says(core.Cancel{Reason: "enough"}); err != nil {
				return err
			}
		}
		if s.outageMS > 0 && i == s.ticks/3 {
			s.downUntil = s.now.AddMS(s.outageMS)
		}
		if err := s.tick(); err != nil {
			return err
		}
	}
	for s.now < s.downUntil {
		s.now = s.now.AddMS(20_000)
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
		StepsPerTurn: int64(3 + s.r.IntN(20)), RetryBaseMS: 1000, RetryWindowMS: 100_000, Prose: s.r.IntN(2) == 0}
	if s.outageMS > 0 {
		set.RetryWindowMS = 2 * s.outageMS
	}
	if s.approve != "" {
		set.Approve = s.approve
	}
	if s.plan != "" {
		set.Plan = s.plan
	}
	spec := event.GoalSpec{Text: "simulate"}
	if s.r.IntN(3) == 0 {
		spec.Limits.Amount = event.Amount{Tokens: int64(20_000 + s.r.IntN(100_000)), Steps: int64(3 + s.r.IntN(40)), Turns: int64(2 + s.r.IntN(30)),
			ToolMS: int64(1_000 + s.r.IntN(20_000)), CostMicros: int64(20_000 + s.r.IntN(200_000))}
		if s.r.IntN(4) == 0 {
			spec.Limits.Deadline = s.now.AddMS(int64(s.r.IntN(60_000)))
		}
	}
	if s.limits != nil {
		spec.Limits = *s.limits
	}
	if s.criteria == "" {
		s.criteria = []string{"test", "test", "test", "test", "manual", "both", "none", "accept", "intact", "bug", "file", "review", "run", "all"}[s.r.IntN(14)]
	}
	if s.criteria == "test" || s.criteria == "both" {
		spec.Acceptance = append(spec.Acceptance, event.Criterion{ID: "tests", Kind: event.CriterionTest, Command: testCommand})
	}
	if s.criteria == "manual" || s.criteria == "both" {
		spec.Acceptance = append(spec.Acceptance, event.Criterion{ID: "looks", Kind: event.CriterionManual, Text: "Does it look right?"})
	}
	spec.Acceptance = append(spec.Acceptance, checked(s.criteria)...)
	set.AcceptUnverified = s.criteria == "accept"
	in := s.input(event.ActorUser, 0, core.Start{Goal: "g", Spec: spec, Settings: set, Repo: "/w"})
	r, err := s.decide(core.State{}, in)
	if err != nil {
		return err
	}
	return s.append(0, 0, in, r)
}

// tick does one random thing.
func (s *sim) tick() error {
	s.now = s.now.AddMS(int64(s.r.IntN(500)))
	p := s.r.Float64()
	switch {
	case s.worker != nil && p < s.kill:
		s.crash(s.r.IntN(2) == 0 || s.knobs.zombies > 0)
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
	case p < 0.25+float64(s.knobs.zombies)/100 && len(s.zombies) > 0:
		return s.progress(s.zombies[s.r.IntN(len(s.zombies))])
	case p < 0.27:
		s.now = s.now.AddMS(60_000)
	case p < 0.32:
		return s.kidsGoOn(false)
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
	st := s.committed
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
	if s.r.IntN(40) == 0 && s.kill > 0 {
		s.worker = nil
		return s.step(w, core.Blocked{Fault: *blocked()})
	}
	return s.step(w, core.Claimed{Worker: w.id, Takeover: takeover})
}

// step is the driver: Step, append, start what is wanted.
func (s *sim) step(w *worker, b core.Body) error {
	for {
		in := s.input(event.Worker(w.id), w.fence, b)
		r, err := s.decide(w.state, in)
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
			err = s.append(w.state.Head, expect, in, r)
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
		}
		if s.r.Float64() < s.kill/2 && w == s.worker {
			s.crash(false) // after the commit, before any effect
			return nil
		}
		s.want(w, r.Effects)
		return nil
	}
}

func (s *sim) want(w *worker, es []core.Effect) {
	want := map[string]core.Effect{}
	for _, e := range es {
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
		return s.idle(w)
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

// idle lets go, like the driver does when nothing is in flight; a zombie too.
func (s *sim) idle(w *worker) error {
	s.logf("%s has nothing to do", w.id)
	if w == s.worker {
		s.worker = nil
	}
	var others []*worker
	for _, z := range s.zombies {
		if z != w {
			others = append(others, z)
		}
	}
	s.zombies = others
	return s.step(w, core.Released{})
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
		if err := s.kidsGoOn(true); err != nil {
			return err
		}
		st := s.committed
		if s.worker == nil && s.fence == st.Fence && !st.Runnable(s.now) && (st.Wait == nil || st.Wait.Reason != event.WaitRetry) {
			for _, c := range s.checks {
				if c.end == nil {
					continue
				}
				if err := c.end(st); err != nil {
					return fmt.Errorf("at rest: %w", err)
				}
			}
			return nil
		}
		if st.Budget.Used.Steps > 60 && !st.Status.Final() {
			if err := s.says(core.Cancel{}); err != nil {
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
	return fmt.Errorf("the goal does not come to rest: %s", js(s.committed))
}
