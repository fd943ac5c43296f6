package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

// recordDecisionDef declares record_decision. Here, "reasoning" and its kin
// are not chatter but another name for the reason.
var recordDecisionDef = &definition{
	name:   ctl.RecordDecision,
	effect: event.Control,
	doc:    "Keep a decision for later turns and, by its scope, goals; or revoke one.",
	check:  checks(ctl.DecodeDecision),
	args: args.Object{Fields: []args.Field{
		{Name: "decision"},
		{Name: "reason", Aliases: []string{"reasoning", "rationale"}},
		{Name: "scope", Doc: "goal, repository or paths"},
		{Name: "revokes", Doc: "id; needs a reason"},
	}},
}
