package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/sqlite"
)

// module is a pinned open-source module: its version stands in this
// repository's own go.sum, its sources in the module cache.
type module struct {
	name, path, licence string
	packages            []string
	test                string
}

var modules = []module{
	{"sh", "mvdan.cc/sh/v3", "BSD-3-Clause", []string{"syntax", "pattern", "fileutil", "expand"}, "go test -mod=mod ./fileutil"},
	{"pgx", "github.com/jackc/pgx/v5", "MIT", []string{"pgproto3", "pgtype", "internal/pgio", "internal/sanitize"}, "go test -mod=mod ./internal/pgio"},
	{"go-internal", "github.com/rogpeppe/go-internal", "BSD-3-Clause",
		[]string{"par", "diff", "fmtsort", "imports", "cache", "renameio", "lockedfile", "testscript", "txtar", "gotooltest", "goproxytest", "testenv", "robustio"}, "go test -mod=mod ./par ./fmtsort"},
}

// build is the command that looks whether the sources are whole. It parses them
// only: to compile a module forty times over would take longer than all else.
func (m module) build() string { return "gofmt -e -l " + strings.Join(m.packages, " ") }

// recording is a run as it stands in the ledger.
type recording struct {
	events  []event.Event
	files   int
	version string
}

// record plays the agent's script over a copy of a module by the real program.
func record(ctx context.Context, belay, dir string, m module, rounds int, window int64) (recording, error) {
	var r recording
	repo := filepath.Join(dir, "repo")
	source, version, err := locate(ctx, m.path)
	if err != nil {
		return r, err
	}
	r.version = version
	state := filepath.Join(dir, "state")
	if _, err := os.Stat(state); err == nil {
		r.events, err = events(ctx, state)
		return r, err
	}
	if r.files, err = copyTree(source, repo); err != nil {
		return r, err
	}
	a, err := newAgent(repo, m.build(), m.packages)
	if err != nil {
		return r, err
	}
	// JSON is YAML.
	script, err := json.Marshal(map[string]any{"window": window, "steps": a.work(rounds)})
	if err != nil {
		return r, err
	}
	model := filepath.Join(dir, "model.yaml")
	if err := os.WriteFile(model, script, 0o600); err != nil {
		return r, err
	}
	for _, args := range [][]string{
		{"git", "-C", repo, "init", "-q"},
		{"git", "-C", repo, "add", "-A"},
		{"git", "-C", repo, "-c", "user.name=viewbench", "-c", "user.email=viewbench@localhost", "commit", "-qm", "as released"},
		{belay, "run", "Check that every exported function fits its callers. Sentinel rule: never rename anything exported.",
			"--repo", repo, "--state", state, "--model", "script:" + model, "--approve", "auto", "--plan", "never", "--sandbox", "none",
			"--patience", "100", "--test", m.test, "--json"},
	} {
		var out bytes.Buffer
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Stdout, c.Stderr = &out, &out
		c.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off")
		if err := c.Run(); err != nil {
			var exit *exec.ExitError
			if args[0] != belay || !errors.As(err, &exit) {
				return r, fmt.Errorf("%s: %w: %s", args[0], err, tailOf(out.String()))
			}
			return r, fmt.Errorf("the run ended with exit code %d: %s", exit.ExitCode(), tailOf(out.String()))
		}
	}
	r.events, err = events(ctx, state)
	return r, err
}

func tailOf(s string) string { return s[max(len(s)-1500, 0):] }

// locate finds a module's sources at the version that this repository pins.
func locate(ctx context.Context, path string) (dir, version string, err error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", path).Output()
	if err != nil {
		return "", "", fmt.Errorf("go mod download %s: %w", path, err)
	}
	var m struct{ Dir, Version string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", "", err
	}
	return m.Dir, m.Version, nil
}

// copyTree copies a module's files, which are read-only in the module cache.
func copyTree(from, to string) (files int, err error) {
	err = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files++
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	return files, err
}

// events reads the one goal of a state directory.
func events(ctx context.Context, state string) ([]event.Event, error) {
	l, err := sqlite.Open(ctx, filepath.Join(state, "ledger.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	goals, err := l.Goals(ctx, ledger.Filter{})
	if err != nil {
		return nil, err
	}
	if len(goals) != 1 {
		return nil, fmt.Errorf("%d goals are there, one is wanted", len(goals))
	}
	return l.Read(ctx, goals[0].Goal, 0, 0)
}
