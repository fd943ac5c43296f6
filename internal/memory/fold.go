package memory

import (
	"fmt"
	"slices"

	"belay/internal/event"
	"belay/internal/fault"
)

// going is what the fold has to know of a goal between two of its events.
type going struct {
	Ops map[string]run `json:"ops"`
	// Broken are the commands that failed and have not worked since, by id.
	Broken map[string]*broken `json:"broken"`
}

// run is a command that was proposed and has not ended.
type run struct {
	Command string `json:"command"`
	Dir     string `json:"dir,omitempty"`
}

// broken is a failure with what was done since.
type broken struct {
	Seq      uint64   `json:"seq"`
	How      string   `json:"how"`
	Commands []string `json:"commands,omitempty"`
	Paths    []string `json:"paths,omitempty"`
}

// Add folds in the next event of its goal; one that was folded in before
// changes nothing. Which goal's event comes next makes no difference.
func (b *Book) Add(e event.Event) {
	if e.Seq <= b.Through[e.Goal] {
		return
	}
	if b.Through == nil {
		b.Through = map[string]uint64{}
	}
	b.Through[e.Goal] = e.Seq
	switch p := e.Payload.(type) {
	case event.DecisionRecorded:
		b.decide(e, p)
	case event.DecisionRevoked:
		b.revoke(p.Decision)
	case event.MemoryForgotten:
		b.forget(e, p)
	case event.OperationProposed:
		// A look of belay's own is made on other trees too, and says nothing of
		// what works here.
		if p.Access.Command != "" && p.Criterion == "" && p.Effect == event.Supervised {
			b.goes(e.Goal).Ops[e.Op] = run{Command: p.Access.Command, Dir: p.Access.Dir}
		}
	case event.OperationRejected, event.ApprovalDenied, event.OperationReconciled:
		if g := b.Going[e.Goal]; g != nil {
			delete(g.Ops, e.Op)
		}
	case event.OperationFinished:
		b.finished(e, p)
	case event.RepoStateMutated:
		b.changed(e, p)
	case event.GoalCompleted, event.GoalCancelled, event.GoalFailed:
		delete(b.Going, e.Goal)
	}
}

func (b *Book) goes(goal string) *going {
	if g := b.Going[goal]; g != nil {
		return g
	}
	if b.Going == nil {
		b.Going = map[string]*going{}
	}
	g := &going{Ops: map[string]run{}, Broken: map[string]*broken{}}
	b.Going[goal] = g
	return g
}

// ending is how a run ended, as far as it says something of the command.
type ending int

const (
	silent ending = iota // it says nothing
	worked
	testsFailed
	failed
)

// endingOf reads the supervisor's record, and nothing that was printed but the
// counts that a test runner reported.
func endingOf(p event.OperationFinished, masked bool) (ending, string) {
	c, t := p.Result.Command, p.Result.Test
	if f := p.Result.Fault; f != nil && f.Kind == fault.SpawnFailed {
		return failed, "it could not be started"
	}
	switch {
	case c == nil || p.Outcome == event.OutcomeUnknown || p.Outcome == event.Cancelled:
		return silent, ""
	case c.TimedOut:
		return failed, fmt.Sprintf("it was ended at its time limit, after %d s", c.DurationMS/1000)
	case t != nil && t.Runner != "" && t.Failed > 0:
		return testsFailed, fmt.Sprintf("%d of %d tests failed", t.Failed, t.Executed())
	case t != nil && t.Runner != "" && t.Passed > 0 && (c.ExitCode == 0 || masked):
		return worked, fmt.Sprintf("%d tests passed", t.Passed)
	case masked:
		return silent, ""
	case c.Signal != "":
		return failed, "a signal ended it"
	case c.ExitCode == 127:
		return failed, "exit code 127: a program was not found"
	case c.ExitCode != 0:
		return failed, fmt.Sprintf("exit code %d", c.ExitCode)
	case t != nil && t.Runner != "" && t.Executed() == 0:
		return silent, "" // no test was run
	}
	return worked, "exit code 0"
}

// finished takes in how a command ended.
func (b *Book) finished(e event.Event, p event.OperationFinished) {
	g := b.Going[e.Goal]
	if g == nil {
		return
	}
	r, ok := g.Ops[e.Op]
	if !ok {
		return
	}
	if p.Outcome != event.OutcomeUnknown {
		delete(g.Ops, e.Op)
	}
	n, ok := normalise(r.Command, r.Dir)
	if !ok || b.forgotten(commandID(n), e) {
		return
	}
	end, how := endingOf(p, n.masked)
	if end == silent {
		return
	}
	c := b.command(n)
	c.count(e, p, end, how)
	if end == failed {
		g.breaks(c.ID, e.Seq, how)
	} else {
		b.mended(g, c, e)
	}
	b.bound()
}

func (c *Command) count(e event.Event, p event.OperationFinished, end ending, how string) {
	switch end {
	case worked:
		c.Worked++
	case testsFailed:
		c.TestsFailed++
	case failed:
		c.Failed++
		if at(e).compare(c.FailedAt) > 0 {
			c.LastFailure, c.FailedAt = how, at(e)
		}
	}
	if at(e).compare(c.Last) > 0 {
		c.Last, c.How, c.MS = at(e), how, 0
		if p.Result.Command != nil {
			c.MS = p.Result.Command.DurationMS
		}
	}
	if len(p.Result.Environment) > 0 && at(e).compare(c.ToolsAt) > 0 {
		c.Tools, c.ToolsAt = p.Result.Environment, at(e)
	}
}

func (g *going) breaks(id string, seq uint64, how string) {
	if x := g.Broken[id]; x != nil {
		x.How = how
		return
	}
	g.Broken[id] = &broken{Seq: seq, How: how}
	if len(g.Broken) > maxBroken {
		oldest := id
		for k, x := range g.Broken {
			if x.Seq < g.Broken[oldest].Seq {
				oldest = k
			}
		}
		delete(g.Broken, oldest)
	}
}

// mended notes that a command works: what was done since it failed may be why,
// and for other commands it is one of the things that were done.
func (b *Book) mended(g *going, c *Command, e event.Event) {
	if x := g.Broken[c.ID]; x != nil {
		delete(g.Broken, c.ID)
		c.fixed(Fix{At: at(e), How: x.How, Commands: x.Commands, Paths: x.Paths})
	}
	for _, x := range g.Broken {
		x.Commands = latest(x.Commands, c.ID, maxSince)
	}
}

// fixed keeps the latest fixes, each once.
func (c *Command) fixed(f Fix) {
	kept := []Fix{f}
	for _, o := range c.Fixes {
		same := o.How == f.How && slices.Equal(o.Commands, f.Commands) && slices.Equal(o.Paths, f.Paths)
		switch {
		case !same:
			kept = append(kept, o)
		case o.At.compare(f.At) > 0:
			kept[0] = o
		}
	}
	slices.SortFunc(kept, func(x, y Fix) int { return y.At.compare(x.At) })
	c.Fixes = kept[:min(len(kept), maxFixes)]
}

func (b *Book) changed(e event.Event, p event.RepoStateMutated) {
	g := b.Going[e.Goal]
	if g == nil {
		return
	}
	for _, x := range g.Broken {
		for _, c := range p.Changes {
			x.Paths = latest(x.Paths, c.Path, maxPaths)
		}
	}
}

// latest appends to a list of distinct values and keeps the last of them.
func latest(list []string, s string, most int) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(o string) bool { return o == s })
	list = append(list, s)
	return list[max(0, len(list)-most):]
}
