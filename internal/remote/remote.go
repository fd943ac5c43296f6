// Package remote is the service's door at a distance: every use case of the
// command line, done by a running server that is asked over its API. What comes
// back is what the service itself would have answered, its errors included, so
// that a face does not know which of the two it talks to.
//
// It decides nothing, and must not open a ledger: one goal has one owner, and
// here that is the server's worker.
package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"belay/client"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/service"
)

// Door sends what a face wants to a server.
type Door struct {
	c *client.Client
	// here says that the server is on this machine, so that paths mean the same.
	here bool
	// rested, if set, is told when an attended goal has come to rest.
	rested func(context.Context, core.Snapshot)
}

var _ service.Door = (*Door)(nil)

// New makes a door to the server that c calls. here says that paths mean the
// same to it as to the caller.
func New(c *client.Client, here bool, rested func(context.Context, core.Snapshot)) *Door {
	var through http.Client
	if c.HTTP != nil {
		through = *c.HTTP
	}
	through.Transport = patient{cmp.Or[http.RoundTripper](through.Transport, http.DefaultTransport)}
	to := *c
	to.HTTP = &through
	return &Door{c: &to, here: here, rested: rested}
}

// patience is for how long a question is asked again whose connection broke: a
// server that is just being started anew answers it.
const patience = 5 * time.Second

// patient asks again what changes nothing.
type patient struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for until := time.Now().Add(patience); ; {
		answer, err := p.RoundTripper.RoundTrip(r)
		if err == nil || r.Method != http.MethodGet || r.Context().Err() != nil || time.Now().After(until) {
			return answer, err
		}
		select {
		case <-r.Context().Done():
		case <-time.After(reconnect):
		}
	}
}

// Serves implements service.Door: the server's worker advances goals.
func (d *Door) Serves() bool { return true }

