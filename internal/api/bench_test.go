package api

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belay/client"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/sqlite"
	"belay/internal/token"
)

// BenchmarkWatchers is how long one event takes to reach all of 200 watchers
// of its goal; 200 events a second leave 5 ms for each.
func BenchmarkWatchers(b *testing.B) {
	const watchers = 200
	w := newWorld(b, Limits{Burst: 1e6})
	goal := w.goal()
	row, err := w.service.Ledger.Goal(b.Context(), goal)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var readers sync.WaitGroup
	got := make(chan uint64, watchers)
	for range watchers {
		readers.Go(func() {
			for m, err := range w.client(token.Watch).Follow(ctx, goal, "timeline", row.Head) {
				if err != nil {
					b.Error(err)
					return
				}
				got <- m.ID
			}
		})
	}
	for range watchers {
		<-got // caught up
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	head := row.Head
	for b.Loop() {
		p := event.ProgressAlarm{Signal: "bench", Detail: "one event of a goal that 200 people watch"}
		es, err := w.service.Ledger.Append(b.Context(), ledger.Append{Goal: goal, Head: head, Fence: row.Fence, Row: row, Events: []event.Event{{Goal: goal,
			ID: event.NewID(1, [16]byte{}, int(head)), Type: p.EventType(), Version: event.CurrentVersion(p.EventType()), Actor: event.ActorRuntime, Fence: row.Fence, Payload: p}}})
		if err != nil {
			b.Fatal(err)
		}
		head = es[0].Seq
		for range watchers {
			if id := <-got; id != head {
				b.Fatalf("seq %d, want %d", id, head)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc)/watchers/1024, "KiB/watcher")
	cancel()
	readers.Wait()
}

// onDisk is a world on SQLite.
func onDisk(b *testing.B, l Limits) *world {
	b.Helper()
	store, err := sqlite.Open(b.Context(), b.TempDir(), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	return newWorldOn(b, l, store)
}

// alarm appends one small event to a goal.
func (w *world) alarm(b *testing.B, row ledger.Row, head uint64) {
	b.Helper()
	p := event.ProgressAlarm{Signal: "bench", Detail: "one event of a goal that 200 people watch"}
	_, err := w.service.Ledger.Append(b.Context(), ledger.Append{Goal: row.Goal, Head: head, Fence: row.Fence, Row: row, Events: []event.Event{{Goal: row.Goal,
		ID: event.NewID(1, [16]byte{}, int(head)), Op: fmt.Sprint("op", head), Type: p.EventType(), Version: event.CurrentVersion(p.EventType()), Actor: event.ActorRuntime,
		Fence: row.Fence, Payload: p}}})
	if err != nil {
		b.Fatal(err)
	}
}

// percentiles reports the median and the 99th percentile of times.
func percentiles(b *testing.B, times []time.Duration) {
	b.Helper()
	if len(times) == 0 {
		b.Fatal("nothing was measured")
	}
	slices.Sort(times)
	for name, at := range map[string]int{"p50-ms": len(times) / 2, "p99-ms": len(times) * 99 / 100} {
		b.ReportMetric(float64(times[at].Microseconds())/1000, name)
	}
}

// BenchmarkWatchersOnDisk is the load of issue 7: 200 watchers of one goal on
// SQLite that produces 200 events a second; how long after its append an event
// is at each of them, and what a watcher holds in memory, both sides counted.
func BenchmarkWatchersOnDisk(b *testing.B) {
	const watchers, every = 200, 5 * time.Millisecond
	w := onDisk(b, Limits{Burst: 1e6})
	row, err := w.service.Ledger.Goal(b.Context(), w.goal())
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var sent sync.Map // seq to when
	var readers sync.WaitGroup
	ready := make(chan struct{}, watchers)
	var last atomic.Uint64
	times := make([][]time.Duration, watchers)
	for i := range watchers {
		readers.Go(func() {
			for m, err := range w.client(token.Watch).Follow(ctx, row.Goal, "events", row.Head) {
				if err != nil {
					b.Error(err)
					return
				}
				if m.Name == "caught_up" {
					ready <- struct{}{}
					continue
				}
				if at, ok := sent.Load(m.ID); ok {
					times[i] = append(times[i], time.Since(at.(time.Time)))
				}
				if m.ID == last.Load() {
					return
				}
			}
		})
	}
	for range watchers {
		<-ready
	}
	pace := time.NewTicker(every)
	defer pace.Stop()
	head := row.Head
	for b.Loop() {
		<-pace.C
		sent.Store(head+1, time.Now())
		w.alarm(b, row, head)
		head++
	}
	last.Store(head + 1)
	sent.Store(head+1, time.Now())
	w.alarm(b, row, head)
	runtime.GC()
	runtime.ReadMemStats(&after)
	readers.Wait()
	percentiles(b, slices.Concat(times...))
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/watchers/1024, "KiB/watcher")
}

// BenchmarkListOnDisk is the list of 1,000 goals on SQLite, over HTTP.
func BenchmarkListOnDisk(b *testing.B) {
	w := onDisk(b, Limits{Burst: 1e9})
	for range 1000 {
		w.goal()
	}
	c := w.client(token.Watch)
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		if rows, err := c.Goals(b.Context(), client.Which{}); err != nil || len(rows) != 1000 {
			b.Fatal(len(rows), err)
		}
		times = append(times, time.Since(began))
	}
	percentiles(b, times)
}

// BenchmarkOperationOfALongGoal opens one operation of a goal of 100,000 events
// on SQLite, over HTTP.
func BenchmarkOperationOfALongGoal(b *testing.B) {
	const events = 100_000
	w := onDisk(b, Limits{Burst: 1e9})
	row, err := w.service.Ledger.Goal(b.Context(), w.goal())
	if err != nil {
		b.Fatal(err)
	}
	p := event.ProgressAlarm{Signal: "bench", Detail: "x"}
	for head := row.Head; head < events; {
		var es []event.Event
		for range 5000 {
			es = append(es, event.Event{Goal: row.Goal, ID: event.NewID(1, [16]byte{}, int(head)), Op: fmt.Sprint("op", head/3), Type: p.EventType(),
				Version: event.CurrentVersion(p.EventType()), Actor: event.ActorRuntime, Fence: row.Fence, Payload: p})
			head++
		}
		if _, err := w.service.Ledger.Append(b.Context(), ledger.Append{Goal: row.Goal, Head: head - uint64(len(es)), Fence: row.Fence, Row: row, Events: es}); err != nil {
			b.Fatal(err)
		}
	}
	c := w.client(token.Watch)
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		if o, err := c.Operation(b.Context(), row.Goal, "op20000"); err != nil || len(o.Events) != 3 {
			b.Fatal(o, err)
		}
		times = append(times, time.Since(began))
	}
	percentiles(b, times)
}

// BenchmarkListOfGoals is how long the list of 1,000 goals takes, over HTTP.
func BenchmarkListOfGoals(b *testing.B) {
	w := newWorld(b, Limits{Burst: 1e9})
	for range 1000 {
		w.goal()
	}
	c := w.client(token.Watch)
	for b.Loop() {
		if rows, err := c.Goals(b.Context(), client.Which{}); err != nil || len(rows) != 1000 {
			b.Fatal(len(rows), err)
		}
	}
}
