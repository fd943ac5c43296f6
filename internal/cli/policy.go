package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/service"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "explain, list, check and change what needs no question", Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.explainCommand(), a.listRulesCommand(), a.checkRulesCommand(), a.allowCommand(), a.revokeCommand(), a.goalPolicyCommand())
	return c
}

func (a *app) explainCommand() *cobra.Command {
	var repo, network string
	var tests []string
	c := &cobra.Command{
		Use: `explain "COMMAND"`, Short: "show the parts of a command, the rule behind each verdict, and what would allow it", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "none", "loopback", "full"}, network) {
				return usagef("--network is none, loopback or full, not %q", network)
			}
			dir, err := filepath.Abs(repo)
			if err != nil {
				return err
			}
			return a.with(func(s service.Door) error {
				e, err := s.Explain(a.ctx, dir, event.Access{Command: args[0], Network: network}, tests)
				if err != nil {
					return err
				}
				return a.printJSONOr(e, func(w io.Writer) { a.explain(w, e) })
			})
		},
	}
	c.Flags().StringVar(&repo, "repo", ".", "the repository whose belay.yaml counts")
	c.Flags().StringArrayVar(&tests, "test", nil, "a test command of the goal (repeatable)")
	c.Flags().StringVar(&network, "network", "", "the network that the command asks for: none, loopback or full")
	return c
}

func (a *app) decision(d string) string {
	return a.paint(map[string]string{"allow": green, "ask": yellow, "deny": red}[d], fmt.Sprintf("%-5s", d))
}

func (a *app) explain(w io.Writer, e service.Explanation) {
	for _, warning := range e.Warnings {
		fmt.Fprintf(w, "warning: %s\n", oneLine(warning))
	}
	fmt.Fprintf(w, "%s  %s\n", a.decision(string(e.Verdict.Decision)), oneLine(e.Verdict.Reason))
	for _, p := range e.Verdict.Parts {
		rule := p.Rule
		if rule == "" {
			rule = "no rule"
		}
		fmt.Fprintf(w, "  %s %s %s  %s\n", a.decision(string(p.Decision)), p.Kind, oneLine(p.Text), a.paint(dim, oneLine("["+rule+"] "+p.Reason)))
		if p.Fix != "" {
			fmt.Fprintf(w, "        would allow it: %s\n", oneLine(p.Fix))
		}
	}
	if e.Verdict.Scope != "" {
		fmt.Fprintf(w, "network: %s\n", oneLine(e.Verdict.Scope))
	}
	if e.Verdict.Destructive {
		fmt.Fprintln(w, "it can discard work: it always asks, and a checkpoint comes before it")
	}
	for _, r := range e.Suggest {
		fmt.Fprintf(w, "always: belay policy allow %s\n", oneLine(ruleFlags(r)))
	}
}

// ruleFlags is a rule as flags of policy allow.
func ruleFlags(r event.Rule) string {
	var fs []string
	for _, f := range [][2]string{{"--command", r.Command}, {"--tool", r.Tool}, {"--path", r.Path}, {"--network", r.Network}} {
		if f[1] != "" {
			fs = append(fs, f[0]+" '"+strings.ReplaceAll(f[1], "'", `'"'"'`)+"'")
		}
	}
	return strings.Join(fs, " ")
}

func ruleLine(r event.Rule) string {
	id := r.ID
	if id == "" {
		id = "-"
	}
	return fmt.Sprintf("%s  %s  %s", id, r.Decision, ruleFlags(r))
}

func (a *app) printRules(w io.Writer, rules []event.Rule) {
	for _, r := range rules {
		layer := r.Layer
		if layer == "" {
			layer = "user"
		}
		fmt.Fprintf(w, "%-10s %s  %s\n", layer, oneLine(ruleLine(r)), a.paint(dim, oneLine(r.Reason)))
	}
}

func (a *app) listRulesCommand() *cobra.Command {
	var repo string
	c := &cobra.Command{
		Use: "list", Short: "list your rules and the repository's, with their ids", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			dir, err := filepath.Abs(repo)
			if err != nil {
				return err
			}
			return a.with(func(s service.Door) error {
				rules, warnings, err := s.ListRules(a.ctx, dir)
				if err != nil {
					return err
				}
				for _, w := range warnings {
					fmt.Fprintln(a.Stderr, "belay: "+oneLine(w))
				}
				for i := range rules {
					if rules[i].ID == "" {
						rules[i].ID = fmt.Sprintf("%s:%d", rules[i].Layer, i+1)
					}
				}
				if rules == nil {
					rules = []event.Rule{}
				}
				return a.printJSONOr(rules, func(w io.Writer) {
					if len(rules) == 0 {
						fmt.Fprintln(w, "no rules; the built-in knowledge decides (docs/policy.md)")
					}
					a.printRules(w, rules)
				})
			})
		},
	}
	c.Flags().StringVar(&repo, "repo", ".", "the repository whose belay.yaml counts")
	return c
}

