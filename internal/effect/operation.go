package effect

import (
	"context"
	"errors"
	"slices"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/fault"
	"belay/internal/sandbox"
	"belay/internal/tool"
)

const maxPreview = 64 << 10

func (g *Goal) call(s core.State, o operation.Op, attempt int) tool.Call {
	return tool.Call{Goal: g.ID, Op: o.ID, Attempt: attempt, Args: o.Args, Intent: o.Intent, Seen: s.Files, TimeoutMS: o.DeadlineMS}
}

// prepare computes what an operation would do now.
func (g *Goal) prepare(ctx context.Context, s core.State, e core.Prepare) (core.Body, error) {
	if e.Op.Tool == core.ToolCheckReview && core.Private(e.Op) {
		return g.prepareReview(ctx, s, e)
	}
	b := core.Prepared{Op: e.Op.ID}
	fail := func(err error, kind fault.Kind) (core.Body, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, errUnkept) {
			return nil, err
		}
		b.Fault = asFault(err, kind, fault.Tool)
		return b, nil
	}
	o, err := g.look(ctx, s, e.From, e.Baseline)
	if err != nil {
		return fail(err, fault.Internal)
	}
	b.Observation = o
	t, err := g.Tools(s).Lookup(e.Op.Tool)
	if err != nil {
		return fail(err, fault.UnknownTool)
	}
	p, ok := t.(tool.Preparer)
	if !ok {
		return b, nil
	}
	ready, err := p.Prepare(ctx, g.env(s, e.Op.ID), g.call(s, e.Op, e.Op.Attempt+1))
	failpoint.Hit(failpoint.PrepareAfter)
	if err != nil {
		return fail(err, fault.Internal)
	}
	b.Files, b.Key, b.Destructive = ready.Files, ready.Key, ready.Destructive
	b.TimeoutMS = ready.Timeout.Milliseconds()
	b.Action = core.Action{Dir: ready.Dir, Env: ready.Env, Inputs: ready.Inputs}
	if e.Op.Effect == event.Supervised {
		b.Action.Sandbox = g.Sandbox.Name()
	}
	if b.Preview, err = g.text(ctx, ready.Preview, maxPreview); err != nil {
		return fail(err, fault.Storage)
	}
	return b, nil
}

// run executes one attempt.
func (g *Goal) run(ctx context.Context, s core.State, e core.Run) (core.Body, error) {
	if e.Op.Tool == core.ToolRollback {
		return g.rollback(ctx, s, e.Op, e.Attempt, "")
	}
	if e.Op.Tool == core.ToolApply {
		return g.bring(ctx, s, e.Op, e.Attempt, "")
	}
	if core.Private(e.Op) {
		return g.check(ctx, s, e)
	}
	t, err := g.Tools(s).Lookup(e.Op.Tool)
	if err != nil {
		return g.failed(e.Op, e.Attempt, asFault(err, fault.UnknownTool, fault.Model)), nil
	}
	r, ok := t.(tool.Runner)
	if !ok {
		return g.failed(e.Op, e.Attempt, fault.New(fault.Internal, fault.Runtime, e.Op.Tool+" cannot be run", "")), nil
	}
	failpoint.Hit(failpoint.RunBefore)
	env := g.env(s, e.Op.ID)
	b, err := g.runWith(ctx, r, env, g.call(s, e.Op, e.Attempt), e)
	if ended, ok := b.(core.Ended); ok && err == nil {
		ended.Instructions, err = g.instructions(ctx, s, e.Op.Access, e.Op.ID)
		b = ended
	}
	return b, err
}

// runWith executes an attempt with a tool.
func (g *Goal) runWith(ctx context.Context, r tool.Runner, env tool.Env, call tool.Call, e core.Run) (core.Body, error) {
	outcome, result, err := r.Run(ctx, env, call)
	shown(env)
	failpoint.Hit(failpoint.RunAfter)
	switch {
	case err == nil:
		return core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: outcome, Result: result}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err() // what runs under a shim runs on
	case errors.Is(err, errUnkept):
		return nil, err // it has ended, and its result can be had again
	case errors.Is(err, sandbox.ErrVoid):
		return nil, err // another holder has looked and found nothing: it is theirs
	case errors.Is(err, sandbox.ErrGone):
		return g.unknown(e.Op, e.Attempt, "", result, "its supervisor is gone without a result: "+err.Error()), nil
	case e.Op.Effect.SideEffect() && e.Op.Effect != event.Supervised:
		return g.unknown(e.Op, e.Attempt, "", result, err.Error()), nil
	}
	return g.failed(e.Op, e.Attempt, asFault(err, fault.Internal, fault.Tool)), nil
}

func (g *Goal) failed(o operation.Op, attempt int, f *fault.Fault) core.Body {
	return core.Ended{Op: o.ID, Attempt: attempt, Outcome: event.Failed,
		Result: event.Result{Fault: f, Output: event.Text{Head: f.Error()}}}
}

// unknown says that an attempt started and that nobody can tell what it did.
func (g *Goal) unknown(o operation.Op, attempt int, recovered string, r event.Result, detail string) core.Body {
	r.Fault = fault.New(fault.InDoubt, fault.Environment, detail, "look at its effects, with check_operation first; a person settles it with belay reconcile")
	return core.Ended{Op: o.ID, Attempt: attempt, Outcome: event.OutcomeUnknown, Result: r, Recovered: recovered}
}

