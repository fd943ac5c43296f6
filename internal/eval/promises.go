package eval

import (
	"fmt"

	"belay/internal/core"
	"belay/internal/event"
)

// BrokenPromises reads a goal's events and says where they break what must
// always hold, whatever the model did: every call has one outcome, nothing
// runs twice at a time, no completion without a verdict that every criterion
// passes, no request after the end, and none that rewrites what stood in the one
// before: what a provider has cached is used again.
func BrokenPromises(es []event.Event) []string {
	p := promises{closed: map[string]int{}}
	for i, e := range es {
		if e.Seq != uint64(i+1) {
			p.say("event %d stands in the place of %d", e.Seq, i+1)
		}
		p.look(e)
	}
	s := core.Fold(core.State{}, es)
	if s.Refuse != "" {
		p.say("the ledger cannot be folded: %s", s.Refuse)
	}
	if !s.Status.Final() || s.Turn != nil {
		return p.broken
	}
	for _, op := range p.order {
		if p.closed[op] == 0 {
			p.say("the goal has ended and %s has no outcome", op)
		}
	}
	return p.broken
}

type promises struct {
	broken []string
	order  []string
	closed map[string]int
	final  event.Type
	// stable is the longest beginning that requests had in common since the
	// conversation was last compacted.
	stable int64
}

func (p *promises) say(format string, args ...any) {
	p.broken = append(p.broken, fmt.Sprintf(format, args...))
}

func (p *promises) look(e event.Event) {
	switch b := e.Payload.(type) {
	case event.OperationProposed:
		p.order = append(p.order, e.Op)
	case event.OperationRejected, event.ApprovalDenied:
		p.closeOp(e)
	case event.OperationFinished:
		p.closeOp(e)
	case event.OperationReconciled:
		if b.Retry {
			p.closed[e.Op] = 0
		}
	case event.OperationStarted:
		if p.final != "" {
			p.say("event %d starts %s after %s", e.Seq, e.Op, p.final)
		}
	case event.ModelRequested:
		if p.final != "" {
			p.say("event %d asks the model after %s", e.Seq, p.final)
		}
		// The first request of a process has none to be compared with.
		if b.StableBytes > 0 && b.StableBytes < p.stable {
			p.say("event %d rewrites the conversation: %d bytes are as before, and %d were", e.Seq, b.StableBytes, p.stable)
		}
		p.stable = max(p.stable, b.StableBytes)
	case event.ContextCompacted, event.GoalRevised:
		p.stable = 0
	case event.GoalCompleted:
		p.final = e.Type
		if b.How == event.AcceptedUnverified || b.How == event.Attested {
			return
		}
		if b.Verdict.Verdict != event.Complete || len(b.Verdict.Criteria) == 0 {
			p.say("completed as %s on the verdict %q with %d criteria", b.How, b.Verdict.Verdict, len(b.Verdict.Criteria))
		}
		for _, c := range b.Verdict.Criteria {
			if c.Result != event.Pass || len(c.Evidence) == 0 {
				p.say("completed as %s although criterion %s is %s with %d pieces of evidence", b.How, c.ID, c.Result, len(c.Evidence))
			}
		}
	case event.GoalCancelled, event.GoalFailed:
		p.final = e.Type
	}
}

func (p *promises) closeOp(e event.Event) {
	p.closed[e.Op]++
	if p.closed[e.Op] > 1 {
		p.say("event %d gives %s a second outcome", e.Seq, e.Op)
	}
}
