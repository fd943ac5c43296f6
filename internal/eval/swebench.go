package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

// Instance is one SWE-bench style instance.
type Instance struct {
	ID               string `json:"instance_id"`
	Repo             string `json:"repo"`
	BaseCommit       string `json:"base_commit"`
	ProblemStatement string `json:"problem_statement"`
	Hints            string `json:"hints_text"`
	TestPatch        string `json:"test_patch"`
	FailToPass       names  `json:"FAIL_TO_PASS"`
	PassToPass       names  `json:"PASS_TO_PASS"`
}

// names is a list of tests, or the same as JSON in a string, as data sets have
// it.
type names []string

// UnmarshalJSON accepts both forms.
func (n *names) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		b = []byte(text)
	}
	return json.Unmarshal(b, (*[]string)(n))
}

// ReadInstances reads a JSON array, one object, or one object a line.
func ReadInstances(b []byte) ([]Instance, error) {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '[' {
		var all []Instance
		if err := json.Unmarshal(b, &all); err != nil {
			return nil, fmt.Errorf("read instances: %w", err)
		}
		return all, checkInstances(all)
	}
	var all []Instance
	d := json.NewDecoder(bufio.NewReader(bytes.NewReader(b)))
	for d.More() {
		var one Instance
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("read instance %d: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	return all, checkInstances(all)
}

var safeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func checkInstances(all []Instance) error {
	if len(all) == 0 {
		return errors.New("there is no instance in it")
	}
	seen := map[string]bool{}
	for i, in := range all {
		for field, v := range map[string]string{"repo": in.Repo, "base_commit": in.BaseCommit, "problem_statement": in.ProblemStatement, "test_patch": in.TestPatch} {
			if strings.TrimSpace(v) == "" {
				return fmt.Errorf("instance %d (%s): %s is empty", i+1, in.ID, field)
			}
		}
		switch {
		case !safeID.MatchString(in.ID):
			return fmt.Errorf("instance %d: instance_id %q is no name for a folder", i+1, in.ID)
		case seen[in.ID]:
			return fmt.Errorf("instance %d: instance_id %q is used twice", i+1, in.ID)
		case len(in.FailToPass) == 0:
			return fmt.Errorf("instance %d (%s): FAIL_TO_PASS is empty: nothing would show that it is solved", i+1, in.ID)
		case strings.HasPrefix(in.BaseCommit, "-") || strings.HasPrefix(in.Repo, "-"):
			return fmt.Errorf("instance %d (%s): repo or base_commit begins with a dash", i+1, in.ID)
		}
		seen[in.ID] = true
	}
	return nil
}

// Import turns instances into cases.
type Import struct {
	// Repos holds mirrors: OWNER/NAME, OWNER__NAME or NAME below it, each also
	// with .git. What is not there is fetched from GitHub.
	Repos string
	Out   string
	// Test is the command; {tests} stands for the names, quoted for a shell.
	Test string
	// Hints adds hints_text to the goal.
	Hints bool
}

// DefaultTest runs tests that are named as pytest names them.
const DefaultTest = "python3 -m pytest -q -p no:cacheprovider {tests}"

// batch is how many tests one command names: a command line has its limits.
const batch = 200

// Write writes one case. Its tests stand in the case's folder, never in the
// workspace: the model can neither see nor edit them.
func (im Import) Write(in Instance) error {
	dir := filepath.Join(im.Out, in.ID)
	if exists(filepath.Join(dir, CaseFile)) {
		return fmt.Errorf("%s is there already; remove it, or name another --out", filepath.Join(dir, CaseFile))
	}
	goal := strings.TrimSpace(in.ProblemStatement)
	if im.Hints && strings.TrimSpace(in.Hints) != "" {
		goal += "\n\nHints:\n" + strings.TrimSpace(in.Hints)
	}
	checks := append(im.checks("fail_to_pass", "fail", in.FailToPass), im.checks("pass_to_pass", "pass", in.PassToPass)...)
	source, err := im.source(in.Repo)
	if err != nil {
		return err
	}
	files := map[string]any{
		"goal.yaml": map[string]any{"goal": goal},
		CaseFile: map[string]any{
			"title":   in.ID,
			"why":     firstLine(in.ProblemStatement),
			"repo":    map[string]any{"git": source, "commit": in.BaseCommit},
			"timeout": "1h",
			"run":     map[string]any{"approve": "auto", "plan": "never", "accept_unverified": true},
			"checks":  checks,
			"expect":  map[string]any{"exit": 0, "status": "completed"},
		},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// The last newline is a part of the last hunk.
	if err := os.WriteFile(filepath.Join(dir, "test.patch"), []byte(strings.TrimRight(in.TestPatch, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	for name, v := range files {
		b, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (im Import) checks(name, before string, tests []string) []map[string]any {
	var checks []map[string]any
	for i := 0; i < len(tests); i += batch {
		var quoted []string
		for _, t := range tests[i:min(i+batch, len(tests))] {
			quoted = append(quoted, "'"+strings.ReplaceAll(t, "'", `'\''`)+"'")
		}
		title := name
		if len(tests) > batch {
			title = fmt.Sprintf("%s_%d", name, i/batch+1)
		}
		checks = append(checks, map[string]any{"name": title, "before": before, "patch": "test.patch",
			"command": strings.ReplaceAll(im.Test, "{tests}", strings.Join(quoted, " ")),
			// A test that is skipped has shown nothing.
			"refuse": []string{`\b[1-9][0-9]* skipped|\bskipped=[1-9]`}})
	}
	return checks
}

// source is the mirror of a repository, or its address.
func (im Import) source(repo string) (string, error) {
	if strings.Contains(repo, "://") {
		return repo, nil
	}
	if im.Repos != "" {
		for _, name := range []string{repo, strings.ReplaceAll(repo, "/", "__"), filepath.Base(repo)} {
			for _, end := range []string{"", ".git"} {
				path, err := filepath.Abs(filepath.Join(im.Repos, name+end))
				if err != nil {
					return "", err
				}
				if exists(filepath.Join(path, "HEAD")) || exists(filepath.Join(path, ".git")) {
					return path, nil
				}
			}
		}
	}
	if strings.Count(repo, "/") != 1 {
		return "", fmt.Errorf("there is no mirror of %q in --repos, and it is no OWNER/NAME of GitHub", repo)
	}
	return "https://github.com/" + repo + ".git", nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return clip(s)
}

func importCommand() *cobra.Command {
	var im Import
	c := &cobra.Command{
		Use: "import FILE", Short: "turn SWE-bench style instances (JSON or JSON lines) into cases",
		Long: "import makes one case of each instance: repo at base_commit without its later history, the\n" +
			"problem statement as the goal, and checks that lay the test patch over a copy of the result.\n" +
			"FAIL_TO_PASS must fail before and pass after, PASS_TO_PASS must pass before and after; a case\n" +
			"whose tests do not do so before is infra, not a failure of the model.",
		Example: "  belay eval import instances.jsonl --repos mirrors --out evals/swe\n" +
			"  belay eval run evals/swe --model anthropic:claude-sonnet-4-5 --out results/a",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || im.Out == "" {
				return usage("import takes a file and --out: belay eval import FILE --out DIR")
			}
			if !strings.Contains(im.Test, "{tests}") {
				return usage("--test must contain {tests}, which stands for the names of the tests")
			}
			b, err := os.ReadFile(args[0])
			if err != nil {
				return usage("read the instances: %v", err)
			}
			all, err := ReadInstances(b)
			if err != nil {
				return usage("%s: %v", args[0], err)
			}
			for _, in := range all {
				if err := im.Write(in); err != nil {
					return usage("%s: %v", in.ID, err)
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "%d cases in %s (belay eval run %s --model PROVIDER:NAME)\n", len(all), im.Out, im.Out)
			return nil
		},
	}
	c.Flags().StringVar(&im.Repos, "repos", "", "a folder with mirrors of the repositories (OWNER/NAME or OWNER__NAME)")
	c.Flags().StringVar(&im.Out, "out", "", "the folder to write the cases to")
	c.Flags().StringVar(&im.Test, "test", DefaultTest, "the command that runs tests; {tests} stands for their names")
	c.Flags().BoolVar(&im.Hints, "hints", false, "add hints_text to the goal")
	return c
}
