package runtime

import (
	"context"

	"belay/internal/event"
	"belay/internal/tool"
)

// recent is how many events a new driver looks back over for commands whose
// records an earlier one left in the spool.
const recent = 64

// spent notes commands whose results are recorded. What they printed is in the
// spool as they printed it, secrets included; the record in the ledger is
// without. So the spool forgets a command, but only once its result cannot be
// lost any more with the power: after a durable commit that covers it.
func (d *driver) spent(ctx context.Context, es []event.Event, durable bool) {
	for _, e := range es {
		if p, ok := e.Payload.(event.OperationFinished); ok && p.Result.Command != nil && p.Outcome != event.OutcomeUnknown {
			d.finished = append(d.finished, tool.AttemptKey(d.Goal.ID, e.Op, p.Attempt))
		}
	}
	if !durable || d.Goal.Sandbox == nil {
		return
	}
	for _, key := range d.finished {
		// One that cannot be removed now is met again by the next driver.
		_ = d.Goal.Sandbox.Forget(ctx, key)
	}
	d.finished = nil
}

// settled notes commands whose outcome was in doubt in the present state and is
// not after the events that follow.
func (d *driver) settled(es []event.Event) {
	for _, e := range es {
		if e.Type != event.TypeOperationReconciled {
			continue
		}
		if o, ok := d.state.Doubt(e.Op); ok && o.Effect == event.Supervised {
			d.finished = append(d.finished, tool.AttemptKey(d.Goal.ID, o.ID, o.Attempt))
		}
	}
}

// leftovers notes what a driver that ended between a commit and its clean-up
// left behind.
func (d *driver) leftovers(ctx context.Context) error {
	after := uint64(0)
	if d.state.Head > recent {
		after = d.state.Head - recent
	}
	es, err := d.Ledger.Read(ctx, d.Goal.ID, after, recent)
	d.spent(ctx, es, false)
	return err
}
