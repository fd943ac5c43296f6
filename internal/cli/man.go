package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"belay/internal/ledger"
	"belay/internal/service"
)

// completeGoals offers the ids of goals, with what they are about, where a
// command takes one.
func (a *app) completeGoals(root *cobra.Command) {
	for _, c := range root.Commands() {
		a.completeGoals(c)
		if words := strings.Fields(c.Use); len(words) > 1 && words[1] == "G" {
			c.ValidArgsFunction = func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return a.goalIDs(prefix), cobra.ShellCompDirectiveNoFileComp
			}
		}
	}
}

// goalIDs are the goals whose id begins with the prefix; none when they cannot
// be listed, because a shell shows no errors here.
func (a *app) goalIDs(prefix string) (ids []string) {
	_ = a.with(func(s service.Door) error {
		rows, err := s.Goals(a.ctx, ledger.Filter{Prefix: prefix, Limit: 100})
		for _, r := range rows {
			ids = append(ids, r.Goal+"\t"+strings.Join(strings.Fields(Safe(r.Status+" "+r.Title)), " "))
		}
		return err
	})
	return ids
}

// manCommand writes the manual: one page for each command, from the same words
// as its --help.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write the manual pages into a directory (man -l DIR/belay.1)", Args: exactly(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			return writePages(c.Root(), args[0], a.Version)
		},
	}
}

func writePages(c *cobra.Command, dir, version string) error {
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(page(c, version)), 0o644); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	for _, sub := range c.Commands() {
		if err := writePages(sub, dir, version); err != nil {
			return err
		}
	}
	return nil
}

// page is one command as roff.
func page(c *cobra.Command, version string) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"belay\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), "belay "+version, roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	options := func(title string, fs *pflag.FlagSet) {
		if !fs.HasAvailableFlags() {
			return
		}
		fmt.Fprintf(&b, ".SH %s\n", title)
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			of, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", roff(strings.TrimSpace("--"+f.Name+" "+of)), roff(usage))
		})
	}
	options("OPTIONS", c.NonInheritedFlags())
	options("GLOBAL OPTIONS", c.InheritedFlags())
	var also []string
	if c.HasParent() {
		also = append(also, strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")+"(1)")
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			also = append(also, strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)")
		}
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", roff(strings.Join(also, ", ")))
	}
	return b.String()
}

// roff escapes what roff would take for its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
