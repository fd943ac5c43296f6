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
)

type rule = event.Rule

// ruleFile is policy.yaml of the user, and the policy part of belay.yaml of a
// repository.
type ruleFile struct {
	Rules []event.Rule `yaml:"rules"`
}

type repoFile struct {
	Policy ruleFile `yaml:"policy"`
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
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
