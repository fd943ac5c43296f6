package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belay/internal/core/children"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/service"
)

// runFlags are the flags of run.
type runFlags struct {
	repo, file, model string
	tests             []string
	plan, approve     string
	approvalTimeout   time.Duration
	providerWait      time.Duration
	patience          int64
	prose             bool
	sandbox, image    string
	unverified        bool
	detach            bool
	queue             bool
	travel            bool
	travelSaid        bool
	worktree          bool
	parent            string
	share             int64
	readOnly          bool
	children          int64
	childDepth        int64
	limits            limitFlags
}

// limitFlags are the budget flags that run and resume share.
type limitFlags struct {
	steps, turns, tokens int64
	cost                 float64
	deadline             string
}

func (l *limitFlags) register(c *cobra.Command) {
	c.Flags().Int64Var(&l.steps, "max-steps", 0, "most model requests")
	c.Flags().Int64Var(&l.turns, "max-turns", 0, "most turns")
	c.Flags().Int64Var(&l.tokens, "max-tokens", 0, "most tokens, input and output")
	c.Flags().Float64Var(&l.cost, "max-cost", 0, "most cost in US dollars (the model's price must be known)")
	c.Flags().StringVar(&l.deadline, "deadline", "", "no request after this: a duration (8h) or an RFC 3339 instant")
}

// over lays the flags that were given over limits.
func (l *limitFlags) over(base event.Limits) (event.Limits, error) {
	more, err := budgetFile{Turns: l.turns, Steps: l.steps, Tokens: l.tokens, CostUSD: l.cost, Deadline: l.deadline}.limits(time.Now())
	if err != nil {
		return base, usageError{err}
	}
	set := func(dst *int64, v int64) {
		if v > 0 {
			*dst = v
		}
	}
	set(&base.Steps, more.Steps)
	set(&base.Turns, more.Turns)
	set(&base.Tokens, more.Tokens)
	set(&base.CostMicros, more.CostMicros)
	if !more.Deadline.IsZero() {
		base.Deadline = more.Deadline
	}
	return base, nil
}

func (l *limitFlags) given() bool { return *l != limitFlags{} }

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   `run ["TEXT" | -]`,
		Short: "start a goal and work on it until it comes to rest",
		Long: "run starts a goal on a repository and works on it until it is completed, waits for\n" +
			"a person, or is handed off. In a terminal it shows a live view and asks there; without one it\n" +
			"never waits on standard input and ends with exit code 3 when a person is needed.\n\n" + exitHelp,
		Example: `  belay run "fix the failing test in slug.go" --test "go test ./..."
  belay run --file goal.yaml --model anthropic:claude-sonnet-4-5 --approve auto --max-tokens 500000`,
		Args: exactly(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.travelSaid = cmd.Flags().Changed("travel")
			if err := f.given(cmd.Flags().Changed); err != nil {
				return err
			}
			return a.run(f, args)
		},
	}
	c.Flags().StringVar(&f.repo, "repo", ".", "the repository, or any directory")
	c.Flags().StringVar(&f.file, "file", "", "read goal, acceptance, constraints and budget from this goal.yaml")
	c.Flags().StringVar(&f.model, "model", "", "openai:NAME, anthropic:NAME or script:FILE (default: $BELAY_MODEL)")
	c.Flags().StringArrayVar(&f.tests, "test", nil, "a test command that must pass (repeatable)")
	c.Flags().StringVar(&f.plan, "plan", "auto", "auto, always or never: when a plan has to be approved before anything is changed")
	c.Flags().StringVar(&f.approve, "approve", "ask", "ask, auto (grant what policy asks, for this goal, on record) or never (deny it)")
	c.Flags().StringVar(&f.sandbox, "sandbox", "", "what confines commands: auto (the strongest that holds here), bwrap, landlock,\n"+
		"container, or none, on record (default: $BELAY_SANDBOX, else auto)")
	c.Flags().StringVar(&f.image, "image", "", "the image of --sandbox container, which it implies (default: image in goal.yaml,\n"+
		"else $BELAY_IMAGE); it is never fetched")
	c.Flags().DurationVar(&f.approvalTimeout, "approval-timeout", 0, "a question that nobody answers within this time counts as denied (default: never)")
	c.Flags().DurationVar(&f.providerWait, "provider-wait", 0, "how long a model that is overloaded, limited or unreachable is waited for (default: 30m;\n"+
		"8h lets a night's run sit out an outage; the goal is parked meanwhile and spends nothing)")
	c.Flags().BoolVar(&f.prose, "prose", false, "let the model add a few words of its own when its conversation is compacted; one more request each time")
	c.Flags().Int64Var(&f.patience, "patience", 1, "stretch the thresholds at which a lack of progress is warned of and stops the goal by this factor")
	c.Flags().BoolVar(&f.unverified, "accept-unverified", false, "accept a claim that nothing can check; it is recorded as such")
	c.Flags().BoolVar(&f.detach, "detach", false, "work in the background; print the goal and return")
	c.Flags().BoolVar(&f.queue, "queue", false, "record the goal and return; a belay worker takes it up")
	c.MarkFlagsMutuallyExclusive("detach", "queue")
	c.Flags().BoolVar(&f.travel, "travel", false, "keep the workspace's every state in the ledger, so that a worker on another machine can go on (default: with --db postgres://…)")
	c.Flags().BoolVar(&f.worktree, "worktree", false, "work in a checkout of its own, at the exact state of --repo now; belay apply brings the result back")
	c.Flags().StringVar(&f.parent, "parent", "", "start it as a child of this goal: in a worktree of its own, with a share of that goal's budget and at most its\n"+
		"permissions; the result goes to that goal (docs/children.md)")
	c.Flags().Int64Var(&f.share, "share", children.DefaultShare, "with --parent: percentage of what is left of its budget, from 1 to 90, where no --max-… says it")
	c.Flags().BoolVar(&f.readOnly, "read-only", false, "it only looks and reports: nothing is changed")
	c.Flags().Int64Var(&f.children, "max-children", children.DefaultMost, "how many child goals the goal may start; 0 for none")
	c.Flags().Int64Var(&f.childDepth, "child-depth", children.DefaultDepth, "how many levels of child goals there may be below it")
	f.limits.register(c)
	return c
}

