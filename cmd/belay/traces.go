package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"belay/internal/cli"
	"belay/internal/ledger"
	"belay/internal/trace/otlp"
)

// traces returns what sends traces while a process works, nil where none are
// wanted. What is wrong with the settings is said, and stops no goal.
func traces(state, place string, l ledger.Ledger) func(context.Context) func() {
	c, on, err := otlp.FromEnv(os.Getenv)
	say := func(err error) {
		fmt.Fprintln(os.Stderr, "belay: "+cli.Safe(secrets().Text(err.Error())))
	}
	if err == nil && !on {
		return nil
	}
	warn := sync.OnceFunc(func() { say(errors.Join(errors.New("traces are not sent"), err)) })
	return func(ctx context.Context) func() {
		if err != nil {
			warn()
			return func() {}
		}
		x := &otlp.Exporter{Config: c, Ledger: l, Version: version, Place: place, State: state, Problem: say}
		return x.Start(ctx)
	}
}