func (a *app) checkRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "check a policy.yaml or belay.yaml: its shape, and that every example holds", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("%w: %w", service.ErrUsage, err)
			}
			return a.with(func(s service.Door) error {
				rules, warnings, err := s.CheckRules(a.ctx, args[0], text)
				if err != nil {
					return err
				}
				for _, w := range warnings {
					fmt.Fprintln(a.Stderr, "belay: "+oneLine(w))
				}
				return a.printJSONOr(map[string]any{"rules": len(rules), "warnings": warnings}, func(w io.Writer) {
					fmt.Fprintf(w, "%s: %d rules hold\n", oneLine(args[0]), len(rules))
				})
			})
		},
	}
}

func ruleOf(c *cobra.Command, r *event.Rule) {
	c.Flags().StringVar(&r.Command, "command", "", "a pattern for a simple command")
	c.Flags().StringVar(&r.Tool, "tool", "", "a tool, or read or write")
	c.Flags().StringVar(&r.Path, "path", "", "a pattern for a path")
	c.Flags().StringVar(&r.Network, "network", "", "what of the network the command may reach: loopback or full")
}

func (a *app) allowCommand() *cobra.Command {
	r := event.Rule{Decision: "allow", Reason: "always allowed by the user"}
	c := &cobra.Command{
		Use: "allow", Short: "save a rule that allows; it holds for goals that start from now on", Args: exactly(0, 0),
		Example: "  belay policy allow --command 'npm run build *'\n  belay policy allow --tool write --path 'docs/**'\n  belay policy allow --command 'go mod download *' --network full",
		RunE: func(*cobra.Command, []string) error {
			return a.with(func(s service.Door) error {
				saved, err := s.SaveRules(a.ctx, []event.Rule{r})
				if err != nil {
					return err
				}
				return a.printJSONOr(saved, func(w io.Writer) { a.printRules(w, saved) })
			})
		},
	}
	ruleOf(c, &r)
	return c
}

func (a *app) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID...", Short: "remove rules of yours by id; running goals keep theirs (policy goal)", Args: exactly(1, 100),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(s service.Door) error {
				if err := s.DropRules(a.ctx, args); err != nil {
					return err
				}
				return a.printJSONOr(map[string]any{"revoked": args}, func(w io.Writer) {
					fmt.Fprintln(w, "revoked: "+oneLine(strings.Join(args, ", ")))
				})
			})
		},
	}
}

func (a *app) goalPolicyCommand() *cobra.Command {
	r := event.Rule{Decision: "allow", Layer: "goal", Reason: "allowed by the user for this goal"}
	var approve string
	var remove []string
	c := &cobra.Command{
		Use: "goal G", Short: "show or change, on record, what one goal may do", Args: exactly(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withGoal(args[0], func(s service.Door, goal string) error {
				ch := core.ChangePolicy{Approve: event.ApproveMode(approve), Remove: remove}
				if r.Command != "" || r.Tool != "" || r.Path != "" || r.Network != "" {
					have, _, err := s.Policy(a.ctx, goal)
					if err != nil {
						return err
					}
					r.ID = fmt.Sprintf("goal-%d", len(have)+1)
					ch.Add = []event.Rule{r}
				}
				if approve != "" || len(remove) > 0 || len(ch.Add) > 0 {
					if err := s.ChangePolicy(a.ctx, goal, ch); err != nil {
						return err
					}
				}
				rules, mode, err := s.Policy(a.ctx, goal)
				if err != nil {
					return err
				}
				if rules == nil {
					rules = []event.Rule{}
				}
				return a.printJSONOr(map[string]any{"approve": mode, "rules": rules}, func(w io.Writer) {
					fmt.Fprintf(w, "approve: %s\n", mode)
					a.printRules(w, rules)
				})
			})
		},
	}
	ruleOf(c, &r)
	c.Flags().StringVar(&approve, "approve", "", "who answers from now on: ask, auto or never")
	c.Flags().StringArrayVar(&remove, "remove", nil, "remove the rule with this id from the goal (repeatable)")
	return c
}
