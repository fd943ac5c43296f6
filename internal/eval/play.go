package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// player drives one run: it starts belay, reads the events it prints, and does
// what people and the world do at their instants.
type player struct {
	r    *Runner
	c    Case
	w    *world
	proc *process
	goal string

	events []event.Event
	tools  map[string]string
	hits   []int // how often the instant of each act has come
	queue  []Act
	rests  int
	used   []int // of the answers
	exit   int

	said *bounded
	log  *bounded
}

const mostSaid = 1 << 20

func (r *Runner) newPlayer(c Case, w *world) *player {
	return &player{r: r, c: c, w: w, tools: map[string]string{}, hits: make([]int, len(c.Acts)), used: make([]int, len(c.Answers)),
		said: &bounded{most: mostSaid}, log: &bounded{most: mostSaid}}
}

// play runs the goal until it has come to rest and nobody does anything more.
func (p *player) play(ctx context.Context) error {
	defer p.stop()
	if err := p.launch(p.runArgs()...); err != nil {
		return err
	}
	for {
		for len(p.queue) > 0 {
			a := p.queue[0]
			p.queue = p.queue[1:]
			for _, d := range a.Do {
				if err := p.do(ctx, d); err != nil {
					return err
				}
			}
		}
		if p.proc == nil {
			if err := p.sync(ctx); err != nil {
				return err
			}
			on, err := p.rest(ctx)
			if err != nil {
				return err
			}
			if !on && len(p.queue) == 0 {
				return nil
			}
			continue
		}
		if err := p.listen(ctx); err != nil {
			return err
		}
	}
}

// listen takes in one line of the process, or its end.
func (p *player) listen(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line, ok := <-p.proc.lines:
		if !ok {
			p.ended()
			return nil
		}
		return p.line(ctx, line)
	}
}

func (p *player) ended() {
	p.exit = p.proc.wait()
	p.proc = nil
	p.rests = 0
	fmt.Fprintf(p.log, "exit %d\n", p.exit)
}

func (p *player) line(ctx context.Context, line string) error {
	_, _ = p.said.Write([]byte(line))
	var out printed
	if err := json.Unmarshal([]byte(line), &out); err != nil {
		return fmt.Errorf("belay run --json prints a line that is no JSON: %q", clip(line))
	}
	if out.Kind != "event" {
		return nil
	}
	e, err := readEvent(out.Event)
	if err != nil {
		return err
	}
	if e.Seq > uint64(len(p.events))+1 {
		return p.sync(ctx) // what was recorded between two processes, and this
	}
	p.take(e)
	return nil
}

// take notes an event and queues the acts whose instant it is.
func (p *player) take(e event.Event) {
	if e.Seq != uint64(len(p.events))+1 {
		return
	}
	p.goal = e.Goal
	p.events = append(p.events, e)
	if b, ok := e.Payload.(event.OperationProposed); ok {
		p.tools[e.Op] = b.Tool
	}
	for i, a := range p.c.Acts {
		w := a.When
		if w.Event != e.Type || w.Tool != "" && w.Tool != p.tools[e.Op] || w.Op != "" && w.Op != e.Op || !w.Text.IsZero() && !w.Text.Match(payload(e)) {
			continue
		}
		if p.hits[i]++; p.hits[i] == max(w.Nth, 1) {
			p.queue = append(p.queue, a)
		}
	}
}

// sync reads what the ledger holds and the process did not print.
func (p *player) sync(ctx context.Context) error {
	if p.goal == "" {
		out, _, err := p.ask(ctx, "goals", "--json")
		var rows []struct {
			Goal string `json:"goal"`
		}
		if err != nil || json.Unmarshal([]byte(out), &rows) != nil || len(rows) == 0 {
			return ctx.Err() // no goal was begun
		}
		p.goal = rows[0].Goal
	}
	out, _, err := p.ask(ctx, "events", p.goal, "--after", fmt.Sprint(len(p.events)))
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		e, err := readEvent([]byte(line))
		if err != nil {
			return err
		}
		p.take(e)
	}
	return nil
}

// rest does what is due when the run has come to rest; on says that something
// was done.
func (p *player) rest(ctx context.Context) (on bool, err error) {
	if p.rests++; p.rests > 1 {
		return false, nil // what was done did not set it going again
	}
	for i, a := range p.c.Acts {
		if a.When.Rest == nil || *a.When.Rest != p.exit {
			continue
		}
		if p.hits[i]++; p.hits[i] == max(a.When.Nth, 1) {
			p.queue = append(p.queue, a)
		}
	}
	if len(p.queue) > 0 || p.goal == "" {
		return len(p.queue) > 0, nil
	}
	return p.answer(ctx)
}

// answer answers what the goal asks, and lets it go on.
func (p *player) answer(ctx context.Context) (bool, error) {
	s := p.snapshot()
	if s.Status != lifecycle.Active {
		return false, nil
	}
	did := false
	for _, q := range s.PendingApprovals {
		a := p.answerFor(func(a Answer) bool {
			return a.Asks.IsZero() && (a.Tool == "" || a.Tool == q.Tool) && (a.Shows.IsZero() || a.Shows.MatchString(q.Intent.Preview.Head))
		})
		if a == nil {
			return false, nil // it waits for somebody who is not in the case
		}
		args := []string{a.Say, p.goal, q.Op}
		if a.Say == "deny" && a.Reason != "" {
			args = append(args, "--reason", a.Reason)
		}
		if _, _, err := p.ask(ctx, args...); err != nil {
			return false, err
		}
		did = true
	}
	if !did && s.WaitReason == event.WaitUserInput {
		if a := p.answerFor(func(a Answer) bool { return !a.Asks.IsZero() && a.Asks.MatchString(s.WaitDetail) }); a != nil {
			args := []string{"say", p.goal, a.Say}
			if a.Say == "approve" || a.Say == "deny" {
				args = []string{a.Say, p.goal}
			}
			if _, _, err := p.ask(ctx, args...); err != nil {
				return false, err
			}
			did = true
		}
	}
	if !did {
		return false, nil
	}
	return true, p.launch("resume", p.goal, "--json")
}

