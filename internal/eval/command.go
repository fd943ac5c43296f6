package eval

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// Env is what main gives the commands.
type Env struct {
	// Belay is the program's own path, Version its version.
	Belay   func() (string, error)
	Version string
	// Config is the folder of the user's configuration.
	Config func() string
	// Command runs a check's command, contained.
	Command func(ctx context.Context, c Command) (Ended, error)
}

// failure is an end that a script tells by its exit code.
type failure struct {
	code int
	text string
}

func (f failure) Error() string { return f.text }

// ExitCode is the exit code of DESIGN section 13 that fits best.
func (f failure) ExitCode() int { return f.code }

func usage(format string, args ...any) error { return failure{2, fmt.Sprintf(format, args...)} }

const evalHelp = `A case is a folder with case.yaml: a repository, a goal, a script or a model, what
people and the world do meanwhile, and the end that is expected (docs/evals.md).

Every run has its own state directory, workspace copy, configuration and
environment, and comes out as exactly one of
  pass      the end is the expected one: an honest hand-off that the case expects, too
  fail      it is not; the class says in what way, read off the ledger
  time_out  the case's limit of time was over; nothing is said of the rest
  infra     the fixture, the machine or the provider broke; it is tried once more

Exit codes:
  0 all passed          6 a run failed or timed out
  1 none failed, but nothing can be said of a run (infra)      2 usage error`

// Root is belay eval.
func Root(env Env) *cobra.Command {
	c := &cobra.Command{Use: "eval", Short: "play cases against this belay and a model, and compare what came out",
		Long: evalHelp, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(runCommand(env), compareCommand(), importCommand())
	return c
}

func runCommand(env Env) *cobra.Command {
	var r Runner
	var only string
	c := &cobra.Command{
		Use: "run DIR|FILE...", Short: "play cases: a table, results.json, JUnit XML and a page",
		Long: evalHelp,
		Example: `  belay eval run evals/gauntlet
  belay eval run evals/mine --model anthropic:claude-sonnet-4-5 --repeat 5 --out results/a`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name a folder with cases, or a case (belay eval run --help)")
			}
			if r.Repeat < 1 || r.Parallel < 0 {
				return usage("--repeat is at least 1, --parallel at least 0")
			}
			return run(c, env, r, only, args)
		},
	}
	c.Flags().StringVar(&r.Model, "model", "", "PROVIDER:NAME plays every case, instead of its own script or model")
	c.Flags().StringVar(&r.Sandbox, "sandbox", os.Getenv("BELAY_SANDBOX"), "what confines commands of cases that do not say: auto, bwrap, landlock or none")
	c.Flags().IntVar(&r.Repeat, "repeat", 1, "play each case this often")
	c.Flags().IntVar(&r.Parallel, "parallel", 0, "runs at a time (default: the number of CPUs)")
	c.Flags().StringVar(&r.Out, "out", "", "write results.json, junit.xml, index.html and each run's report here")
	c.Flags().StringVar(&only, "only", "", "only cases whose name matches this regular expression")
	c.Flags().BoolVar(&r.Keep, "keep", false, "keep the directories of the runs and say where they are")
	return c
}

func run(c *cobra.Command, env Env, r Runner, only string, args []string) error {
	cases, broken, err := Find(args)
	if err != nil {
		return usage("%v", err)
	}
	if cases, broken, err = pick(cases, broken, only); err != nil {
		return err
	}
	if r.Belay, err = env.Belay(); err != nil {
		return fmt.Errorf("find belay's own program: %w", err)
	}
	if r.Model, err = absoluteModel(r.Model); err != nil {
		return err
	}
	if r.Out != "" {
		if r.Out, err = filepath.Abs(r.Out); err == nil {
			err = os.MkdirAll(r.Out, 0o755)
		}
		if err != nil {
			return usage("--out: %v", err)
		}
	}
	r.Config, r.Command = env.Config(), env.Command
	json, _ := c.Flags().GetBool("json")
	out := c.OutOrStdout()
	r.OnResult = func(res Result) {
		if json {
			b, err := jsonLine(res)
			if err == nil {
				_, _ = out.Write(b)
			}
			return
		}
		fmt.Fprintln(out, line(res))
	}
	results, err := r.Suite(c.Context(), cases, broken)
	results.Version = env.Version
	if r.Out != "" {
		if werr := results.write(r.Out); werr != nil {
			return werr
		}
	}
	if !json {
		fmt.Fprintln(out)
		results.summary(out)
		if r.Out != "" {
			fmt.Fprintf(out, "the page: %s\n", filepath.Join(r.Out, "index.html"))
		}
	}
	if err != nil {
		return failure{130, "interrupted: what was not over is infra in the results"}
	}
	return results.verdict()
}

// absoluteModel makes the file of a script findable from the run's directory.
func absoluteModel(spec string) (string, error) {
	provider, name, ok := strings.Cut(spec, ":")
	switch {
	case spec == "":
		return "", nil
	case !ok || name == "":
		return "", usage("--model %q: name it as PROVIDER:NAME", spec)
	case provider != "script":
		return spec, nil
	}
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", usage("--model: %v", err)
	}
	return "script:" + path, nil
}

// pick keeps the cases whose name matches.
func pick(cases []Case, broken []Broken, only string) ([]Case, []Broken, error) {
	re, err := regexp.Compile(only)
	if err != nil {
		return nil, nil, usage("--only: %v", err)
	}
	var cs []Case
	var bs []Broken
	for _, c := range cases {
		if re.MatchString(c.Name) {
			cs = append(cs, c)
		}
	}
	for _, b := range broken {
		if re.MatchString(b.Name) {
			bs = append(bs, b)
		}
	}
	if len(cs)+len(bs) == 0 {
		return nil, nil, usage("--only %s: no case has such a name", only)
	}
	return cs, bs, nil
}

// verdict is the exit code of the whole.
func (r Results) verdict() error {
	var words []string
	for _, o := range Outcomes[1:] {
		if n := r.Count(o); n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, o))
		}
	}
	switch {
	case r.Count(Fail)+r.Count(TimeOut) > 0:
		return failure{6, fmt.Sprintf("of %d runs %s", len(r.Runs), strings.Join(words, ", "))}
	case r.Count(Infra) > 0:
		return failure{1, fmt.Sprintf("of %d runs %s: nothing can be said of them", len(r.Runs), strings.Join(words, ", "))}
	}
	return nil
}

// write writes the three files that --out keeps.
func (r Results) write(dir string) error {
	for _, f := range []struct {
		name   string
		render func() ([]byte, error)
	}{{ResultsFile, r.JSON}, {"junit.xml", r.JUnit}, {"index.html", r.Page}} {
		b, err := f.render()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f.name), b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// printed text of compare goes through one function, so that --json is the
// same everywhere.
func printJSONOr(c *cobra.Command, v any, plain func(w io.Writer)) error {
	if json, _ := c.Flags().GetBool("json"); !json {
		plain(c.OutOrStdout())
		return nil
	}
	b, err := jsonLine(v)
	if err != nil {
		return err
	}
	_, err = c.OutOrStdout().Write(b)
	return err
}
