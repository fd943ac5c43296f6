package core

import (
	"fmt"

	"belay/internal/event"
)

// describeJourney names what happens to checkouts, and to goals that go elsewhere.
func describeJourney(e event.Event) (name, detail string) {
	switch p := e.Payload.(type) {
	case event.GoalGivenUp:
		return string(e.Type), "to " + p.To
	case event.GoalImported:
		if p.Copy {
			return string(e.Type), "as a copy, from " + p.From
		}
		return string(e.Type), fmt.Sprintf("from %s into %s", p.From, p.Repo)
	case event.GoalForked:
		return string(e.Type), fmt.Sprintf("from goal %s at event %d", p.From, p.At)
	case event.HeadMoved:
		by := p.By
		if by == "" {
			by = "the move to another directory"
		}
		return string(e.Type), movedWords(p) + ", by " + by
	case event.HeadAnswered:
		if p.GoOn {
			return "head_answered: go on", ""
		}
		return "head_answered: stop", ""
	case event.ResultApplied:
		return string(e.Type), appliedLine(p)
	case event.WorktreeRemoved:
		if p.Discarded {
			return string(e.Type), p.Dir + ", with a result that was not applied"
		}
		return string(e.Type), p.Dir
	}
	return string(e.Type), ""
}
