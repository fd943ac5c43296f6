package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"belay/internal/event"
	"belay/internal/policy"
	"belay/internal/workspace"
)

type rule = event.Rule

// ruleFile is policy.yaml of the user, and the policy part of belay.yaml of a
// repository.
type ruleFile struct {
	Rules []event.Rule `yaml:"rules"`
}

type repoFile struct {
	Policy   ruleFile  `yaml:"policy"`
	Worktree bringFile `yaml:"worktree"`
}

// bringFile is worktree.yaml of the user, and the worktree part of belay.yaml
// of a repository.
type bringFile struct {
	Copy  []string `yaml:"copy"`
	Link  []string `yaml:"link"`
	Never []string `yaml:"never"`
	// Setup are commands that prepare the checkout.
	Setup []string `yaml:"setup"`
}

// loadBring reads what a goal's own checkout gets, and by what it is prepared. The repository
// may only take away from what the user wants.
func loadBring(config, repo string) (workspace.Bring, []string, error) {
	var user bringFile
	if err := readYAML(filepath.Join(config, "worktree.yaml"), &user); err != nil {
		return workspace.Bring{}, nil, err
	}
	var project repoFile
	if err := readYAML(filepath.Join(repo, "belay.yaml"), &project); err != nil {
		return workspace.Bring{}, nil, err
	}
	var warnings []string
	if w := project.Worktree; len(w.Copy)+len(w.Link) > 0 {
		warnings = append(warnings, "belay.yaml: a repository cannot have ignored files brought into worktrees (worktree.copy and worktree.link are dropped); put them into worktree.yaml of your configuration")
	}
	if len(project.Worktree.Setup) > 0 {
		warnings = append(warnings, "belay.yaml: a repository cannot have commands run in worktrees (worktree.setup is dropped); put them into worktree.yaml of your configuration")
	}
	return workspace.Bring{Copy: user.Copy, Link: user.Link, Setup: user.Setup, Never: append(user.Never, project.Worktree.Never...)}, warnings, nil
}

// loadRules reads the user's rules and the repository's. The repository may
// only narrow: what would widen is dropped with a warning.
func loadRules(config, repo string) ([]event.Rule, []string, error) {
	var user ruleFile
	if err := readYAML(filepath.Join(config, "policy.yaml"), &user); err != nil {
		return nil, nil, err
	}
	var project repoFile
	if err := readYAML(filepath.Join(repo, "belay.yaml"), &project); err != nil {
		return nil, nil, err
	}
	for i := range user.Rules {
		user.Rules[i].Layer = "user"
	}
	for i := range project.Policy.Rules {
		project.Policy.Rules[i].Layer = "repository"
	}
	if err := policy.CheckRules(user.Rules); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(config, "policy.yaml"), err)
	}
	narrow, warnings := policy.Narrow(project.Policy.Rules)
	if err := policy.CheckRules(narrow); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(repo, "belay.yaml"), err)
	}
	return append(user.Rules, narrow...), warnings, nil
}

// readYAML reads strictly; a file that is not there is empty.
func readYAML(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return decodeYAML(path, b, v)
}

func decodeYAML(path string, b []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
