package bwrap

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"belay/internal/sandbox"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

// Name is how settings and the snapshot call this backend.
const Name = "bwrap"

// Describe is what the user is told.
const Describe = "commands see only their own processes and write only in the workspace, in private temporary folders and in the caches " +
	"of build tools; git hooks and configuration are read-only, credentials and belay's state hidden; no network unless granted; " +
	"held by bubblewrap and seccomp"

// New returns the backend with its spool in the state directory. It does not
// look whether it works here: a probe runs something in it.
func New(state string) (*shim.Sandbox, error) {
	abs, err := filepath.Abs(state)
	if err != nil {
		return nil, fmt.Errorf("bwrap: state directory %q: %w", state, err)
	}
	program, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, fmt.Errorf("bwrap: %w: bubblewrap is not installed (%w)", sandbox.ErrUnavailable, err)
	}
	confine := func(c sandbox.Command) (shim.Launch, error) { return confine(c, program, abs) }
	return shim.New(state, shim.Options{Name: Name, Describe: Describe, Confine: confine, Bounded: true})
}

const helper = "shim-bwrap"

// The descriptors that bubblewrap inherits.
const (
	filterFD = 10
	statusFD = 11
)

// restriction is what the helper is told.
type restriction struct {
	Options []string     `json:"options"`
	Rules   []scope.Rule `json:"rules"`
	// Argv is the command itself.
	Argv []string `json:"argv"`
}

// linger runs the command and gives what it leaves running the time that the
// shim would give it; in the sandbox, signal 0 to everybody else fails when
// nobody else is left. Signals that ask it to end are the command's to answer.
// A shell says in words how a child was killed, and those words are not the
// command's output.
const linger = `trap : TERM INT HUP QUIT USR1 USR2 ALRM
exec 9>&2 2>/dev/null
"$@" 2>&9 9>&-
code=$?
n=0
while kill -0 -1 && [ $n -lt 20 ]; do sleep 0.01; n=$((n+1)); done
exit $code`

func confine(c sandbox.Command, program, state string) (shim.Launch, error) {
	l, err := shim.Plain(c)
	if err != nil {
		return l, err
	}
	rules, err := scope.Of(c, state, shim.Scratch(state, c.Key))
	if err != nil {
		return l, err
	}
	r := restriction{Argv: l.Argv}
	r.Rules, l.Absent = scope.Split(rules)
	options := []string{"--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	switch c.Network {
	case "", sandbox.NetworkNone, sandbox.NetworkLoopback:
		options = append(options, "--unshare-net")
	case sandbox.NetworkFull:
	default:
		return l, fmt.Errorf("bwrap: network %q is none of none, loopback and full", c.Network)
	}
	options = append(options, "--cap-drop", "ALL")
	if os.Geteuid() == 0 {
		// Without these root could not work on another user's repository.
		for _, name := range []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID"} {
			options = append(options, "--cap-add", name)
		}
	}
	options = append(options, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
	if os.Geteuid() == 0 {
		// Root inside is root to these files of the kernel.
		for _, p := range []string{"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi"} {
			options = append(options, "--ro-bind-try", p, p)
		}
	}
	r.Options = options
	l.Argv = []string{program}
	l.Env = scope.Environment(c.Env, "/tmp")
	l.Keeper, l.Proof, l.Helper = true, `"exit-code"`, helper
	l.Restrict, err = json.Marshal(r)
	return l, err
}

// argv is the whole line, made as late as can be: a place that has vanished
// since the rules were made cannot be hidden, and need not be.
func (r restriction) argv(program, dir string) []string {
	argv := append([]string{program}, r.Options...)
	argv = append(argv, mounts(r.Rules)...)
	argv = append(argv, "--seccomp", fmt.Sprint(filterFD), "--json-status-fd", fmt.Sprint(statusFD), "--chdir", dir,
		"--", "/bin/sh", "-c", linger, "belay")
	return append(argv, r.Argv...)
}

// mounts are bubblewrap's words for the rules.
func mounts(rules []scope.Rule) []string {
	var out, last []string
	for _, r := range rules {
		source := r.Source
		if source == "" {
			source = r.Path
		}
		if _, err := os.Lstat(r.Path); r.Kind != scope.Writable && os.IsNotExist(err) {
			continue
		}
		switch {
		case r.Kind == scope.Hidden && r.File:
			// A device, so that it reads as empty; a plain bind could not be read.
			out = append(out, "--dev-bind", os.DevNull, r.Path)
		case r.Kind == scope.Hidden:
			out = append(out, "--tmpfs", r.Path)
			last = append(last, "--remount-ro", r.Path)
		case r.Kind == scope.ReadOnly:
			out = append(out, "--ro-bind-try", source, r.Path)
		default:
			out = append(out, "--bind-try", source, r.Path)
		}
	}
	return append(out, last...)
}
