package control

import (
	"encoding/json"
	"fmt"
	"strings"

	"belay/internal/event"
)

// The names of the tools with which a goal has others work for it. ApplyChild
// is no control tool: it changes the workspace.
const (
	Delegate   = "delegate"
	ApplyChild = "apply_child"
)

// maxShare is the largest percentage that a child can be given.
const maxShare = 90

// Delegation is a part of the work that another goal is to do. The criteria
// come from the tests and the scope that the model names.
type Delegation struct {
	Goal     string
	Criteria []event.Criterion
	// Percent of what is left of the budget, 0 for the default.
	Percent  int64
	ReadOnly bool
}

type delegation struct {
	Goal     string   `json:"goal"`
	Tests    []string `json:"tests,omitempty"`
	Scope    []string `json:"scope,omitempty"`
	Percent  int64    `json:"share_percent,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"`
}

// DecodeDelegate reads the arguments of delegate.
func DecodeDelegate(args json.RawMessage) (Delegation, error) {
	var in delegation
	if err := decode(Delegate, args, &in); err != nil {
		return Delegation{}, err
	}
	if strings.TrimSpace(in.Goal) == "" {
		return Delegation{}, invalid(Delegate, "goal", "what is to be done, in words")
	}
	if in.Percent < 0 || in.Percent > maxShare {
		return Delegation{}, invalid(Delegate, "share_percent", fmt.Sprintf("from 1 to %d", maxShare))
	}
	if len(in.Tests) > maxCriteria {
		return Delegation{}, invalid(Delegate, "tests", fmt.Sprintf("at most %d commands", maxCriteria))
	}
	d := Delegation{Goal: in.Goal, Percent: in.Percent, ReadOnly: in.ReadOnly}
	for i, t := range in.Tests {
		d.Criteria = append(d.Criteria, event.Criterion{ID: fmt.Sprintf("test-%d", i+1), Kind: event.CriterionTest, Command: t, Proposed: true})
	}
	if len(in.Scope) > 0 {
		d.Criteria = append(d.Criteria, event.Criterion{ID: "scope", Kind: event.CriterionScope, Allow: in.Scope, Proposed: true})
	}
	return d, nil
}

// Encode writes a delegation without its criteria, as the arguments of
// delegate.
func Encode(d Delegation) (json.RawMessage, error) {
	return json.Marshal(delegation{Goal: d.Goal, Percent: d.Percent, ReadOnly: d.ReadOnly})
}

// DecodeApplyChild reads the arguments of apply_child: which child, by its goal
// id or by the operation that started it.
func DecodeApplyChild(args json.RawMessage) (string, error) {
	var in struct {
		Child string `json:"child"`
	}
	if err := decode(ApplyChild, args, &in); err != nil {
		return "", err
	}
	if strings.TrimSpace(in.Child) == "" {
		return "", invalid(ApplyChild, "child", "the goal id of a child, or the op_id of the delegate call that started it")
	}
	return in.Child, nil
}
