package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

var askUserDef = &definition{
	name:   ctl.AskUser,
	effect: event.Control,
	doc:    "Ask the user and wait. Only for what you can not find out yourself.",
	check:  checks(ctl.DecodeQuestion),
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "question", Required: true},
		{Name: "options", Type: args.Strings, Doc: "answers to choose from"},
	}},
}
