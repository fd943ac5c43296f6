package builtin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/sandbox"
	"belay/internal/tool"
	"belay/internal/tool/testreport"
	"belay/internal/tool/textcap"
)

const (
	headBytes = 6 << 10
	tailBytes = 5 << 10 // with head line and note, the whole stays under 12 KiB
	soFar     = 2 << 10
)

// digest is one pass over a command's output.
type digest struct {
	window *textcap.Window
	counts event.TestCounts
	diag   []string
	net    netless
	ref    event.Ref
}

// read stores the output as an artifact and digests it on the way, in memory
// that does not grow with it.
func read(ctx context.Context, env tool.Env, p sandbox.Process, printed int64) (digest, error) {
	d := digest{window: textcap.NewWindow(headBytes, tailBytes)}
	if printed == 0 {
		return d, nil // no artifact for nothing
	}
	out, err := p.Output()
	if err != nil {
		return d, fmt.Errorf("builtin: opening the output of attempt %s: %w", p.Key(), err)
	}
	defer out.Close()
	tests, diag := testreport.NewParser(), &diagnostic{}
	// Once cleaned, a secret has no escape sequence in it; once shortened, it
	// might be cut. In between is its place.
	safe := env.Secrets.Writer(io.MultiWriter(d.window, tests, diag, &d.net))
	clean := textcap.NewCleaner(safe)
	tee := io.TeeReader(&until{ctx, out}, clean)
	if env.Artifacts != nil {
		d.ref, err = env.Artifacts.PutArtifact(ctx, tee, "text/plain")
	} else {
		_, err = io.Copy(io.Discard, tee)
	}
	if err == nil {
		err = clean.Close()
	}
	if err == nil {
		err = safe.Close()
	}
	if err != nil {
		return d, fmt.Errorf("builtin: keeping the output of attempt %s: %w", p.Key(), err)
	}
	if d.window.Total() == 0 {
		d.ref = event.Ref{}
	}
	d.counts, d.diag = tests.Counts(), diag.lines()
	return d, nil
}

// outputSoFar is the end of what a command printed, for a detail in words.
func outputSoFar(env tool.Env, p sandbox.Process) string {
	out, err := p.Output()
	if err != nil {
		return ""
	}
	defer out.Close()
	w := textcap.NewWindow(0, soFar)
	safe := env.Secrets.Writer(w)
	c := textcap.NewCleaner(safe)
	if _, err := io.Copy(c, out); err != nil {
		return ""
	}
	if c.Close() != nil || safe.Close() != nil {
		return ""
	}
	return strings.TrimSpace(w.Text(nil))
}

// ended turns a command's end into what the model is told and what is
// recorded.
func (t command) ended(ctx context.Context, env tool.Env, c sandbox.Command, p sandbox.Process, res sandbox.Result) (event.Outcome, event.Result, error) {
	d, err := read(ctx, env, p, res.Output)
	if err != nil {
		return "", event.Result{}, err
	}
	r := event.Result{Command: &event.CommandResult{
		ExitCode: res.ExitCode, Signal: res.Signal, TimedOut: res.TimedOut, DurationMS: res.Duration.Milliseconds(),
		Output: d.ref, OutputDropped: res.Dropped, Survivors: res.Survivors,
	}}
	if t.test() || d.counts.Runner != "" {
		counts := d.counts
		r.Test = &counts
		r.Environment = identify(programsOf(c.Shell, d.counts.Runner), c.Env, c.Dir)
	}
	outcome, f := judge(c, res)
	if f != nil {
		f.Signature = signature(f, d)
		r.Fault = f
	}
	var b strings.Builder
	b.WriteString(inPlainWords(c, res))
	t.notes(&b, res, d)
	if c.Network == sandbox.NetworkNone && res.ExitCode != 0 && d.net.seen {
		b.WriteString("[it ran without a network; if it needs one, run it again with network: full and a reason]\n")
	}
	if d.window.Total() == 0 {
		b.WriteString("(no output)\n")
	} else {
		b.WriteString(d.window.Text(func(o textcap.Omission) string {
			if d.ref.IsZero() {
				return "[… " + o.String() + " …]"
			}
			return "[… " + o.String() + "; read_file or search_text with path artifact:" + d.ref.SHA256 + " …]"
		}))
	}
	r.Output = event.Text{Head: b.String()}
	if d.window.Cut() {
		r.Output.Cut, r.Output.Whole = true, d.ref
	}
	return outcome, r, nil
}

