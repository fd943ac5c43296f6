package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"belay/internal/eval"
	"belay/internal/sandbox"
	"belay/internal/sandbox/environ"
)

// checkOutput is how much of a check's output is kept: its end is in there with
// all but the loudest programs.
const checkOutput = 1 << 20

// checkCommand runs the command of an evaluation's check in a sandbox, as the
// commands of a goal run: what it tests was written by a model.
func checkCommand(ctx context.Context, c eval.Command) (end eval.Ended, err error) {
	state, err := os.MkdirTemp("", "belay-check-")
	if err != nil {
		return end, fmt.Errorf("make a directory for a check: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	b := &boxes{chooser: chooser(state)}
	defer func() { err = errors.Join(err, b.close()) }()
	box, err := b.open(ctx, c.Sandbox)
	if err != nil {
		return end, sandboxWords(err)
	}
	p, err := box.Start(ctx, sandbox.Command{Key: "check", Shell: c.Shell, Dir: c.Dir, Env: environ.Environment(c.Env), Timeout: c.Timeout,
		Workspace: c.Dir, Network: sandbox.NetworkNone, MaxOutput: checkOutput})
	if err != nil {
		return end, err
	}
	res, err := p.Wait(ctx)
	if err != nil {
		// The time of the whole run is over: nothing of the check may stay behind.
		stopping := context.WithoutCancel(ctx)
		if serr := p.Stop(stopping, "the evaluation is over"); serr == nil {
			_, _ = p.Wait(stopping)
		}
		return end, err
	}
	if res.SpawnError != "" {
		return end, errors.New(res.SpawnError)
	}
	out, err := p.Output()
	if err != nil {
		return end, err
	}
	defer out.Close()
	text, err := io.ReadAll(out)
	end = eval.Ended{Exit: res.ExitCode, TimedOut: res.TimedOut, Output: string(text)}
	if res.Signal != "" && end.Exit == 0 {
		end.Exit = 1
	}
	return end, err
}

// sandboxWords adds the remedy to a sandbox that cannot be had.
func sandboxWords(err error) error {
	if errors.Is(err, sandbox.ErrUnavailable) {
		return fmt.Errorf("%w (--sandbox none runs checks unconfined)", err)
	}
	return err
}
