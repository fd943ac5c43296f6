package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

var claimTests = map[string]func(*testing.T, Store){
	"a named goal is claimed whether or not it is runnable":        claimByName,
	"a live lease keeps others out and its owner in":               claimHeld,
	"an expired lease is taken over and the fence raised by one":   claimTakeover,
	"the lease of a dead owner is evicted before it expires":       claimEvict,
	"the most urgent goal comes first":                             claimUrgency,
	"a goal wakes when its time has come":                          claimWake,
	"the search passes over goals that are held, own ones too":     claimPassesOverHeld,
	"nothing runnable is nothing to claim":                         claimNothing,
	"renew extends the lease and fails after a take-over":          claimRenew,
	"release frees the goal and leaves a foreign holder alone":     claimRelease,
	"a stale holder cannot append after a take-over":               claimStaleAppend,
	"a raised fence ends the ticket, release still frees the goal": claimFenceRaised,
	"a claim without owner or lease is refused":                    claimInvalid,
	"many claimers never hold one goal twice":                      claimRace,
}

func claim(t testing.TB, l ledger.Ledger, c ledger.Claim) ledger.Ticket {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	return must(l.Claim(background(t), c))(t)
}

func claimErr(t testing.TB, l ledger.Ledger, c ledger.Claim, want error) {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if got, err := l.Claim(background(t), c); !errors.Is(err, want) {
		t.Fatalf("claim %+v: %+v, %v; want %v", c, got, err, want)
	}
}

func claimByName(t *testing.T, s Store) {
	l := s.Open(t)
	row := RowOf("g")
	row.Runnable, row.Status = false, "paused"
	create(t, l, row, 1)
	now := must(l.Now(background(t)))(t)
	got := claim(t, l, ledger.Claim{Goal: "g", Owner: "w1"})
	if got.Goal != "g" || got.Owner != "w1" || got.Fence != 1 || got.Takeover || got.Previous != "" || got.Until.SinceMS(now) < 60_000 {
		t.Errorf("ticket %+v", got)
	}
	if r := must(l.Goal(background(t), "g"))(t); r.LeaseOwner != "w1" || r.LeaseUntil != got.Until || r.Fence != 1 {
		t.Errorf("row %+v", r)
	}
}

func claimHeld(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	first := claim(t, a, ledger.Claim{Goal: "g", Owner: "w1"})
	claimErr(t, b, ledger.Claim{Goal: "g", Owner: "w2"}, ledger.ErrHeld)
	claimErr(t, b, ledger.Claim{Goal: "g", Owner: "w2", Evict: "w3"}, ledger.ErrHeld)
	s.Skew(time.Second)
	again := claim(t, b, ledger.Claim{Goal: "g", Owner: "w1"})
	if again.Fence != first.Fence || again.Takeover || again.Until <= first.Until {
		t.Errorf("claimed again: %+v after %+v", again, first)
	}
}

func claimTakeover(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	claim(t, a, ledger.Claim{Goal: "g", Owner: "w1", Lease: time.Minute})
	s.Skew(59 * time.Second)
	claimErr(t, b, ledger.Claim{Goal: "g", Owner: "w2"}, ledger.ErrHeld)
	s.Skew(2 * time.Second)
	got := claim(t, b, ledger.Claim{Goal: "g", Owner: "w2"})
	if got.Fence != 2 || !got.Takeover || got.Previous != "w1" {
		t.Errorf("ticket %+v", got)
	}
	if r := must(a.Goal(background(t), "g"))(t); r.Fence != 2 || r.LeaseOwner != "w2" {
		t.Errorf("row %+v", r)
	}
	s.Skew(2 * time.Minute)
	// Found by urgency, an expired lease is taken over just the same.
	got = claim(t, a, ledger.Claim{Owner: "w3"})
	if got.Fence != 3 || !got.Takeover || got.Previous != "w2" {
		t.Errorf("ticket %+v", got)
	}
	s.Skew(2 * time.Minute)
	// Nobody else had it in the meantime: the owner goes on.
	if got = claim(t, a, ledger.Claim{Goal: "g", Owner: "w3"}); got.Fence != 3 || got.Takeover {
		t.Errorf("ticket %+v", got)
	}
}

