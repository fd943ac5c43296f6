package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"belay/internal/event"
	"belay/internal/policy"
)

// policyFile is the user's policy.yaml. It is changed node by node, so that
// what the user wrote there, comments included, stays.
type policyFile string

// ruleID is a name for a rule that is saved without one. Equal rules have
// equal names.
func ruleID(r event.Rule) string {
	text := r.Decision + "\x00" + r.Tool + "\x00" + r.Command + "\x00" + r.Path
	if r.Network != "" {
		text += "\x00" + r.Network
	}
	sum := sha256.Sum256([]byte(text))
	return "always-" + hex.EncodeToString(sum[:4])
}

// add saves rules that are not there yet and returns all of them with their
// ids.
func (f policyFile) add(rules []event.Rule) ([]event.Rule, error) {
	if err := policy.CheckRules(rules); err != nil {
		return nil, err
	}
	out := slices.Clone(rules)
	err := f.change(func(list *yaml.Node, have []event.Rule) (bool, error) {
		changed := false
		for i := range out {
			if out[i].ID == "" {
				out[i].ID = ruleID(out[i])
			}
			out[i].Layer = "user"
			if slices.ContainsFunc(have, func(r event.Rule) bool { return r.ID == out[i].ID }) {
				continue
			}
			var n yaml.Node
			if err := n.Encode(out[i]); err != nil {
				return false, err
			}
			list.Content = append(list.Content, &n)
			changed = true
		}
		return changed, nil
	})
	return out, err
}

// remove deletes rules by id. A rule without an id is named by its place, as
// policy list shows it.
func (f policyFile) remove(ids []string) error {
	return f.change(func(list *yaml.Node, have []event.Rule) (bool, error) {
		gone := map[int]bool{}
		for _, id := range ids {
			i := slices.IndexFunc(have, func(r event.Rule) bool { return r.ID == id })
			if i < 0 {
				for n := range have {
					if have[n].ID == "" && fmt.Sprintf("user:%d", n+1) == id {
						i = n
					}
				}
			}
			if i < 0 {
				return false, fmt.Errorf("%s has no rule %q (belay policy list shows them)", f, id)
			}
			gone[i] = true
		}
		var kept []*yaml.Node
		for i, n := range list.Content {
			if !gone[i] {
				kept = append(kept, n)
			}
		}
		list.Content = kept
		return len(gone) > 0, nil
	})
}

// change lets edit work on the list of rules and writes the file in one piece.
func (f policyFile) change(edit func(list *yaml.Node, have []event.Rule) (bool, error)) error {
	b, err := os.ReadFile(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var have ruleFile
	if err := readYAML(string(f), &have); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	list := rulesNode(&doc)
	if list == nil {
		return fmt.Errorf("%s: expected a mapping with a list under rules", f)
	}
	changed, err := edit(list, have.Rules)
	if err != nil || !changed {
		return err
	}
	list.Style &^= yaml.FlowStyle
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	return replaceFile(string(f), out.Bytes())
}

// rulesNode finds the list under rules, making what is missing.
func rulesNode(doc *yaml.Node) *yaml.Node {
	if doc.Kind == 0 {
		*doc = yaml.Node{Kind: yaml.DocumentNode}
	}
	if len(doc.Content) == 0 {
		doc.Content = []*yaml.Node{{Kind: yaml.MappingNode}}
	}
	m := doc.Content[0]
	if m.Kind == yaml.ScalarNode && m.Tag == "!!null" {
		*m = yaml.Node{Kind: yaml.MappingNode, HeadComment: m.HeadComment, FootComment: m.FootComment}
	}
	if m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != "rules" {
			continue
		}
		l := m.Content[i+1]
		if l.Kind == yaml.ScalarNode && l.Tag == "!!null" {
			*l = yaml.Node{Kind: yaml.SequenceNode}
		}
		if l.Kind != yaml.SequenceNode {
			return nil
		}
		return l
	}
	l := &yaml.Node{Kind: yaml.SequenceNode}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "rules"}, l)
	return l
}

// replaceFile writes a file for its owner alone, whole or not at all.
func replaceFile(path string, b []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".policy-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// checkPolicy reads the text of a policy file of either kind and says what is
// wrong with it. The warnings are what a repository's file cannot do.
func checkPolicy(name string, text []byte) (rules []event.Rule, warnings []string, err error) {
	if filepath.Base(name) == "belay.yaml" {
		var f repoFile
		if err := decodeYAML(name, text, &f); err != nil {
			return nil, nil, err
		}
		rules, warnings = policy.Narrow(f.Policy.Rules)
		return rules, warnings, policy.CheckRules(f.Policy.Rules)
	}
	var f ruleFile
	if err := decodeYAML(name, text, &f); err != nil {
		return nil, nil, err
	}
	return f.Rules, nil, policy.CheckRules(f.Rules)
}
