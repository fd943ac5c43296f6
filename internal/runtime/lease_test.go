package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/memory"
	"belay/internal/model"
	"belay/internal/model/script"
	"belay/internal/moment"
	"belay/internal/sandbox/none"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
	"belay/internal/workspace/local"
)

const lease = time.Minute

// clock is the time of the store and of the workers, which only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Duration
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *clock) uptime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) store() time.Time { return epoch.Add(c.uptime()) }

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

// slow is a store whose commits and renewals take as long as a test wants.
type slow struct {
	ledger.Ledger
	committed func(a ledger.Append)
	renewing  func() error
	following func() iter.Seq2[ledger.Item, error] // in place of the store's, if it is not nil

	mu    sync.Mutex
	calls []string
}

func (s *slow) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *slow) Append(ctx context.Context, a ledger.Append) ([]event.Event, error) {
	es, err := s.Ledger.Append(ctx, a)
	if err == nil {
		for _, e := range a.Events {
			s.note("%s", e.Type)
		}
		if s.committed != nil {
			s.committed(a)
		}
	}
	return es, err
}

func (s *slow) Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	if s.following != nil {
		if it := s.following(); it != nil {
			return it
		}
	}
	return s.Ledger.Follow(ctx, goal, after)
}

func (s *slow) Renew(ctx context.Context, t ledger.Ticket, d time.Duration) (ledger.Ticket, error) {
	if s.renewing != nil {
		if err := s.renewing(); err != nil {
			return t, err
		}
	}
	t, err := s.Ledger.Renew(ctx, t, d)
	s.note("renewed: %v", err == nil)
	return t, err
}

// bell is a tool with an effect in the world that can be counted. It rings
// when it is let, and whoever asks later can tell whether it rang.
type bell struct {
	mu   sync.Mutex
	rung []string
	ring func(ctx context.Context) // what happens meanwhile
	note func(string)
}

func (*bell) Spec() tool.Spec {
	return tool.Spec{Name: "bell", Description: "rings", Schema: json.RawMessage(`{"type":"object"}`), Effect: event.Keyed}
}

func (*bell) Describe(json.RawMessage) (json.RawMessage, event.Access, error) {
	return json.RawMessage(`{}`), event.Access{Remote: "bell"}, nil
}

func (*bell) Prepare(_ context.Context, _ tool.Env, c tool.Call) (tool.Prepared, error) {
	return tool.Prepared{Preview: "ring", Key: c.Op}, nil
}

func (b *bell) Run(ctx context.Context, _ tool.Env, c tool.Call) (event.Outcome, event.Result, error) {
	b.mu.Lock()
	b.rung = append(b.rung, c.Key())
	b.mu.Unlock()
	b.note("rang")
	if b.ring != nil {
		b.ring(ctx)
	}
	return event.Succeeded, event.Result{Output: event.Text{Head: "it rang"}}, nil
}

func (b *bell) Probe(_ context.Context, _ tool.Env, c tool.Call) (tool.Finding, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ring != nil {
		return tool.Finding{What: tool.FoundUnknown, Detail: "it cannot be told whether it rang"}, nil
	}
	if slices.Contains(b.rung, c.Key()) {
		return tool.Finding{What: tool.FoundFinished, Outcome: event.Succeeded, Result: event.Result{Output: event.Text{Head: "it rang"}}}, nil
	}
	return tool.Finding{What: tool.FoundNever}, nil
}

type withBell struct {
	effect.Tools
	bell *bell
}

func (w withBell) All() []tool.Tool { return append(w.Tools.All(), w.bell) }

func (w withBell) Lookup(name string) (tool.Tool, error) {
	if name == "bell" {
		return w.bell, nil
	}
	return w.Tools.Lookup(name)
}

// counted counts the requests that are really sent.
type counted struct {
	model.Model
	note func(string)
}

func (c counted) Send(ctx context.Context, r model.Request, d func(model.Delta)) (model.Response, error) {
	c.note("sent " + r.ID)
	return c.Model.Send(ctx, r, d)
}

