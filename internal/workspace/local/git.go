package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"belay/internal/fault"
)

// git runs the git command with nothing of the caller's in it: no GIT_*
// variable, no prompt, no pager, and by default no user or system
// configuration. Nothing here ever runs a command that reads working-tree
// content through the user's configuration: git is asked for names and for
// objects, and belay reads and writes file content itself.
type git struct {
	bin string
	// base is the environment without GIT_* and locale.
	base []string
}

func newGit() (git, error) {
	bin, err := exec.LookPath("git")
	if err != nil {
		return git{}, fault.New(fault.SpawnFailed, fault.Environment, "the git command was not found on PATH",
			"install git 2.31 or newer; belay keeps revisions with it, also where the directory is no git repository")
	}
	g := git{bin: bin}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "LANG") {
			g.base = append(g.base, kv)
		}
	}
	g.base = append(g.base, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat",
		"GIT_ATTR_NOSYSTEM=1", "GIT_NO_LAZY_FETCH=1")
	return g, nil
}

// call is one run of git.
type call struct {
	dir string // working directory
	// gitDir and workTree are named outright: nothing is discovered.
	gitDir, workTree string
	// userConfig reads the user's own configuration; only for asking what is
	// in it.
	userConfig bool
	excludes   string // core.excludesFile
	env        []string
	stdin      []byte
	// input is read in place of stdin when it is too large for memory.
	input io.Reader
	args  []string
	// okExit is one more exit status that is no error.
	okExit int
}

func (g git) command(ctx context.Context, c call) *exec.Cmd {
	args := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.quotePath=false"}
	if !c.userConfig {
		args = append(args, "-c", "core.excludesFile="+c.excludes)
	}
	cmd := exec.CommandContext(ctx, g.bin, append(args, c.args...)...)
	cmd.Dir = c.dir
	cmd.Env = append([]string{}, g.base...)
	if !c.userConfig {
		cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	}
	if c.gitDir != "" {
		cmd.Env = append(cmd.Env, "GIT_DIR="+c.gitDir)
	}
	if c.workTree != "" {
		cmd.Env = append(cmd.Env, "GIT_WORK_TREE="+c.workTree)
	}
	cmd.Env = append(cmd.Env, c.env...)
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	} else if c.input != nil {
		cmd.Stdin = c.input
	}
	return cmd
}

func (g git) run(ctx context.Context, c call) ([]byte, error) {
	cmd := g.command(ctx, c)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := cmd.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if c.okExit != 0 && exit.ExitCode() == c.okExit {
			return out.Bytes(), nil
		}
		first, _, _ := strings.Cut(strings.TrimSpace(msg.String()), "\n")
		return nil, &gitError{command: c.args[0], dir: c.dir, code: exit.ExitCode(), text: first}
	}
	return nil, fault.New(fault.SpawnFailed, fault.Environment, fmt.Sprintf("git %s could not be started: %v", c.args[0], err),
		"check the git installation and that the directory "+c.dir+" still exists")
}

// gitError is a run of git that said no.
type gitError struct {
	command, dir, text string
	code               int
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s in %s ended with status %d: %s", e.command, e.dir, e.code, e.text)
}

// Unwrap gives what git said as a fault: somebody can mend it.
func (e *gitError) Unwrap() error {
	return fault.New(fault.Storage, fault.Environment, e.Error(), "run git there by hand and mend what it complains about")
}
