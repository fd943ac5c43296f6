package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

func newNoise() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

// onCommit calls f at every commit of the handle; a false from f makes it
// fail.
func onCommit(t testing.TB, l *Ledger, f func() bool) {
	t.Helper()
	err := l.writer.conn.Raw(func(c any) error {
		c.(driver.HookRegisterer).RegisterCommitHook(func() int32 {
			if f() {
				return 0
			}
			return 1
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// together hands all jobs to the writer while it is busy, so that they wait
// for one commit, and returns their errors.
func together(l *Ledger, jobs ...func() error) []error {
	holding, release := make(chan struct{}), make(chan struct{})
	go l.writer.write(context.Background(), true, func(*tx) error {
		close(holding)
		<-release
		return errors.New("nothing to write")
	})
	<-holding
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		wg.Go(func() { errs[i] = job() })
	}
	for queued := 0; queued < len(jobs); runtime.Gosched() {
		l.writer.mu.Lock()
		queued = len(l.writer.queue)
		l.writer.mu.Unlock()
	}
	close(release)
	wg.Wait()
	return errs
}

func appendJob(l *Ledger, goal string, head uint64) func() error {
	return func() error {
		_, err := l.Append(context.Background(), ledger.Append{Goal: goal, Head: head, Fence: min(head, 1), Durable: true,
			Events: []event.Event{ledgertest.Message(fmt.Sprintf("message %d of %s", head+1, goal))}, Row: ledgertest.RowOf(goal)})
		return err
	}
}

func TestWaitingAppendsShareOneCommitAndARefusalUndoesItselfAlone(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	ledgertest.Create(t, l, "late", 3)
	commits := 0
	onCommit(t, l, func() bool { commits++; return true })
	var jobs []func() error
	for i := range 20 {
		jobs = append(jobs, appendJob(l, fmt.Sprintf("g%d", i), 0))
	}
	jobs = append(jobs, appendJob(l, "late", 2), appendJob(l, "nobody", 7))
	errs := together(l, jobs...)
	for i, err := range errs[:20] {
		if err != nil {
			t.Errorf("append %d: %v", i, err)
		}
		ledgertest.CheckChain(t, l, fmt.Sprintf("g%d", i), 1)
	}
	if !errors.Is(errs[20], ledger.ErrConflict) || !errors.Is(errs[21], ledger.ErrNotFound) {
		t.Errorf("refusals: %v, %v", errs[20], errs[21])
	}
	ledgertest.CheckChain(t, l, "late", 3)
	if commits != 1 {
		t.Errorf("%d commits for 22 waiting appends, want 1", commits)
	}
}

func TestAFailedCommitFailsAllThatSharedItAndStoresNothing(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	ledgertest.Create(t, l, "g0", 1)
	fail := true
	onCommit(t, l, func() bool { return !fail })
	for i, err := range together(l, appendJob(l, "g0", 1), appendJob(l, "g1", 0), appendJob(l, "g2", 0)) {
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.Storage || !strings.Contains(err.Error(), l.Path()) {
			t.Errorf("append %d: %v", i, err)
		}
	}
	fail = false
	ledgertest.CheckChain(t, l, "g0", 1)
	if streams, err := l.Streams(context.Background()); err != nil || len(streams) != 1 {
		t.Errorf("streams %v, %v", streams, err)
	}
	for i, err := range together(l, appendJob(l, "g0", 1), appendJob(l, "g1", 0)) {
		if err != nil {
			t.Errorf("append %d after the failure: %v", i, err)
		}
	}
	ledgertest.CheckChain(t, l, "g0", 2)
}

func TestAFullDiskFailsWhoNeedsTheSpaceAndSaysSo(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	ledgertest.Create(t, l, "g", 1)
	if err := l.writer.exec("PRAGMA max_page_count = 60"); err != nil {
		t.Fatal(err)
	}
	big := func() error {
		return l.SaveCache(context.Background(), "g", ledger.Cache{Seq: 1, Blob: noise(1 << 20)})
	}
	errs := together(l, appendJob(l, "a", 0), big, appendJob(l, "b", 0))
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("small appends beside a large one: %v, %v", errs[0], errs[2])
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "free space") {
		t.Errorf("large write: %v", errs[1])
	}
	for _, goal := range []string{"a", "b", "g"} {
		ledgertest.CheckChain(t, l, goal, 1)
	}
	// Filled up append by append, it stops loudly and keeps what it has.
	var head uint64 = 1
	for err := error(nil); err == nil; {
		if err = appendJob(l, "g", head)(); err == nil {
			head++
		}
	}
	ledgertest.CheckChain(t, l, "g", head)
	if err := l.writer.exec("PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big(), appendJob(l, "g", head)()); err != nil {
		t.Fatal(err)
	}
	ledgertest.CheckChain(t, l, "g", head+1)
}

func TestAfterAFailedSyncNothingIsWrittenAnyMore(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	ledgertest.Create(t, l, "g", 1)
	l.writer.dead = errors.New("an earlier commit failed")
	if err := appendJob(l, "g", 1)(); !errors.Is(err, l.writer.dead) {
		t.Errorf("append: %v", err)
	}
	ledgertest.CheckChain(t, l, "g", 1)
}

func TestCloseRefusesWhatWaitsAndFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	appended := map[string]bool{}
	started := make(chan struct{}, 100)
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				goal := fmt.Sprintf("g%d-%d", i, n)
				err := appendJob(l, goal, 0)()
				if errors.Is(err, ledger.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				mu.Lock()
				appended[goal] = true
				mu.Unlock()
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 20 {
		<-started
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	again := open(t, filepath.Dir(l.Path()), Options{})
	streams, err := again.Streams(context.Background())
	if err != nil || len(streams) != len(appended) {
		t.Errorf("%d goals were acknowledged, %d are there, %v", len(appended), len(streams), err)
	}
}

func TestALargeArtifactStreamsInBoundedMemory(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	const size = 64 << 20
	var before, after runtime.MemStats
	h := sha256.New()
	runtime.ReadMemStats(&before)
	ref, err := l.PutArtifact(context.Background(), io.TeeReader(io.LimitReader(newNoise(), size), h), "")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := l.OpenArtifact(context.Background(), ref.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, rc); err != nil || n != size {
		t.Errorf("read back %d bytes: %v", n, err)
	}
	rc.Close()
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 32 {
		t.Errorf("storing and reading %d MiB allocated %d MiB", size>>20, got)
	}
	if want := hex.EncodeToString(h.Sum(nil)); ref.SHA256 != want || ref.Size != size {
		t.Errorf("ref %+v, want %s", ref, want)
	}
}

func TestSmallArtifactsLieInTheFileLargeOnesBesideIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put := func(content []byte) event.Ref {
		ref, err := l.PutArtifact(context.Background(), bytes.NewReader(content), "")
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	put(noise(200 << 10))
	put(make([]byte, 50<<20))
	if entries, err := os.ReadDir(filepath.Join(dir, "artifacts")); err == nil && len(entries) > 0 {
		t.Errorf("small artifacts made %v", entries)
	}
	large := noise(300 << 10)
	ref := put(large)
	file := filepath.Join(dir, "artifacts", ref.SHA256[:2], ref.SHA256[2:])
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	// Putting content again repairs what was lost or damaged.
	for _, spoil := range []func() error{
		func() error { return os.Remove(file) },
		func() error { return os.WriteFile(file, []byte("x"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		put(large)
		rc, err := l.OpenArtifact(context.Background(), ref.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(rc)
		if rc.Close(); err != nil || !bytes.Equal(got, large) {
			t.Errorf("after putting it again: %v", err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "artifacts", "tmp")); err != nil || len(entries) != 1 || entries[0].Name() != namesLock {
		t.Errorf("left in tmp: %v, %v", entries, err)
	}
}

func TestWhatAKilledPutLeftIsSweptLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tmp := filepath.Join(dir, "artifacts", "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"put-old": 25 * time.Hour, "put-new": time.Hour} {
		path := filepath.Join(tmp, name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir, Options{})
	entries, err := os.ReadDir(tmp)
	if err != nil || len(entries) != 1 || entries[0].Name() != "put-new" {
		t.Errorf("left %v, %v", entries, err)
	}
}