func (a *app) run(f runFlags, args []string) error {
	req, err := a.request(f, args)
	if err != nil {
		return err
	}
	return a.with(func(s service.Door) error {
		if req.Parent != "" {
			if req.Parent, err = s.Resolve(a.ctx, req.Parent); err != nil {
				return err
			}
		} else if req.Settings.Model == "" && !s.Serves() {
			return usagef("name a model: --model openai:NAME, anthropic:NAME or script:FILE, or set BELAY_MODEL (belay demo needs none)")
		}
		started, err := s.Start(a.ctx, req)
		if err != nil {
			return err
		}
		for _, w := range started.Warnings {
			fmt.Fprintln(a.Stderr, "belay: "+oneLine(w))
		}
		return a.begun(s, started.Goal, f)
	})
}

// begun goes on with a goal that has just been recorded, in the way that the
// flags ask for.
func (a *app) begun(s service.Door, goal string, f runFlags) error {
	if f.detach && !f.queue && !s.Serves() {
		if err := a.Background(a.opts, goal); err != nil {
			return fmt.Errorf("goal %s is recorded but no worker could be started (belay resume %s): %w", goal, goal, err)
		}
	}
	if f.queue || f.detach {
		return a.printJSONOr(map[string]string{"goal": goal}, func(w io.Writer) { fmt.Fprintln(w, goal) })
	}
	if !a.json {
		fmt.Fprintf(a.Stdout, "goal %s\n", goal)
	}
	return a.attend(s, goal, 0)
}

func (a *app) request(f runFlags, args []string) (service.StartRequest, error) {
	var req service.StartRequest
	if f.file != "" {
		spec, image, bring, err := readGoalFile(f.file, time.Now())
		if err != nil {
			return req, err
		}
		req.Spec, req.Bring = spec, bring
		if f.image == "" && f.sandbox == "" {
			f.image = image
		}
	}
	if len(args) == 1 {
		req.Spec.Text = args[0]
		if args[0] == "-" {
			b, err := io.ReadAll(io.LimitReader(a.Stdin, 1<<20))
			if err != nil {
				return req, fmt.Errorf("read the goal from standard input: %w", err)
			}
			req.Spec.Text = strings.TrimSpace(string(b))
		}
	}
	if strings.TrimSpace(req.Spec.Text) == "" {
		return req, usagef(`say what to do: belay run "TEXT", belay run - (standard input), or --file goal.yaml`)
	}
	for i, t := range f.tests {
		req.Spec.Acceptance = append(req.Spec.Acceptance, event.Criterion{ID: fmt.Sprintf("test-%d", i+1), Kind: event.CriterionTest, Command: t})
	}
	if f.parent != "" {
		return req, a.childRequest(f, &req)
	}
	if f.model == "" {
		f.model = a.Getenv("BELAY_MODEL")
	}
	if f.image != "" {
		if f.sandbox != "" && f.sandbox != "container" {
			return req, usagef("--image is for --sandbox container, not for %q", f.sandbox)
		}
		f.sandbox = "container:" + f.image
	}
	if f.sandbox == "" {
		f.sandbox = a.Getenv("BELAY_SANDBOX")
	}
	var err error
	if req.Spec.Limits, err = f.limits.over(req.Spec.Limits); err != nil {
		return req, err
	}
	req.Repo, req.Worktree = f.repo, f.worktree
	if f.travelSaid {
		req.Travel = &f.travel
	}
	req.Settings = event.Settings{Model: f.model, Plan: event.PlanMode(f.plan), Approve: event.ApproveMode(f.approve),
		AcceptUnverified: f.unverified, Sandbox: f.sandbox}
	if f.approvalTimeout < 0 || f.approvalTimeout > 0 && f.approvalTimeout < time.Second {
		return req, usagef("--approval-timeout is at least 1s, not %s", f.approvalTimeout)
	}
	req.Settings.ApprovalTimeoutMS = f.approvalTimeout.Milliseconds()
	if f.providerWait < 0 {
		return req, usagef("--provider-wait is a time such as 8h, not %s", f.providerWait)
	}
	req.Settings.RetryWindowMS = f.providerWait.Milliseconds()
	if f.patience < 1 || f.patience > 100 {
		return req, usagef("--patience is a factor from 1 to 100, not %d", f.patience)
	}
	req.Settings.Prose = f.prose
	if f.patience > 1 {
		req.Settings.Patience = f.patience
	}
	return req, f.mayDelegate(&req.Settings)
}

