package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
)

// record is an event as belay prints it.
type record struct {
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id"`
	Type    event.Type      `json:"type"`
	Op      string          `json:"op_id"`
	Fence   uint64          `json:"fence"`
	Hash    string          `json:"hash"`
	Payload json.RawMessage `json:"payload"`
}

func payload[P event.Payload](e record) (P, bool) {
	var p P
	return p, e.Type == p.EventType() && json.Unmarshal(e.Payload, &p) == nil
}

// account is what a run's ledger says.
type account struct {
	events  []record
	unknown int // outcomes that were declared unknown
}

// check holds a finished run against the invariants and the undisturbed run.
// lost says that what watched a command may have died with it: its shim, or
// the machine.
func (w *world) check(want map[string]string, lost bool) (account, error) {
	var a account
	o, err := w.ask("audit", w.goal)
	if err != nil {
		return a, err
	}
	if o.code != 0 {
		w.violation("the audit fails: %v", o)
	}
	if o, err = w.ask("events", w.goal); err != nil {
		return a, err
	}
	for l := range strings.Lines(o.out) {
		var e record
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			return a, fmt.Errorf("a line of events: %w: %s", err, l)
		}
		a.events = append(a.events, e)
	}
	w.checkStream(a.events)
	w.checkOperations(&a, lost)
	w.checkCompletion(a.events)
	w.checkProcesses()
	for _, e := range effects {
		if n := e.seen(w); n != 1 {
			w.violation("the effect %q happened %d times", e.name, n)
		}
	}
	return a, w.checkTree(want)
}

// checkStream: nothing that was shown is lost, order and fences only grow, and
// nothing but facts comes after the end.
func (w *world) checkStream(es []record) {
	final := false
	for i, e := range es {
		if e.Seq != uint64(i+1) {
			w.violation("seq %d stands at place %d", e.Seq, i+1)
		}
		if i > 0 && e.Fence < es[i-1].Fence {
			w.violation("the fence falls from %d to %d at event %d", es[i-1].Fence, e.Fence, e.Seq)
		}
		if final && e.Type != event.TypeTurnEnded && e.Type != event.TypeOperationFinished && e.Type != event.TypeLateFact {
			w.violation("%s (event %d) comes after the end", e.Type, e.Seq)
		}
		final = final || e.Type == event.TypeGoalCompleted
		if p, ok := payload[event.ModelFailed](e); ok && !p.Fault.Retryable {
			w.violation("a request failed for good at event %d (a history that no provider would take?): %s", e.Seq, p.Fault.Message)
		}
	}
	for seq, hash := range w.acked {
		if seq > uint64(len(es)) || es[seq-1].Hash != hash {
			w.violation("event %d was shown and is lost", seq)
		}
	}
}

