// Package cli is the command line: it parses flags, calls the service, prints
// what came back, and turns the end of a goal into an exit code. It decides
// nothing about a goal, and never reads standard input unless a terminal is
// there or a dash asks for it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/service"
	"belay/internal/token"
)

// The exit codes of DESIGN section 13.
const (
	ExitCompleted = 0
	ExitInternal  = 1
	ExitUsage     = 2
	ExitWaiting   = 3
	ExitBudget    = 4
	ExitHandedOff = 5
	ExitFailed    = 6
	ExitCancelled = 7
)

const exitHelp = `Exit codes of run, resume and demo:
  0 completed (verified, judged, attested, or accepted beforehand)
  1 internal error      2 usage error       3 waiting for a person
  4 budget exhausted    5 handed off        6 failed        7 cancelled
belay hands off (5) what can be taken up again and ends no goal as failed by itself:
6 comes from a ledger that holds a goal_failed.`

// Env is the world of the command line; main fills it.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that both input and output are a terminal.
	Terminal bool
	Getenv   func(string) string
	// Open opens the service on a state directory. Read-only commands do not
	// need a sandbox or a model; the service opens those when it needs them.
	Open func(ctx context.Context, o OpenOptions) (*service.Service, func() error, error)
	// Server is the door of the server that a command is to be sent to: the one
	// that was named, or the one that runs on the state directory. It is nil where
	// there is none; then the command is done here.
	Server func(ctx context.Context, o OpenOptions) (service.Door, error)
	// Doctor looks at the machine and the state directory.
	Doctor func(ctx context.Context, o OpenOptions) []Finding
	// Background starts a worker for a goal that outlives this process.
	Background func(o OpenOptions, goal string) error
	// Serve runs the worker with the API and the console until the context ends.
	Serve func(ctx context.Context, o OpenOptions, s ServeOptions) error
	// Screen shows a goal live in the terminal. With work it advances the goal as
	// well; left says that the person went away before its end.
	Screen func(ctx context.Context, s service.Door, goal string, color bool, work func(context.Context, service.AttendOptions) error) (left bool, err error)
	// Top shows all goals live in the terminal.
	Top func(ctx context.Context, s service.Door, color bool) error
	// ServedAt is the address at which serve of the state directory listened
	// last, "" if it never did.
	ServedAt func(o OpenOptions) string
	// Tokens opens the store of tokens.
	Tokens func(o OpenOptions) (*token.Store, error)
	// More are the commands of other faces. An error of theirs that has a method
	// ExitCode says itself how the program ends.
	More    []*cobra.Command
	Version string
	// Redact takes secrets out of a text that did not come through the service,
	// an error for instance; nil leaves it as it is.
	Redact func(string) string
}

// OpenOptions are the global flags.
type OpenOptions struct {
	State string
	// DB is the address of the ledger's database; empty means the default.
	DB string
	// Server is the address of a server to send commands to; Local says to send
	// them to none.
	Server string
	Local  bool
	// TellHere says that the notices below were asked for on this command line, so
	// that they are given here even if a server works on the goal.
	TellHere bool
	// Notify is a command, NotifyURL a URL, that is told when a goal waits for a
	// person or has ended.
	Notify, NotifyURL string
	// Embeddings is the embedder, openai:NAME; empty for none.
	Embeddings string
}

// Finding is one line of doctor.
type Finding struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Optional findings may be "no" on a machine where all is well.
	Optional bool   `json:"optional,omitempty"`
	Detail   string `json:"detail"`
	Remedy   string `json:"remedy,omitempty"`
}

type app struct {
	Env
	ctx   context.Context
	opts  OpenOptions
	json  bool
	plain bool
	color bool
	code  int
	// served is set once a command goes to a server.
	served atomic.Bool
}

// Main runs one command line and returns its exit code.
func Main(env Env, args []string) int {
	a := &app{Env: env, color: env.Terminal && env.Getenv("NO_COLOR") == ""}
	ctx, stop := a.interruptible()
	defer stop()
	a.ctx = ctx
	root := a.root()
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		return a.report(err)
	}
	return a.code
}

// interruptible returns a context that the first signal ends politely; the
// second one ends the process. Nothing is lost either way.
func (a *app) interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case s := <-sig:
			what := "stopping; running commands go on under their shims (once more to stop at once)"
			if a.served.Load() {
				what = "leaving; what the server works on goes on"
			}
			fmt.Fprintf(a.Stderr, "\nbelay: %s: %s\n", s, what)
			cancel(errInterrupted)
		}
		select {
		case <-done:
		case <-sig:
			os.Exit(130)
		}
	}()
	return ctx, func() { signal.Stop(sig); close(done); cancel(nil) }
}

var errInterrupted = errors.New("interrupted")

// usageError marks errors of the command line itself.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// report prints an error with its remedy and picks the exit code.
func (a *app) report(err error) int {
	if errors.Is(err, errInterrupted) {
		if a.served.Load() {
			fmt.Fprintln(a.Stderr, "belay: left; the server goes on with it (belay attach shows it, belay pause stops it)")
		} else {
			fmt.Fprintln(a.Stderr, "belay: stopped; belay resume goes on from here")
		}
		return 130
	}
	text := err.Error()
	if a.Redact != nil {
		text = a.Redact(text)
	}
	fmt.Fprintln(a.Stderr, "belay: "+block(text))
	var u usageError
	var coded interface{ ExitCode() int }
	switch {
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.As(err, &u), errors.Is(err, service.ErrUsage), errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrAmbiguous),
		errors.Is(err, core.ErrNoQuestion), errors.Is(err, core.ErrAmbiguous), errors.Is(err, core.ErrState), errors.Is(err, core.ErrFinal),
		errors.Is(err, core.ErrInput), errors.Is(err, core.ErrChanged):
		return ExitUsage
	}
	return ExitInternal
}

