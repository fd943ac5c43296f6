package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	store "belay/internal/ledger/memory"
	"belay/internal/memory"
)

// past fills a ledger with a goal of n commands in /w.
func past(t *testing.T, l ledger.Ledger, goal string, n int) {
	t.Helper()
	es := []event.Event{{Payload: event.GoalReceived{Version: 1, Repo: "/w", Spec: event.GoalSpec{Text: "work"}}}}
	for i := range n {
		op := fmt.Sprintf("op%d", i+1)
		es = append(es, event.Event{Op: op, Payload: event.OperationProposed{Tool: "run_command", Effect: event.Supervised, Access: event.Access{Command: fmt.Sprintf("make t%d", i%100)}}},
			event.Event{Op: op, Payload: event.OperationFinished{Tool: "run_command", Attempt: 1, Outcome: event.Succeeded, Result: event.Result{Command: &event.CommandResult{}}}})
	}
	head := uint64(0)
	for len(es) > 0 {
		part := es[:min(len(es), 1000)]
		es = es[len(part):]
		for i := range part {
			e := &part[i]
			e.Goal, e.Type, e.Version, e.Fence, e.Actor = goal, e.Payload.EventType(), 1, 1, event.ActorRuntime
			e.ID = event.NewID(1_796_000_000_000_000, [16]byte{goal[0], goal[len(goal)-1]}, int(head)+i)
		}
		_, err := l.Append(t.Context(), ledger.Append{Goal: goal, Head: head, Fence: 1, Events: part,
			Row: ledger.Row{Goal: goal, Repo: "/w", Status: "completed", Fence: 1, Version: 1}})
		if err != nil {
			t.Fatal(err)
		}
		head += uint64(len(part))
	}
}

// A goal that starts is not kept waiting by how much there is to be learned:
// each start reads on, until all of it is known.
func TestAStartIsNotKeptWaitingByAllThatWasLearned(t *testing.T) {
	t.Parallel()
	l := store.New(store.Options{})
	s := New(Config{Ledger: l})
	const goals, commands = 4, 2000
	for i := range goals {
		past(t, l, fmt.Sprintf("g%02d", i), commands)
	}
	st := core.State{Goal: "new", Repo: "/w"}
	began := time.Now()
	s.recall(t.Context(), st, nil)
	t.Logf("the first start, %d events behind: %v", goals*(2*commands+1), time.Since(began))
	for i := 0; ; i++ {
		b, err := s.book(t.Context(), "/w", 0)
		if err != nil && !errors.Is(err, errBehind) || i > goals*(2*commands+1)/memoryAlways+1 {
			t.Fatalf("starts never get to the end of it: %d events, %v", b.Seq(), err)
		}
		if r := b.Recall(memory.Query{}); err != nil && len(r.Items) > 0 && len(s.recall(t.Context(), st, nil).Items) > 0 && i == 0 {
			t.Fatal("a goal is shown what may have been forgotten meanwhile")
		}
		if b.Seq() == goals*(2*commands+1) {
			break
		}
	}
	began = time.Now()
	r := s.recall(t.Context(), st, []string{"make t7"})
	t.Logf("a start when it is known: %v", time.Since(began))
	if len(r.Items) == 0 || !strings.Contains(r.Items[0].Text, "`make t7` worked 80 times") || r.More == 0 {
		t.Errorf("%+v", r)
	}
	// The same without the cache.
	var b memory.Book
	rows, err := l.Goals(t.Context(), ledger.Filter{})
	if err == nil {
		err = s.fold(t.Context(), &b, rows, noBudget)
	}
	if err != nil || b.Recall(memory.Query{Tests: []string{"make t7"}}).Items[0] != r.Items[0] {
		t.Errorf("a rebuild says otherwise: %v", err)
	}
}

// A goal of which more is known than the memory is, and one that is not there
// any more in the list, harm nothing.
func TestAMemoryThatCannotBeReadIsNoFailure(t *testing.T) {
	t.Parallel()
	l := store.New(store.Options{})
	s := New(Config{Ledger: l})
	past(t, l, "g1", 3)
	for _, c := range []ledger.Cache{
		{Seq: 9, Schema: memory.Schema, Blob: []byte("junk")},
		{Seq: 10, Schema: memory.Schema + 1, Blob: []byte(`{"through":{"g1":7}}`)},
	} {
		if err := l.SaveCache(t.Context(), memoryKey("/w"), c); err != nil {
			t.Fatal(err)
		}
		if r := s.recall(t.Context(), core.State{Repo: "/w"}, nil); len(r.Items) != 3 {
			t.Errorf("%+v", r)
		}
	}
	if r := s.recall(t.Context(), core.State{Repo: "/elsewhere"}, nil); len(r.Items) != 0 {
		t.Errorf("another repository's: %+v", r)
	}
}
