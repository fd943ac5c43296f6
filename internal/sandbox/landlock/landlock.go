package landlock

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"belay/internal/sandbox"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

// Name is how settings and the snapshot call this backend.
const Name = "landlock"

// Describe is what the user is told of each grade.
const (
	describeNamespaces = "commands write only in the workspace, in private temporary folders and in the caches of build tools; " +
		"git hooks and configuration are read-only, credentials and belay's state hidden; no network unless granted; " +
		"held by Landlock, seccomp and namespaces; processes outside are visible but out of reach"
	describeBare = "commands write only in the workspace, a private temporary folder and the caches of build tools; " +
		"credentials and belay's state cannot be read; no network unless granted; held by Landlock and seccomp alone, as this machine " +
		"forbids namespaces: git hooks and configuration inside the workspace are NOT protected, and file modes outside can be changed where you may"
)

// Options choose the grade.
type Options struct {
	// Namespaces asks for the stronger grade.
	Namespaces bool
}

// New returns the backend with its spool in the state directory. It does not
// look whether it works here: a probe runs something in it.
func New(state string, o Options) (*shim.Sandbox, error) {
	abs, err := filepath.Abs(state)
	if err != nil {
		return nil, fmt.Errorf("landlock: state directory %q: %w", state, err)
	}
	if err := available(); err != nil {
		return nil, err
	}
	describe := describeBare
	if o.Namespaces {
		describe = describeNamespaces
	}
	confine := func(c sandbox.Command) (shim.Launch, error) { return confine(c, abs, o) }
	return shim.New(state, shim.Options{Name: Name, Describe: describe, Confine: confine, Bounded: true})
}

// restriction is what the helper is told.
type restriction struct {
	Namespaces bool         `json:"namespaces"`
	Network    string       `json:"network"`
	Rules      []scope.Rule `json:"rules"`
}

const helper = "shim-landlock"

func confine(c sandbox.Command, state string, o Options) (shim.Launch, error) {
	l, err := shim.Plain(c)
	if err != nil {
		return l, err
	}
	r := restriction{Namespaces: o.Namespaces, Network: c.Network}
	switch c.Network {
	case "":
		r.Network = sandbox.NetworkNone
	case sandbox.NetworkNone, sandbox.NetworkFull:
	case sandbox.NetworkLoopback:
		if !o.Namespaces {
			return l, fmt.Errorf("landlock: %w: a loopback of the command's own needs network namespaces, which this machine forbids", sandbox.ErrUnavailable)
		}
	default:
		return l, fmt.Errorf("landlock: network %q is none of none, loopback and full", c.Network)
	}
	scratch := shim.Scratch(state, c.Key)
	rules, err := scope.Of(c, state, scratch)
	if err != nil {
		return l, err
	}
	r.Rules, l.Absent = scope.Split(rules)
	tmp := "/tmp"
	if o.Namespaces {
		l.Unshare = namespaces(r.Network)
	} else {
		tmp = filepath.Join(scratch, "tmp")
		if err := grantable(r.Rules, c); err != nil {
			return l, err
		}
	}
	l.Env = scope.Environment(c.Env, tmp)
	l.Helper = helper
	l.Restrict, err = json.Marshal(r)
	return l, err
}

// grantable refuses a workspace with a hidden place inside: rights that are
// granted for a folder hold for all of it.
func grantable(rules []scope.Rule, c sandbox.Command) error {
	root, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil {
		return nil // no workspace
	}
	var inside []string
	for _, r := range rules {
		if r.Kind == scope.Hidden && scope.Within(r.Path, root) {
			inside = append(inside, r.Path)
		}
	}
	if len(inside) > 0 {
		return fmt.Errorf("landlock: %w: the workspace %s holds what commands must not see (%s), which Landlock cannot keep apart without namespaces; work in a folder below it",
			sandbox.ErrUnavailable, root, strings.Join(inside, ", "))
	}
	return nil
}
