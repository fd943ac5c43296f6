package main

import (
	"fmt"
	"os"
	"strings"

	"belay/internal/cli"
	"belay/internal/notify"
	"belay/internal/redact"
	"belay/internal/service"
)

// notifier tells people as the flags say. Its command is the user's own and
// runs unconfined, but gets no credentials: none of ours leaves this process.
func notifier(o cli.OpenOptions) (notify.Notifier, error) {
	secret := map[string]bool{}
	for _, v := range redact.FromEnviron(os.Environ()) {
		secret[v.Name] = true
	}
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !secret[name] {
			env = append(env, kv)
		}
	}
	n := notify.Notifier{Command: o.Notify, URL: o.NotifyURL, Env: env, Redact: secrets().Text,
		Problem: func(err error) { fmt.Fprintln(os.Stderr, "belay: "+cli.Safe(secrets().Text(err.Error()))) }}
	if err := n.Check(); err != nil {
		return n, fmt.Errorf("%w: --notify-url: %w (give it as https://…)", service.ErrUsage, err)
	}
	return n, nil
}
