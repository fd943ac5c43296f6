package core_test

import (
	"fmt"
	"testing"

	"belay/internal/core"
	"belay/internal/event"
)

// longGoal is the state of a goal that has run for thousands of steps: what a
// state keeps at most, it keeps.
func longGoal(tb testing.TB) core.State {
	tb.Helper()
	b := newBench()
	for _, l := range []string{`begin approve=auto test="make check"`, "model plan a.go", "model test", "do op2 passed=3 failed=1 exit=1"} {
		if err := b.do(l); err != nil {
			tb.Fatal(err)
		}
	}
	s := b.state.Clone()
	s.Files = map[string]string{}
	for i := range 4096 {
		s.Files[fmt.Sprintf("internal/some/package/file%d.go", i)] = fmt.Sprintf("%064d", i)
	}
	for i := range 200 {
		s.Said = append(s.Said, core.Mail{Seq: uint64(i), Text: fmt.Sprint("a message of the user ", i)})
		s.Decisions = append(s.Decisions, core.Decision{Seq: uint64(i), Decision: "a decision", Reason: "a reason"})
	}
	for i := range 500 {
		s.Checkpoints = append(s.Checkpoints, core.Checkpoint{ID: fmt.Sprint("cp", i), Tree: fmt.Sprintf("%040d", i)})
	}
	for i := range 64 {
		s.Approvals.Denied[fmt.Sprintf("%064d", i)] = "no"
		s.Progress.Counts[fmt.Sprintf("%064d", i)] = 1
	}
	return s
}

// BenchmarkStepTrivialRead is what the core costs for one whole step of the
// agent loop that reads a file: compose, reply, result, and the driver's fold
// of each.
func BenchmarkStepTrivialRead(b *testing.B) {
	start := longGoal(b)
	in := func(n int, body core.Body) core.Input {
		return core.Input{Now: start.Updated.AddMS(int64(n)), Seed: [16]byte{byte(n), byte(n >> 8)}, By: "worker:w1", Fence: start.Fence, StoreFence: start.Fence, Body: body}
	}
	step := func(s core.State, n int, body core.Body) core.State {
		r, err := core.Step(s, in(n, body))
		if err != nil {
			b.Fatal(err)
		}
		return core.Fold(s, r.Events)
	}
	call := proposal("read a.go")
	call.CallID = "c"
	reply := event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, CallID: "c", Tool: call.Tool, Arguments: string(call.Args)}},
		Usage: event.Usage{Input: 900, Output: 100}}
	b.ReportAllocs()
	b.ResetTimer()
	s, events := start, uint64(0)
	for i := range b.N {
		if i%40 == 0 { // before the turn limit
			s, events = start, events+s.Head-start.Head
		}
		n := i % 40 * 4
		s = step(s, n, core.Composed{Head: s.Head, Tokens: 1000})
		s = step(s, n+1, core.Replied{Request: s.Request.ID, Response: reply, Proposals: []core.Proposal{call}})
		op := s.Open[0]
		s = step(s, n+2, core.Ended{Op: op.ID, Attempt: 1, Outcome: event.Succeeded,
			Result: event.Result{Output: event.Text{Head: "package a"}, Seen: []event.FileSeen{{Path: "a.go", Hash: "h"}}}})
	}
	b.ReportMetric(float64(events+s.Head-start.Head)/float64(b.N), "events/op")
}

// BenchmarkClone is the copy that Step and Fold begin with.
func BenchmarkClone(b *testing.B) {
	s := longGoal(b)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Clone()
	}
}

// BenchmarkFold is what opening a goal costs for each event of it.
func BenchmarkFold(b *testing.B) {
	var events []event.Event
	for seed := uint64(1); len(events) < 100; seed++ {
		s := newSim(seed, false, knobs{kill: -1})
		if err := s.run(); err != nil {
			b.Fatal(err)
		}
		events = s.events
	}
	b.ReportAllocs()
	for b.Loop() {
		core.Fold(core.State{}, events)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
}
