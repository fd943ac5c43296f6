package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

// BenchmarkRawWriteFdatasync is what the disk can do: the yardstick for
// BenchmarkAppendDurable.
func BenchmarkRawWriteFdatasync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := noise(4096)
	for b.Loop() {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

// BenchmarkAppendDurableToRaw takes the two in turns, so that both see the same
// disk at the same time, and prints durable appends per second and their ratio
// to bare writes.
func BenchmarkAppendDurableToRaw(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir, Options{})
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := noise(4096)
	row := ledgertest.RowOf("g")
	var raw, ours time.Duration
	head := uint64(0)
	for b.Loop() {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		_, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: head, Fence: min(head, 1), Events: []event.Event{typical()}, Row: row, Durable: true})
		if err != nil {
			b.Fatal(err)
		}
		head++
		raw += between.Sub(began)
		ours += time.Since(between)
	}
	b.ReportMetric(float64(b.N)/ours.Seconds(), "appends/s")
	b.ReportMetric(float64(b.N)/raw.Seconds(), "raw-writes/s")
	b.ReportMetric(raw.Seconds()/ours.Seconds(), "appends-per-raw-write")
}