// checkOperations: every operation closes exactly once, attempts count up,
// what needs approval has it, and unknown has a cause.
func (w *world) checkOperations(a *account, lost bool) {
	type op struct {
		tool                     string
		effect                   event.EffectClass
		open, asked, granted     bool
		attempts, running, ended int
	}
	ops := map[string]*op{}
	calls := map[string]string{}
	for _, e := range a.events {
		o := ops[e.Op]
		if o == nil && e.Type != event.TypeOperationProposed {
			continue
		}
		close := func() {
			if !o.open {
				w.violation("%s closes twice, again by %s at event %d", e.Op, e.Type, e.Seq)
			}
			o.open, o.running = false, 0
			o.ended++
		}
		switch e.Type {
		case event.TypeOperationProposed:
			p, _ := payload[event.OperationProposed](e)
			if o != nil {
				w.violation("%s is proposed twice", e.Op)
			}
			if was, ok := calls[p.Request+p.CallID]; ok {
				w.violation("the call %s of %s is both %s and %s", p.CallID, p.Request, was, e.Op)
			}
			calls[p.Request+p.CallID] = e.Op
			ops[e.Op] = &op{tool: p.Tool, effect: p.Effect, open: true}
		case event.TypeApprovalRequested:
			o.asked = true
		case event.TypeApprovalGranted:
			o.granted = true
		case event.TypeOperationStarted:
			p, _ := payload[event.OperationStarted](e)
			if p.Attempt != o.attempts+1 || !o.open {
				w.violation("attempt %d of %s starts after %d (open %v)", p.Attempt, e.Op, o.attempts, o.open)
			}
			if o.asked && !o.granted {
				w.violation("%s starts at event %d without its approval", e.Op, e.Seq)
			}
			o.attempts, o.running = p.Attempt, p.Attempt
		case event.TypeOperationRejected, event.TypeApprovalDenied:
			close()
			if p, ok := payload[event.OperationRejected](e); ok && p.Fault.Kind != fault.InDoubt && p.Fault.Kind != fault.Unverified {
				w.violation("%s (%s) is rejected: %s", e.Op, o.tool, p.Fault.Error())
			}
		case event.TypeOperationFinished:
			p, _ := payload[event.OperationFinished](e)
			close()
			if p.Outcome == event.OutcomeUnknown {
				a.unknown++
				if o.effect != event.Supervised || !lost {
					w.violation("%s (%s) is declared unknown without a cause: %s", e.Op, o.tool, p.Result.Fault)
				}
			} else if p.Outcome != event.Succeeded && o.tool != "run_test" {
				w.violation("%s (%s) ended as %s: %s", e.Op, o.tool, p.Outcome, p.Result.Fault)
			}
		case event.TypeOperationReconciled:
			if p, _ := payload[event.OperationReconciled](e); p.Retry {
				o.open = true
			}
		}
	}
	for id, o := range ops {
		if o.open {
			w.violation("%s (%s) has no outcome", id, o.tool)
		}
	}
}

// checkCompletion: the goal completed on a test that ran, passed and left the
// tree as it was, on exactly the tree that the goal has at that moment.
func (w *world) checkCompletion(es []record) {
	tree, proven, done := "", map[string]bool{}, 0
	for _, e := range es {
		if p, ok := payload[event.WorkspaceAttached](e); ok {
			tree = p.Tree
		}
		if p, ok := payload[event.RepoStateMutated](e); ok {
			if p.From != tree {
				w.violation("event %d changes the tree %.12s, the goal's is %.12s", e.Seq, p.From, tree)
			}
			tree = p.Revision.Tree
			if p.By == "external" {
				w.violation("event %d blames somebody else for %d changed paths", e.Seq, len(p.Changes)+p.More)
			}
		}
		if p, ok := payload[event.TestCompleted](e); ok {
			good := p.ExitCode == 0 && p.Counts.Executed() > 0 && p.Counts.Failed == 0 && p.TreeBefore == p.TreeAfter
			proven[p.TreeAfter] = good
		}
		if p, ok := payload[event.GoalCompleted](e); ok {
			done++
			if !proven[tree] || p.How != event.Verified {
				w.violation("event %d completes the goal as %s without evidence on %.12s", e.Seq, p.How, tree)
			}
		}
	}
	if done != 1 {
		w.violation("the goal completed %d times", done)
	}
}

// checkProcesses: nothing of the run lives. A shim that has handed in its
// result may take a moment to leave.
func (w *world) checkProcesses() {
	var left []proc
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if left = w.ours(); len(left) == 0 {
			return
		}
	}
	for _, p := range left {
		w.violation("process %d outlives the goal: %s", p.pid, p.cmd)
	}
}

// notCompared leaves out what is no part of the final tree: git's own files, and the
// folder that is ignored.
func notCompared(rel string) bool { return rel == ".git" || rel == "out" }

func (w *world) checkTree(want map[string]string) error {
	got, err := tree(w.path("repo"), notCompared)
	if err != nil {
		return err
	}
	var names []string
	for n := range want {
		names = append(names, n)
	}
	for n := range got {
		if _, ok := want[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		if want[n] != got[n] {
			w.violation("the final tree differs in %s: %.80q, undisturbed %.80q", n, got[n], want[n])
		}
	}
	pending, err := tree(w.path(places[w.place]+"/workspaces"), func(rel string) bool { return strings.Contains(rel, "/git") })
	if err != nil {
		return err
	}
	for n := range pending {
		if strings.Contains(n, "/pending/") {
			w.violation("a journal of an edit is left: %s", n)
		}
	}
	return nil
}
