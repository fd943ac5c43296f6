package report

import (
	"encoding/json"

	"belay/internal/core"
	"belay/internal/core/evidence"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/testdiff"
)

// Tests tells the tests that stood before the goal from those that were written
// in it.
type Tests struct {
	// Stood counts the test files that the goal found, as far as belay has
	// counted them; Touched are those of them that differ now.
	Stood   int      `json:"stood_files,omitempty"`
	Touched []string `json:"touched,omitempty"`
	// Written are the test files that are new.
	Written []string `json:"written,omitempty"`
	// Over is the run of the tests as they stood over the code as the goal left
	// it, AtStart one on the code as the goal found it, Now one of all tests as
	// they are.
	Over    *Run `json:"stood_over_final_code,omitempty"`
	AtStart *Run `json:"at_start,omitempty"`
	Now     *Run `json:"now,omitempty"`
}

// More is how many tests run now beyond those that stood before, and whether
// that can be told.
func (t Tests) More() (n int64, known bool) {
	if t.Over == nil || t.Now == nil || t.Over.Counts.Runner == "" || t.Now.Counts.Runner == "" {
		return 0, false
	}
	return t.Now.Counts.Executed() - t.Over.Counts.Executed(), true
}

// Any reports whether there is anything to tell.
func (t Tests) Any() bool {
	return t.Stood > 0 || len(t.Touched)+len(t.Written) > 0 || t.Over != nil || t.AtStart != nil
}

// look is an operation of belay's own.
type look struct {
	criterion, tool, command, tree string
}

// checks follows belay's own looks.
type checks struct {
	looks map[string]look
	// runs are those in private copies, in order; intact the latest comparison
	// for each tree.
	runs   []Run
	intact map[string]event.CheckResult
}

func (c *checks) add(e event.Event) {
	switch p := e.Payload.(type) {
	case event.OperationProposed:
		if p.Criterion == "" {
			return
		}
		if c.looks == nil {
			c.looks, c.intact = map[string]look{}, map[string]event.CheckResult{}
		}
		l := look{criterion: p.Criterion, tool: p.Tool, command: p.Access.Command}
		var of core.CheckOf
		if core.Private(operation.Op{Tool: p.Tool, Criterion: p.Criterion}) && json.Unmarshal(p.Arguments, &of) == nil {
			l.tree = of.Tree
		}
		c.looks[e.Op] = l
	case event.OperationFinished:
		l, ok := c.looks[e.Op]
		switch {
		case !ok:
		case p.Result.Check != nil && l.tool == core.ToolCheckTests && p.Result.Check.Tests > 0:
			c.intact[p.Result.Check.Tree] = *p.Result.Check
		case l.tool == core.ToolCheckRun && p.Result.Command != nil && p.Outcome != event.OutcomeUnknown && p.Outcome != event.Cancelled:
			r := Run{Seq: e.Seq, Op: e.Op, Command: l.command, ExitCode: p.Result.Command.ExitCode, Tree: l.tree, Criterion: l.criterion,
				Copy: true, Tools: p.Result.Environment}
			if p.Result.Test != nil {
				r.Counts = *p.Result.Test
			}
			c.runs = append(c.runs, r)
		}
	}
}

// own reports whether an operation is belay's own look.
func (c *checks) own(op string) bool { _, ok := c.looks[op]; return ok }

// tests puts together what is known for the tree that the goal is at.
func (c *checks) tests(s core.State, here []Run) Tests {
	var t Tests
	tree, base := s.Revision.Tree, s.BaselineTree()
	k, compared := c.intact[tree]
	if compared {
		t.Stood, t.Touched, t.Written = k.Tests, k.Touched, k.Written
	} else {
		for _, ch := range s.Diff.Changes {
			switch {
			case !testdiff.IsTest(ch.Path):
			case ch.Status == "added":
				t.Written = append(t.Written, ch.Path)
			default:
				t.Touched = append(t.Touched, ch.Path)
			}
		}
	}
	command := ""
	for _, r := range c.runs {
		if compared && r.Tree == k.Mixed {
			over := r
			t.Over, command = &over, r.Command
		}
	}
	for _, r := range append(append([]Run(nil), here...), c.runs...) {
		if command != "" && !evidence.Same(r.Command, command) || r.Counts.Runner == "" {
			continue
		}
		switch run := r; {
		case r.Tree == base && (t.AtStart == nil || r.Counts.Executed() >= t.AtStart.Counts.Executed()):
			t.AtStart = &run
		case r.Tree == tree && !r.Copy:
			t.Now = &run
		}
	}
	return t
}