// stage is a goal whose model rings the bell once and then claims to be done.
type stage struct {
	t     *testing.T
	clock *clock
	store *slow
	bell  *bell
	dir   string
	model model.Model
	lease time.Duration
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, clock: &clock{}, bell: &bell{}, dir: t.TempDir(), lease: lease}
	s.store = &slow{Ledger: memory.New(memory.Options{Clock: s.clock.store})}
	s.bell.note = func(what string) { s.store.note("%s", what) }
	sc, err := script.Parse([]byte("steps:\n  - {calls: [{tool: bell, args: {}}]}\n  - {text: done}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.model = counted{script.New(sc, "script"), s.bell.note}
	r, err := core.Step(core.State{}, core.Input{Now: moment.Of(s.clock.store()), By: event.ActorUser, Body: core.Start{Goal: "g", Repo: s.dir,
		Spec: event.GoalSpec{Text: "ring"}, Settings: event.Settings{Model: "script:x", Plan: event.PlanNever, Approve: event.ApproveAuto, AcceptUnverified: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Ledger.Append(context.Background(), ledger.Append{Goal: "g", Events: r.Events, Row: core.Row(r.State)}); err != nil {
		t.Fatal(err)
	}
	return s
}

// drive lets one worker advance the goal until it lets go of it.
func (s *stage) drive(name string, ticket *ledger.Ticket) error {
	s.t.Helper()
	private := s.t.TempDir()
	ws, err := local.Open(context.Background(), s.dir, local.Options{State: filepath.Join(private, "workspaces")})
	if err != nil {
		s.t.Fatal(err)
	}
	defer ws.Close()
	box, err := none.New(private)
	if err != nil {
		s.t.Fatal(err)
	}
	defer box.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Drive(ctx, Config{Ledger: s.store, Worker: name, Lease: s.lease, Uptime: s.clock.uptime, Ticket: ticket, Asked: s.clock.uptime(),
		Goal: &effect.Goal{ID: "g", Ledger: s.store, Workspace: ws, Sandbox: box, Model: s.model,
			NewTools: func(c effect.ToolConfig) effect.Tools {
				return withBell{builtin.New(builtin.Config{Roots: c.Roots}), s.bell}
			}}})
}

// once runs f after the first commit of an event of a type.
func (s *stage) once(typ event.Type, f func()) {
	done := false
	s.store.committed = func(a ledger.Append) {
		if !done && slices.ContainsFunc(a.Events, func(e event.Event) bool { return e.Type == typ }) {
			done = true
			f()
		}
	}
}

// takeOver gives the goal to another worker.
func (s *stage) takeOver() *ledger.Ticket {
	s.t.Helper()
	t, err := s.store.Claim(context.Background(), ledger.Claim{Goal: "g", Owner: "second", Lease: lease})
	if err != nil || !t.Takeover {
		s.t.Errorf("the other worker cannot take over: %+v %v", t, err)
	}
	return &t
}

func (s *stage) state() core.State {
	s.t.Helper()
	st, err := Load(context.Background(), s.store, "g")
	if err != nil || st.Refuse != "" {
		s.t.Fatalf("%v %s", err, st.Refuse)
	}
	return st
}

// after is what was called after something, up to something else.
func (s *stage) order(want ...string) {
	s.t.Helper()
	i := 0
	for _, c := range s.store.calls {
		if i < len(want) && c == want[i] {
			i++
		}
	}
	if i < len(want) {
		s.t.Errorf("%q does not come in its place in\n%s", want[i], strings.Join(s.store.calls, "\n"))
	}
}

func (s *stage) completed(rings int) {
	s.t.Helper()
	if st := s.state(); st.Status != lifecycle.Completed || len(st.InDoubt) != 0 {
		s.t.Errorf("the goal is %s, in doubt: %+v", st.Status, st.InDoubt)
	}
	if len(s.bell.rung) != rings {
		s.t.Errorf("it rang %q", s.bell.rung)
	}
}

// TestALeaseThatMayHaveEndedIsRenewedBeforeAnEffectBegins: a commit took longer
// than the lease, and nobody noticed: the worker asks before it acts.
func TestALeaseThatMayHaveEndedIsRenewedBeforeAnEffectBegins(t *testing.T) {
	t.Parallel()
	for _, typ := range []event.Type{event.TypeOperationStarted, event.TypeModelRequested} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.once(typ, func() { s.clock.pass(2 * lease) })
			if err := s.drive("first", nil); err != nil {
				t.Fatal(err)
			}
			if typ == event.TypeOperationStarted {
				s.order("operation_started", "renewed: true", "rang", "operation_finished")
			} else {
				s.order("model_requested", "renewed: true", "sent g.r1", "model_responded")
			}
			s.completed(1)
		})
	}
}

// TestTheTrustIsMeasuredFromBeforeTheClaim: a claim whose answer took longer
// than the lease gives no right to begin anything.
func TestTheTrustIsMeasuredFromBeforeTheClaim(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ticket, err := s.store.Claim(context.Background(), ledger.Claim{Goal: "g", Owner: "first", Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	asked := s.clock.uptime()
	s.clock.pass(lease)
	d := &driver{Config: Config{Lease: lease, Uptime: s.clock.uptime}, ticket: ticket}
	d.trustSince(asked)
	if d.trusted() {
		t.Error("it is trusted although it may have ended")
	}
	d.trustSince(s.clock.uptime())
	s.clock.pass(lease - lease/8 - 1)
	if !d.trusted() {
		t.Error("it is not trusted although it was just renewed")
	}
	s.clock.pass(1)
	if d.trusted() {
		t.Error("it is trusted up to its very end")
	}
}

// TestAWorkerThatWasReplacedBeginsNothing: while its commit took too long,
// another worker was given the goal. The effect happens once, by the other.
func TestAWorkerThatWasReplacedBeginsNothing(t *testing.T) {
	t.Parallel()
	for _, typ := range []event.Type{event.TypeOperationStarted, event.TypeModelRequested} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			var ticket *ledger.Ticket
			s.once(typ, func() {
				s.clock.pass(2 * lease)
				ticket = s.takeOver()
			})
			if err := s.drive("first", nil); !errors.Is(err, ErrSteppedDown) {
				t.Fatalf("the first ends with %v", err)
			}
			if len(s.bell.rung) != 0 {
				t.Fatalf("it rang %q under a lease that had ended", s.bell.rung)
			}
			if n := slices.Index(s.store.calls, "sent g.r1"); typ == event.TypeModelRequested && n >= 0 {
				t.Fatal("the request was sent under a lease that had ended")
			}
			if err := s.drive("second", ticket); err != nil {
				t.Fatal(err)
			}
			s.completed(1)
		})
	}
}

// TestAStoreThatDoesNotAnswerEndsTheWorker: it cannot know whether it holds
// the goal, so it begins nothing and names the storage.
func TestAStoreThatDoesNotAnswerEndsTheWorker(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gone := errors.New("the disk is gone")
	s.once(event.TypeOperationStarted, func() {
		s.clock.pass(2 * lease)
		s.store.renewing = func() error { return gone }
	})
	if err := s.drive("first", nil); !errors.Is(err, gone) || !strings.Contains(err.Error(), "lease cannot be renewed") {
		t.Fatalf("it ends with %v", err)
	}
	if len(s.bell.rung) != 0 {
		t.Errorf("it rang %q", s.bell.rung)
	}
	s.store.renewing = nil
	if err := s.drive("second", nil); err != nil {
		t.Fatal(err)
	}
	s.completed(1)
}

// TestWhatAReplacedWorkerHadBegunIsRecordedLate: its operation runs while
// another worker takes the goal over and can only call it unknown. When it ends,
// what it did is on record and settles the doubt; it advances nothing, and
// nothing runs twice.
func TestWhatAReplacedWorkerHadBegunIsRecordedLate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rings, goOn := make(chan struct{}), make(chan struct{})
	s.bell.ring = func(context.Context) { close(rings); <-goOn }
	first := make(chan error, 1)
	go func() { first <- s.drive("first", nil) }()
	<-rings
	s.clock.pass(2 * lease)
	if err := s.drive("second", s.takeOver()); err != nil {
		t.Fatal(err)
	}
	st := s.state()
	if len(st.InDoubt) != 1 || st.Status.Final() {
		t.Fatalf("after the take-over: %s, in doubt %+v", st.Status, st.InDoubt)
	}
	close(goOn)
	if err := <-first; err != nil && !errors.Is(err, ErrSteppedDown) {
		t.Fatal(err)
	}
	late := s.state()
	if late.Status != st.Status || len(late.InDoubt) != 0 || late.Turn != nil {
		t.Errorf("the late result made it %s, in doubt %+v, turn %+v", late.Status, late.InDoubt, late.Turn)
	}
	if err := s.drive("third", nil); err != nil {
		t.Fatal(err)
	}
	if len(s.bell.rung) != 1 {
		t.Errorf("it rang %q", s.bell.rung)
	}
}

