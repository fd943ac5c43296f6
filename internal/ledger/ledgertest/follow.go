package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/ledger"
)

var followTests = map[string]func(*testing.T, Store){
	"history, one marker, then live events of every handle":   followLive,
	"following starts after a seq":                            followAfter,
	"a goal can be followed before it exists":                 followEarly,
	"it ends without an error when its context ends":          followCancel,
	"it ends with an error when its handle is closed":         followClosed,
	"the reader may stop at any item":                         followBreak,
	"nothing is skipped or repeated under concurrent appends": followConcurrent,
	"many followers of many goals each see their own":         followMany,
	"a live event arrives soon":                               followLatency,
}

// follower collects what a Follow yields, in its own goroutine.
type follower struct {
	items  chan ledger.Item
	err    chan error
	cancel context.CancelFunc
}

func follow(t testing.TB, l ledger.Ledger, goal string, after uint64) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{items: make(chan ledger.Item), err: make(chan error, 1), cancel: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(f.err)
		for item, err := range l.Follow(ctx, goal, after) {
			if err != nil {
				f.err <- err
				return
			}
			select {
			case f.items <- item:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("Follow did not end with its context")
		}
	})
	return f
}

func (f *follower) next(t testing.TB) ledger.Item {
	t.Helper()
	select {
	case item := <-f.items:
		return item
	case err := <-f.err:
		t.Fatalf("Follow ended with %v", err)
	case <-time.After(patience):
		t.Fatal("Follow yields nothing")
	}
	return ledger.Item{}
}

// expect takes items and fails unless they are exactly these seqs; 0 is the
// caught-up marker.
func (f *follower) expect(t testing.TB, seqs ...uint64) {
	t.Helper()
	for _, want := range seqs {
		item := f.next(t)
		if item.CaughtUp != (want == 0) || item.Event.Seq != want {
			t.Fatalf("got seq %d, caught up %v; want seq %d", item.Event.Seq, item.CaughtUp, want)
		}
	}
}

func followLive(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 3)
	Create(t, a, "other", 2)
	f := follow(t, a, "g", 0)
	f.expect(t, 1, 2, 3, 0)
	add(t, b, "g", 3, Message("4"))
	f.expect(t, 4)
	add(t, a, "other", 2, Message("3"))
	add(t, a, "g", 4, Message("5"), Message(long(20_000)))
	f.expect(t, 5, 6)
	add(t, b, "g", 6, Message("7"))
	if got := f.next(t); texts([]event.Event{got.Event})[0] != "7" || got.Event.Hash == "" {
		t.Errorf("live event %+v", got.Event)
	}
}

func followAfter(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 300)
	middle, end, beyond := follow(t, b, "g", 298), follow(t, b, "g", 300), follow(t, a, "g", 301)
	middle.expect(t, 299, 300, 0)
	end.expect(t, 0)
	beyond.expect(t, 0)
	add(t, a, "g", 300, Message("301"), Message("302"))
	middle.expect(t, 301, 302)
	end.expect(t, 301, 302)
	beyond.expect(t, 302)
}

func followEarly(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	f := follow(t, a, "g", 0)
	f.expect(t, 0)
	Create(t, b, "g", 2)
	f.expect(t, 1, 2)
}

func followCancel(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 3)
	for _, take := range []int{0, 2, 4} {
		f := follow(t, l, "g", 0)
		for range take {
			f.next(t)
		}
		f.cancel()
		select {
		case err := <-f.err:
			if err != nil {
				t.Errorf("after %d items: %v", take, err)
			}
		case <-time.After(patience):
			t.Fatalf("after %d items: Follow goes on", take)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for item, err := range l.Follow(ended, "g", 0) {
		if err != nil || !item.CaughtUp {
			t.Errorf("an ended context yields %+v, %v", item, err)
		}
	}
}

func followClosed(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, b, "g", 1)
	f := follow(t, a, "g", 0)
	f.expect(t, 1, 0)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.err:
		if !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("Follow goes on after Close")
	}
}

func followBreak(t *testing.T, s Store) {
	l := s.Open(t)
	Create(t, l, "g", 3)
	for stop := 1; stop <= 4; stop++ {
		n := 0
		for _, err := range l.Follow(background(t), "g", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("got %d items, want %d", n, stop)
		}
	}
}

