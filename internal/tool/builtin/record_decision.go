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
	doc:    "Keep a decision for later turns and goals.",
	check:  checks(ctl.DecodeDecision),
	args: args.Object{Fields: []args.Field{
		{Name: "decision", Required: true},
		{Name: "reason", Aliases: []string{"reasoning", "rationale"}},
		{Name: "scope", Doc: "where it holds"},
	}},
}
