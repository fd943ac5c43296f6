package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/sandbox"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/workspace"
)

// command is run_command and run_test.
type command struct{ base }

func (t command) test() bool { return t.def == runTestDef }

// Describe implements tool.Tool. A run_test without a command gets the goal's,
// so that what is judged and approved is what will run.
func (t command) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	if err := t.cleanField(v, "dir", "", true); err != nil {
		return nil, event.Access{}, err
	}
	if artifactOf(v.String("dir")) != "" {
		return nil, event.Access{}, args.Invalid(t.def.name, "dir", "stored output is no folder; expected a folder of the workspace")
	}
	if t.test() && !v.Has("command") && t.config.TestCommand != "" {
		v["command"] = t.config.TestCommand
	}
	network := v.String("network")
	if network != "" && network != sandbox.NetworkNone && v.String("reason") == "" {
		return nil, event.Access{}, args.Invalid(t.def.name, "reason", "missing; whoever is asked for the network ("+network+") has to know why")
	}
	n, err := v.JSON()
	return n, event.Access{Command: v.String("command"), Dir: v.String("dir"), Test: t.test(), Network: network}, err
}

// order reads the arguments of one attempt into the command to run.
func (t command) order(env tool.Env, call tool.Call) (sandbox.Command, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return sandbox.Command{}, err
	}
	shell, seconds := v.String("command"), int64(defaultCommandSeconds)
	if t.test() {
		seconds = defaultTestSeconds
		if shell == "" {
			shell = env.TestCommand
		}
		if shell == "" {
			return sandbox.Command{}, args.Invalid(t.def.name, "command", "missing, and this goal has no test command; expected the command that runs the tests")
		}
	}
	root := env.Workspace.Root()
	dir, err := folderIn(root, v.String("dir"))
	if err != nil {
		return sandbox.Command{}, err
	}
	timeout := time.Duration(v.Int("timeout_s", seconds)) * time.Second
	if call.TimeoutMS > 0 {
		timeout = min(timeout, time.Duration(call.TimeoutMS)*time.Millisecond)
	}
	return sandbox.Command{
		Key: call.Key(), Shell: shell, Dir: dir, Env: slices.Clone(env.BaseEnv), Timeout: timeout,
		Workspace: root, ReadOnly: env.ReadOnly, Network: reached(call.Intent), Protected: slices.Clone(env.Protected),
	}, nil
}

// reached is what the recorded intent gives the attempt of the network: what
// policy granted or a person approved, never what the arguments say.
func reached(i event.Intent) string {
	switch i.Network {
	case sandbox.NetworkLoopback, sandbox.NetworkFull:
		return i.Network
	}
	return sandbox.NetworkNone
}

// folderIn resolves a working directory and refuses one outside the root,
// however it gets there.
func folderIn(root, dir string) (string, error) {
	if dir == "" {
		return root, nil
	}
	full := dir
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, filepath.FromSlash(dir))
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		return "", fault.New(fault.NotFound, fault.Model, "there is no folder "+dir, "use list_files to see what there is, or leave out dir for the root")
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", workspace.OutsideFault(dir)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", fault.New(fault.NotFound, fault.Model, dir+" is not a folder", "name a folder in dir, or leave it out for the root")
	}
	return real, nil
}

// environmentThatMatters are the variables that decide what a command runs: an
// approval is void when one of them changes.
var environmentThatMatters = []string{
	"PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH",
	"GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GOWORK", "GOROOT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX",
	"NODE_OPTIONS", "NODE_PATH", "NODE_ENV", "RUSTFLAGS", "RUSTC_WRAPPER", "RUSTUP_TOOLCHAIN", "MAKEFLAGS", "CC", "CXX",
	"JAVA_HOME", "JAVA_TOOL_OPTIONS", "CLASSPATH", "PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "GEM_HOME", "BUNDLE_GEMFILE", "MIX_ENV",
	"GIT_SSH_COMMAND", "GIT_DIR", "GIT_WORK_TREE", "GIT_EXEC_PATH",
}

// Prepare implements tool.Preparer.
func (t command) Prepare(ctx context.Context, env tool.Env, call tool.Call) (tool.Prepared, error) {
	c, err := t.order(env, call)
	if err != nil {
		return tool.Prepared{}, err
	}
	p := tool.Prepared{Dir: c.Dir, Timeout: c.Timeout, Preview: "$ " + c.Shell + "\n"}
	if rel, err := filepath.Rel(c.Workspace, c.Dir); err == nil && rel != "." {
		p.Preview = fmt.Sprintf("in %s\n%s", filepath.ToSlash(rel), p.Preview)
	}
	if v, err := t.parse(call.Args); err == nil && v.String("network") != "" && v.String("reason") != "" {
		p.Preview += "asks for the network (" + v.String("network") + "): " + v.String("reason") + "\n"
	}
	for _, kv := range c.Env {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(environmentThatMatters, name) {
			p.Env = append(p.Env, kv)
		}
	}
	slices.Sort(p.Env)
	scan := scanShell(c.Shell)
	p.Destructive = scan.destructive
	if p.Inputs, err = inputs(ctx, env.Workspace, c, scan.words); err != nil {
		return tool.Prepared{}, err
	}
	return p, nil
}