// probe establishes what an attempt of an earlier holder did.
func (g *Goal) probe(ctx context.Context, s core.State, e core.Probe) (core.Body, error) {
	if e.Op.Tool == core.ToolRollback {
		return g.rollback(ctx, s, e.Op, e.Attempt, "probe")
	}
	if e.Op.Tool == core.ToolApply {
		return g.bring(ctx, s, e.Op, e.Attempt, "probe")
	}
	recovered := "probe"
	if e.Op.Effect == event.Supervised {
		recovered = "reattached"
	}
	if why := g.elsewhere(s, e.Op.Place, e.Op.Effect); why != "" {
		return g.unknown(e.Op, e.Attempt, "probe", event.Result{}, why), nil
	}
	if core.Private(e.Op) {
		return g.probeCopy(ctx, s, e)
	}
	t, err := g.Tools(s).Lookup(e.Op.Tool)
	p, ok := t.(tool.Prober)
	if err != nil || !ok {
		return g.unknown(e.Op, e.Attempt, recovered, event.Result{}, "no tool "+e.Op.Tool+" of this version can look at it"), nil
	}
	failpoint.Hit(failpoint.ProbeBefore)
	env := g.env(s, e.Op.ID)
	f, err := p.Probe(ctx, env, g.call(s, e.Op, e.Attempt))
	shown(env)
	return g.probed(ctx, e, recovered, f, err)
}

// probed turns what a probe found into an input.
func (g *Goal) probed(ctx context.Context, e core.Probe, recovered string, f tool.Finding, err error) (core.Body, error) {
	failpoint.Hit(failpoint.ProbeAfter)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	switch {
	case errors.Is(err, errUnkept):
		return nil, err
	case err != nil:
		return g.unknown(e.Op, e.Attempt, recovered, f.Result, "looking failed: "+err.Error()), nil
	case f.What == tool.FoundFinished:
		return core.Ended{Op: e.Op.ID, Attempt: e.Attempt, Outcome: f.Outcome, Result: f.Result, Recovered: recovered}, nil
	case f.What == tool.FoundNever:
		return core.NeverHappened{Op: e.Op.ID, Attempt: e.Attempt}, nil
	}
	return g.unknown(e.Op, e.Attempt, recovered, f.Result, f.Detail), nil
}

// Look probes an operation whose outcome is unknown. The error is a *fault.Fault
// when it is not in doubt, else that of ctx.
func (g *Goal) Look(ctx context.Context, s core.State, op string) (tool.Finding, error) {
	o, ok := s.Doubt(op)
	if !ok {
		return tool.Finding{}, fault.New(fault.NotFound, fault.Model, op+" is not in doubt", "only an operation with an unknown outcome can be checked")
	}
	if why := g.elsewhere(s, o.Place, o.Effect); why != "" {
		return tool.Finding{What: tool.FoundUnknown, Detail: why}, nil
	}
	t, err := g.Tools(s).Lookup(o.Tool)
	p, can := t.(tool.Prober)
	if err != nil || !can {
		return tool.Finding{What: tool.FoundUnknown, Detail: "nothing can tell what " + o.Tool + " did"}, nil
	}
	f, err := p.Probe(ctx, g.env(s, o.ID), g.call(s, o, o.Attempt))
	switch {
	case ctx.Err() != nil:
		return f, ctx.Err()
	case err != nil:
		return tool.Finding{What: tool.FoundUnknown, Detail: "looking failed: " + err.Error()}, nil
	case f.What == tool.FoundNever && o.Effect == event.Supervised:
		// It was known to have started: a record that is missing now was removed,
		// or is on another machine.
		return tool.Finding{What: tool.FoundUnknown, Detail: "this machine has no record of it any more"}, nil
	}
	return f, nil
}

// stop asks the shim of a running command to end it. Attempts that no shim
// holds end by themselves.
func (g *Goal) stop(ctx context.Context, e core.Stop) error {
	g.mu.Lock()
	if end := g.asked[e.Op.ID]; end != nil {
		end()
	}
	g.mu.Unlock()
	if e.Op.Effect != event.Supervised {
		return nil
	}
	p, err := g.Sandbox.Attach(ctx, tool.AttemptKey(g.ID, e.Op.ID, e.Attempt))
	if errors.Is(err, sandbox.ErrNoRecord) || errors.Is(err, sandbox.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.Stop(ctx, e.Reason)
}

// Watch shows the output of a command that another worker of this place has
// running, from its start to its end, without secrets. It changes nothing: a
// command that does not run here is not looked for, because to look and find
// none would void it.
func (g *Goal) Watch(ctx context.Context, op string, attempt int) error {
	key := tool.AttemptKey(g.ID, op, attempt)
	running, err := g.Sandbox.Running(ctx)
	if err != nil || !slices.Contains(running, key) {
		return err
	}
	p, err := g.Sandbox.Attach(ctx, key)
	if err != nil {
		return err
	}
	w := g.Secrets.Writer(progress{g.Live, op})
	err = p.Follow(ctx, w)
	return errors.Join(err, w.Close())
}
