package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"belay/internal/service"
)

// workerCommand advances any goal of the store.
func (a *app) workerCommand() *cobra.Command {
	var parallel int
	c := &cobra.Command{
		Use: "worker", Short: "advance every goal that can run, until told to stop", Args: exactly(0, 0),
		Long: "A worker claims goals that can run, whoever started them, and advances several at a time.\n" +
			"SIGTERM or ^C drains it: it claims nothing more, lets short operations end, leaves running\n" +
			"commands to their shims, and gives its goals back for the next worker to go on with.\n\n" +
			"A goal stays with a worker that says nothing more for 30s (BELAY_LEASE), less when it is\n" +
			"seen to be dead. With --db postgres://… many machines share the goals: each needs a state\n" +
			"directory of its own. Under systemd set KillMode=process, or it ends the commands too.",
		RunE: func(*cobra.Command, []string) error {
			return a.here(func(s *service.Service) error {
				fmt.Fprintf(a.Stderr, "belay: working, up to %d goals at a time\n", parallel)
				err := s.Work(a.ctx, parallel, func(goal string, err error) {
					fmt.Fprintf(a.Stderr, "belay: goal %s: %s\n", goal, oneLine(err.Error()))
				})
				fmt.Fprintln(a.Stderr, "belay: drained")
				return err
			})
		},
	}
	c.Flags().IntVar(&parallel, "parallel", 4, "how many goals at a time")
	return c
}
