package postgres

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
	"belay/internal/ledger/postgres/pgtest"
)

// typical is an event of about 500 bytes as stored.
func typical() event.Event { return ledgertest.Message(strings.Repeat("some words ", 25)) }

// bench opens a ledger on a durable server of its own.
func bench(b *testing.B, more string) (*pgtest.Server, *Ledger) {
	s := pgtest.Start(b, pgtest.Options{Fsync: true})
	return s, open(b, s.DSN()+more, Options{})
}

func benchAppend(b *testing.B, durable bool) {
	_, l := bench(b, "")
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

// BenchmarkAppendSoft is one goal whose appends wait for no standby.
func BenchmarkAppendSoft(b *testing.B) { benchAppend(b, false) }

// BenchmarkAppendDurableGroup is 32 goals at once.
func BenchmarkAppendDurableGroup(b *testing.B) {
	_, l := bench(b, "&pool_max_conns=32")
	var goals atomic.Int64
	b.SetParallelism(32 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
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

// BenchmarkFold20k reads and decodes a goal of 20,000 events.
func BenchmarkFold20k(b *testing.B) {
	_, l := bench(b, "")
	const events = 20_000
	for head := 0; head < events; {
		a := ledger.Append{Goal: "g", Head: uint64(head), Fence: uint64(min(head, 1)), Row: ledgertest.RowOf("g")}
		for range 500 {
			a.Events = append(a.Events, typical())
		}
		if _, err := l.Append(context.Background(), a); err != nil {
			b.Fatal(err)
		}
		head += len(a.Events)
	}
	for b.Loop() {
		if got, err := l.Read(context.Background(), "g", 0, 0); err != nil || len(got) != events {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// waiting fills a store with goals that wait: half without an end, half for an
// hour; runnable ones are ready.
func waiting(b testing.TB, dsn string, n int, runnable bool) {
	b.Helper()
	conn := connect(b, dsn)
	_, err := conn.Exec(context.Background(), `INSERT INTO belay.goals SELECT 'g' || lpad(i::text, 5, '0'), 'title of a goal', '/src/repo', 'active', '', '', 1, 1, 0, $2,
		CASE WHEN i % 2 = 0 AND NOT $2 THEN belay.store_clock() + 3600000000 ELSE 0 END, 1, i, i, '', 0, 0, 0, '', 0, $2, i FROM generate_series(1, $1::int) i`, n, runnable)
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaim10kWaiting claims and releases the one runnable goal among
// 10,000 that wait.
func BenchmarkClaim10kWaiting(b *testing.B) {
	s, l := bench(b, "")
	waiting(b, s.DSN(), 10_000, false)
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

// BenchmarkClaim10kWaitingInVain asks where there is nothing.
func BenchmarkClaim10kWaitingInVain(b *testing.B) {
	s, l := bench(b, "")
	waiting(b, s.DSN(), 10_000, false)
	for b.Loop() {
		if tk, err := l.Claim(context.Background(), ledger.Claim{Owner: "w", Lease: time.Minute}); err == nil {
			b.Fatal(tk)
		}
	}
}

// BenchmarkClaimFleet is 16 workers that claim and release among 10,000 goals
// that could all run, with 48 more held at the head of the line.
func BenchmarkClaimFleet(b *testing.B) {
	s, l := bench(b, "&pool_max_conns=16")
	waiting(b, s.DSN(), 10_000, true)
	for i := range 48 {
		if _, err := l.Claim(context.Background(), ledger.Claim{Owner: fmt.Sprint("h", i), Lease: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
	var mu sync.Mutex
	var all []time.Duration
	var workers atomic.Int64
	b.SetParallelism(16 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		owner := fmt.Sprint("w", workers.Add(1))
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
	_, l := bench(b, "")
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