// thinking is a model that answers only when it is given up.
type thinking struct {
	model.Model
	asked chan struct{}
}

func (m thinking) Send(ctx context.Context, _ model.Request, _ func(model.Delta)) (model.Response, error) {
	close(m.asked)
	<-ctx.Done()
	return model.Response{}, ctx.Err()
}

// tell records what a person says, past the driver.
func (s *stage) tell(b core.Body) {
	s.t.Helper()
	st := s.state()
	row, err := s.store.Goal(context.Background(), "g")
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := core.Step(st, core.Input{Now: moment.Of(s.clock.store()), By: event.ActorUser, StoreFence: row.Fence, Body: b})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.store.Ledger.Append(context.Background(), ledger.Append{Goal: "g", Head: st.Head, Fence: row.Fence, Events: r.Events, Row: core.Row(r.State)}); err != nil {
		s.t.Fatal(err)
	}
}

// TestWhatPeopleSayIsHeardWhileTheModelAnswers: by whichever way the driver
// comes to read it, it acts on it, without waiting for the answer.
func TestWhatPeopleSayIsHeardWhileTheModelAnswers(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(s *stage){
		"followed": func(*stage) {},
		// The renewal reads it first, and the follower comes too late with it or
		// not at all.
		"renewed": func(s *stage) {
			s.lease = 30 * time.Millisecond
			s.store.following = func() iter.Seq2[ledger.Item, error] {
				return func(func(ledger.Item, error) bool) {}
			}
		},
		"followed after the store failed": func(s *stage) {
			failed := false
			s.store.following = func() iter.Seq2[ledger.Item, error] {
				if failed {
					return nil
				}
				failed = true
				return func(yield func(ledger.Item, error) bool) { yield(ledger.Item{}, errors.New("no")) }
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			set(s)
			asked := make(chan struct{})
			s.model = thinking{s.model, asked}
			ended := make(chan error, 1)
			go func() { ended <- s.drive("first", nil) }()
			<-asked
			s.tell(core.Cancel{})
			if err := <-ended; err != nil && !errors.Is(err, ErrSteppedDown) {
				t.Fatalf("the cancel was not heard: %v", err)
			}
			if st := s.state(); st.Status != lifecycle.Cancelled || st.Turn != nil || st.Request != nil {
				t.Errorf("it is %s, turn %+v, request %+v", st.Status, st.Turn, st.Request)
			}
		})
	}
}

