package sqlite

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

// typical is an event of about 500 bytes as stored.
func typical() event.Event { return ledgertest.Message(strings.Repeat("some words ", 25)) }

func benchAppend(b *testing.B, durable bool) {
	l := open(b, b.TempDir(), Options{})
	row, head := ledgertest.RowOf("g"), uint64(0)
	for b.Loop() {
		_, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: head, Fence: min(head, 1), Events: []event.Event{typical()}, Row: row, Durable: durable})
		if err != nil {
			b.Fatal(err)
		}
		head++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkAppendDurable is one goal that waits for the disk at every step.
func BenchmarkAppendDurable(b *testing.B) { benchAppend(b, true) }

// BenchmarkAppendSoft is one goal that leaves the sync to a later append.
func BenchmarkAppendSoft(b *testing.B) { benchAppend(b, false) }

// BenchmarkAppendDurableGroup is many goals of one process at once.
func BenchmarkAppendDurableGroup(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	var goals atomic.Int64
	b.SetParallelism(32 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		goal := fmt.Sprintf("g%d", goals.Add(1))
		for head := uint64(0); pb.Next(); head++ {
			_, err := l.Append(context.Background(), ledger.Append{Goal: goal, Head: head, Fence: min(head, 1), Events: []event.Event{typical()}, Row: ledgertest.RowOf(goal), Durable: true})
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

func fill(b testing.TB, l *Ledger, goal string, n int) {
	b.Helper()
	for head := 0; head < n; {
		a := ledger.Append{Goal: goal, Head: uint64(head), Fence: uint64(min(head, 1)), Row: ledgertest.RowOf(goal)}
		for range min(500, n-head) {
			a.Events = append(a.Events, typical())
		}
		if _, err := l.Append(context.Background(), a); err != nil {
			b.Fatal(err)
		}
		head += len(a.Events)
	}
}

// BenchmarkFold100k reads and decodes a goal of 100,000 events.
func BenchmarkFold100k(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	fill(b, l, "g", 100_000)
	for b.Loop() {
		events, err := l.Read(context.Background(), "g", 0, 0)
		if err != nil || len(events) != 100_000 {
			b.Fatal(len(events), err)
		}
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkAudit100k re-computes the chain of 100,000 events.
func BenchmarkAudit100k(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	fill(b, l, "g", 100_000)
	for b.Loop() {
		if a, err := l.Audit(context.Background(), "g"); err != nil || a.Broken != nil {
			b.Fatal(a, err)
		}
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkOpenLong opens a store with a goal of 100,000 events and reads its
// row, its cache and the last few events: what a start needs.
func BenchmarkOpenLong(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir, Options{})
	fill(b, l, "g", 100_000)
	if err := l.SaveCache(context.Background(), "g", ledger.Cache{Seq: 99_900, Blob: []byte(strings.Repeat("state ", 10_000))}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		again, err := Open(context.Background(), dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		c, err := again.LoadCache(context.Background(), "g")
		if err != nil {
			b.Fatal(err)
		}
		if events, err := again.Read(context.Background(), "g", c.Seq, 0); err != nil || len(events) != 100 {
			b.Fatal(len(events), err)
		}
		again.Close()
	}
}

// waiting fills a store with 10,000 goals: runnable ones, or ones that wait,
// half of them without an end, half for an hour.
func waiting(b *testing.B, l *Ledger, runnable bool) {
	b.Helper()
	err := l.writer.write(context.Background(), false, func(t *tx) error {
		for i := range 10_000 {
			row := ledgertest.RowOf(fmt.Sprintf("g%05d", i))
			row.Runnable, row.Priority = runnable, 9
			if i%2 == 0 && !runnable {
				row.WakeAt = l.now().AddMS(3_600_000)
			}
			if err := t.putGoal(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaim10kWaiting claims and releases the one runnable goal among
// 10,000 that wait.
func BenchmarkClaim10kWaiting(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	waiting(b, l, false)
	ledgertest.Create(b, l, "runnable", 1)
	for b.Loop() {
		tk, err := l.Claim(context.Background(), ledger.Claim{Owner: "w", Lease: time.Minute})
		if err != nil || tk.Goal != "runnable" {
			b.Fatal(tk, err)
		}
		if err := l.Release(context.Background(), tk); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}

// BenchmarkClaimFleet is 16 workers, each with a handle of its own as of another
// process, that claim and release among 10,000 goals that could all run.
func BenchmarkClaimFleet(b *testing.B) {
	const fleet = 16
	dir := b.TempDir()
	waiting(b, open(b, dir, Options{}), true)
	handles := make(chan *Ledger, fleet)
	for range fleet {
		handles <- open(b, dir, Options{})
	}
	var mu sync.Mutex
	var all []time.Duration
	var workers atomic.Int64
	b.SetParallelism(fleet / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		owner, l := fmt.Sprint("w", workers.Add(1)), <-handles
		var took []time.Duration
		for pb.Next() {
			start := time.Now()
			tk, err := l.Claim(context.Background(), ledger.Claim{Owner: owner, Lease: time.Minute})
			took = append(took, time.Since(start))
			if err == nil {
				err = l.Release(context.Background(), tk)
			}
			if err != nil {
				b.Error(err)
			}
		}
		mu.Lock()
		all = append(all, took...)
		mu.Unlock()
	})
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkPutArtifact64M streams a log that compresses well.
func BenchmarkPutArtifact64M(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	line := strings.Repeat("2026-11-30T10:00:00 INFO step 42 of the build is done\n", 1<<14)
	b.SetBytes(64 << 20)
	for b.Loop() {
		var readers []io.Reader
		for range (64 << 20) / len(line) {
			readers = append(readers, strings.NewReader(line))
		}
		if _, err := l.PutArtifact(context.Background(), io.MultiReader(readers...), "text/plain"); err != nil {
			b.Fatal(err)
		}
	}
}
