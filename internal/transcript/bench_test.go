package transcript_test

import (
	"fmt"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/model/openai"
	"belay/internal/transcript"
)

// long is a goal of so many steps: a request, a response with one call, its
// operation and the observation after it.
func long(steps int) []event.Event {
	l := (&ledger{}).add("", event.GoalReceived{Version: 1, Spec: event.GoalSpec{Text: "fix it"}}, event.WorkspaceAttached{Root: "/w"})
	out := strings.Repeat("a line of output\n", 60)
	for i := range steps {
		id, op := fmt.Sprint("c", i), fmt.Sprint("op", i+1)
		l.add("", event.ModelRequested{Request: fmt.Sprint("r", i+1), Model: "m"}, event.ModelResponded{Parts: []event.Part{say("next"), call(id, "read_file")}})
		l.add(op, proposed(id, "read_file"), event.OperationStarted{Attempt: 1}, finished(event.Succeeded, output(out)), event.WorkspaceObserved{})
	}
	return l.events
}

func BenchmarkRebuild10000Events(b *testing.B) {
	es := long(1667)[:10_000]
	for b.Loop() {
		transcript.Rebuild(es)
	}
}

func BenchmarkMessages300Steps(b *testing.B) {
	t := transcript.Rebuild(long(300))
	for b.Loop() {
		t.Messages(nil)
	}
}

// BenchmarkViewAt100000Events is the view of a goal of 100,000 events for a
// worker that comes anew: the conversation is read from where the state says,
// put in order and written as a request.
func BenchmarkViewAt100000Events(b *testing.B) {
	es := long(16_667)
	compacted := event.ContextCompacted{Through: uint64(len(es) - 1500), Level: 1, Summary: event.Text{Head: strings.Repeat("what the ledger shows\n", 1000)}}
	l := &ledger{events: es}
	// 250 exchanges behind the cut are more than any window keeps.
	for _, e := range es[len(es)-1500:] {
		if _, ok := e.Payload.(event.ModelRequested); ok {
			compacted.Through = e.Seq
			break
		}
	}
	l.add("", compacted)
	state := core.State{Talk: core.Conversation{From: compacted.Through, Grounds: []uint64{1, 2}}}
	w, err := openai.New(openai.Config{Name: "m", BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ms := reopened(state, l.events).Messages(nil)
		if _, _, err := w.Body(model.Request{System: "s", Messages: ms, State: "state"}); err != nil || len(ms) < 400 {
			b.Fatal(len(ms), err)
		}
	}
}
