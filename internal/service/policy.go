package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/policy"
)

// Explanation is the judgement of a command, and the narrowest rules that
// would allow it, if any can.
type Explanation struct {
	Command string         `json:"command"`
	Verdict policy.Verdict `json:"verdict"`
	Suggest []event.Rule   `json:"suggest,omitempty"`
	// Warnings are rules of the repository that were dropped.
	Warnings []string `json:"warnings,omitempty"`
}

// Explain judges a command, with the network that it asks for, as if a goal on
// repo, with these test commands, proposed it now.
func (s *Service) Explain(_ context.Context, repo string, a event.Access, tests []string) (Explanation, error) {
	e := Explanation{Command: a.Command}
	rules, warnings, err := s.Rules(repo)
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	c := policy.Config{Rules: rules, TestCommands: tests, Root: repo, Protected: s.ProtectedPatterns()}
	e.Verdict, e.Warnings = policy.Judge(c, "run_command", event.Supervised, a), warnings
	e.Suggest = policy.Suggest(c, a)
	return e, nil
}

// ListRules implements Door.
func (s *Service) ListRules(_ context.Context, repo string) ([]event.Rule, []string, error) {
	rules, warnings, err := s.Rules(repo)
	return rules, warnings, usage(err)
}

// SaveRules saves rules in the user's policy file and returns them with their
// ids; they hold for goals that start from now on.
func (s *Service) SaveRules(_ context.Context, rules []event.Rule) ([]event.Rule, error) {
	if s.AddRules == nil {
		return nil, errNoPolicyFile
	}
	saved, err := s.AddRules(rules)
	return saved, usage(err)
}

// DropRules removes rules of the user's by id; goals that have started keep
// theirs.
func (s *Service) DropRules(_ context.Context, ids []string) error {
	if s.RemoveRules == nil {
		return errNoPolicyFile
	}
	return usage(s.RemoveRules(ids))
}

// CheckRules implements Door.
func (s *Service) CheckRules(_ context.Context, name string, text []byte) ([]event.Rule, []string, error) {
	rules, warnings, err := s.CheckPolicy(name, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrUsage, name, err)
	}
	return rules, warnings, nil
}

var errNoPolicyFile = fmt.Errorf("%w: there is no policy file to save rules in", ErrUsage)

// usage marks an error of a policy file as the person's to mend.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUsage, err)
}

// ProtectedPatterns are the places that no operation may write, as policy
// matches them.
func (s *Service) ProtectedPatterns() []string {
	home, _ := os.UserHomeDir()
	var out []string
	for _, dir := range s.Protected {
		if dir == "" {
			continue
		}
		out = append(out, strings.TrimSuffix(dir, "/")+"/**")
		// The same place as shell text may spell it.
		if rel, err := filepath.Rel(home, dir); err == nil && home != "" && filepath.IsLocal(rel) {
			out = append(out, "~/"+filepath.ToSlash(rel)+"/**")
		}
	}
	return out
}

// Suggest returns the narrowest rules that would have allowed what an open
// question is about; none when no rule can.
func (s *Service) Suggest(ctx context.Context, goal, op string) ([]event.Rule, error) {
	goal, a, err := s.asks(ctx, goal, Answer{Op: op})
	if err != nil {
		return nil, err
	}
	st, err := s.state(ctx, goal)
	if err != nil {
		return nil, err
	}
	p, ok := st.Approvals.Find(a.Op)
	if !ok {
		return nil, fmt.Errorf("goal %s: %w: %s waits for no approval", goal, core.ErrNoQuestion, a.Op)
	}
	if p.Intent.Destructive {
		return nil, nil
	}
	return policy.Suggest(st.Policy(), p.Access), nil
}

// Always answers a question with yes and with rules that answer its like from
// now on: in this goal, and with save also in the user's policy file.
func (s *Service) Always(ctx context.Context, goal string, a Answer, rules []event.Rule, save bool) error {
	// A question of a child goal is answered, with its rules, at that child.
	goal, a, err := s.asks(ctx, goal, a)
	if err != nil {
		return err
	}
	if save {
		if s.AddRules == nil {
			return errNoPolicyFile
		}
		saved, err := s.AddRules(rules)
		if err != nil {
			return fmt.Errorf("the rules were not saved: %w", err)
		}
		rules = saved
	} else {
		for i := range rules {
			rules[i].Layer = "goal"
			if rules[i].ID == "" {
				rules[i].ID = fmt.Sprintf("goal-%s-%d", a.Op, i+1)
			}
		}
	}
	err = s.ChangePolicy(ctx, goal, core.ChangePolicy{Add: rules})
	if err != nil && !errors.Is(err, core.ErrState) {
		return err
	}
	// The new rules have answered it, unless something beside them asks.
	if st, err := s.state(ctx, goal); err == nil {
		if _, open := st.Approvals.Find(a.Op); !open {
			return nil
		}
	}
	return s.Approve(ctx, goal, a)
}

// ChangePolicy changes what a goal may do, on record.
func (s *Service) ChangePolicy(ctx context.Context, goal string, c core.ChangePolicy) error {
	_, err := s.do(ctx, goal, c)
	return err
}

// Policy is what a goal may do: its rules, and who answers what they ask.
func (s *Service) Policy(ctx context.Context, goal string) (rules []event.Rule, approve event.ApproveMode, err error) {
	st, err := s.state(ctx, goal)
	return st.Settings.Rules, st.Settings.Approve, err
}
