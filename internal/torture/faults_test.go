package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/effect"
	"belay/internal/event"
	"belay/internal/ledger/memory"
	"belay/internal/model"
	"belay/internal/model/script"
	"belay/internal/sandbox"
	"belay/internal/sandbox/environ"
	"belay/internal/sandbox/none"
	"belay/internal/service"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
	"belay/internal/workspace"
	"belay/internal/workspace/local"
)

// inside is a world whose runtime lives in this process, with the real
// workspace, shim and tools, and a ledger in memory that can be made to fail.
type inside struct {
	*world
	t       *testing.T
	ledger  *memory.Ledger
	service *service.Service
	// failAt is the number of the append that fails.
	failAt atomic.Int64
	failed atomic.Bool
	// unkept is the number of the artifact that is not kept.
	unkept atomic.Int64
	// late are side effects that began after the failure.
	late    atomic.Int64
	workers atomic.Int64
}

var errFull = errors.New("no space left on the device of the test")

func newInside(t *testing.T, clock func() time.Time) *inside {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := lay(dir); err != nil {
		t.Fatal(err)
	}
	in := &inside{world: &world{dir: dir, acked: map[uint64]string{}, log: func(string, ...any) {}}, t: t}
	in.ledger = memory.New(memory.Options{Clock: clock, FailAppend: func(n int) error {
		if int64(n) == in.failAt.Load() {
			in.failed.Store(true)
			return errFull
		}
		return nil
	}})
	text, err := os.ReadFile(in.path("model.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sc, err := script.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	box, err := none.New(in.path("state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	var rules struct{ Rules []event.Rule }
	if err := yaml.Unmarshal([]byte(policyRules), &rules); err != nil {
		t.Fatal(err)
	}
	in.service = service.New(service.Config{
		Ledger: unkeeping{in.ledger, in},
		OpenWorkspace: func(ctx context.Context, root, goal string) (workspace.Workspace, error) {
			return local.Open(ctx, root, local.Options{State: in.path("state/workspaces"), Lock: true, Goal: goal})
		},
		OpenSandbox: func(context.Context, string) (sandbox.Sandbox, error) { return box, nil },
		OpenModel:   func(context.Context, string) (model.Model, error) { return script.New(sc, "script"), nil },
		NewTools: func(c effect.ToolConfig) effect.Tools {
			return watched{builtin.New(builtin.Config{Roots: c.Roots, TestCommand: c.Test, Git: c.Git, Scratch: in.path("state/push")}), in}
		},
		BaseEnv: environ.Environment(os.Environ()),
		Rules:   func(string) ([]event.Rule, []string, error) { return rules.Rules, nil, nil },
		Worker:  func() string { return fmt.Sprintf("w%d", in.workers.Add(1)) },
		Dead:    func(string) bool { return true },
		Lease:   500 * time.Millisecond,
	})
	return in
}

// unkeeping is a ledger that does not take one of the artifacts.
type unkeeping struct {
	*memory.Ledger
	in *inside
}

func (u unkeeping) PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error) {
	if u.in.unkept.Add(-1) == 0 {
		_, _ = io.Copy(io.Discard, r) // it was all there to be had
		u.in.failed.Store(true)
		return event.Ref{}, errFull
	}
	return u.Ledger.PutArtifact(ctx, r, media)
}

// watched are tools that notice when a side effect begins after the failure.
type watched struct {
	effect.Tools
	in *inside
}

func (w watched) Lookup(name string) (tool.Tool, error) {
	t, err := w.Tools.Lookup(name)
	// Whatever has a side effect can be probed.
	if p, ok := t.(tool.Prober); ok {
		return watchedProber{p, w.in}, err
	}
	return t, err
}

type watchedProber struct {
	tool.Prober
	in *inside
}

func (w watchedProber) Run(ctx context.Context, e tool.Env, c tool.Call) (event.Outcome, event.Result, error) {
	if w.in.failed.Load() {
		w.in.late.Add(1)
	}
	return w.Prober.Run(ctx, e, c)
}

func (in *inside) start() error {
	s, err := in.service.Start(context.Background(), service.StartRequest{Repo: in.path("repo"),
		Spec:     event.GoalSpec{Text: "turn one into two", Acceptance: []event.Criterion{{ID: "test-1", Kind: event.CriterionTest, Command: "sh check.sh"}}},
		Settings: event.Settings{Model: "script:x", Plan: event.PlanAlways, Approve: event.ApproveAsk, Sandbox: "none"}})
	in.goal = s.Goal
	return err
}

// goOn drives the goal, answering what is asked, until it completes or
// something fails.
func (in *inside) goOn() (core.Snapshot, error) {
	ctx := context.Background()
	for range 20 {
		s, err := in.service.Attend(ctx, in.goal, service.AttendOptions{})
		if err != nil || s.Status.Final() || len(s.PendingApprovals) == 0 {
			return s, err
		}
		if err := in.service.Approve(ctx, in.goal, service.Answer{}); err != nil {
			return s, err
		}
	}
	return core.Snapshot{}, errStuck
}

// completed drives the goal to its end and checks that everything happened
// once.
func (in *inside) completed() []event.Event {
	in.t.Helper()
	s, err := in.goOn()
	if err != nil || s.Status != lifecycle.Completed {
		in.t.Fatalf("the goal is %s (%s %s), %v", s.Status, s.WaitDetail, s.PauseDetail, err)
	}
	for _, e := range effects {
		if n := e.seen(in.world); n != 1 {
			in.t.Errorf("the effect %q happened %d times", e.name, n)
		}
	}
	es, err := in.ledger.Read(context.Background(), in.goal, 0, 0)
	if err != nil {
		in.t.Fatal(err)
	}
	a, err := in.ledger.Audit(context.Background(), in.goal)
	if err != nil || a.Broken != nil {
		in.t.Errorf("audit: %+v, %v", a.Broken, err)
	}
	return es
}

// Field A3: whichever append fails, nothing with a side effect begins after it,
// the error names the ledger's own, and the goal goes on from there as if
// nothing had been. (A read that was on its way may still read.)
func TestNoSideEffectBeginsAfterAnAppendThatFailed(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 2, 3, 5, 8, 12, 16, 20, 25, 31, 37, 44} {
		t.Run(fmt.Sprint("append ", n), func(t *testing.T) {
			t.Parallel()
			in := newInside(t, nil)
			in.failAt.Store(n)
			err := in.start()
			if err == nil {
				_, err = in.goOn()
			}
			if !in.failed.Load() || !errors.Is(err, errFull) {
				t.Errorf("it failed: %v, and what came out is %v", in.failed.Load(), err)
			}
			if k := in.late.Load(); k > 0 {
				t.Errorf("%d operations with side effects began after it", k)
			}
			in.failed.Store(false)
			if in.goal == "" {
				if err := in.start(); err != nil {
					t.Fatal(err)
				}
			}
			in.completed()
		})
	}
}

