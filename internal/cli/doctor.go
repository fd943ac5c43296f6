package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "what holds on this machine, and what every file of the state is", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			fs := a.Doctor(a.ctx, a.opts)
			for _, f := range fs {
				if !f.OK && !f.Optional {
					a.code = ExitInternal
				}
			}
			return a.printJSONOr(fs, func(w io.Writer) {
				for _, f := range fs {
					mark := a.paint(green, "ok")
					if !f.OK {
						mark = a.paint(red, "no")
						if f.Optional {
							mark = a.paint(dim, "--")
						}
					}
					fmt.Fprintf(w, "%s  %-12s %s\n", mark, f.Name, oneLine(f.Detail))
					if f.Remedy != "" {
						fmt.Fprintf(w, "    %-12s %s\n", "", oneLine(f.Remedy))
					}
				}
			})
		},
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "the version of belay", Args: exactly(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": a.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return a.printJSONOr(v, func(w io.Writer) { fmt.Fprintf(w, "belay %s (%s, %s)\n", v["version"], v["go"], v["platform"]) })
		},
	}
}