// followConcurrent starts followers at random places while several handles
// append; each follower must see a gapless run and one marker.
func followConcurrent(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t)}
	rapid.Check(t, func(rt *rapid.T) {
		goal := NewID()
		batches := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 15).Draw(rt, "batches")
		history := rapid.IntRange(0, len(batches)).Draw(rt, "history")
		var total uint64
		for _, n := range batches {
			total += uint64(n)
		}
		head := uint64(0)
		put := func(i int) {
			a := ledger.Append{Goal: goal, Head: head, Fence: min(head, 1), Row: RowOf(goal)}
			for range batches[i] {
				head++
				a.Events = append(a.Events, Message(fmt.Sprint(head)))
			}
			if _, err := handles[i%2].Append(context.Background(), a); err != nil {
				rt.Errorf("append: %v", err)
			}
		}
		for i := range history {
			put(i)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		existed := head
		var wg sync.WaitGroup
		for range rapid.IntRange(1, 3).Draw(rt, "followers") {
			l := rapid.SampledFrom(handles).Draw(rt, "handle")
			after := rapid.Uint64Range(0, total).Draw(rt, "after")
			wg.Go(func() {
				last, markers := after, 0
				for item, err := range l.Follow(ctx, goal, after) {
					switch {
					case err != nil:
						rt.Errorf("follow: %v", err)
					case item.CaughtUp:
						if markers++; last < existed {
							rt.Errorf("caught up at %d, but %d events existed", last, existed)
						}
					case item.Event.Seq != last+1 || texts([]event.Event{item.Event})[0] != fmt.Sprint(last+1):
						rt.Errorf("seq %d after %d", item.Event.Seq, last)
					default:
						last++
					}
					if err != nil || last == total && markers > 0 {
						break
					}
				}
				if last != total || markers != 1 {
					rt.Errorf("follower after %d ended at %d of %d with %d markers", after, last, total, markers)
				}
			})
		}
		for i := history; i < len(batches); i++ {
			put(i)
		}
		wg.Wait()
	})
}

func followMany(t *testing.T, s Store) {
	handles := []ledger.Ledger{s.Open(t), s.Open(t)}
	const goals, events = 8, 25
	var wg sync.WaitGroup
	ctx := background(t)
	for g := range goals {
		goal := fmt.Sprintf("g%d", g)
		Create(t, handles[0], goal, 1)
		for _, l := range handles {
			wg.Go(func() {
				var last uint64
				for item, err := range l.Follow(ctx, goal, 0) {
					if err != nil || !item.CaughtUp && (item.Event.Seq != last+1 || item.Event.Goal != goal) {
						t.Errorf("follower of %s at %d: %+v, %v", goal, last, item.Event, err)
						return
					}
					if !item.CaughtUp {
						last++
					}
					if last == events {
						return
					}
				}
				t.Errorf("follower of %s ended at %d", goal, last)
			})
		}
		wg.Go(func() {
			for head := uint64(1); head < events; head++ {
				_, err := handles[head%2].Append(ctx, ledger.Append{Goal: goal, Head: head, Fence: 1, Events: []event.Event{Message("x")}, Row: RowOf(goal)})
				if err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// followLatency holds the store to what a person calls "at once", from its own
// and from another handle. The bound is wide: it is there to catch a store
// that polls by the second, not a busy machine.
func followLatency(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	Create(t, a, "g", 1)
	f := follow(t, a, "g", 0)
	f.expect(t, 1, 0)
	best := map[ledger.Ledger]time.Duration{a: time.Hour, b: time.Hour}
	head := uint64(1)
	for range 5 {
		for l := range best {
			start := time.Now()
			add(t, l, "g", head, Message("x"))
			head++
			f.expect(t, head)
			best[l] = min(best[l], time.Since(start))
		}
	}
	t.Logf("append to follower: same handle %v, other handle %v", best[a], best[b])
	if best[a] > 500*time.Millisecond || best[b] > 500*time.Millisecond {
		t.Errorf("a live event took %v from the same handle, %v from another", best[a], best[b])
	}
}
