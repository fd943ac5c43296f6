package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"belay/client"
	"belay/internal/api"
	"belay/internal/cli"
	"belay/internal/console"
	"belay/internal/service"
	"belay/internal/token"
)

// tokens opens the store of tokens in the state directory.
func tokens(o cli.OpenOptions) (*token.Store, error) {
	state, err := stateDir(o)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	return token.Open(filepath.Join(state, "tokens.json")), nil
}

// servedAt is the address at which serve listened last.
func servedAt(o cli.OpenOptions) string {
	state, err := stateDir(o)
	if err != nil {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(state, "serve.url"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// serve runs the worker, and in front of the same service the API with the
// console. The first of the two that fails ends both.
func serve(ctx context.Context, o cli.OpenOptions, so cli.ServeOptions) (err error) {
	state, err := stateDir(o)
	if err != nil {
		return err
	}
	store, err := tokens(o)
	if err != nil {
		return err
	}
	s, done, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	a, err := api.New(api.Config{
		Service: s, Check: store.Check, Console: console.Handler(), Hosts: so.Hosts, Model: so.Model, Sandbox: so.Sandbox,
		Doctor:  func(ctx context.Context) []client.Finding { return findings(doctor(ctx, o)) },
		Version: client.Version{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH},
		Redact:  secrets().Text,
		Log:     log.New(redacted{}, "belay: api: ", 0),
	})
	if err != nil {
		return err
	}
	l := api.Listen{Addr: so.Addr, Cert: so.Cert, Key: so.Key}
	switch so.Socket {
	case "":
		if l.Socket = filepath.Join(state, "serve.sock"); len(l.Socket) > api.MaxSocketPath && l.Addr != "" {
			fmt.Fprintln(os.Stderr, "belay: the state directory's path is too long for a unix socket; --socket PATH gives it another")
			l.Socket = ""
		}
	case "off":
	default:
		if l.Socket, err = filepath.Abs(so.Socket); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	worked := make(chan error, 1)
	listening := make(chan struct{})
	retract := func() {}
	go func() {
		served <- a.Serve(ctx, l, func(urls []string) {
			if l.Addr != "" {
				// A convenience for belay token; nothing depends on it.
				_ = os.WriteFile(filepath.Join(state, "serve.url"), []byte(urls[0]+"\n"), 0o600)
			}
			var err error
			if retract, err = found(state, o, l.Socket); err != nil {
				fmt.Fprintln(os.Stderr, "belay: the command line will not find this server: "+err.Error())
			}
			so.Ready(urls)
			close(listening)
		})
		cancel()
	}()
	go func() {
		select {
		case <-listening: // a server that cannot listen takes no goal either
			worked <- s.Work(ctx, so.Parallel, so.OnError)
		case <-ctx.Done():
			worked <- nil
		}
		cancel()
	}()
	err = <-served
	retract()
	if errors.Is(err, api.ErrListen) {
		err = fmt.Errorf("%w: %w", service.ErrUsage, err)
	}
	return errors.Join(err, <-worked)
}

// found lets the command line find this server, if it has a socket.
func found(state string, o cli.OpenOptions, socket string) (func(), error) {
	if socket == "" {
		return func() {}, nil
	}
	s, err := servingHere(o, socket)
	if err == nil {
		var retract func()
		if retract, err = announce(state, s); err == nil {
			return retract, nil
		}
	}
	return func() {}, err
}

func findings(fs []cli.Finding) []client.Finding {
	out := []client.Finding{}
	for _, f := range fs {
		out = append(out, client.Finding(f))
	}
	return out
}

// redacted writes the server's log to standard error, without secrets.
type redacted struct{}

// Write implements io.Writer.
func (redacted) Write(p []byte) (int, error) {
	if _, err := os.Stderr.WriteString(cli.Safe(secrets().Text(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}
