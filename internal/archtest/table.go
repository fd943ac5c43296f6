package archtest

import "strings"

// module is the path of belay's own module.
const module = "belay"

// room is one row of the table of floors: where a package stands.
type room struct {
	// path is the import path without the module.
	path  string
	floor int
	// pure rooms decide by values alone.
	pure bool
	// shared marks a helper that the other packages of its own port's tree may
	// import although it stands on their floor.
	shared bool
	// test marks a room that only tests import.
	test bool
}

// The floors by name, ground floor first.
const (
	facts    = 0 // the vocabulary
	machines = 1 // the small machines, policy, and the ports' roots
	core     = 2 // what composes the machines
	adapters = 3 // everything behind a port
	views    = 4 // the working view and the executors
	driver   = 5
	service  = 6
	faces    = 7
	mains    = 8 // programs, and the checks of the house
)

// rooms is DESIGN section 3 as a table. A package without a row fails the
// test: decide where it stands before writing it. A row without a package is a
// room that DESIGN names and nobody has built yet.
var rooms = []room{
	{path: "internal/event", floor: facts, pure: true},
	{path: "internal/fault", floor: facts, pure: true},
	{path: "internal/moment", floor: facts, pure: true},
	{path: "internal/terminal", floor: facts, pure: true},
	{path: "internal/lazyre", floor: facts},
	{path: "internal/failpoint", floor: facts},
	// Text in, text out: every floor that stores or shows text may need it.
	{path: "internal/redact", floor: facts, pure: true},

	{path: "internal/core/operation", floor: machines, pure: true},
	{path: "internal/core/lifecycle", floor: machines, pure: true},
	{path: "internal/core/plan", floor: machines, pure: true},
	{path: "internal/core/approval", floor: machines, pure: true},
	{path: "internal/core/budget", floor: machines, pure: true},
	{path: "internal/core/children", floor: machines, pure: true},
	{path: "internal/core/evidence", floor: machines, pure: true},
	{path: "internal/core/progress", floor: machines, pure: true},
	// Texts in, findings out: what tests lost between two states.
	{path: "internal/testdiff", floor: machines, pure: true},
	{path: "internal/policy", floor: machines, pure: true},
	// Events in, spans out: it composes nothing.
	{path: "internal/trace", floor: machines, pure: true},

	{path: "internal/ledger", floor: machines},
	{path: "internal/workspace", floor: machines},
	{path: "internal/sandbox", floor: machines},
	{path: "internal/model", floor: machines},
	{path: "internal/tool", floor: machines},
	{path: "internal/recall", floor: machines},
	{path: "internal/symbols", floor: machines},
	{path: "internal/tool/control", floor: machines, pure: true},
	// The one portable file of a goal: bytes in, bytes out.
	{path: "internal/bundle", floor: machines},
	// Bytes in, bytes out: it stands below the adapters because both the
	// workspace and the tools may need it.
	{path: "internal/workspace/edit", floor: machines, pure: true},

	{path: "internal/core", floor: core, pure: true},
	{path: "internal/transcript", floor: core, pure: true},
	// A list of files in, facts out.
	{path: "internal/environment", floor: core, pure: true},
	{path: "internal/environment/toolchain", floor: adapters},
	// Events in, knowledge out: what outlives the goals of a repository.
	{path: "internal/memory", floor: core, pure: true},

	{path: "internal/ledger/memory", floor: adapters},
	{path: "internal/ledger/sqlite", floor: adapters},
	{path: "internal/ledger/postgres", floor: adapters},
	{path: "internal/ledger/postgres/pgtest", floor: adapters, shared: true, test: true},
	{path: "internal/ledger/rules", floor: adapters, shared: true},
	{path: "internal/ledger/ledgertest", floor: adapters, shared: true, test: true},

	{path: "internal/workspace/local", floor: adapters},

	{path: "internal/sandbox/none", floor: adapters},
	{path: "internal/sandbox/bwrap", floor: adapters},
	{path: "internal/sandbox/landlock", floor: adapters},
	{path: "internal/sandbox/container", floor: adapters},
	{path: "internal/sandbox/choose", floor: adapters},
	{path: "internal/sandbox/shim", floor: adapters, shared: true},
	{path: "internal/sandbox/environ", floor: adapters, shared: true},
	{path: "internal/sandbox/scope", floor: adapters, shared: true},
	{path: "internal/sandbox/kernel", floor: adapters, shared: true},
	{path: "internal/sandbox/sandboxtest", floor: adapters, shared: true, test: true},

	{path: "internal/model/anthropic", floor: adapters},
	{path: "internal/model/openai", floor: adapters},
	{path: "internal/model/script", floor: adapters},
	{path: "internal/model/catalog", floor: adapters, shared: true},
	{path: "internal/model/wire", floor: adapters, shared: true},
	{path: "internal/model/modeltest", floor: adapters, shared: true, test: true},

	{path: "internal/recall/index", floor: adapters},
	{path: "internal/recall/embed", floor: adapters},

	{path: "internal/tool/builtin", floor: adapters},
	{path: "internal/tool/args", floor: adapters, shared: true},
	{path: "internal/tool/push", floor: adapters, shared: true},
	{path: "internal/tool/testreport", floor: adapters, shared: true},
	{path: "internal/tool/textcap", floor: adapters, shared: true},
	{path: "internal/tool/tooltest", floor: adapters, shared: true, test: true},

	{path: "internal/symbols/gosource", floor: adapters},
	{path: "internal/symbols/wire", floor: adapters, shared: true},
	{path: "internal/symbols/helper", floor: adapters},
	{path: "internal/symbols/index", floor: adapters},

	{path: "internal/prompt", floor: views},
	{path: "internal/effect", floor: views},
	{path: "internal/report", floor: views},

	{path: "internal/runtime", floor: driver},

	{path: "internal/service", floor: service},
	// Beside the service, because several faces need each: who is let in, and
	// what goes over the wire.
	{path: "internal/token", floor: service},
	{path: "client", floor: service},
	{path: "internal/notify", floor: service},
	{path: "internal/trace/otlp", floor: service},

	{path: "internal/cli", floor: faces},
	{path: "internal/tui", floor: faces},
	{path: "internal/api", floor: faces},
	{path: "internal/console", floor: faces},
	// The service's door at a distance: what the command line goes through when a
	// server runs.
	{path: "internal/remote", floor: faces},
	{path: "internal/mcp", floor: faces},
	{path: "internal/acp", floor: faces},
	{path: "internal/eval", floor: faces},

	{path: "cmd/belay", floor: mains},
	{path: "internal/event/gen", floor: mains},
	{path: "internal/archtest", floor: mains},
	// A program that tests: it runs private servers too.
	{path: "internal/torture", floor: mains, test: true},
	// A program that measures the working view on recorded runs.
	{path: "internal/viewbench", floor: mains},
}

