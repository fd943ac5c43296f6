package core

import (
	"encoding/json"
	"fmt"
	"maps"

	"belay/internal/event"
	"belay/internal/moment"
)

// DefaultRetentionMS is how long after its end a goal keeps every state of its
// workspace that was observed: 30 days. After that its baseline, its end, what
// has a name and what evidence was taken on stay.
const DefaultRetentionMS = 30 * 24 * 3600 * 1000

// Holdings are the names of observed states that a goal's ledger mentions, by
// whether they outlive its retention. A name is recognised by its form in any
// payload, so that an event type that comes later cannot be forgotten here; what
// has the form and is none (an artifact's address) keeps nothing that is there.
type Holdings struct {
	state  State
	all    map[string]bool
	pinned map[string]bool
	// latest is the newest checkpoint, which is pinned whatever it is.
	latest event.CheckpointCreated
}

// See takes the next event of the goal in. An event that cannot be read is an
// error: nobody can say what it holds.
func (h *Holdings) See(es []event.Event) error {
	if h.all == nil {
		h.all, h.pinned = map[string]bool{}, map[string]bool{}
	}
	for _, e := range es {
		switch p := e.Payload.(type) {
		case event.Unknown:
			return fmt.Errorf("goal %s, event %d (%s) is of a newer belay", e.Goal, e.Seq, e.Type)
		case event.Damaged:
			return fmt.Errorf("goal %s, event %d is damaged: %s (belay audit %s)", e.Goal, e.Seq, p.Reason, e.Goal)
		}
		payload, err := json.Marshal(e.Payload)
		if err != nil {
			return fmt.Errorf("goal %s, event %d: %w", e.Goal, e.Seq, err)
		}
		names := event.NamesIn(payload)
		for _, n := range names {
			h.all[n] = true
		}
		if h.outlives(e) {
			for _, n := range names {
				h.pinned[n] = true
			}
		}
	}
	h.state = Fold(h.state, es)
	return nil
}

// outlives reports whether the states that an event names stay after the
// goal's retention.
func (h *Holdings) outlives(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.CheckpointCreated:
		h.latest = p
		return p.Name != ""
	case event.IndexChanged:
		return p.By == external // a rollback has to tell what others staged
	case event.RepoStateMutated:
		return p.By == external && p.More > 0 // and changed, where the event does not list it
	case event.DiffUpdated, event.WorkspaceObserved, event.WorkspacePacked,
		event.OperationProposed, event.OperationStarted, event.OperationFinished, event.OperationRejected, event.ApprovalRequested:
		return false
	}
	return true // evidence, verdicts, answers, the start, the end, and what is not known here
}

// Keep are the states that must stay: all of them until the goal has been over
// for the retention.
func (h *Holdings) Keep(now moment.Time, retentionMS int64) map[string]bool {
	if !h.Expired(now, retentionMS) {
		return h.all
	}
	keep := maps.Clone(h.pinned)
	for _, n := range []string{h.state.Revision.Tree, h.state.Index, h.state.BaselineTree(), h.latest.Tree, h.latest.Index} {
		if n != "" {
			keep[n] = true
		}
	}
	return keep
}

// Expired reports whether the goal ended longer ago than the retention, with
// nothing left to settle.
func (h *Holdings) Expired(now moment.Time, retentionMS int64) bool {
	s := h.state
	return s.Refuse == "" && s.Status.Final() && !s.unsettled() && len(s.InDoubt) == 0 && len(s.Open) == 0 &&
		now > later(s.Updated, retentionMS)
}

// Doubts are the attempts whose records a person may still want looked at.
func (h *Holdings) Doubts() bool { return len(h.state.InDoubt) > 0 || len(h.state.Open) > 0 }
