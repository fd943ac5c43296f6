// Package plan holds the rules of the plan gate and the todo list: plan mode
// is a permission, and at most one todo is in progress.
//
// It must not know operations or policy rules; the core asks it and acts.
package plan

import (
	"fmt"
	"path"
	"strings"

	"belay/internal/event"
)

// SmallScope is how many declared path patterns a plan may have to count as
// small, so that plan mode "auto" approves it by itself.
const SmallScope = 5

// Decision is who has to approve a plan.
type Decision string

// The decisions.
const (
	ByPolicy Decision = "policy" // approved at once, on record
	ByUser   Decision = "user"
	Denied   Decision = "denied" // nobody is there to approve it
)

// Gate reports the permission mode that a new goal starts in.
func Gate(m event.PlanMode) event.PermissionMode {
	if m == event.PlanNever {
		return event.ModeDefault
	}
	return event.ModePlan
}

// Approver decides who approves a recorded plan. Auto approves a plan that
// declares a small, concrete scope; a plan that does not say what it will
// change, or says "everything", goes to the user. So does one that brings
// criteria: what they run is run unasked afterwards.
func Approver(mode event.PlanMode, approve event.ApproveMode, p event.Plan) Decision {
	if approve == event.ApproveAuto {
		return ByPolicy
	}
	if mode == event.PlanAuto && small(p.Scope) && len(p.Criteria) == 0 {
		return ByPolicy
	}
	if approve == event.ApproveNever {
		return Denied
	}
	return ByUser
}

func small(scope []string) bool {
	if len(scope) == 0 || len(scope) > SmallScope {
		return false
	}
	for _, s := range scope {
		if !concrete(s) {
			return false
		}
	}
	return true
}

// concrete reports whether a pattern names a place inside the workspace: its
// first segment, once ".." is resolved, is a name, or a pattern that is bound
// to one kind of file.
func concrete(pattern string) bool {
	clean := path.Clean(pattern)
	if pattern == "" || clean == "." || strings.HasPrefix(clean, "/") {
		return false
	}
	head, _, _ := strings.Cut(clean, "/")
	if head == ".." {
		return false
	}
	const glob = "*?[{"
	ext := path.Ext(head)
	return !strings.ContainsAny(head, glob) || len(ext) > 1 && !strings.ContainsAny(ext, glob)
}

// CheckPlan says what is wrong with a plan, or nil.
func CheckPlan(p event.Plan) error {
	if len(p.Steps) == 0 {
		return fmt.Errorf("steps: a plan needs at least one step")
	}
	seen := map[string]bool{}
	for i, s := range p.Steps {
		if strings.TrimSpace(s.Text) == "" {
			return fmt.Errorf("steps[%d].text: is empty", i)
		}
		if seen[s.ID] {
			return fmt.Errorf("steps[%d].id: %q is used twice", i, s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}