func (a *app) resumeCommand() *cobra.Command {
	var l limitFlags
	var detach, adopt bool
	var model string
	c := &cobra.Command{
		Use:   "resume G",
		Short: "go on with a goal: paused, waiting, or left by a process that died",
		Long: "resume makes a paused goal active again and works on it until it comes to rest. For a\n" +
			"goal whose process died it goes on from where that was: commands that still run are\n" +
			"re-attached, and what they did meanwhile is recorded. Budget flags set new limits, and\n" +
			"--model has another model answer from now on, of the same provider or of another.\n\n" +
			"A goal that was worked on at another place (machine or state directory) gets its\n" +
			"workspace restored here, if it travels and the directory holds nothing else. With\n" +
			"--adopt it goes on from the directory here as it is.\n\n" + exitHelp,
		Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				if adopt {
					if err := s.Adopt(a.ctx, goal); err != nil {
						return err
					}
				}
				if model != "" {
					if err := s.ChangeModel(a.ctx, goal, model); err != nil {
						return err
					}
				}
				return a.resume(s, goal, l, detach)
			})
		},
	}
	c.Flags().BoolVar(&detach, "detach", false, "work in the background and return")
	c.Flags().StringVar(&model, "model", "", "have this model answer from now on")
	c.Flags().BoolVar(&adopt, "adopt", false, "take the directory here, as it is, for the workspace of a goal of another place")
	l.register(c)
	return c
}

func (a *app) resume(s service.Door, goal string, l limitFlags, detach bool) error {
	snap, err := s.Snapshot(a.ctx, goal)
	if err != nil {
		return err
	}
	if l.given() {
		limits, err := l.over(snap.Budget.Limits)
		if err != nil {
			return err
		}
		if err := s.ExtendBudget(a.ctx, goal, limits); err != nil {
			return err
		}
		if snap, err = s.Snapshot(a.ctx, goal); err != nil {
			return err
		}
	}
	if snap.Status == lifecycle.Paused {
		if err := s.Resume(a.ctx, goal); err != nil {
			return err
		}
	}
	if s.Serves() {
		if detach {
			return nil
		}
	} else if held, err := s.Held(a.ctx, goal); err != nil {
		return err
	} else if held {
		fmt.Fprintf(a.Stderr, "belay: a worker holds goal %s and goes on with it (belay timeline %s -f)\n", goal, goal)
		return nil
	}
	if detach {
		return a.Background(a.opts, goal)
	}
	return a.attend(s, goal, snap.Head)
}

// attendCommand is what a background worker runs.
func (a *app) attendCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attend-goal G", Hidden: true, Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.here(func(s *service.Service) error {
				goal, err := s.Resolve(a.ctx, args[0])
				if err != nil {
					return err
				}
				return a.attend(s, goal, 0)
			})
		},
	}
}

// attend works on a goal and shows it; the exit code is what it came to.
func (a *app) attend(s service.Door, goal string, after uint64) error {
	if a.live() {
		return a.attendLive(s, goal)
	}
	v := newView(a)
	o := service.AttendOptions{OnEvent: v.event, After: after, Live: v}
	if a.Terminal && !a.json {
		p := &prompter{app: a, service: s, lines: a.readLines()}
		o.Ask = p.ask
	}
	snap, err := s.Attend(a.ctx, goal, o)
	if errors.Is(err, service.ErrNobody) {
		err = nil
	}
	if err != nil {
		if cause := context.Cause(a.ctx); cause != nil {
			return cause
		}
		return err
	}
	a.code = exitCode(snap)
	v.end(snap, a.code)
	return nil
}

// printJSONOr prints v as JSON with --json, else calls plain.
func (a *app) printJSONOr(v any, plain func(io.Writer)) error {
	if a.json {
		return writeJSON(a.Stdout, v)
	}
	plain(a.Stdout)
	return nil
}
