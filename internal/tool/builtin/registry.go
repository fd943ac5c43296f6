package builtin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
)

// Config is what the tools of one goal know before they run. The zero value is
// usable: absolute paths then stay as they are, and run_test says its command
// only when it runs.
type Config struct {
	// Roots are the absolute spellings of the workspace root: the resolved one
	// first, then as the user gave it. An absolute path below one of them
	// becomes a relative one.
	Roots []string
	// TestCommand is what run_test runs when the model names no command. With
	// it, policy and intent see the very command.
	TestCommand string
	// Git says that the workspace was found in a git repository: only then is
	// git_push offered.
	Git bool
	// Children says that the goal may start child goals: only then are delegate
	// and apply_child offered.
	Children bool
	// Scratch is a directory of belay's own for private git directories; ""
	// means the system's temporary one.
	Scratch string
}

// Registry finds tools by name.
type Registry struct{ tools []tool.Tool }

// New returns the tools of one goal.
func New(c Config) *Registry {
	b := func(d *definition) base { return base{def: d, config: &c} }
	r := &Registry{tools: []tool.Tool{
		readFile{b(readFileDef)}, listFiles{b(listFilesDef)}, searchText{b(searchTextDef)},
		symbolsTool{b(symbolsDef)},
		writeFile{b(writeFileDef)}, filePatch{b(filePatchDef)},
		command{b(runCommandDef)}, command{b(runTestDef)},
		control{b(updatePlanDef)}, control{b(updateTodosDef)}, control{b(recordDecisionDef)},
		control{b(askUserDef)}, control{b(finishDef)},
		checkOperation{b(checkOperationDef)}, recallTool{b(recallDef)},
	}}
	if c.Children {
		r.tools = append(r.tools, control{b(delegateDef)}, applyChild{b(applyChildDef)})
	}
	if c.Git {
		r.tools = append(r.tools, gitPush{b(gitPushDef)})
	}
	return r
}

// All returns every tool that there is, in the fixed order in which a model
// sees them.
func All() []tool.Tool { return New(Config{Git: true, Children: true}).All() }

// All returns every tool, in the fixed order in which a model sees them.
func (r *Registry) All() []tool.Tool { return slices.Clone(r.tools) }

// Lookup finds a tool. The error is a *fault.Fault of kind unknown_tool that
// names the tools there are.
func (r *Registry) Lookup(name string) (tool.Tool, error) {
	names := make([]string, len(r.tools))
	for i, t := range r.tools {
		names[i] = t.Spec().Name
		if names[i] == name {
			return t, nil
		}
	}
	return nil, fault.New(fault.UnknownTool, fault.Model, fmt.Sprintf("there is no tool %q", name),
		"the tools are "+strings.Join(names, ", "))
}

// definition is what a tool declares once for all goals.
type definition struct {
	name, doc string
	effect    event.EffectClass
	args      args.Object
	// check, for control tools, refuses normalised arguments that fit the
	// schema and still can not be meant.
	check func(json.RawMessage) error

	once   sync.Once
	schema json.RawMessage
}

// base is what all tools have in common.
type base struct {
	def    *definition
	config *Config
}

// Spec returns the declaration.
func (b base) Spec() tool.Spec {
	d := b.def
	d.once.Do(func() { d.schema = d.args.Schema() })
	return tool.Spec{Name: d.name, Description: d.doc, Schema: d.schema, Effect: d.effect}
}

func (b base) parse(raw json.RawMessage) (args.Values, error) {
	return b.def.args.Parse(b.def.name, raw)
}

// Fields that several tools have.
var (
	pathAliases = []string{"file_path", "filename", "file", "filepath"}
	dirAliases  = []string{"cwd", "workdir", "working_directory", "working_dir", "directory"}
	chatter     = []string{"description", "explanation", "reasoning", "thought"}
)
