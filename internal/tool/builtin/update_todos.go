package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

var updateTodosDef = &definition{
	name:   ctl.UpdateTodos,
	effect: event.Control,
	doc:    "Replace the todo list. At most one is in_progress. A completed one needs evidence (the op_id of a run) or a reason; one that goes before what it depends on, a reason.",
	check:  checks(ctl.DecodeTodos),
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "todos", Type: args.Objects, Required: true, Aliases: []string{"items"}, Of: &args.Object{Ignored: []string{"activeForm", "priority"}, Fields: []args.Field{
			{Name: "id"},
			{Name: "content", Required: true, Aliases: []string{"text", "title"}},
			{Name: "status", Required: true, Enum: []string{"pending", "in_progress", "completed"},
				Synonyms: map[string]string{"todo": "pending", "open": "pending", "in-progress": "in_progress", "doing": "in_progress", "done": "completed", "complete": "completed"}},
			{Name: "evidence"},
			{Name: "reason"},
			{Name: "depends_on", Type: args.Strings, Aliases: []string{"dependencies", "blocked_by"}},
			{Name: "acceptance", Doc: "words or a criterion's id"},
		}}},
	}},
}
