package api

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"belay/client"
	"belay/internal/event"
	"belay/internal/ledger"
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
