// Command belay is a durable runtime for coding agents. This package is flags
// and wiring: the only place that sees every adapter.
package main

import (
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"belay/internal/cli"
	"belay/internal/eval"
	"belay/internal/redact"
)

// version is set at release by -ldflags "-X main.version=…".
var version = "dev"

// secrets knows the secrets in this process's environment.
var secrets = sync.OnceValue(func() *redact.Redactor { return redact.New(redact.FromEnviron(os.Environ())...) })

func main() {
	// A shim never comes this far: package shim takes the process over in its
	// init, before anything else is paid for.
	os.Exit(run())
}

func run() (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "belay: internal error: %s\nNothing recorded is lost; belay resume goes on. Please report this with: belay version\n", secrets().Text(fmt.Sprint(r)))
			code = cli.ExitInternal
		}
	}()
	return cli.Main(cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		Screen:   screen, Top: top,
		Getenv: os.Getenv, Open: open, Server: server, Doctor: doctor, Background: background, Serve: serve, ServedAt: servedAt, Tokens: tokens, Version: version, Redact: secrets().Text,
		More: []*cobra.Command{eval.Root(eval.Env{Belay: os.Executable, Version: version, Config: configDir, Command: checkCommand})},
	}, os.Args[1:])
}