func claimEvict(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	Create(t, l, "h", 1)
	claim(t, l, ledger.Claim{Goal: "g", Owner: "dead"})
	claim(t, l, ledger.Claim{Goal: "h", Owner: "dead"})
	got := claim(t, l, ledger.Claim{Goal: "g", Owner: "w2", Evict: "dead"})
	if got.Fence != 2 || !got.Takeover || got.Previous != "dead" {
		t.Errorf("ticket %+v", got)
	}
	claimErr(t, l, ledger.Claim{Owner: "w2"}, ledger.ErrNothing)
	if got = claim(t, l, ledger.Claim{Owner: "w2", Evict: "dead"}); got.Goal != "h" || !got.Takeover {
		t.Errorf("ticket %+v", got)
	}
}

func claimUrgency(t *testing.T, s Store) {
	l := s.Open(t)
	now := must(l.Now(background(t)))(t)
	for _, g := range []struct {
		id       string
		priority int
		runnable bool
		wake     moment.Time
	}{
		{"low, old", -1, true, 0}, {"normal, second", 0, true, 0}, {"normal, woken long ago", 0, false, now.AddMS(-3_600_000)},
		{"high, later", 5, true, 0}, {"asleep for ever", 9, false, 0}, {"asleep for an hour", 9, false, now.AddMS(3_600_000)},
		{"normal, third", 0, true, 0}, {"high, last", 5, true, 0},
	} {
		row := RowOf(g.id)
		row.Priority, row.Runnable, row.WakeAt = g.priority, g.runnable, g.wake
		create(t, l, row, 1)
		s.Skew(time.Second)
	}
	for _, want := range []string{"high, later", "high, last", "normal, woken long ago", "normal, second", "normal, third", "low, old"} {
		if got := claim(t, l, ledger.Claim{Owner: "w-" + want}); got.Goal != want {
			t.Fatalf("claimed %q, want %q", got.Goal, want)
		}
	}
	claimErr(t, l, ledger.Claim{Owner: "w"}, ledger.ErrNothing)
}

func claimWake(t *testing.T, s Store) {
	l := s.Open(t)
	row := RowOf("g")
	row.Runnable, row.WakeAt = false, must(l.Now(background(t)))(t).AddMS(60_000)
	create(t, l, row, 1)
	claimErr(t, l, ledger.Claim{Owner: "w"}, ledger.ErrNothing)
	s.Skew(61 * time.Second)
	if got := claim(t, l, ledger.Claim{Owner: "w"}); got.Goal != "g" || got.Takeover {
		t.Errorf("ticket %+v", got)
	}
	// Going back to sleep takes it out of the search again.
	row.WakeAt = must(l.Now(background(t)))(t).AddMS(60_000)
	must(l.Append(background(t), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{Message("x")}, Row: row}))(t)
	if err := l.Release(background(t), ledger.Ticket{Goal: "g", Owner: "w"}); err != nil {
		t.Fatal(err)
	}
	claimErr(t, l, ledger.Claim{Owner: "w"}, ledger.ErrNothing)
}

func claimPassesOverHeld(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g1", 1)
	s.Skew(time.Second)
	Create(t, l, "g2", 1)
	if got := claim(t, l, ledger.Claim{Owner: "w"}); got.Goal != "g1" {
		t.Fatalf("ticket %+v", got)
	}
	if got := claim(t, l, ledger.Claim{Owner: "w"}); got.Goal != "g2" {
		t.Fatalf("ticket %+v", got)
	}
	claimErr(t, l, ledger.Claim{Owner: "w"}, ledger.ErrNothing)
}

func claimNothing(t *testing.T, s Store) {
	l := s.Open(t)
	claimErr(t, l, ledger.Claim{Owner: "w"}, ledger.ErrNothing)
	row := RowOf("g")
	row.Runnable = false
	create(t, l, row, 1)
	claimErr(t, l, ledger.Claim{Owner: "w"}, ledger.ErrNothing)
}

func claimRenew(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	ticket := claim(t, l, ledger.Claim{Goal: "g", Owner: "w1"})
	s.Skew(50 * time.Second)
	renewed := must(l.Renew(background(t), ticket, time.Minute))(t)
	if renewed.Until <= ticket.Until || renewed.Fence != ticket.Fence {
		t.Errorf("renewed %+v", renewed)
	}
	s.Skew(50 * time.Second)
	claimErr(t, l, ledger.Claim{Goal: "g", Owner: "w2"}, ledger.ErrHeld)
	s.Skew(time.Minute)
	claim(t, l, ledger.Claim{Goal: "g", Owner: "w2"})
	if _, err := l.Renew(background(t), renewed, time.Minute); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("renew after a take-over: %v", err)
	}
	if _, err := l.Renew(background(t), ledger.Ticket{Goal: "nobody", Owner: "w", Fence: 1}, time.Minute); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("renew of an unknown goal: %v", err)
	}
}