// TestAnEffectThatIsWantedAgainWaitsForItsOwnEnd: one that was given up may
// take a while to end; meanwhile it is not begun a second time, and what it
// brings back late is not taken for the second one's.
func TestAnEffectThatIsWantedAgainWaitsForItsOwnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &driver{Config: Config{Goal: &effect.Goal{ID: "g"}}, flight: map[string]*flight{}, leaving: map[string]<-chan struct{}{}, results: make(chan result)}
		e := core.Wake{At: moment.Of(time.Now())}
		first := &flight{effect: e, cancel: func(error) {}, ended: make(chan struct{})}
		d.flight[e.Key()] = first
		d.want(t.Context(), nil)
		d.want(t.Context(), []core.Effect{e})
		second := d.flight[e.Key()]
		if second == nil || second == first {
			t.Fatal("it was not wanted again")
		}
		if err := d.landed(t.Context(), result{key: e.Key(), of: first, body: core.Poke{}}); err != nil || d.flight[e.Key()] != second {
			t.Errorf("a late result was taken for the second one's: %v", err)
		}
		synctest.Wait()
		select {
		case r := <-d.results:
			t.Fatalf("it was begun while the first had not ended: %+v", r)
		default:
		}
		close(first.ended)
		if r := <-d.results; r.of != second {
			t.Errorf("the result is not the second one's: %+v", r)
		}
		d.running.Wait()
	})
}
