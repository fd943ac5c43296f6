package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

var delegateDef = &definition{
	name:   ctl.Delegate,
	effect: event.Control,
	doc: "Have a child goal do a part, in a worktree made of the workspace as it is now; calls of one response work side by side. " +
		"The result is its report and diff: take the changes over with apply_child and verify them yourself.",
	check: checks(ctl.DecodeDelegate),
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "goal", Required: true, Aliases: []string{"text", "task", "prompt"}, Doc: "all it needs to know: it sees nothing of this conversation"},
		{Name: "tests", Type: args.Strings, Doc: "commands that must pass"},
		{Name: "scope", Type: args.Strings, Doc: "globs"},
		{Name: "share_percent", Type: args.Integer, Doc: "of the budget left; default 20"},
		{Name: "read_only", Type: args.Boolean},
	}},
}