// maxInputs is how many files that a command names are looked at.
const maxInputs = 64

// inputs are the fingerprints of the workspace's files that a command names.
func inputs(ctx context.Context, ws workspace.Workspace, c sandbox.Command, words []string) ([]event.FilePrint, error) {
	var out []event.FilePrint
	seen := map[string]bool{}
	for _, w := range words {
		full := w
		if !filepath.IsAbs(full) {
			full = filepath.Join(c.Dir, filepath.FromSlash(w))
		}
		rel, err := filepath.Rel(c.Workspace, full)
		if err != nil || !filepath.IsLocal(rel) || rel == "." || seen[rel] || len(out) == maxInputs {
			continue
		}
		seen[rel] = true
		// A look at what the word is spares the workspace the words that name
		// nothing, which are most.
		if info, err := os.Stat(full); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := ws.Stat(ctx, filepath.ToSlash(rel))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("builtin: looking at the files of a command: %w", ctx.Err())
		}
		// What the workspace refuses to show (protected, outside through a
		// link) is for policy and the sandbox to judge, by its name.
		if err == nil && !f.Absent {
			out = append(out, event.FilePrint{Path: filepath.ToSlash(rel), Base: f.Hash, BaseMode: uint32(f.Mode.Perm())})
		}
	}
	slices.SortFunc(out, func(a, b event.FilePrint) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Run implements tool.Runner. When ctx ends, the command runs on: whether to
// stop it is the runtime's decision.
func (t command) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	c, err := t.order(env, call)
	if err != nil {
		return failed(ctx, err)
	}
	c.Protected = append(c.Protected, hidden(env)...)
	p, err := env.Sandbox.Start(ctx, c)
	if err != nil {
		if errors.Is(err, sandbox.ErrGone) {
			return "", event.Result{}, fmt.Errorf("builtin: %s: %w", t.def.name, err)
		}
		return failed(ctx, notStarted(err))
	}
	res, err := wait(ctx, env, p)
	if err != nil {
		return "", event.Result{}, fmt.Errorf("builtin: %s: waiting for attempt %s: %w", t.def.name, c.Key, err)
	}
	return t.ended(ctx, env, c, p, res)
}

func notStarted(err error) error {
	var f *fault.Fault
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, sandbox.ErrUnavailable):
		return fault.New(fault.SandboxMissing, fault.Environment, err.Error(), "run `belay doctor` to see what this machine offers")
	}
	return fault.New(fault.SpawnFailed, fault.Environment, "the command was not started: "+err.Error(), "")
}

// wait waits for a command and shows its output live on the way.
func wait(ctx context.Context, env tool.Env, p sandbox.Process) (sandbox.Result, error) {
	if env.Progress == nil {
		return p.Wait(ctx)
	}
	follow, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A live view that breaks must not disturb the command.
		_ = p.Follow(follow, env.Progress)
	}()
	res, err := p.Wait(ctx)
	if err != nil {
		stop()
	}
	// Once the command has ended, Follow ends by itself, at the last byte.
	<-done
	stop()
	return res, err
}

// Probe implements tool.Prober: it finds the command of an earlier worker. One
// that still runs is waited for.
func (t command) Probe(ctx context.Context, env tool.Env, call tool.Call) (tool.Finding, error) {
	c, err := t.order(env, call)
	if err != nil {
		// The arguments fitted when the attempt started; what changed since
		// (the folder is gone) does not matter for what it brought back.
		c = sandbox.Command{Key: call.Key()}
	}
	p, err := env.Sandbox.Attach(ctx, call.Key())
	var res sandbox.Result
	if err == nil {
		res, err = wait(ctx, env, p)
	}
	switch {
	case errors.Is(err, sandbox.ErrNoRecord):
		return tool.Finding{What: tool.FoundNever}, nil
	case errors.Is(err, sandbox.ErrGone):
		detail := "the command was started, and its supervisor is gone without a result (killed, or the machine restarted): " + err.Error()
		if p != nil {
			if tail := outputSoFar(env, p); tail != "" {
				detail += "\nits output so far:\n" + tail
			}
		}
		return tool.Finding{What: tool.FoundUnknown, Detail: detail}, nil
	case err != nil:
		return tool.Finding{}, fmt.Errorf("builtin: %s: attaching to attempt %s: %w", t.def.name, call.Key(), err)
	}
	o, r, err := t.ended(ctx, env, c, p, res)
	if err != nil {
		return tool.Finding{}, err
	}
	return tool.Finding{What: tool.FoundFinished, Outcome: o, Result: r}, nil
}