// judge says how an attempt ended.
func judge(c sandbox.Command, res sandbox.Result) (event.Outcome, *fault.Fault) {
	switch {
	case res.SpawnError != "":
		return event.Failed, fault.New(fault.SpawnFailed, fault.Environment, "the command could not be started: "+res.SpawnError, "")
	case res.Stopped != "":
		return event.Cancelled, fault.New(fault.Cancelled, fault.User, "the command was stopped: "+res.Stopped, "")
	case res.TimedOut:
		return event.Failed, fault.New(fault.TimedOut, fault.Model, "the command was ended at its time limit"+limitOf(c),
			"give it less to do, or more time with timeout_s; a server or watcher never ends by itself")
	case res.Signal != "" && res.Dropped > 0:
		return event.Failed, fault.New(fault.OutputLimit, fault.Model, "the command was ended by signal "+res.Signal+" after it had printed more than is kept", "make it print less")
	case res.Signal != "":
		return event.Failed, fault.New(fault.ExitStatus, fault.Model, "the command was ended by signal "+res.Signal, "")
	case res.ExitCode != 0 && res.Dropped > 0:
		return event.Failed, fault.New(fault.OutputLimit, fault.Model, fmt.Sprintf("the command ended with exit code %d after it had printed more than is kept", res.ExitCode), "make it print less")
	case res.ExitCode != 0:
		return event.Failed, fault.New(fault.ExitStatus, fault.Model, fmt.Sprintf("the command ended with exit code %d", res.ExitCode), "")
	}
	return event.Succeeded, nil
}

func limitOf(c sandbox.Command) string {
	if c.Timeout <= 0 {
		return ""
	}
	return fmt.Sprintf(" of %g s", c.Timeout.Seconds())
}

// inPlainWords is the first line of what the model is told. However long it
// took, the time is written in one form: two runs that differ in nothing else
// must be seen to be the same.
func inPlainWords(c sandbox.Command, res sandbox.Result) string {
	after := fmt.Sprintf(" after %.2fs", res.Duration.Seconds())
	switch {
	case res.SpawnError != "":
		return "could not be started: " + res.SpawnError + "\n"
	case res.Stopped != "":
		return "stopped" + after + ": " + res.Stopped + "\n"
	case res.TimedOut:
		return "timed out: ended" + after + " at its limit" + limitOf(c) + "; what it printed until then:\n"
	case res.Signal != "":
		return "ended by signal " + res.Signal + after + "\n"
	}
	return fmt.Sprintf("exit code %d%s\n", res.ExitCode, after)
}

// notes says what the exit code alone does not.
func (t command) notes(b *strings.Builder, res sandbox.Result, d digest) {
	if t.test() || d.counts.Runner != "" {
		n := d.counts
		switch {
		case n.Runner == "" && res.ExitCode == 0:
			b.WriteString("[no known test report in the output: how many tests ran is not known, so this is no evidence]\n")
		case n.Runner == "":
		default:
			fmt.Fprintf(b, "tests (%s): %d passed, %d failed, %d skipped", n.Runner, n.Passed, n.Failed, n.Skipped)
			if len(n.Failing) > 0 {
				fmt.Fprintf(b, "; failing: %s", strings.Join(n.Failing[:min(len(n.Failing), 10)], ", "))
			}
			b.WriteByte('\n')
			if n.Executed() == 0 {
				b.WriteString("[no test was executed: this is no evidence]\n")
			} else if n.Failed > 0 && res.ExitCode == 0 {
				b.WriteString("[the exit code is 0, but tests failed: the command masks the exit status of the test runner]\n")
			}
		}
	}
	if res.Dropped > 0 {
		fmt.Fprintf(b, "[it printed %d bytes more than are kept]\n", res.Dropped)
	}
	if res.Survivors > 0 {
		fmt.Fprintf(b, "[it left %s running, which had to be ended]\n", processes(res.Survivors))
	}
}

// signature identifies a failure by what went wrong, not by when or where: the
// failing tests in a fixed order and the lines that look like the error.
func signature(f *fault.Fault, d digest) string {
	failing := slices.Clone(d.counts.Failing)
	slices.Sort(failing)
	return fault.Signature(string(f.Kind) + ": " + f.Message + "\n" + strings.Join(failing, "\n") + "\n" + strings.Join(d.diag, "\n"))
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
