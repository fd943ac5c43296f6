package memory

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, harness)
}

func harness(t *testing.T) ledgertest.Store {
	var skew atomic.Int64
	l := New(Options{Clock: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }})
	edit := func(id string, f func(*goal)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		f(l.goals[id])
	}
	return ledgertest.Store{
		Open: func(t testing.TB) ledger.Ledger {
			h := l.Handle()
			t.Cleanup(func() { h.Close() })
			return h
		},
		Skew:    func(d time.Duration) { skew.Add(int64(d)) },
		DropRow: func(_ testing.TB, id string) { edit(id, func(g *goal) { g.row = nil }) },
		Damage: func(_ testing.TB, id string, seq uint64, d ledgertest.Damage) {
			edit(id, func(g *goal) { damage(g, int(seq)-1, d) })
		},
		AlterArtifact: func(_ testing.TB, sha string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			a := l.artifacts[sha]
			a.Content = bytes.Clone(a.Content)
			a.Content[len(a.Content)/2] ^= 1
			l.artifacts[sha] = a
			l.forget()
		},
		DropArtifact: func(_ testing.TB, sha string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.artifacts, sha)
			l.forget()
		},
	}
}

// forget drops what was decoded from what the test has damaged.
func (s *store) forget() {
	for _, g := range s.goals {
		g.decoded = make([]event.Event, len(g.records))
	}
}

func damage(g *goal, i int, d ledgertest.Damage) {
	g.decoded[i] = event.Event{}
	r := &g.records[i]
	r.Payload = bytes.Clone(r.Payload)
	switch d {
	case ledgertest.FlipPayload:
		j := bytes.Index(r.Payload, []byte("message "))
		r.Payload[j] ^= 1
	case ledgertest.BreakPayload:
		r.Payload[0] = '!'
	case ledgertest.ChangeActor:
		r.Actor = "user:mallory"
	case ledgertest.ChangeHash:
		b := []byte(g.hashes[i])
		if b[7] == '0' {
			b[7] = '1'
		} else {
			b[7] = '0'
		}
		g.hashes[i] = string(b)
	case ledgertest.RemoveRecord:
		g.records = append(g.records[:i:i], g.records[i+1:]...)
		g.hashes = append(g.hashes[:i:i], g.hashes[i+1:]...)
		g.decoded = append(g.decoded[:i:i], g.decoded[i+1:]...)
	}
}

func TestFailAppendFailsTheNthAppendAndStoresNothing(t *testing.T) {
	t.Parallel()
	disk := errors.New("no space left on device")
	var calls []int
	l := New(Options{FailAppend: func(n int) error {
		calls = append(calls, n)
		if n == 2 {
			return disk
		}
		return nil
	}})
	ledgertest.Create(t, l, "g", 1)
	second := ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")}
	if _, err := l.Append(context.Background(), second); !errors.Is(err, disk) {
		t.Fatalf("second append: %v", err)
	}
	ledgertest.CheckChain(t, l, "g", 1)
	if _, err := l.Append(context.Background(), second); err != nil {
		t.Fatalf("third append: %v", err)
	}
	ledgertest.CheckChain(t, l, "g", 2)
	if len(calls) != 3 || calls[2] != 3 {
		t.Errorf("the hook saw %v", calls)
	}
}

func BenchmarkAppend(b *testing.B) {
	l := New(Options{})
	ledgertest.Create(b, l, "g", 1)
	row := ledgertest.RowOf("g")
	head := uint64(1)
	for b.Loop() {
		if _, err := l.Append(context.Background(), ledger.Append{Goal: "g", Head: head, Fence: 1, Events: []event.Event{ledgertest.Message("a message of usual length")}, Row: row}); err != nil {
			b.Fatal(err)
		}
		head++
	}
}
