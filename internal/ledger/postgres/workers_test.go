package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
	"belay/internal/ledger/postgres/pgtest"
	"belay/internal/moment"
)

// holding is what a goal's row says of its holder.
type holding struct {
	owner string
	until moment.Time
	fence uint64
}

// action is what a worker asked of one goal, and answer what came back.
type action struct {
	goal, kind, owner string
	lease             time.Duration
	fence             uint64
}

type answer struct {
	ticket ledger.Ticket
	ok     bool
}

// holdings is the sequential model of one goal: any history of the store must
// be one that this model could have had, with calls in an order that respects
// their real times.
var holdings = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byGoal := map[string][]porcupine.Operation{}
		for _, op := range history {
			g := op.Input.(action).goal
			byGoal[g] = append(byGoal[g], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range byGoal {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return holding{fence: 1} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(holding), input.(action), output.(answer)
		ours := s.owner == in.owner && s.fence == in.fence
		switch in.kind {
		case "claim":
			t := out.ticket
			at := t.Until - moment.Time(in.lease.Microseconds())
			switch {
			case s.owner == "" && (t.Takeover || t.Fence != s.fence):
				return false, s
			case s.owner != "" && (s.until > at || !t.Takeover || t.Previous != s.owner || t.Fence != s.fence+1):
				return false, s // given away while its lease lived, or not as a take-over
			}
			return true, holding{owner: in.owner, until: t.Until, fence: t.Fence}
		case "renew":
			if out.ok {
				s.until = out.ticket.Until
			}
			return out.ok == ours, s
		case "append":
			return out.ok == (s.fence == in.fence), s
		case "release":
			if s.owner == in.owner {
				s.owner, s.until = "", 0
			}
			return true, s
		}
		return false, s
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

// TestTheModelOfHoldingsRefusesADoubleClaim keeps the check itself honest.
func TestTheModelOfHoldingsRefusesADoubleClaim(t *testing.T) {
	t.Parallel()
	claim := func(owner string, from int64, t ledger.Ticket) porcupine.Operation {
		return porcupine.Operation{Input: action{goal: "g", kind: "claim", owner: owner, lease: time.Second}, Output: answer{ticket: t, ok: true}, Call: from, Return: from + 1}
	}
	first := claim("a", 1, ledger.Ticket{Fence: 1, Until: 1_000_010})
	for want, second := range map[bool]porcupine.Operation{
		false: claim("b", 5, ledger.Ticket{Fence: 2, Until: 1_500_000, Takeover: true, Previous: "a"}),
		true:  claim("b", 5, ledger.Ticket{Fence: 2, Until: 2_000_010, Takeover: true, Previous: "a"}),
	} {
		if got := porcupine.CheckOperations(holdings, []porcupine.Operation{first, second}); got != want {
			t.Errorf("linearizable %v, want %v: %+v", got, want, second)
		}
	}
	if porcupine.CheckOperations(holdings, []porcupine.Operation{first, claim("b", 5, ledger.Ticket{Fence: 1, Until: 1_000_020})}) {
		t.Error("one fence for two holders passes")
	}
}

// fleet is the workers of one test and what they did.
type fleet struct {
	t       testing.TB
	goals   int
	steps   uint64
	begun   time.Time
	mu      sync.Mutex
	history []porcupine.Operation
	done    atomic.Int64
	deaths  atomic.Int64
	claims  []time.Duration
}

func (f *fleet) record(id int, call time.Time, in action, out answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.history = append(f.history, porcupine.Operation{ClientId: id, Input: in, Output: out, Call: int64(call.Sub(f.begun)), Return: int64(time.Since(f.begun))})
	if in.kind == "claim" {
		f.claims = append(f.claims, time.Since(call))
	}
}

// work claims goals and advances each by some steps, until all are done. Now
// and then it stops in the middle without a word, as a worker does that dies,
// and comes back as a stale one.
func (f *fleet) work(id int, l *Ledger) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(uint64(id), 7))
	for n := 0; f.done.Load() < int64(f.goals); n++ {
		owner, lease := fmt.Sprintf("w%d/%d", id, n), 30*time.Second
		dies := r.IntN(12) == 0
		if dies {
			lease = 40 * time.Millisecond
		}
		start := time.Now()
		tk, err := l.Claim(ctx, ledger.Claim{Owner: owner, Lease: lease})
		if errors.Is(err, ledger.ErrNothing) {
			time.Sleep(5 * time.Millisecond) // as a worker polls
			continue
		}
		if err != nil {
			f.t.Errorf("claim: %v", err)
			return
		}
		f.record(id, start, action{goal: tk.Goal, kind: "claim", owner: owner, lease: lease}, answer{tk, true})
		if !f.advance(ctx, id, l, tk, dies) {
			continue
		}
		start = time.Now()
		if err := l.Release(ctx, tk); err != nil {
			f.t.Errorf("release: %v", err)
		}
		f.record(id, start, action{goal: tk.Goal, kind: "release", owner: owner}, answer{ok: true})
	}
}

// advance appends the goal's missing steps; false when the worker died or was
// fenced off.
func (f *fleet) advance(ctx context.Context, id int, l *Ledger, tk ledger.Ticket, dies bool) bool {
	row, err := l.Goal(ctx, tk.Goal)
	if err != nil {
		f.t.Error(err)
		return false
	}
	for head := row.Head; head <= f.steps; head++ {
		if dies {
			// Its lease runs out while it does something else; what it then
			// still does depends on whether it was taken over.
			f.deaths.Add(1)
			time.Sleep(50 * time.Millisecond)
		}
		next := ledgertest.RowOf(tk.Goal)
		next.Fence, next.Runnable = tk.Fence, head < f.steps
		e := ledgertest.Message(fmt.Sprintf("step %d", head))
		e.Fence, e.Actor = tk.Fence, event.Worker(tk.Owner)
		start := time.Now()
		_, err := l.Append(ctx, ledger.Append{Goal: tk.Goal, Head: head, Fence: tk.Fence, Events: []event.Event{e}, Row: next, Durable: head%2 == 0})
		if err != nil && !errors.Is(err, ledger.ErrFenced) {
			f.t.Errorf("append to %s at %d: %v", tk.Goal, head, err)
			return false
		}
		f.record(id, start, action{goal: tk.Goal, kind: "append", owner: tk.Owner, fence: tk.Fence}, answer{ok: err == nil})
		if err != nil {
			return false
		}
		if !next.Runnable {
			f.done.Add(1)
		} else if dies {
			return false
		}
		start = time.Now()
		renewed, err := l.Renew(ctx, tk, 30*time.Second)
		if err != nil && !errors.Is(err, ledger.ErrFenced) {
			f.t.Errorf("renew: %v", err)
			return false
		}
		f.record(id, start, action{goal: tk.Goal, kind: "renew", owner: tk.Owner, fence: tk.Fence}, answer{renewed, err == nil})
		if err != nil {
			return false
		}
	}
	return true
}

// TestSixtyFourWorkersAThousandGoals: no claim is given away while its lease
// lives, no event is lost or doubled, and every goal is finished once.
func TestSixtyFourWorkersAThousandGoals(t *testing.T) {
	t.Parallel()
	const workers = 64
	server := pgtest.Start(t, pgtest.Options{})
	f := &fleet{t: t, goals: 1000, steps: 3, begun: time.Now()}
	setup := open(t, server.DSN(), Options{})
	for g := range f.goals {
		row := ledgertest.RowOf(fmt.Sprintf("g%04d", g))
		row.Priority = g % 3
		if _, err := setup.Append(context.Background(), ledger.Append{Goal: row.Goal, Events: []event.Event{ledgertest.Message("received")}, Row: row}); err != nil {
			t.Fatal(err)
		}
	}
	handles := make([]*Ledger, workers)
	for w := range handles {
		handles[w] = open(t, server.DSN()+"&pool_max_conns=2", Options{})
	}
	start := time.Now()
	var wg sync.WaitGroup
	for w, l := range handles {
		wg.Go(func() { f.work(w, l) })
	}
	wg.Wait()
	took := time.Since(start)
	if got := f.done.Load(); got != int64(f.goals) {
		t.Errorf("%d goals were finished", got)
	}
	takeovers := 0
	for _, op := range f.history {
		if op.Output.(answer).ticket.Takeover && op.Input.(action).kind == "claim" {
			takeovers++
		}
	}
	if takeovers == 0 {
		t.Error("no take-over happened: the history shows nothing of it")
	}
	if !porcupine.CheckOperations(holdings, f.history) {
		t.Error("the history of claims, renewals and releases is not one that a single holder at a time could have")
	}
	for g := range f.goals {
		goal := fmt.Sprintf("g%04d", g)
		ledgertest.CheckChain(t, setup, goal, f.steps+1)
	}
	t.Logf("%d operations in %v, %d claims, %d take-overs, %d deaths", len(f.history), took.Round(time.Millisecond), len(f.claims), takeovers, f.deaths.Load())
}
