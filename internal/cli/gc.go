package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/service"
)

// envRetention is how long a goal that is over keeps all states of its
// workspace.
const envRetention = "BELAY_RETENTION"

func (a *app) gcCommand() *cobra.Command {
	var dry bool
	var older string
	c := &cobra.Command{
		Use: "gc", Short: "remove what no goal needs any more; no event goes, and nothing that is in use", Args: exactly(0, 0),
		Long: "gc removes states of the workspace of goals that ended longer ago than the retention (30d), but\n" +
			"for their start, their end, what belay checkpoint named and what evidence was taken on; the\n" +
			"spooled output and the state caches of those goals; and artifacts that no event names. Goals\n" +
			"that are not over keep everything. A workspace that a goal works in, or any other belay looks\n" +
			"at, is left alone. It may be killed at any time: nothing that is kept is lost.\n\n" +
			"The retention is set with " + envRetention + " or --older-than: 30d, 12h, 0 for at once.",
		Example: "  belay gc --dry-run\n  belay gc --older-than 7d",
		RunE: func(_ *cobra.Command, _ []string) error {
			retention := time.Duration(core.DefaultRetentionMS) * time.Millisecond
			for _, set := range []struct{ name, value string }{{envRetention, a.Getenv(envRetention)}, {"--older-than", older}} {
				if set.value == "" {
					continue
				}
				var err error
				if retention, err = days(set.value); err != nil {
					return fmt.Errorf("%w: %s is %q, which is no time (30d, 12h, 0)", service.ErrUsage, set.name, set.value)
				}
			}
			return a.here(func(s *service.Service) error {
				g, err := s.Collect(a.ctx, retention, dry)
				if err != nil {
					return err
				}
				return a.printJSONOr(g, func(w io.Writer) { garbage(w, g) })
			})
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would go, and remove nothing")
	c.Flags().StringVar(&older, "older-than", "", "how long ago a goal must have ended (default 30d, or "+envRetention+")")
	return c
}

// days reads a length of time, in which a day is 24 hours.
func days(text string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		d, err := strconv.ParseUint(n, 10, 16)
		return time.Duration(d) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = strconv.ErrRange
	}
	return d, err
}

func garbage(w io.Writer, g service.Garbage) {
	removed := "removed"
	if g.Dry {
		removed = "would be removed"
	}
	fmt.Fprintf(w, "%d goals, %d of them over for longer than the retention\n", g.Goals, g.Over)
	for _, s := range g.Stores {
		if s.Skipped != "" {
			fmt.Fprintf(w, "states of %s: left alone, %s\n", oneLine(s.Store), oneLine(s.Skipped))
		} else {
			fmt.Fprintf(w, "states of %s: %d objects, %s %s\n", oneLine(s.Store), s.Objects, size(s.Bytes), removed)
		}
	}
	fmt.Fprintf(w, "spooled output: %d commands %s\n", g.Records, removed)
	fmt.Fprintf(w, "artifacts that no event names: %d, %s %s; state caches: %d %s\n", g.Ledger.Artifacts, size(g.Ledger.Bytes), removed, g.Ledger.Caches, removed)
	for _, n := range g.Notes {
		fmt.Fprintln(w, oneLine(n))
	}
}

func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
