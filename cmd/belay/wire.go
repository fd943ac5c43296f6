package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"belay/internal/cli"
	"belay/internal/effect"
	"belay/internal/model"
	"belay/internal/model/anthropic"
	"belay/internal/model/catalog"
	"belay/internal/model/openai"
	"belay/internal/model/script"
	"belay/internal/notify"
	"belay/internal/sandbox"
	"belay/internal/sandbox/environ"
	"belay/internal/service"
	"belay/internal/tool/builtin"
	"belay/internal/workspace"
	"belay/internal/workspace/local"
)

// stateDir finds the state directory: the flag, BELAY_STATE, or XDG.
func stateDir(o cli.OpenOptions) (string, error) {
	for _, d := range []string{o.State, os.Getenv("BELAY_STATE")} {
		if d != "" {
			return filepath.Abs(d)
		}
	}
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "belay"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the state directory (set BELAY_STATE or --state): %w", err)
	}
	return filepath.Join(home, ".local", "state", "belay"), nil
}

// envScratch names the folder for private copies of workspaces.
const envScratch = "BELAY_SCRATCH"

// scratchDir is where checks run: beside the state, which no command sees, or
// where the user wants it.
func scratchDir(state string) (string, error) {
	if d := os.Getenv(envScratch); d != "" {
		// In a folder of our own, which goes when it is empty.
		return filepath.Abs(filepath.Join(d, "belay-scratch"))
	}
	return state + ".scratch", nil
}

// envWorktrees names the folder for goals' own checkouts.
const envWorktrees = "BELAY_WORKTREES"

// worktreesDir is where goals with a checkout of their own work: beside the
// state, which no command sees, or where the user wants it.
func worktreesDir(state string) (string, error) {
	if d := os.Getenv(envWorktrees); d != "" {
		return filepath.Abs(d)
	}
	return state + ".worktrees", nil
}

// configDir is where the user's policy and model files are.
func configDir() string {
	if d := os.Getenv("BELAY_CONFIG"); d != "" {
		return d
	}
	d, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(d, "belay")
}

// given is what the machine, the environment and the flags say beforehand.
type given struct {
	here, db, scratch, worktrees string
	lease                        time.Duration
	tell                         notify.Notifier
}

func givenBy(state string, o cli.OpenOptions) (g given, err error) {
	if g.here, err = placeOf(state); err != nil {
		return g, err
	}
	if g.db, err = database(o); err != nil {
		return g, err
	}
	if g.lease, err = leaseOf(os.Getenv(envLease)); err != nil {
		return g, err
	}
	if g.tell, err = notifier(o); err != nil {
		return g, err
	}
	if g.scratch, err = scratchDir(state); err != nil {
		return g, err
	}
	g.worktrees, err = worktreesDir(state)
	return g, err
}

// open wires a service. Ports are opened when they are first needed.
func open(ctx context.Context, o cli.OpenOptions) (*service.Service, func() error, error) {
	state, err := stateDir(o)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the state directory (choose another with --state): %w", err)
	}
	g, err := givenBy(state, o)
	if err != nil {
		return nil, nil, err
	}
	l, err := openLedger(ctx, state, o)
	if err != nil {
		return nil, nil, err
	}
	boxes := &boxes{chooser: chooser(state)}
	at := local.Options{State: filepath.Join(state, "workspaces"), Protected: []string{state, g.scratch, g.worktrees, configDir()}}
	marks := openSymbols(state)
	find, err := searcher(state, g.db, l, o)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	s := service.New(service.Config{
		Ledger: l,
		Stores: local.Stores{Dir: filepath.Join(state, "workspaces")},
		OpenWorkspace: func(ctx context.Context, root, goal string) (workspace.Workspace, error) {
			mine := at
			mine.Lock, mine.Goal = true, goal
			return local.Open(ctx, root, mine)
		},
		ReadWorkspace: func(ctx context.Context, root string) (workspace.Workspace, error) { return local.Open(ctx, root, at) },
		Index:         find,
		Checkouts:     local.Checkouts{Dir: g.worktrees, Options: at},
		Bring:         func(repo string) (workspace.Bring, []string, error) { return loadBring(configDir(), repo) },
		PickSandbox:   boxes.chooser.Pick,
		OpenSandbox:   func(ctx context.Context, name string) (sandbox.Sandbox, error) { return boxes.open(ctx, name) },
		OpenModel:     func(_ context.Context, spec string) (model.Model, error) { return openModel(spec) },
		NewTools: func(c effect.ToolConfig) effect.Tools {
			return builtin.New(builtin.Config{Roots: c.Roots, TestCommand: c.Test, Git: c.Git, Children: c.Children, Scratch: filepath.Join(state, "push")})
		},
		Symbols: marks.of, Versions: marks.tools.Versions,
		Secrets:   secrets(),
		BaseEnv:   environ.Environment(os.Environ()),
		Protected: []string{state, configDir()},
		Scratch:   g.scratch,
		AddRules:  policyFile(filepath.Join(configDir(), "policy.yaml")).add, RemoveRules: policyFile(filepath.Join(configDir(), "policy.yaml")).remove,
		CheckPolicy: checkPolicy,
		Rules:       func(repo string) ([]rule, []string, error) { return loadRules(configDir(), repo) },
		Worker:      newWorker,
		Dead:        deadWorker,
		Place:       g.here,
		Travel:      g.db != "",
		Lease:       g.lease,
		Rested:      g.tell.Tell,
		Background:  traces(state, g.here, l),
	})
	done := func() error {
		return errors.Join(boxes.close(), marks.close(), find.Close(), l.Close())
	}
	return s, done, nil
}

// openModel resolves "provider:name".
func openModel(spec string) (model.Model, error) {
	provider, name, ok := strings.Cut(spec, ":")
	if !ok || name == "" {
		return nil, fmt.Errorf("model %q: name it as openai:NAME, anthropic:NAME or script:FILE", spec)
	}
	if provider == "script" {
		sc, err := script.Load(name)
		if err != nil {
			return nil, err
		}
		return script.New(sc, name), nil
	}
	known, err := catalog.LoadFile(filepath.Join(configDir(), "models.yaml"))
	if err != nil {
		return nil, err
	}
	entry, _ := known.Find(provider, name)
	switch provider {
	case "openai":
		return openai.New(openai.Config{Name: name, Key: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL"),
			Window: entry.Window, MaxOutput: entry.MaxOutput, Price: entry.Price})
	case "anthropic":
		return anthropic.New(anthropic.Config{Name: name, Key: os.Getenv("ANTHROPIC_API_KEY"), BaseURL: os.Getenv("ANTHROPIC_BASE_URL"),
			Window: entry.Window, MaxOutput: entry.MaxOutput, Price: entry.Price})
	}
	return nil, fmt.Errorf("model %q: the providers are openai, anthropic and script", spec)
}

// background starts a worker for a goal in a session of its own; what it
// prints goes to a log in the state directory.
func background(o cli.OpenOptions, goal string) error {
	state, err := stateDir(o)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logs := filepath.Join(state, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(logs, goal+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	c := exec.Command(self, "--state", state, "attend-goal", goal)
	c.Stdout, c.Stderr, c.Env = out, out, withOptions(os.Environ(), o)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	return c.Process.Release()
}