// failure is an error of the server with the service's own errors in it.
type failure struct {
	text string
	is   error
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// Unwrap lets errors.Is find what it is.
func (f *failure) Unwrap() error { return f.is }

// ErrAway: the server does not answer.
var ErrAway = errors.New("the server does not answer")

// meaning are the codes of problems as the service's errors.
var meaning = map[string]error{
	"no_goal": service.ErrNotFound, "no_operation": service.ErrNoOperation, "not_found": ledger.ErrNotFound,
	"ambiguous_goal": service.ErrAmbiguous, "busy": service.ErrBusy, "bad_request": service.ErrUsage,
	"no_question": core.ErrNoQuestion, "question_changed": core.ErrChanged, "ambiguous_question": core.ErrAmbiguous,
	"ended": core.ErrFinal, "not_now": core.ErrState, "refused": core.ErrRefused, "key_reused": service.ErrKeyReused,
}

// told translates an error of a call into the service's.
func told(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var p *client.Problem
	if !errors.As(err, &p) {
		return fmt.Errorf("%w: %w; --local does without it", ErrAway, err)
	}
	if is, ok := meaning[p.Code]; ok {
		return &failure{p.Error(), is}
	}
	switch p.Code {
	case "no_route":
		return &failure{"the server is another version of belay and cannot do this: restart it, or use --local (" + p.Error() + ")", service.ErrUsage}
	case "token", "scope", "host", "rate", "streams":
		return &failure{"the server says: " + p.Error(), service.ErrUsage}
	}
	return p
}

// tries is how often a command is sent whose answer was lost on the way.
const tries = 3

// tell sends a command under a key of its own, and again when its answer was
// lost: under the key it is done once.
func tell[Out any](ctx context.Context, f func(context.Context) (Out, error)) (Out, error) {
	var seed [16]byte
	if _, err := rand.Read(seed[:]); err != nil {
		var none Out
		return none, fmt.Errorf("draw a key for the command: %w", err)
	}
	ctx = client.WithKey(ctx, event.NewID(moment.Of(time.Now()), seed, 0))
	for n := 1; ; n++ {
		out, err := f(ctx)
		var p *client.Problem
		if err == nil || errors.As(err, &p) && !(p.Retryable && p.Status == http.StatusServiceUnavailable) || n == tries || ctx.Err() != nil {
			return out, told(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(n) * 200 * time.Millisecond):
		}
	}
}

// ask is a call that changes nothing.
func ask[Out any](out Out, err error) (Out, error) { return out, told(err) }

// Resolve implements service.Door.
func (d *Door) Resolve(ctx context.Context, prefix string) (string, error) {
	if prefix == "" {
		return "", fmt.Errorf("%w: name a goal (belay goals lists them)", service.ErrUsage)
	}
	s, err := d.c.Snapshot(ctx, prefix)
	return s.Goal, told(err)
}

// everything is more goals than a list has.
const everything = 100_000

// Overviews implements service.Door.
func (d *Door) Overviews(ctx context.Context, f ledger.Filter) ([]core.Overview, error) {
	if f.Limit == 0 {
		f.Limit = everything
	}
	return ask(d.c.Goals(ctx, client.Which{Status: f.Status, Repo: f.Repo, Prefix: f.Prefix, Limit: f.Limit}))
}

// Goals implements service.Door.
func (d *Door) Goals(ctx context.Context, f ledger.Filter) ([]ledger.Row, error) {
	list, err := d.Overviews(ctx, f)
	rows := make([]ledger.Row, len(list))
	for i, o := range list {
		rows[i] = o.Row
	}
	return rows, err
}

// row is a goal as the list has it.
func (d *Door) row(ctx context.Context, goal string) (core.Overview, error) {
	list, err := d.Overviews(ctx, ledger.Filter{Prefix: goal, Limit: 2})
	if err != nil {
		return core.Overview{}, err
	}
	for _, o := range list {
		if o.Goal == goal {
			return o, nil
		}
	}
	return core.Overview{}, fmt.Errorf("%w: %s", service.ErrNotFound, goal)
}

// Held implements service.Door.
func (d *Door) Held(ctx context.Context, goal string) (bool, error) {
	o, err := d.row(ctx, goal)
	return o.Held, err
}

// Snapshot implements service.Door.
func (d *Door) Snapshot(ctx context.Context, goal string) (core.Snapshot, error) {
	return ask(d.c.Snapshot(ctx, goal))
}

// SnapshotAt implements service.Door.
func (d *Door) SnapshotAt(ctx context.Context, goal string, seq uint64) (core.Snapshot, error) {
	return ask(d.c.SnapshotAt(ctx, goal, seq))
}

// Spec implements service.Door.
func (d *Door) Spec(ctx context.Context, goal string) (event.GoalSpec, error) {
	return ask(d.c.Spec(ctx, goal))
}

// page is how many events are asked for at a time.
const page = 2000

// Events implements service.Door.
func (d *Door) Events(ctx context.Context, goal string, after uint64) ([]event.Event, error) {
	var out []event.Event
	for {
		es, err := d.c.Events(ctx, goal, after, page)
		if err != nil || len(es) == 0 {
			return out, told(err)
		}
		for _, e := range es {
			after = e.Seq
			out = append(out, decode(e))
		}
	}
}

// Follow implements service.Door. It goes on from where it was when the server
// was away for a while.
func (d *Door) Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	return func(yield func(ledger.Item, error) bool) {
		marked := false
		for it, err := range d.follow(ctx, goal, after) {
			if it.CaughtUp {
				if marked {
					continue // there is one marker, however often it connects
				}
				marked = true
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// Diff implements service.Door.
func (d *Door) Diff(ctx context.Context, goal string) (string, error) {
	v, err := d.c.Diff(ctx, goal)
	return v.Diff, told(err)
}

// Output implements service.Door.
func (d *Door) Output(ctx context.Context, goal, op string) (event.Text, error) {
	text, err := d.c.Output(ctx, goal, op)
	return event.Text{Head: text}, told(err)
}

// Whole implements service.Door.
func (d *Door) Whole(ctx context.Context, t event.Text) (string, error) {
	if t.Whole.IsZero() {
		return t.Head, nil
	}
	text, err := d.c.Bytes(ctx, t.Whole.SHA256)
	return string(text), told(err)
}

// Report implements service.Door.
func (d *Door) Report(ctx context.Context, goal string, f service.ReportFormat) (string, error) {
	return ask(d.c.Report(ctx, goal, string(f)))
}

// Audit implements service.Door.
func (d *Door) Audit(ctx context.Context, goal string) (ledger.Audit, error) {
	return ask(d.c.Audit(ctx, goal))
}

// Start implements service.Door.
func (d *Door) Start(ctx context.Context, r service.StartRequest) (service.Started, error) {
	g, err := d.wire(r)
	if err != nil {
		return service.Started{}, err
	}
	started, err := tell(ctx, func(ctx context.Context) (client.Started, error) { return d.c.Start(ctx, g) })
	return service.Started{Goal: started.Goal, Warnings: started.Warnings}, err
}

// wire is a request to start a goal as it goes to the server.
func (d *Door) wire(r service.StartRequest) (client.StartGoal, error) {
	s := r.Settings
	g := client.StartGoal{Text: r.Spec.Text, Repo: r.Repo, Acceptance: r.Spec.Acceptance, Constraints: r.Spec.Constraints, Limits: r.Spec.Limits,
		Model: s.Model, Plan: s.Plan, Approve: s.Approve, AcceptUnverified: s.AcceptUnverified, Sandbox: s.Sandbox,
		RetryWindowMS: s.RetryWindowMS, Patience: s.Patience, Prose: s.Prose, ApprovalTimeoutMS: s.ApprovalTimeoutMS, Travel: r.Travel, Worktree: r.Worktree, Bring: r.Bring,
		Parent: r.Parent, SharePercent: r.Share, ReadOnly: s.ReadOnly,
		MaxChildren: s.MaxChildren, ChildDepth: s.ChildDepth, ParallelChildren: s.ParallelChildren}
	var err error
	if g.Repo, err = d.path("the repository", r.Repo); err != nil {
		return g, err
	}
	if file, ok := strings.CutPrefix(s.Model, scripted); ok {
		if file, err = d.path("the script", file); err != nil {
			return g, err
		}
		g.Model = scripted + file
	}
	return g, nil
}

const scripted = "script:"

// path is a path as the server knows it.
func (d *Door) path(what, path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if !d.here {
		return "", fmt.Errorf("%w: %s is named %q; on a server elsewhere give its absolute path there", service.ErrUsage, what, path)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s cannot be found: %w", service.ErrUsage, what, err)
	}
	return whole, nil
}
