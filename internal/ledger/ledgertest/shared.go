package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"belay/internal/event"
	"belay/internal/ledger"
)

var sharedTests = map[string]func(*testing.T, Store){
	"many writers of many goals lose nothing":               sharedManyGoals,
	"many writers of one goal conflict, re-read and go on":  sharedOneGoal,
	"of many creators of one goal exactly one succeeds":     sharedCreate,
	"reads while others append are always a gapless prefix": sharedPrefix,
	"workers are told of what they can claim":               sharedWakeups,
}

// sharedWakeups: of a new goal, of one that is released, and of one that a
// person's word makes claimable, whichever handle it was that did it.
func sharedWakeups(t *testing.T, s Store) {
	here, there := s.Open(t), s.Open(t)
	k, ok := here.(ledger.Waker)
	if !ok {
		t.Skip("workers on this store look for themselves")
	}
	ctx, cancel := context.WithCancel(background(t))
	wake := k.Wakeups(ctx)
	told := func(of string) {
		t.Helper()
		select {
		case <-wake:
		case <-background(t).Done():
			t.Fatalf("nobody told of %s", of)
		}
	}
	claim := func() ledger.Ticket {
		t.Helper()
		// A signal may be an older one, so the claim is what counts.
		for {
			tk, err := here.Claim(context.Background(), ledger.Claim{Owner: "w", Lease: patience})
			if err == nil {
				return tk
			}
			if !errors.Is(err, ledger.ErrNothing) {
				t.Fatal(err)
			}
			told("a goal that is not there to claim")
		}
	}
	for _, by := range []ledger.Ledger{there, here} {
		goal := NewID()
		Create(t, by, goal, 1)
		told("a new goal")
		tk := claim()
		row := RowOf(goal)
		row.Runnable = false
		must(by.Append(context.Background(), ledger.Append{Goal: goal, Head: 1, Fence: tk.Fence, Events: []event.Event{Message("waits")}, Row: row}))(t)
		if err := here.Release(context.Background(), tk); err != nil {
			t.Fatal(err)
		}
		if _, err := here.Claim(context.Background(), ledger.Claim{Owner: "w", Lease: patience}); !errors.Is(err, ledger.ErrNothing) {
			t.Fatalf("a goal that waits is claimed: %v", err)
		}
		must(by.Append(context.Background(), ledger.Append{Goal: goal, Head: 2, Fence: tk.Fence, Events: []event.Event{Message("go on")}, Row: RowOf(goal)}))(t)
		tk = claim()
		if err := by.Release(context.Background(), tk); err != nil {
			t.Fatal(err)
		}
		tk = claim()
		must(by.Append(context.Background(), ledger.Append{Goal: goal, Head: 3, Fence: tk.Fence, Events: []event.Event{Message("waits")}, Row: row}))(t)
		if err := here.Release(context.Background(), tk); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
}

func sharedManyGoals(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t), s.Open(t)}
	const writers, appends = 12, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			goal := fmt.Sprintf("g%d", w)
			for i := range uint64(appends) {
				_, err := handles[(w+int(i))%len(handles)].Append(context.Background(), ledger.Append{Goal: goal, Head: 2 * i, Fence: min(i, 1),
					Events: []event.Event{Message("a"), Message(long(int(i%4) * 4000))}, Row: RowOf(goal), Durable: i%5 == 0})
				if err != nil {
					t.Errorf("append %d of %s: %v", i, goal, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		CheckChain(t, handles[0], fmt.Sprintf("g%d", w), 2*appends)
	}
	if got := must(handles[1].Goals(background(t), ledger.Filter{}))(t); len(got) != writers {
		t.Errorf("%d goals are listed, want %d", len(got), writers)
	}
}

func sharedOneGoal(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t)}
	Create(t, handles[0], "g", 1)
	const writers, appends = 6, 15
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			l := handles[w%2]
			for done := 0; done < appends; {
				row, err := l.Goal(context.Background(), "g")
				if err != nil {
					t.Error(err)
					return
				}
				_, err = l.Append(context.Background(), ledger.Append{Goal: "g", Head: row.Head, Fence: 1, Events: []event.Event{Message(fmt.Sprint(w, "/", done))}, Row: RowOf("g")})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, ledger.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	CheckChain(t, handles[1], "g", 1+writers*appends)
	seen := map[string]bool{}
	for _, text := range texts(must(handles[0].Read(background(t), "g", 1, 0))(t)) {
		if seen[text] {
			t.Errorf("%q was appended twice", text)
		}
		seen[text] = true
	}
}

func sharedCreate(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t)}
	for i := range 10 {
		goal := fmt.Sprint("g", i)
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for w := range errs {
			wg.Go(func() {
				_, errs[w] = handles[w%2].Append(context.Background(), ledger.Append{Goal: goal, Events: []event.Event{Message("x")}, Row: RowOf(goal)})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, ledger.ErrExists) {
				t.Errorf("create: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d creators of %s succeeded", won, goal)
		}
		CheckChain(t, handles[0], goal, 1)
	}
}

func sharedPrefix(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, l := range []ledger.Ledger{a, b} {
		wg.Go(func() {
			var least uint64
			for {
				row, err := l.Goal(context.Background(), "g")
				events, err2 := l.Read(context.Background(), "g", 0, 0)
				if err != nil || err2 != nil {
					t.Error(err, err2)
					return
				}
				// The row was read first: the events cannot be behind it.
				n := uint64(len(events))
				if n < row.Head || n < least || n%3 != 1 || events[n-1].Seq != n {
					t.Errorf("read %d events, last seq %d, after a row with head %d and %d events before", n, events[n-1].Seq, row.Head, least)
				}
				least = n
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for head := uint64(1); head < 120; head += 3 {
		add(t, b, "g", head, Message("1"), Message("2"), Message("3"))
	}
	close(done)
	wg.Wait()
}