func claimRelease(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	first := claim(t, l, ledger.Claim{Goal: "g", Owner: "w1"})
	if err := l.Release(background(t), first); err != nil {
		t.Fatal(err)
	}
	second := claim(t, l, ledger.Claim{Goal: "g", Owner: "w2"})
	if second.Takeover || second.Fence != 1 {
		t.Errorf("a released goal was taken over: %+v", second)
	}
	for _, foreign := range []ledger.Ticket{first, {Goal: "nobody", Owner: "w1"}, {Goal: "g", Owner: ""}} {
		if err := l.Release(background(t), foreign); err != nil {
			t.Errorf("release of %+v: %v", foreign, err)
		}
	}
	if row := must(l.Goal(background(t), "g"))(t); row.LeaseOwner != "w2" {
		t.Errorf("a foreign release freed the goal: %+v", row)
	}
}

func claimStaleAppend(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	stale := claim(t, a, ledger.Claim{Goal: "g", Owner: "w1"})
	s.Skew(2 * time.Minute)
	fresh := claim(t, b, ledger.Claim{Goal: "g", Owner: "w2"})
	put := func(l ledger.Ledger, tk ledger.Ticket) error {
		row := RowOf("g")
		row.Fence = tk.Fence
		_, err := l.Append(background(t), ledger.Append{Goal: "g", Head: 1, Fence: tk.Fence, Events: []event.Event{Message("x")}, Row: row})
		return err
	}
	if err := put(a, stale); !errors.Is(err, ledger.ErrFenced) {
		t.Fatalf("append of a stale holder: %v", err)
	}
	if err := put(b, fresh); err != nil {
		t.Fatalf("append of the holder: %v", err)
	}
	CheckChain(t, a, "g", 2)
}

func claimFenceRaised(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	ticket := claim(t, l, ledger.Claim{Goal: "g", Owner: "w1"})
	row := RowOf("g")
	row.Fence, row.Runnable, row.Status = 2, false, "paused"
	must(l.Append(background(t), ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{Message("pause")}, Row: row}))(t)
	if _, err := l.Renew(background(t), ticket, time.Minute); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("renew after the user raised the fence: %v", err)
	}
	if err := l.Release(background(t), ticket); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, l, ledger.Claim{Goal: "g", Owner: "w2"}); got.Fence != 2 || got.Takeover {
		t.Errorf("ticket %+v", got)
	}
}

func claimInvalid(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 1)
	for _, c := range []ledger.Claim{{Goal: "g", Lease: time.Minute}, {Goal: "g", Owner: "w"}, {Goal: "g", Owner: "w", Lease: -1}} {
		if got, err := l.Claim(background(t), c); err == nil {
			t.Errorf("claim %+v gave %+v", c, got)
		}
	}
	ticket := claim(t, l, ledger.Claim{Goal: "g", Owner: "w"})
	if _, err := l.Renew(background(t), ticket, 0); err == nil {
		t.Error("renewed for no time at all")
	}
}

// claimRace lets workers on several handles claim, append under their ticket,
// put the goal to sleep and release, until every goal is asleep. Each goal
// must have been run exactly once.
func claimRace(t *testing.T, s Store) {
	const goals, workers = 40, 8
	setup := s.Open(t)
	for i := range goals {
		Create(t, setup, fmt.Sprintf("g%02d", i), 1)
	}
	handles := []ledger.Ledger{setup, s.Open(t), s.Open(t)}
	var mu sync.Mutex
	runs := map[string]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			l := handles[w%len(handles)]
			for {
				ticket, err := l.Claim(context.Background(), ledger.Claim{Owner: fmt.Sprintf("w%d", w), Lease: time.Hour})
				if errors.Is(err, ledger.ErrNothing) {
					return
				}
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				runs[ticket.Goal]++
				mu.Unlock()
				row := RowOf(ticket.Goal)
				row.Runnable = false
				_, err = l.Append(context.Background(), ledger.Append{Goal: ticket.Goal, Head: 1, Fence: ticket.Fence, Events: []event.Event{Message("run")}, Row: row})
				if err == nil {
					err = l.Release(context.Background(), ticket)
				}
				if err != nil {
					t.Errorf("goal %s: %v", ticket.Goal, err)
				}
			}
		})
	}
	wg.Wait()
	if len(runs) != goals {
		t.Errorf("%d goals were run, want %d", len(runs), goals)
	}
	for g, n := range runs {
		if n != 1 {
			t.Errorf("goal %s was run %d times", g, n)
		}
	}
}
