package service

import (
	"fmt"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/redact"
)

// cleanBody takes the secrets out of what a person writes: it is recorded and
// goes to a model's provider like any other text.
func cleanBody(r *redact.Redactor, b core.Body) (core.Body, error) {
	switch b := b.(type) {
	case core.Say:
		b.Text = r.Text(b.Text)
		return b, nil
	case core.Deny:
		b.Reason = r.Text(b.Reason)
		return b, nil
	case core.Pause:
		b.Detail = r.Text(b.Detail)
		return b, nil
	case core.Cancel:
		b.Reason = r.Text(b.Reason)
		return b, nil
	case core.MarkCheckpoint:
		b.Name = r.Text(b.Name)
		return b, nil
	case core.Reconcile:
		b.Reason = r.Text(b.Reason)
		return b, nil
	case core.Delegate:
		spec, err := cleanSpec(r, b.Spec)
		b.Spec = spec
		return b, err
	case core.Revise:
		spec, err := cleanSpec(r, b.Spec)
		b.Spec = spec
		return b, err
	}
	return b, nil
}

// cleanSpec takes the secrets out of a goal's words. A command is run as it
// stands, so one with a secret in it is refused.
func cleanSpec(r *redact.Redactor, s event.GoalSpec) (event.GoalSpec, error) {
	s.Text = r.Text(s.Text)
	constraints := s.Constraints
	s.Constraints = nil
	for _, c := range constraints {
		s.Constraints = append(s.Constraints, r.Text(c))
	}
	criteria := s.Acceptance
	s.Acceptance = nil
	for _, c := range criteria {
		if kind, yes := r.Holds(c.Command); yes {
			return s, fmt.Errorf("%w: the command of criterion %s holds a secret (%s), which would be recorded: have it read the secret from a file", ErrUsage, c.ID, kind)
		}
		c.Text, c.Contains = r.Text(c.Text), r.Text(c.Contains)
		s.Acceptance = append(s.Acceptance, c)
	}
	return s, nil
}
