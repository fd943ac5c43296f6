package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
	ctl "belay/internal/tool/control"
)

var finishDef = &definition{
	name:   ctl.Finish,
	effect: event.Control,
	doc:    "Claim that the goal is reached. The claim is then verified; your words alone complete nothing.",
	check:  checks(ctl.DecodeFinish),
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "summary", Aliases: []string{"message", "result"}, Doc: "what was done"},
	}},
}
