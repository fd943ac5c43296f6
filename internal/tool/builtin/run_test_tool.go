package builtin

import (
	"belay/internal/event"
	"belay/internal/tool/args"
)

// runTestDef declares run_test. (The file's name avoids _test.go.)
var runTestDef = &definition{
	name:   "run_test",
	effect: event.Supervised,
	doc:    "Run tests and record the result as evidence for the code as it is now. Only a run of at least one test counts.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "command", Aliases: []string{"cmd"}, Doc: "default the goal's test command"},
		{Name: "dir", Aliases: append([]string{"path"}, dirAliases...), Doc: "default the root"},
		{Name: "timeout_s", Type: args.Integer, Min: 1, Max: maxSeconds, Default: int64(defaultTestSeconds), Aliases: timeoutAliases, Doc: "seconds, default 900"},
		networkField, reasonField,
	}},
}
