package sqlite

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
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

// BenchmarkClaim10kWaiting claims and releases the one runnable goal among
// 10,000 that wait: half without an end, half for an hour.
func BenchmarkClaim10kWaiting(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	err := l.writer.write(context.Background(), false, func(t *tx) error {
		for i := range 10_000 {
			row := ledgertest.RowOf(fmt.Sprintf("g%05d", i))
			row.Runnable, row.Priority = false, 9
			if i%2 == 0 {
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
