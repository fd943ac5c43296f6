package effect

import (
	"context"
	"slices"

	"belay/internal/core"
	"belay/internal/core/evidence"
	"belay/internal/event"
	"belay/internal/testdiff"
)

const (
	// maxFindings is how many findings and paths a result lists.
	maxFindings = 20
	// maxTestFile is how much of a file is compared, in bytes.
	maxTestFile = 4 << 20
)

// compareTests compares the tests that the goal found with those of now, and
// makes the tree to run on.
func (g *Goal) compareTests(ctx context.Context, s core.State, c event.Criterion, of core.CheckOf) (event.CheckResult, error) {
	base := s.BaselineTree()
	r := event.CheckResult{Tree: of.Tree, Baseline: base}
	told, err := g.compare(ctx, s, base, of.Tree)
	if err != nil {
		return r, err
	}
	if !told {
		r.Findings = []string{"what the goal found is not kept on this machine, so tests cannot be compared; let a worker there go on, or judge by other criteria"}
		return r, nil
	}
	isTest := testsOf(c, of.Command)
	if c.Kind == event.CriterionReproduces {
		r.Mixed, err = g.Workspace.Mix(ctx, base, of.Tree, isTest)
		return r, err
	}
	old, err := g.Workspace.Entries(ctx, base)
	if err != nil {
		return r, err
	}
	stood := map[string]bool{}
	for _, e := range old {
		if isTest(e.Path) {
			stood[e.Path] = true
		}
	}
	r.Tests, r.Mixed = len(stood), of.Tree
	changes, err := g.Workspace.Changes(ctx, base, of.Tree)
	if err != nil {
		return r, err
	}
	var paths []string
	for _, ch := range changes {
		switch {
		case stood[ch.Path]:
			r.Touched = appendSome(r.Touched, ch.Path)
		case isTest(ch.Path):
			r.Written = appendSome(r.Written, ch.Path)
		case !testdiff.Config(ch.Path) || allowed(c, ch.Path):
			continue
		}
		paths = append(paths, ch.Path)
	}
	if len(paths) == 0 {
		return r, nil
	}
	if len(r.Touched)+len(r.Written) > 0 {
		if r.Mixed, err = g.Workspace.Mix(ctx, of.Tree, base, isTest); err != nil {
			return r, err
		}
	}
	return r, g.findings(ctx, base, of, paths, isTest, &r)
}

func (g *Goal) findings(ctx context.Context, base string, of core.CheckOf, paths []string, isTest func(string) bool, r *event.CheckResult) error {
	before, err := g.Workspace.Contents(ctx, base, paths, maxTestFile)
	if err != nil {
		return err
	}
	after, err := g.Workspace.Contents(ctx, of.Tree, paths, maxTestFile)
	if err != nil {
		return err
	}
	files := make([]testdiff.File, len(paths))
	for i, p := range paths {
		files[i] = testdiff.File{Path: p, Before: before[p], After: after[p]}
	}
	for _, f := range testdiff.Compare(files, of.Command, isTest) {
		if len(r.Findings) == maxFindings {
			r.More++
			continue
		}
		r.Findings = append(r.Findings, f.String())
	}
	return nil
}

func appendSome(list []string, p string) []string {
	if len(list) == maxFindings {
		return list
	}
	return append(list, p)
}

// testsOf says which paths are tests to a criterion: those that it names, else
// those with the names of tests and the scripts that its command names. What
// it allows to be changed is none of them.
func testsOf(c event.Criterion, command string) func(string) bool {
	own := testdiff.Named(command)
	return func(p string) bool {
		switch {
		case allowed(c, p):
			return false
		case len(c.Tests) > 0:
			return matches(c.Tests, p)
		}
		return testdiff.IsTest(p) || slices.Contains(own, p)
	}
}

func allowed(c event.Criterion, p string) bool {
	return c.Kind == event.CriterionTestsIntact && matches(c.Allow, p)
}

func matches(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return evidence.MatchPath(pattern, p) })
}
