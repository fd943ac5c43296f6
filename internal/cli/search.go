package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belay/internal/moment"
	"belay/internal/recall"
	"belay/internal/service"
)

func (a *app) searchCommand() *cobra.Command {
	var goal, since, until string
	var with recall.Query
	c := &cobra.Command{
		Use: "search [TEXT]", Short: "find again what goals went through, and what the repository holds", Args: exactly(0, 99),
		Long: "Words are looked for in the events of all goals of the state directory and in the repository here, if a goal\n" +
			"has worked on it: calls with their results, what was said and decided, and file contents. Names are found in any\n" +
			"spelling (fooBar, foo_bar), paths by their parts. Among the words there may be filters:\n\n  " + recall.Filters + "\n\n" +
			"A hit in the ledger comes with its reference, event:GOAL/SEQ; belay search event:GOAL/SEQ prints all of that event.\n" +
			"An operation comes with what the model said, and a failure with what got over it.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && strings.HasPrefix(args[0], "event:") {
				return a.printEvent(args[0])
			}
			now := moment.Of(time.Now())
			q, earlier, err := recall.Parse(strings.Join(args, " "), now)
			if err != nil {
				return usagef("search: %v", err)
			}
			over(&q.File, with.File)
			over(&q.Tool, with.Tool)
			over(&q.Outcome, with.Outcome)
			q.Limit = with.Limit
			for _, t := range []struct {
				at   *moment.Time
				text string
			}{{&q.Since, since}, {&q.Until, until}} {
				if t.text != "" {
					if *t.at, err = recall.When(t.text, now); err != nil {
						return usagef("search: %v", err)
					}
				}
			}
			here, err := os.Getwd()
			if err != nil {
				return err
			}
			if with.Repo != "" {
				if q.Repo, err = filepath.Abs(with.Repo); err != nil {
					return err
				}
			}
			return a.with(func(s service.Door) error {
				if goal != "" {
					if q.Goal, err = s.Resolve(a.ctx, goal); err != nil {
						return err
					}
				}
				if earlier && q.Goal != "" {
					snap, err := s.Snapshot(a.ctx, q.Goal)
					if err != nil {
						return err
					}
					q.Goal, q.Repo = "", snap.Repo
				}
				found, err := s.Search(a.ctx, q, here)
				if err != nil {
					return err
				}
				return a.printJSONOr(found, func(w io.Writer) { a.hits(w, found) })
			})
		},
	}
	c.Flags().StringVar(&goal, "goal", "", "only this goal, and its repository as it was last observed")
	c.Flags().StringVar(&with.Repo, "repo", "", "only this repository and its goals")
	c.Flags().StringVar(&with.File, "file", "", "only what is about this path, folder or file name")
	c.Flags().StringVar(&with.Tool, "tool", "", "only this tool's operations")
	c.Flags().StringVar(&with.Outcome, "outcome", "", "only operations that ended so (succeeded, failed, rejected, cancelled, unknown)")
	c.Flags().StringVar(&since, "since", "", "only events since: how long ago (90m, 2h, 3d) or a date")
	c.Flags().StringVar(&until, "until", "", "only events until")
	c.Flags().IntVar(&with.Limit, "limit", recall.DefaultLimit, "at most this many")
	return c
}

// printEvent prints all of one event.
func (a *app) printEvent(ref string) error {
	return a.with(func(s service.Door) error {
		text, err := s.Event(a.ctx, ref)
		if err != nil {
			return err
		}
		return a.printJSONOr(map[string]string{"ref": ref, "text": text}, func(w io.Writer) { _, _ = io.WriteString(w, Safe(text)) })
	})
}

func over(v *string, by string) {
	if by != "" {
		*v = by
	}
}

// hits prints what was found.
func (a *app) hits(w io.Writer, found recall.Answer) {
	if len(found.Hits) == 0 {
		fmt.Fprintln(w, "nothing was found")
	}
	for _, h := range found.Hits {
		head := a.paint(bold, oneLine(h.Ref))
		if h.Op != "" {
			head += " " + h.Op
		}
		if h.Kind != recall.File {
			head += " " + oneLine(h.Action)
		}
		if h.Outcome != "" {
			head += " → " + h.Outcome
		}
		if !h.Time.IsZero() {
			head += "  " + h.Time.Std().Local().Format(time.DateTime)
		}
		if h.Alike > 0 {
			head += fmt.Sprintf("  and %d alike", h.Alike)
		}
		fmt.Fprintln(w, head)
		if h.Because != "" {
			fmt.Fprintf(w, "    because: %s\n", oneLine(h.Because))
		}
		if h.Text != "" {
			fmt.Fprintf(w, "  │ %s\n", block(h.Text))
		}
		for _, l := range h.Then {
			fmt.Fprintf(w, "    then: %s %s → %s  (%s)\n", l.Op, oneLine(l.Action), l.Outcome, l.Ref)
		}
	}
	for _, n := range found.Notes {
		fmt.Fprintln(w, oneLine(n))
	}
}
