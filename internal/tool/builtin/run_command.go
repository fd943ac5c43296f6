package builtin

import (
	"belay/internal/event"
	"belay/internal/sandbox"
	"belay/internal/tool/args"
)

const (
	defaultCommandSeconds = 120
	defaultTestSeconds    = 900
	maxSeconds            = 3600
)

var timeoutAliases = []string{"timeout_seconds", "timeout_sec", "timeout_secs"}

// networkField and reasonField ask for more of the network than policy grants
// by itself.
var (
	networkField = args.Field{Name: "network", Enum: []string{sandbox.NetworkNone, sandbox.NetworkLoopback, sandbox.NetworkFull},
		Synonyms: map[string]string{"off": sandbox.NetworkNone, "false": sandbox.NetworkNone, "no": sandbox.NetworkNone,
			"local": sandbox.NetworkLoopback, "localhost": sandbox.NetworkLoopback,
			"on": sandbox.NetworkFull, "true": sandbox.NetworkFull, "yes": sandbox.NetworkFull, "internet": sandbox.NetworkFull, "host": sandbox.NetworkFull},
		Doc: "default what policy grants, mostly none"}
	reasonField = args.Field{Name: "reason", Doc: "why it needs the network"}
)

// runCommandDef declares run_command. `timeout` alone is not taken for
// timeout_s: some models mean milliseconds by it.
var runCommandDef = &definition{
	name:   "run_command",
	effect: event.Supervised,
	doc:    "Run a shell command in the workspace. No input, no terminal, nothing left running in the background.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "command", Required: true, Aliases: []string{"cmd"}},
		{Name: "dir", Aliases: append([]string{"path"}, dirAliases...), Doc: "default the root"},
		{Name: "timeout_s", Type: args.Integer, Min: 1, Max: maxSeconds, Default: int64(defaultCommandSeconds), Aliases: timeoutAliases, Doc: "seconds, default 120"},
		networkField, reasonField,
	}},
}