// The ledger does not take what a command printed. The command has not failed by
// that: the worker stops with the storage named, and the next one finds how the
// command ended, without running it again.
func TestAnArtifactThatIsNotKeptIsNoFailureOfTheOperation(t *testing.T) {
	t.Parallel()
	for n := int64(1); n <= 5; n++ {
		t.Run(fmt.Sprint("artifact ", n), func(t *testing.T) {
			t.Parallel()
			in := newInside(t, nil)
			in.unkept.Store(n)
			if err := in.start(); err != nil {
				t.Fatal(err)
			}
			if _, err := in.goOn(); !errors.Is(err, errFull) {
				t.Errorf("the worker ended with %v", err)
			}
			if k := in.late.Load(); k > 0 {
				t.Errorf("%d operations with side effects began after it", k)
			}
			in.failed.Store(false)
			for _, e := range in.completed() {
				if p, ok := e.Payload.(event.OperationFinished); ok && p.Tool == "run_command" && (p.Outcome != event.Succeeded || p.Attempt != 1) {
					t.Errorf("event %d: %s ended as %s: %v", e.Seq, e.Op, p.Outcome, p.Result.Fault)
				}
			}
		})
	}
}

// Order is by seq, a lease is trusted by the worker's monotonic clock, and so
// a store whose clock jumps by hours costs nothing: no event out of order, no
// time that runs backwards in the ledger, no second worker, no second effect.
func TestAClockThatJumpsChangesNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	in := newInside(t, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(time.Duration(rng.Int64N(int64(4*time.Hour))) - 2*time.Hour)
	})
	if err := in.start(); err != nil {
		t.Fatal(err)
	}
	es := in.completed()
	fence := uint64(0)
	for i, e := range es {
		if e.Seq != uint64(i+1) || e.Fence < fence || i > 0 && e.Time < es[i-1].Time {
			t.Errorf("event %d: seq %d, fence %d after %d, time %s", i+1, e.Seq, e.Fence, fence, e.Time)
		}
		fence = e.Fence
		if p, ok := e.Payload.(event.TurnStarted); ok && p.Takeover {
			t.Errorf("event %d: a take-over, with one worker", e.Seq)
		}
	}
}
