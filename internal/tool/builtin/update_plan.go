package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

var updatePlanDef = &definition{
	name:   ctl.UpdatePlan,
	effect: event.Control,
	doc:    "Record the plan. The workspace is read-only until it is approved. scope lists the paths that will change, as globs. criteria proposes checks of \"done\" beside the goal's own; they count once approved.",
	check:  checks(ctl.DecodePlan),
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "summary"},
		{Name: "steps", Type: args.Objects, Required: true, Aliases: []string{"plan"}, Bare: "text", Of: &args.Object{Fields: []args.Field{
			{Name: "id"},
			{Name: "text", Required: true, Aliases: []string{"step", "content", "title"}},
		}}},
		{Name: "scope", Type: args.Strings},
		{Name: "open_questions", Type: args.Strings},
		{Name: "criteria", Type: args.Objects, Of: &args.Object{Fields: []args.Field{
			{Name: "id"},
			{Name: "kind", Required: true, Enum: []string{"command", "test", "reproduces", "scope", "tests_intact", "artifact", "review", "manual"}},
			{Name: "text"}, {Name: "command"}, {Name: "allow", Type: args.Strings}, {Name: "forbid", Type: args.Strings},
			{Name: "path"}, {Name: "contains"}, {Name: "branch"}, {Name: "commit"},
		}}},
	}},
}
