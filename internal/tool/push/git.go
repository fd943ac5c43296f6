package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"belay/internal/fault"
)

// git runs the git command. Nothing it runs can ask a person anything.
type git struct {
	bin string
	env []string
	// online are the caller's variables that reaching a remote needs; other
	// runs do not get them.
	online []string
	// config is the user's repository configuration, for runs that reach a
	// remote.
	config []string
}

// forRemotes are the variables of belay's own environment that git, ssh and
// credential helpers need to reach a remote as the user does. Commands of a
// model never see them.
var forRemotes = []string{
	"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "GNUPGHOME", "KRB5CCNAME", "GIT_SSH", "GIT_SSH_COMMAND",
	"GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy",
}

// layers say which configuration files git reads at all.
var layers = []string{"GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"}

func newGit(base []string) (git, error) {
	bin, err := exec.LookPath("git")
	if err != nil {
		return git{}, fault.New(fault.SpawnFailed, fault.Environment, "the git command was not found on PATH", "install git 2.31 or newer")
	}
	g := git{bin: bin}
	for _, kv := range base {
		if !strings.HasPrefix(kv, "GIT_") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "LANG") {
			g.env = append(g.env, kv)
		}
	}
	g.env = append(g.env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
		"GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "GIT_NO_REPLACE_OBJECTS=1")
	for _, name := range append(slices.Clone(forRemotes), layers...) {
		if v, ok := os.LookupEnv(name); ok {
			g.online = append(g.online, name+"="+v)
		}
	}
	return g, nil
}

// call is one run of git.
type call struct {
	dir, gitDir     string
	workTree, index string
	userConfig      bool // read the user's own configuration
	remote          bool // reach a remote, as the user would
	env, conf, args []string
	stdin           []byte
	okExit          int  // one more exit status that is no error
	merged          bool // return what it says on standard error, too
}

// quiet switches off everything that would run a program of the repository, or
// start work in the background.
var quiet = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.quotePath=false", "gc.auto=0", "maintenance.auto=false",
	"safe.directory=*", "core.alternateRefsCommand=true", "color.ui=false", "submodule.recurse=false", "push.gpgSign=false", "fetch.recurseSubmodules=false",
	"fetch.writeCommitGraph=false",
}

func (g git) run(ctx context.Context, c call) ([]byte, error) {
	var args []string
	conf := quiet
	if c.remote {
		conf = append(slices.Clone(g.config), quiet...)
	}
	for _, kv := range append(slices.Clone(conf), c.conf...) {
		args = append(args, "-c", kv)
	}
	cmd := exec.CommandContext(ctx, g.bin, append(args, c.args...)...)
	cmd.Dir = c.dir
	cmd.Env = slices.Clone(g.env)
	if c.remote || c.userConfig {
		cmd.Env = append(cmd.Env, g.online...)
	} else {
		cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1")
	}
	for name, v := range map[string]string{"GIT_DIR": c.gitDir, "GIT_WORK_TREE": c.workTree, "GIT_INDEX_FILE": c.index} {
		if v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, c.env...)
	// In a session of its own there is no terminal that a helper could ask on,
	// and the whole tree can be ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if c.merged {
		cmd.Stderr = &out
	}
	err := cmd.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return nil, fault.New(fault.SpawnFailed, fault.Environment, fmt.Sprintf("git %s could not be run: %v", c.args[0], err), "check the git installation")
	}
	if c.okExit != 0 && exit.ExitCode() == c.okExit {
		return out.Bytes(), nil
	}
	if c.merged {
		msg = out
	}
	return out.Bytes(), &gitError{command: c.args[0], code: exit.ExitCode(), text: words(msg.String())}
}

// line is run for output of one line.
func (g git) line(ctx context.Context, c call) (string, error) {
	out, err := g.run(ctx, c)
	return strings.TrimRight(string(out), "\n"), err
}

// gitError is a run of git that said no.
type gitError struct {
	command, text string
	code          int
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s ended with status %d: %s", e.command, e.code, e.text)
}

const maxWords = 2 << 10

// words are what git said, in lines without progress and without what it
// advises a person at a terminal to do.
func words(s string) string {
	var keep []string
	for l := range strings.Lines(s) {
		if i := strings.LastIndexByte(strings.TrimRight(l, "\r\n"), '\r'); i >= 0 {
			l = l[i+1:]
		}
		l = strings.TrimRight(l, " \r\n")
		if l == "" || strings.HasPrefix(l, "hint:") {
			continue
		}
		keep = append(keep, l)
	}
	t := strings.ToValidUTF8(strings.Join(keep, "\n"), "\uFFFD")
	if len(t) > maxWords {
		t = strings.ToValidUTF8(t[:maxWords], "") + " …"
	}
	return t
}

// unsent makes a fault of what went wrong before anything was sent. The end of
// the caller's own context stays what it is.
func unsent(err error) error {
	var f *fault.Fault
	var g *gitError
	switch {
	case err == nil, errors.As(err, &f), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.TimedOut, fault.Environment, "the time for a push was over before anything was sent: "+err.Error(), "try again, or push less with paths")
	case errors.As(err, &g):
		return fault.New(fault.Storage, fault.Environment, g.Error(), "run git there by hand and mend what it complains about")
	}
	return fault.New(fault.Internal, fault.Environment, err.Error(), "")
}