func (p *player) answerFor(fits func(Answer) bool) *Answer {
	for i, a := range p.c.Answers {
		if fits(a) && (a.Times == 0 || p.used[i] < a.Times) {
			p.used[i]++
			return &p.c.Answers[i]
		}
	}
	return nil
}

// do does one deed.
func (p *player) do(ctx context.Context, d Deed) error {
	fmt.Fprintf(p.log, "# %s %s %s\n", d.Verb, d.Text, d.Args.Path)
	if args, ok := d.command(p.goal); ok {
		_, _, err := p.ask(ctx, args...)
		return err
	}
	switch d.Verb {
	case "kill":
		if p.proc != nil {
			p.proc.kill()
			return p.drain(ctx)
		}
	case "resume", "extend":
		if err := p.drain(ctx); err != nil {
			return err
		}
		if err := p.sync(ctx); err != nil {
			return err
		}
		return p.launch(append([]string{"resume", p.goal, "--json"}, d.extension()...)...)
	case "write":
		return putFile(p.w.repo, d.Args.Path, d.Args.Content, os.O_TRUNC)
	case "append":
		return putFile(p.w.repo, d.Args.Path, d.Args.Content, os.O_APPEND)
	case "remove":
		if !filepath.IsLocal(d.Text) {
			return infra("remove: %q is outside the repository", d.Text)
		}
		return os.Remove(filepath.Join(p.w.repo, d.Text))
	case "touch":
		return putFile(p.w.dir, d.Text, "", os.O_TRUNC)
	case "outside":
		return p.outside(ctx, d.Text)
	case "linger":
		return linger(ctx, d.Text)
	case "await":
		return awaitFile(ctx, filepath.Join(p.w.repo, d.Text))
	}
	return nil
}

// drain waits for the end of the process; what it still prints counts.
func (p *player) drain(ctx context.Context) error {
	for p.proc != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-p.proc.lines:
			if !ok {
				p.ended()
				break
			}
			if !strings.HasSuffix(line, "\n") {
				break // a kill cuts it in the middle
			}
			if err := p.line(ctx, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitFile waits for a file: the file system tells of new ones only through
// interfaces that are not worth it here.
func awaitFile(ctx context.Context, path string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !exists(path) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// outside runs a command in the repository that is none of belay's.
func (p *player) outside(ctx context.Context, command string) error {
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Dir, c.Env, c.Stdout, c.Stderr = p.w.repo, p.w.env, p.log, p.log
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return infra("outside: %s: %w", command, err)
	}
	return nil
}

// linger lets time pass; that the text is a duration was checked before.
func linger(ctx context.Context, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return infra("linger: %w", err)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (p *player) runArgs() []string {
	run := p.c.Run
	args := []string{"run", "--json", "--repo", p.w.repo, "--file", p.w.goal, "--model", p.w.model}
	flag := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	flag("--approve", run.Approve)
	flag("--plan", run.Plan)
	if run.Sandbox == "" {
		run.Sandbox = p.r.Sandbox
	}
	flag("--sandbox", run.Sandbox)
	if run.AcceptUnverified {
		args = append(args, "--accept-unverified")
	}
	if run.ApprovalTimeout > 0 {
		flag("--approval-timeout", time.Duration(run.ApprovalTimeout).String())
	}
	return args
}

// snapshot is where the goal stands, by the events that were read.
func (p *player) snapshot() core.Snapshot {
	return core.View(core.Fold(core.State{}, p.events), core.Timeline(p.events[max(0, len(p.events)-60):]))
}

// grace bounds what is done to end a run that has no time left.
const grace = 30 * time.Second

// stop ends what still runs: the process, and with a cancel of the goal also
// the commands that would outlive it.
func (p *player) stop() {
	if p.proc == nil {
		if !p.commandRuns() {
			return
		}
	} else {
		p.proc.kill()
		for range p.proc.lines {
		}
		p.ended()
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := p.sync(ctx); err != nil {
		fmt.Fprintf(p.log, "! %v\n", err)
	}
	if p.goal == "" || !p.commandRuns() {
		return
	}
	seen := slices.Clone(p.events)
	if _, _, err := p.ask(ctx, "cancel", p.goal, "--reason", "the evaluation is over"); err != nil {
		fmt.Fprintf(p.log, "! %v\n", err)
	}
	p.events = seen // the cancel is ours, not the run's
}

// commandRuns reports whether an operation was started and not ended.
func (p *player) commandRuns() bool {
	open := map[string]bool{}
	for _, e := range p.events {
		switch e.Payload.(type) {
		case event.OperationStarted:
			open[e.Op] = true
		case event.OperationFinished, event.OperationRejected:
			delete(open, e.Op)
		}
	}
	return len(open) > 0
}

// timedOut reports whether an error is the run's own limit of time.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded)
}
