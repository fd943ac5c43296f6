// Package ledgertest is the one conformance suite that every store of the
// ledger passes. It knows the port and nothing of any store: what only a store
// can do, such as damaging its own data, comes in with the harness.
package ledgertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
)

// Damage names a way to corrupt one stored record behind the store's back.
type Damage string

// The kinds of damage.
const (
	// FlipPayload changes one byte in the middle of the stored payload, so that
	// it stays valid JSON.
	FlipPayload Damage = "flip a byte of the payload"
	// BreakPayload makes the stored payload invalid JSON.
	BreakPayload Damage = "break the payload's syntax"
	// ChangeActor replaces the actor by "user:mallory".
	ChangeActor Damage = "change the actor"
	// ChangeHash changes one digit of the stored hash.
	ChangeHash Damage = "change the hash"
	// RemoveRecord deletes the record and leaves its neighbours.
	RemoveRecord Damage = "remove the record"
)

// Store is the harness of one store with its own, empty data.
type Store struct {
	// Open opens one more handle on the same data, as another process would.
	// The harness closes it when the test ends, after the suite may have.
	Open func(t testing.TB) ledger.Ledger
	// Skew moves the clock of every handle by d, which may be negative.
	Skew func(d time.Duration)
	// Damage corrupts a stored record.
	Damage func(t testing.TB, goal string, seq uint64, d Damage)
	// DropRow deletes a goal's row and leaves its events.
	DropRow func(t testing.TB, goal string)
	// AlterArtifact changes an artifact's stored content; DropArtifact deletes
	// it.
	AlterArtifact func(t testing.TB, sha256 string)
	DropArtifact  func(t testing.TB, sha256 string)
}

// Run runs the whole suite. fresh makes a harness with empty data; it is
// called once a test.
func Run(t *testing.T, fresh func(t *testing.T) Store) {
	for _, group := range []struct {
		name  string
		tests map[string]func(*testing.T, Store)
	}{
		{"append", appendTests}, {"claim", claimTests}, {"follow", followTests},
		{"artifact", artifactTests}, {"audit", auditTests}, {"lists", listTests}, {"shared", sharedTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for name, test := range group.tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, fresh(t))
				})
			}
		})
	}
}

// patience is how long a test waits for something that must happen; it bounds
// a failure and is never waited out by a store that works.
const patience = 30 * time.Second

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

// NewID makes a random id for goals and events; suites of single stores use it
// too.
func NewID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Message is a small event.
func Message(text string) event.Event {
	return Of(event.UserMessage{Mode: event.MessageMode("message"), Text: text})
}

// Of wraps a payload into an event that is ready to append.
func Of(p event.Payload) event.Event {
	return event.Event{ID: NewID(), Type: p.EventType(), Version: max(1, event.CurrentVersion(p.EventType())),
		Actor: event.ActorUser, Turn: "t1", Cause: "c1", Fence: 1, Payload: p}
}

// RowOf is a goal row as the core would compute it, with fence 1.
func RowOf(goal string) ledger.Row {
	return ledger.Row{Goal: goal, Title: "fix " + goal, Repo: "/src/" + goal, Status: "active", Version: 1, Fence: 1, Runnable: true}
}

// Create makes a goal with n small events.
func Create(t testing.TB, l ledger.Ledger, goal string, n int) []event.Event {
	t.Helper()
	row := RowOf(goal)
	return create(t, l, row, n)
}

func create(t testing.TB, l ledger.Ledger, row ledger.Row, n int) []event.Event {
	t.Helper()
	a := ledger.Append{Goal: row.Goal, Row: row}
	for i := range n {
		a.Events = append(a.Events, Message(fmt.Sprintf("message %d of %s", i+1, row.Goal)))
	}
	return must(l.Append(background(t), a))(t)
}

// add appends events at a head under fence 1.
func add(t testing.TB, l ledger.Ledger, goal string, head uint64, events ...event.Event) []event.Event {
	t.Helper()
	return must(l.Append(background(t), ledger.Append{Goal: goal, Head: head, Fence: 1, Events: events, Row: RowOf(goal)}))(t)
}

// must unwraps a call's result: must(call())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return v
	}
}

func texts(events []event.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		if m, ok := e.Payload.(event.UserMessage); ok {
			out[i] = m.Text
		} else {
			out[i] = fmt.Sprintf("%T", e.Payload)
		}
	}
	return out
}

// CheckChain fails unless the events are gapless from first and of one goal,
// with times that never fall, and the audit of the goal holds.
func CheckChain(t testing.TB, l ledger.Ledger, goal string, want uint64) {
	t.Helper()
	events := must(l.Read(background(t), goal, 0, 0))(t)
	if uint64(len(events)) != want {
		t.Fatalf("goal %s has %d events, want %d", goal, len(events), want)
	}
	for i, e := range events {
		if e.Seq != uint64(i)+1 || e.Goal != goal {
			t.Fatalf("event %d has seq %d and goal %s", i, e.Seq, e.Goal)
		}
		if i > 0 && e.Time < events[i-1].Time {
			t.Fatalf("time runs backwards at seq %d: %v after %v", e.Seq, e.Time, events[i-1].Time)
		}
	}
	a := must(l.Audit(background(t), goal))(t)
	if a.Broken != nil || a.Events != want {
		t.Fatalf("audit of %s: %d events, broken %+v", goal, a.Events, a.Broken)
	}
}

func long(n int) string { return strings.Repeat("äöü 日本 <&> \"quoted\" line\n", n/30+1) }
