package transcript_test

import (
	"fmt"
	"strings"
	"testing"

	"belay/internal/event"
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
