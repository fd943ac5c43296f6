package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

// image is the file and its log as a crash leaves them.
type image struct{ file, log []byte }

func takeImage(t *testing.T, dir string) image {
	t.Helper()
	var im image
	var err error
	if im.file, err = os.ReadFile(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if im.log, err = os.ReadFile(filepath.Join(dir, FileName+"-wal")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return im
}

// lay writes the image to a directory of its own.
func (im image) lay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range map[string][]byte{FileName: im.file, FileName + "-wal": im.log} {
		if len(b) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// appendOne appends one event whose text is its seq, with some weight.
func appendOne(t *testing.T, l *Ledger, seq uint64, durable bool) {
	t.Helper()
	_, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: seq - 1, Fence: min(seq-1, 1), Row: ledgertest.RowOf("g"), Durable: durable,
		Events: []event.Event{ledgertest.Message(textOf(seq))}})
	if err != nil {
		t.Fatal(err)
	}
}

func textOf(seq uint64) string {
	return fmt.Sprintf("event %d ", seq) + strings.Repeat("x", int(seq%5)*900)
}

// what opens an image and returns how many events it has. Whatever can be read
// must be what was written; err is a refusal.
func (im image) events(t *testing.T, what string) (n uint64, broken *ledger.Broken, err error) {
	t.Helper()
	ctx := context.Background()
	dir := im.lay(t)
	l, err := Open(ctx, dir, Options{})
	if err != nil {
		return 0, nil, err
	}
	defer l.Close()
	es, err := l.Read(ctx, "g", 0, 0)
	if err != nil {
		return 0, nil, err
	}
	audit, err := l.Audit(ctx, "g")
	if err != nil {
		return 0, nil, err
	}
	for i, e := range es {
		if e.Seq != uint64(i+1) {
			t.Fatalf("%s: event %d stands at place %d", what, e.Seq, i+1)
		}
		if m, ok := e.Payload.(event.UserMessage); audit.Broken == nil && (!ok || m.Text != textOf(e.Seq)) {
			t.Errorf("%s: event %d is another one, and the audit holds", what, e.Seq)
		}
	}
	return uint64(len(es)), audit.Broken, nil
}

// A power cut in the middle of writing the log: what was acknowledged as
// durable before is there, what was being written is there whole or not at
// all, and the next append starts clean.
func TestATornLogCostsNothingThatWasDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	const durable = 25
	for seq := uint64(1); seq <= durable; seq++ {
		appendOne(t, l, seq, true)
	}
	before := takeImage(t, dir)
	appendOne(t, l, durable+1, false)
	appendOne(t, l, durable+2, false)
	after := takeImage(t, dir)
	if len(after.log) <= len(before.log) {
		t.Fatal("the appends are not in the log")
	}
	counts := map[uint64]int{}
	for cut := len(before.log); cut <= len(after.log); cut = next(cut, len(after.log), 797) {
		what := fmt.Sprintf("log cut to %d of %d bytes", cut, len(after.log))
		im := image{after.file, after.log[:cut]}
		n, broken, err := im.events(t, what)
		if err != nil || broken != nil || n < durable {
			t.Fatalf("%s: %d events, broken %v, %v", what, n, broken, err)
		}
		counts[n]++
		again := open(t, im.lay(t), Options{})
		appendOne(t, again, n+1, true)
		ledgertest.CheckChain(t, again, "g", n+1)
		again.Close()
	}
	if counts[durable] == 0 || counts[durable+1] == 0 || counts[durable+2] != 1 {
		t.Errorf("the cuts left %v", counts)
	}
}

// next is the next cut, the last one being the whole.
func next(at, end, by int) int {
	if at < end {
		return min(at+by, end)
	}
	return end + 1
}

// Damage in the middle: the ledger refuses, or the audit names the place, or
// nothing is missing. It never passes for whole with something gone but the
// very last commit of a log, which nothing tells from one that a crash cut off.
func TestAFlippedByteIsNeverASilentLoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	const all = 60
	for seq := uint64(1); seq <= all; seq++ {
		appendOne(t, l, seq, true)
	}
	logged := takeImage(t, dir)
	l.Close()
	folded := takeImage(t, dir)
	rng := rand.New(rand.NewPCG(1, 2))
	var whole, named, refused, last int
	for i := range 120 {
		im, where := image{append([]byte(nil), folded.file...), nil}, "file"
		b := im.file
		if i%2 == 1 {
			im, where = image{logged.file, append([]byte(nil), logged.log...)}, "log"
			b = im.log
		}
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		what := fmt.Sprintf("a bit of byte %d of the %s flipped", at, where)
		n, broken, err := im.events(t, what)
		switch {
		case err != nil:
			refused++
			if !strings.Contains(err.Error(), FileName) {
				t.Errorf("%s: the error names no file: %v", what, err)
			}
		case broken != nil:
			named++
		case n == all:
			whole++
		case where == "log" && n == all-1:
			last++ // the last commit looks like one that was being written
		default:
			t.Errorf("%s: %d of %d events, and nothing said", what, n, all)
		}
	}
	t.Logf("nothing missing %d, named by the audit %d, refused %d, the last commit lost %d", whole, named, refused, last)
}

// A damaged log is refused, with a copy kept, because SQLite is going to write
// over it, and refused again until a person has settled the copy; then the
// ledger goes on with what can be read, and doctor remembers.
func TestADamagedLogIsRefusedUntilItIsSettledAndRemembered(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for seq := uint64(1); seq <= 20; seq++ {
		appendOne(t, l, seq, true)
	}
	im := takeImage(t, dir)
	im.log[len(im.log)/2] ^= 4
	torn := im.lay(t)
	_, err := Open(ctx, torn, Options{})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Storage || !strings.Contains(err.Error(), "commits behind it cannot be read") {
		t.Fatalf("opening: %v", err)
	}
	kept, err := filepath.Glob(filepath.Join(torn, "*"+damagedLog+"-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v %v", kept, err)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(b, im.log) {
		t.Errorf("the copy is not the log: %v", err)
	}
	for range 2 {
		if _, err := Open(ctx, torn, Options{}); !errors.As(err, &f) || f.Kind != fault.Storage || !strings.Contains(err.Error(), kept[0]) {
			t.Fatalf("opening before it is settled: %v", err)
		}
	}
	if err := os.Rename(kept[0], kept[0]+settled); err != nil {
		t.Fatal(err)
	}
	again := open(t, torn, Options{})
	es, err := again.Read(ctx, "g", 0, 0)
	if err != nil || len(es) == 0 || len(es) >= 20 {
		t.Fatalf("%d events, %v", len(es), err)
	}
	appendOne(t, again, uint64(len(es))+1, true)
	ledgertest.CheckChain(t, again, "g", uint64(len(es))+1)
	problems, err := again.Check(ctx)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], kept[0]) {
		t.Errorf("check says %v, %v", problems, err)
	}
}
