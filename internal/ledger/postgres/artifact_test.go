package postgres

import (
	"context"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"belay/internal/ledger/postgres/pgtest"
)

// TestALargeArtifactStreamsInBoundedMemory puts and reads 200 MB that do not
// compress. It runs before the parallel tests, which would share the heap.
func TestALargeArtifactStreamsInBoundedMemory(t *testing.T) {
	l := open(t, pgtest.Shared(t).DSN(), Options{Schema: pgtest.Schema()})
	const size, bound = 200 << 20, 24 << 20
	var peak uint64
	watch := func(r io.Reader) io.Reader {
		return &hooked{r: r, every: 8 << 20, do: func(int) {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	ref, err := l.PutArtifact(context.Background(), watch(io.LimitReader(rand.NewChaCha8([32]byte{9}), size)), "application/octet-stream")
	if err != nil || ref.Size != size {
		t.Fatal(ref, err)
	}
	rc, err := l.OpenArtifact(context.Background(), ref.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if n, err := io.Copy(io.Discard, watch(rc)); n != size || err != nil {
		t.Fatal(n, err)
	}
	t.Logf("live heap %d MB before, at most %d MB", m.HeapAlloc>>20, peak>>20)
	if peak > m.HeapAlloc+bound {
		t.Errorf("the live heap went from %d to %d MB", m.HeapAlloc>>20, peak>>20)
	}
}
