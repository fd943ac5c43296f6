package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/service"
)

// goalFile is goal.yaml.
type goalFile struct {
	Goal        string       `yaml:"goal"`
	Acceptance  []acceptance `yaml:"acceptance"`
	Constraints []string     `yaml:"constraints"`
	Budget      budgetFile   `yaml:"budget"`
	// Image is the container image that the goal's commands run in.
	Image string `yaml:"image"`
	// Verify is "run" where belay itself runs what a claim comes without, for
	// every command and test criterion.
	Verify string `yaml:"verify"`
	// Worktree is what a checkout of the goal's own gets of the ignored files, and
	// how it is prepared.
	Worktree struct {
		Copy []string `yaml:"copy"`
		Link []string `yaml:"link"`
		// Setup are the commands that prepare it.
		Setup []string `yaml:"setup"`
	} `yaml:"worktree"`
	Criteria []event.Criterion `yaml:"-"`
}

// acceptance is a criterion, or a bare sentence, which a person has to judge.
type acceptance struct{ event.Criterion }

// UnmarshalYAML accepts both forms.
func (a *acceptance) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		a.Criterion = event.Criterion{Kind: event.CriterionManual, Text: n.Value}
		return nil
	}
	known := map[string]bool{"id": true, "kind": true, "text": true, "command": true, "allow": true, "forbid": true, "path": true, "contains": true, "network": true,
		"matches": true, "sha256": true, "branch": true, "commit": true, "tests": true, "repeat": true, "verify": true}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; !known[k.Value] {
			return fmt.Errorf("line %d: a criterion has no field %q", k.Line, k.Value)
		}
	}
	return n.Decode(&a.Criterion)
}

type budgetFile struct {
	Turns       int64   `yaml:"turns"`
	Steps       int64   `yaml:"steps"`
	Tokens      int64   `yaml:"tokens"`
	CostUSD     float64 `yaml:"cost_usd"`
	ToolSeconds int64   `yaml:"tool_seconds"`
	Deadline    string  `yaml:"deadline"` // RFC 3339, or a duration from now
}

// readGoalFile reads goal.yaml strictly: an unknown key is an error with its
// line. The image, and what a worktree gets, are no part of what the goal is.
func readGoalFile(path string, now time.Time) (spec event.GoalSpec, image string, bring service.Bring, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return event.GoalSpec{}, "", bring, usagef("read the goal: %w", err)
	}
	var g goalFile
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&g); err != nil && err != io.EOF {
		return event.GoalSpec{}, "", bring, usagef("%s: %w", path, err)
	}
	spec = event.GoalSpec{Text: strings.TrimSpace(g.Goal), Constraints: g.Constraints}
	if g.Verify != "" && g.Verify != event.VerifyRun {
		return spec, "", bring, usagef("%s: verify is %q; it knows run", path, g.Verify)
	}
	for _, a := range g.Acceptance {
		if runs := a.Kind == event.CriterionCommand || a.Kind == event.CriterionTest; runs && a.Verify == "" {
			a.Verify = g.Verify
		}
		spec.Acceptance = append(spec.Acceptance, a.Criterion)
	}
	nameCriteria(spec.Acceptance)
	spec.Limits, err = g.Budget.limits(now)
	if err != nil {
		return spec, "", bring, usagef("%s: %w", path, err)
	}
	return spec, g.Image, service.Bring{Copy: g.Worktree.Copy, Link: g.Worktree.Link, Setup: g.Worktree.Setup}, nil
}

// nameCriteria gives ids to criteria without one.
func nameCriteria(cs []event.Criterion) {
	for i := range cs {
		if cs[i].ID == "" {
			cs[i].ID = fmt.Sprintf("%s-%d", cs[i].Kind, i+1)
		}
	}
}

func (b budgetFile) limits(now time.Time) (event.Limits, error) {
	l := event.Limits{Amount: event.Amount{Turns: b.Turns, Steps: b.Steps, Tokens: b.Tokens,
		CostMicros: int64(b.CostUSD * 1_000_000), ToolMS: b.ToolSeconds * 1000}}
	for name, n := range map[string]int64{"turns": b.Turns, "steps": b.Steps, "tokens": b.Tokens, "cost_usd": l.CostMicros, "tool_seconds": b.ToolSeconds} {
		if n < 0 {
			return l, fmt.Errorf("budget.%s: must not be negative", name)
		}
	}
	if b.Deadline == "" {
		return l, nil
	}
	if d, err := time.ParseDuration(b.Deadline); err == nil {
		l.Deadline = moment.Of(now.Add(d))
		return l, nil
	}
	t, err := time.Parse(time.RFC3339, b.Deadline)
	if err != nil {
		return l, fmt.Errorf("budget.deadline: %q is neither a duration (8h) nor an RFC 3339 instant", b.Deadline)
	}
	l.Deadline = moment.Of(t)
	return l, nil
}
