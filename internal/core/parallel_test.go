package core

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
)

// TestHowManyOperationsRunSideBySideIsBounded (P7): whatever a response asks for,
// no more reads than the setting allows are in flight, nothing runs beside an
// operation with side effects, and all of them get their turn.
func TestHowManyOperationsRunSideBySideIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(0, 5).Draw(rt, "limit")
		most := int(limit)
		if most == 0 {
			most = DefaultParallelReads
		}
		d := newDesk(t, event.Settings{Approve: event.ApproveAuto, ParallelReads: limit})
		d.worker(Composed{Head: d.s.Head, Tokens: 1})
		var parts []event.Part
		var proposals []Proposal
		n := rapid.IntRange(1, 2*MaxCallsPerResponse).Draw(rt, "calls")
		for i := range n {
			p := Proposal{CallID: fmt.Sprint("c", i), Tool: "read_file", Effect: event.Read, Args: json.RawMessage(fmt.Sprintf(`{"path":"f%d"}`, i)),
				Access: event.Access{Reads: []string{fmt.Sprint("f", i)}}}
			if rapid.IntRange(0, 9).Draw(rt, "kind") == 0 {
				p = Proposal{CallID: p.CallID, Tool: "run_command", Effect: event.Supervised, Args: json.RawMessage(fmt.Sprintf(`{"command":"echo %d"}`, i)), Access: event.Access{Command: fmt.Sprint("echo ", i)}}
			}
			parts = append(parts, event.Part{Kind: event.PartCall, CallID: p.CallID, Tool: p.Tool, Arguments: string(p.Args)})
			proposals = append(proposals, p)
		}
		d.worker(Replied{Request: d.s.Request.ID, Response: event.ModelResponded{Parts: parts}, Proposals: proposals})
		ended := 0
		for len(d.s.Open) > 0 {
			var runs []Run
			var next Body
			for _, e := range Wanted(d.s, d.s.Fence, event.Worker("w")) {
				switch e := e.(type) {
				case Run:
					runs = append(runs, e)
				case Prepare:
					next = Prepared{Op: e.Op.ID, Observation: Observation{Tree: "T0", From: "T0"}}
				case Observe:
					next = Observed{Observation: Observation{Tree: "T0", From: "T0"}}
				}
			}
			if len(runs) > most {
				rt.Fatalf("%d operations are in flight, the limit is %d", len(runs), most)
			}
			for _, r := range runs {
				if r.Op.Effect.SideEffect() && len(runs) > 1 {
					rt.Fatalf("%s runs beside %d others", r.Op.Tool, len(runs)-1)
				}
			}
			switch {
			case len(runs) > 0:
				r := runs[rapid.IntRange(0, len(runs)-1).Draw(rt, "which ends")]
				d.worker(Ended{Op: r.Op.ID, Attempt: r.Attempt, Outcome: event.Succeeded, Result: event.Result{Output: event.Text{Head: "x"}, Command: &event.CommandResult{}}})
				ended++
			case next != nil:
				d.worker(next)
			default:
				rt.Fatalf("nothing is wanted, and %d operations are open", len(d.s.Open))
			}
		}
		if want := min(n, MaxCallsPerResponse); ended != want {
			rt.Fatalf("%d of %d operations had their turn", ended, want)
		}
	})
}
