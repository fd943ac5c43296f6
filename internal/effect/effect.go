// Package effect holds the executors: one file for each kind of effect that
// the core wants. An executor does one thing through a port and returns one
// input; it decides nothing, retries nothing, and records nothing.
//
// # Failure handling
//
// What the world answers, however bad, is an input. An error of Do means that
// nothing can be said at all: the context ended, and the effect stays wanted.
package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"belay/internal/core"
	"belay/internal/core/children"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/model"
	"belay/internal/policy"
	"belay/internal/recall"
	"belay/internal/redact"
	"belay/internal/sandbox"
	"belay/internal/symbols"
	"belay/internal/tool"
	"belay/internal/workspace"
)

// Tools finds tools by name; internal/tool/builtin's Registry is one.
type Tools interface {
	All() []tool.Tool
	Lookup(name string) (tool.Tool, error)
}

// ToolConfig is what the tools of a goal are made from. It is the same for all
// of a goal's life but for Test and Git, which are found when the workspace is
// attached, before the first request.
type ToolConfig struct {
	// Roots are the absolute spellings of the workspace root.
	Roots []string
	// Test is the goal's test command, "" for none.
	Test string
	// Git says that the workspace was found in a git repository.
	Git bool
	// Children says that the goal may start child goals.
	Children bool
}

// Goal holds the ports that the effects of one goal go through.
type Goal struct {
	ID        string
	Ledger    ledger.Ledger
	Workspace workspace.Workspace
	// OpenOther opens and locks another directory for the goal, to which its
	// result is brought.
	OpenOther func(ctx context.Context, root string) (workspace.Workspace, error)
	Sandbox   sandbox.Sandbox
	Model     model.Model
	// NewTools makes the tools of a goal.
	NewTools func(ToolConfig) Tools
	// BaseEnv is the environment of commands, reduced to the allow-list.
	BaseEnv []string
	// Protected are absolute paths that commands may not write.
	Protected []string
	// Scratch is the directory for private copies of the workspace; "" means
	// the system's temporary one.
	Scratch string
	// Place is the state directory, and with it the machine, that all of this
	// belongs to: "" when places are not told apart.
	Place string
	// Symbols is what is defined and used in the workspace; nil when that is not
	// kept.
	Symbols symbols.Index
	// Versions says which versions of programs the machine has, and where; nil
	// when that is not captured.
	Versions func(ctx context.Context, root string, programs []string) map[string]string
	// Secrets takes out of everything what must not be recorded, shown or sent;
	// nil knows the shapes of keys alone.
	Secrets *redact.Redactor
	// Recall, if set, brings what earlier goals in the repository left for a goal
	// that starts. It has to be quick, and may bring nothing.
	Recall func(ctx context.Context, s core.State, tests []string) event.MemoryRecalled
	// Family reaches the goals above and below this one.
	Family Family
	// Index searches; nil where that is not possible.
	Index recall.Recall
	// Live receives what is worth showing and is not an event.
	Live Live

	mu    sync.Mutex
	tools Tools
	test  string
	git   bool
	// folders are those that operations have touched in this process.
	folders map[string]bool
	asked   map[string]context.CancelFunc // reviewers that are being asked, by operation
}

// Close lets go of the workspace and of what works on it in the background.
func (g *Goal) Close() error {
	var err error
	if g.Symbols != nil {
		err = g.Symbols.Close()
	}
	if g.Workspace == nil {
		return err // nothing but other goals had to be reached
	}
	return errors.Join(err, g.Workspace.Close())
}

// Tools are the tools for a state: they know what was found when the workspace
// was attached.
func (g *Goal) Tools(s core.State) Tools {
	test := ""
	if cmds := s.TestCommands(); len(cmds) > 0 {
		test = cmds[0]
	}
	git := s.Workspace != nil && s.Workspace.Git != ""
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tools == nil || g.test != test || g.git != git {
		g.test, g.git = test, git
		g.tools = g.NewTools(ToolConfig{Roots: []string{g.Workspace.Root(), s.Repo}, Test: test, Git: git,
			Children: children.Allowed(s.Settings, s.Depth)})
	}
	return g.tools
}

// Live shows what happens between events. Its methods may be called from many
// goroutines and must return at once.
type Live interface {
	Delta(request string, d model.Delta)
	Output(op string, p []byte)
}

// Conversation is the request's conversation, taken by the driver when it
// starts a Compose.
type Conversation struct {
	State    core.State
	Messages []model.Message
	// Cut is where a compaction would cut it.
	Cut uint64
}

// Do executes an effect and returns the input that it leads to, or nil when
// there is nothing to report.
func (g *Goal) Do(ctx context.Context, s core.State, e core.Effect) (core.Body, error) {
	b, err := g.do(ctx, s, e)
	return g.clean(b), err
}

func (g *Goal) do(ctx context.Context, s core.State, e core.Effect) (core.Body, error) {
	switch e := e.(type) {
	case core.Attach:
		return g.attach(ctx, s)
	case core.Observe:
		return g.observe(ctx, s, e)
	case core.Prepare:
		return g.prepare(ctx, s, e)
	case core.Run:
		return g.run(ctx, s, e)
	case core.Probe:
		return g.probe(ctx, s, e)
	case core.Stop:
		return nil, g.stop(ctx, e)
	case core.Pack:
		return g.pack(ctx, e)
	case core.Move:
		return g.move(ctx, e)
	case core.Spawn:
		return g.spawn(ctx, s, e)
	case core.Command:
		return g.command(ctx, e)
	case core.Tell:
		return g.tell(ctx, e)
	case core.Wake:
		return g.wake(ctx, e)
	}
	return nil, fmt.Errorf("effect: no executor for %T", e)
}

// asFault turns any error into a fault that says whose it is.
func asFault(err error, kind fault.Kind, blame fault.Blame) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return fault.New(kind, blame, err.Error(), "")
}

// setsUp reports whether an operation prepares the goal's worktree: that is the
// user's word, also while the goal may only plan.
func setsUp(s core.State, op string) bool {
	o, ok := s.Find(op)
	return ok && o.Setup > 0
}

// env is what a tool works with.
func (g *Goal) env(s core.State, op string) tool.Env {
	e := tool.Env{Workspace: g.Workspace, Sandbox: g.Sandbox, Artifacts: artifacts{g.Ledger, g.Secrets}, Secrets: g.Secrets, Symbols: g.Symbols, BaseEnv: g.BaseEnv,
		Protected: g.Protected, Unreadable: policy.UnreadableBy(s.Policy()), ReadOnly: s.Mode == event.ModePlan && !setsUp(s, op),
		Children: merger{g, s},
		Look:     func(ctx context.Context, op string) (tool.Finding, error) { return g.Look(ctx, s, op) }}
	if g.Index != nil {
		e.Recall = recaller{g, s}
	}
	if cmds := s.TestCommands(); len(cmds) > 0 {
		e.TestCommand = cmds[0]
	}
	if g.Live != nil {
		e.Progress = g.Secrets.Writer(progress{live: g.Live, op: op})
	}
	return e
}
