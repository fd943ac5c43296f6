package core

import (
	"fmt"
	"strings"

	"belay/internal/core/approval"
	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/policy"
)

// changePolicy records what a person lets this goal do from now on. It is the
// only way in which a goal's policy changes after its start: there is no effect
// and no tool whose result could come here.
func (w *step) changePolicy(b ChangePolicy) error {
	if err := w.alive(); err != nil {
		return err
	}
	if w.in.Fence != 0 || w.in.By != event.ActorUser {
		return fmt.Errorf("%w: only a person changes what a goal may do", ErrInput)
	}
	p := event.PolicyChanged{Approve: w.s.Settings.Approve}
	switch b.Approve {
	case "":
	case event.ApproveAsk, event.ApproveAuto, event.ApproveNever:
		p.Approve = b.Approve
	default:
		return fmt.Errorf("%w: approve is ask, auto or never, not %q", ErrInput, b.Approve)
	}
	if err := policy.CheckRules(b.Add); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	removed := map[string]bool{}
	for _, r := range w.s.Settings.Rules {
		if r.ID != "" && contains(b.Remove, r.ID) && r.Layer != "repository" {
			removed[r.ID] = true
			continue
		}
		p.Rules = append(p.Rules, r)
	}
	for _, id := range b.Remove {
		if !removed[id] {
			return fmt.Errorf("%w: no rule %q of this goal can be removed (the repository's stay)", ErrInput, id)
		}
		p.Removed = append(p.Removed, id)
	}
	for _, r := range b.Add {
		if holdsRule(p.Rules, r) {
			continue
		}
		p.Rules = append(p.Rules, r)
		p.Added = append(p.Added, r.ID)
	}
	if len(p.Added) == 0 && len(p.Removed) == 0 && p.Approve == w.s.Settings.Approve {
		return fmt.Errorf("%w: that is this goal's policy already", ErrState)
	}
	w.emit(p)
	w.answerByPolicy(b.Approve != "")
	return nil
}

func holdsRule(rules []event.Rule, r event.Rule) bool {
	for _, o := range rules {
		if o.Decision == r.Decision && o.Tool == r.Tool && o.Command == r.Command && o.Path == r.Path && o.Network == r.Network {
			return true
		}
	}
	return false
}

// answerByPolicy answers the open questions that the new policy answers.
func (w *step) answerByPolicy(mode bool) {
	for _, p := range append([]approval.Pending(nil), w.s.Approvals.Pending...) {
		o, ok := w.s.Find(p.Op)
		if !ok {
			continue
		}
		switch {
		case mode && w.s.Settings.Approve == event.ApproveAuto,
			o.Effect.SideEffect() && !p.Intent.Destructive && w.judge(o).Decision == policy.Allow:
			w.grant(p, event.ActorPolicy)
		case mode && w.s.Settings.Approve == event.ApproveNever:
			w.emitBy(event.ActorPolicy, p.Op, event.ApprovalDenied{Tool: p.Tool, Intent: p.Intent.Hash, By: event.ActorPolicy,
				Reason: "nobody is there to approve it (--approve never)"})
		}
	}
	w.wakeIfAnswered()
}

// askedUntil is when the oldest open question counts as denied; 0 for never.
func (s State) askedUntil() moment.Time {
	var first moment.Time
	if s.Settings.ApprovalTimeoutMS <= 0 {
		return first
	}
	for _, p := range s.Approvals.Pending {
		if p.Asked.IsZero() {
			continue
		}
		if at := later(p.Asked, s.Settings.ApprovalTimeoutMS); first.IsZero() || at < first {
			first = at
		}
	}
	return first
}

// timeOut denies the questions whose time has come; it sticks like any denial.
func (w *step) timeOut() {
	for _, p := range append([]approval.Pending(nil), w.s.Approvals.Pending...) {
		if w.in.Now >= later(p.Asked, w.s.Settings.ApprovalTimeoutMS) {
			w.emitBy(event.ActorPolicy, p.Op, event.ApprovalDenied{Tool: p.Tool, Intent: p.Intent.Hash, By: event.ActorPolicy,
				Reason: fmt.Sprintf("nobody answered within %d s", w.s.Settings.ApprovalTimeoutMS/1000)})
		}
	}
	w.commit()
}

func policyWords(p event.PolicyChanged) string {
	words := []string{"approve=" + string(p.Approve)}
	if len(p.Added) > 0 {
		words = append(words, "added "+strings.Join(p.Added, ", "))
	}
	if len(p.Removed) > 0 {
		words = append(words, "removed "+strings.Join(p.Removed, ", "))
	}
	return strings.Join(words, "; ")
}
