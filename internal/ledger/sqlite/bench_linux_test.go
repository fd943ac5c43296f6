package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
