package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belay/internal/memory"
	"belay/internal/service"
)

// memoryCommand lists and erases what outlives the goals of a repository.
func (a *app) memoryCommand() *cobra.Command {
	var repo string
	c := &cobra.Command{
		Use: "memory", Short: "what earlier goals left for later ones: decisions, and how commands ended here", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.with(func(s service.Door) error {
				dir, err := filepath.Abs(repo) // a server stands elsewhere
				if err != nil {
					return err
				}
				items, err := s.Memory(a.ctx, dir)
				if err != nil {
					return err
				}
				if items == nil {
					items = []memory.Item{}
				}
				return a.printJSONOr(items, func(w io.Writer) { a.memory(w, items) })
			})
		},
	}
	c.PersistentFlags().StringVar(&repo, "repo", ".", "the repository")
	c.AddCommand(a.forgetCommand(&repo))
	return c
}

func (a *app) memory(w io.Writer, items []memory.Item) {
	if len(items) == 0 {
		fmt.Fprintln(w, "nothing is remembered here yet")
		return
	}
	for _, it := range items {
		fmt.Fprintf(w, "%s  %s\n", a.paint(bold, it.ID), oneLine(it.Text))
		if it.Command == nil || len(it.Command.Tools) == 0 {
			continue
		}
		var tools []string
		for name, id := range it.Command.Tools {
			tools = append(tools, name+" "+id)
		}
		slices.Sort(tools)
		fmt.Fprintf(w, "           %s\n", a.paint(dim, oneLine("with "+strings.Join(tools, ", "))))
	}
}

func (a *app) forgetCommand(repo *string) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "forget ID... | --all", Short: "have things remembered no longer; recorded as your word, and kept by every rebuild", Args: exactly(0, 100),
		RunE: func(_ *cobra.Command, ids []string) error {
			if all == (len(ids) > 0) {
				return usageError{fmt.Errorf("name what is to be forgotten (belay memory lists it), or say --all")}
			}
			return a.with(func(s service.Door) error {
				dir, err := filepath.Abs(*repo)
				if err != nil {
					return err
				}
				f, err := s.Forget(a.ctx, dir, ids, all)
				if err != nil {
					return err
				}
				return a.printJSONOr(f, func(w io.Writer) {
					if len(f.Items) == 0 {
						fmt.Fprintln(w, "nothing was remembered")
						return
					}
					fmt.Fprintf(w, "forgotten: %s (recorded in goal %s)\n", strings.Join(f.Items, ", "), strings.Join(f.Goals, ", "))
				})
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "everything that is remembered of the repository")
	return c
}