// exception allows one import that the floors alone would refuse.
type exception struct {
	from, to string
	reason   string
}

// exceptions are the imports that a rule of the floors would refuse, each with
// the reason why the rule gives way. An exception that nothing uses any more
// fails the test, so that the list only holds what is true.
var exceptions = []exception{
	{"internal/event", "internal/moment", "an envelope and several payloads hold instants; moment imports nothing of ours"},
	{"internal/fault", "internal/lazyre", "an expression that is compiled when it is first used; lazyre imports nothing of ours"},
	{"internal/redact", "internal/lazyre", "an expression that is compiled when it is first used; lazyre imports nothing of ours"},
	{"internal/event", "internal/fault", "a fault is a value inside several payloads; fault imports nothing of ours"},
	{"internal/tool", "internal/sandbox", "tool.Env hands a tool the ports it works through"},
	{"internal/tool", "internal/recall", "tool.Env hands a tool the ports it works through"},
	{"internal/tool", "internal/workspace", "tool.Env hands a tool the ports it works through"},
	{"internal/tool", "internal/symbols", "tool.Env hands a tool the ports it works through"},
	{"internal/effect", "internal/prompt", "the executor that composes a request asks the prompt for it; the prompt knows no executor"},
}

// forbiddenInPure are the standard packages, and everything below them, with
// which code could do more than decide.
var forbiddenInPure = []string{
	"context", "os", "net", "time", "math/rand", "crypto/rand", "sync", "log",
	"database/sql", "syscall", "unsafe", "runtime", "plugin", "io/ioutil", "testing",
}

// pureMay lists the imports of pure packages, with everything below them, that
// the list above, or the rules against foreign modules and against packages of
// ours that are not pure, would refuse.
var pureMay = []exception{
	{"internal/moment", "time", "it formats instants and holds no other function of time; the clock's own functions are refused below"},
	{"internal/fault", "internal/lazyre", "an expression is a function of a text, whenever it is compiled"},
	{"internal/redact", "internal/lazyre", "an expression is a function of a text, whenever it is compiled"},
	{"internal/testdiff", "internal/lazyre", "an expression is a function of a text, whenever it is compiled"},
	{"internal/core", "internal/ledger", "the core computes a goal's row, a plain struct of the port; the port's interface takes a context, so the import is listed here"},
	{"internal/transcript", "internal/model", "the transcript makes the port's messages, plain structs; the port's interface takes a context, so the import is listed here"},
	{"internal/environment", "internal/symbols", "a language is a function of a name, a status a plain struct; the port's interface takes a context, so the import is listed here"},
	{"internal/workspace/edit", "github.com/aymanbagabas/go-udiff", "a diff is a function of two texts"},
	{"internal/workspace/edit", "golang.org/x/text/encoding", "a charset is a table; decoding is a function of bytes"},
	{"internal/redact", "net/url", "escaping and parsing a URL are functions of a text"},
	{"internal/policy", "mvdan.cc/sh/v3/syntax", "shell text is judged by its syntax tree; the parser is a function of its input"},
	{"internal/memory", "mvdan.cc/sh/v3/syntax", "the same parser: which command a text is does not depend on its white space"},
}

// clock are the functions of package time that read a clock or wait. They are
// refused even where package time itself is allowed.
var clock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation",
}

// tooHeavy are module prefixes that LIBRARIES' measurements ruled out of the
// program; each would cost a first build most of its 150 CPU seconds.
var tooHeavy = []exception{
	{"", "github.com/openai/", "our own thin wire replaces it; compat/ checks us against it"},
	{"", "github.com/anthropics/", "our own thin wire replaces it; compat/ checks us against it"},
	{"", "charm.land/fantasy", "it draws in every vendor's SDK"},
	{"", "github.com/golangci/", "linters stay in tools/"},
	{"", "honnef.co/go/tools", "linters stay in tools/"},
}

// The sizes of DESIGN section 3.
const (
	maxFileLines = 600
	maxFuncLines = 80
)

// oversize lists files ("path.go") and functions ("path.go:Name" or
// "path.go:Type.Name") that may pass the sizes above, with the reason that was
// argued for in review.
var oversize = []exception{}

// roomOf finds a package's row.
func roomOf(path string) (room, bool) {
	for _, r := range rooms {
		if r.path == path {
			return r, true
		}
	}
	return room{}, false
}

// portOf names the port whose tree an adapter belongs to: the folder beneath
// internal/.
func portOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 2 {
		return path
	}
	return parts[0] + "/" + parts[1]
}