// exitCode is what a goal at rest means to a script.
func exitCode(s core.Snapshot) int {
	switch s.Status {
	case lifecycle.Completed:
		return ExitCompleted
	case lifecycle.Failed:
		return ExitFailed
	case lifecycle.Cancelled:
		return ExitCancelled
	case lifecycle.Paused:
		switch s.PauseReason {
		case event.PausedBudget:
			return ExitBudget
		case event.PausedByUser:
			return ExitWaiting
		}
		return ExitHandedOff
	}
	return ExitWaiting
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "belay",
		Short: "a durable runtime for coding agents",
		Long: "belay drives a model on a real repository, records every step before it happens,\n" +
			"and calls a goal completed only on evidence for the repository as it is now.\n\n" + exitHelp,
		SilenceErrors: true, SilenceUsage: true,
		// Without these two, cobra would end an unknown command with an error that
		// nothing can tell from an internal one.
		Args: cobra.ArbitraryArgs, RunE: rootless,
		PersistentPreRun: func(c *cobra.Command, _ []string) {
			a.opts.TellHere = c.Flags().Changed("notify") || c.Flags().Changed("notify-url")
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&a.opts.State, "state", "", "state directory (default: $BELAY_STATE, else the XDG state directory)")
	root.PersistentFlags().StringVar(&a.opts.DB, "db", "", "ledger in PostgreSQL: postgres://user@host/database, or sqlite (default: $BELAY_DB, else sqlite)")
	root.PersistentFlags().StringVar(&a.opts.Server, "server", a.Getenv("BELAY_SERVER"), "send commands to this belay serve, https://HOST:PORT or unix:PATH, with the token in $BELAY_TOKEN\n"+
		"(default: $BELAY_SERVER, else the one that runs on the state directory)")
	root.PersistentFlags().BoolVar(&a.opts.Local, "local", false, "send commands to no server, even if one runs: do them in this process")
	root.PersistentFlags().StringVar(&a.opts.Notify, "notify", a.Getenv("BELAY_NOTIFY"), "a shell command to run when a goal waits for a person or has ended (default: $BELAY_NOTIFY)")
	root.PersistentFlags().StringVar(&a.opts.NotifyURL, "notify-url", a.Getenv("BELAY_NOTIFY_URL"), "a URL that is sent the same as JSON (default: $BELAY_NOTIFY_URL)")
	root.PersistentFlags().StringVar(&a.opts.Embeddings, "embeddings", a.Getenv("BELAY_EMBEDDINGS"), "search by likeness too, with vectors of this model: openai:NAME (default: $BELAY_EMBEDDINGS, else text alone)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.PersistentFlags().BoolVar(&a.plain, "plain", false, "print lines in a terminal too, instead of the live view (also with $BELAY_PLAIN set, or TERM=dumb)")
	root.AddCommand(a.demoCommand(), a.runCommand(), a.resumeCommand(), a.attendCommand(), a.attachCommand(), a.topCommand(), a.workerCommand(), a.serveCommand(), a.tokenCommand())
	root.AddCommand(a.readCommands()...)
	root.AddCommand(a.answerCommands()...)
	root.AddCommand(a.applyCommand(), a.worktreesCommand(), a.forkCommand(), a.exportCommand(), a.importCommand(), a.checkpointCommand(), a.checkpointsCommand(), a.rollbackCommand(), a.gcCommand())
	root.AddCommand(a.policyCommand())
	root.AddCommand(a.doctorCommand(), a.versionCommand(), a.manCommand())
	root.AddCommand(a.More...)
	a.completeGoals(root)
	return root
}

// rootless is belay without one of its commands.
func rootless(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	root.SuggestionsMinimumDistance = 2
	hint := "belay --help lists them"
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q (%s)", args[0], hint)
}

// exactly is cobra's argument check with our exit code.
func exactly(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return usagef("%s takes %s; got %d arguments (belay %s --help)", cmd.CommandPath(), cmd.Use, len(args), cmd.Name())
		}
		return nil
	}
}

// with opens the door for one command: a server's if there is one.
func (a *app) with(f func(s service.Door) error) error {
	if a.opts.Local || a.Server == nil {
		return a.here(func(s *service.Service) error { return f(s) })
	}
	s, err := a.Server(a.ctx, a.opts)
	if err != nil {
		return err
	}
	if s == nil {
		return a.here(func(s *service.Service) error { return f(s) })
	}
	a.served.Store(true)
	return f(s)
}

// here opens the service in this process.
func (a *app) here(f func(s *service.Service) error) error {
	s, done, err := a.Open(a.ctx, a.opts)
	if err != nil {
		return err
	}
	err = f(s)
	return errors.Join(err, done())
}

// withGoal opens the service and resolves a goal prefix.
func (a *app) withGoal(prefix string, f func(s service.Door, goal string) error) error {
	return a.with(func(s service.Door) error {
		goal, err := s.Resolve(a.ctx, prefix)
		if err != nil {
			return err
		}
		return f(s, goal)
	})
}
