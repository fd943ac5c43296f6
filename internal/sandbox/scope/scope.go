package scope

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belay/internal/sandbox"
)

// Kind is what a rule grants or takes.
type Kind int

// The kinds, the laxest first: of two rules for one path the stricter stays.
const (
	Writable Kind = iota
	ReadOnly
	Hidden
	// Absent rules need no act of a backend: the shim removes what has appeared
	// there when the command has ended.
	Absent
)

// Rule is one path and what holds for it and everything below.
type Rule struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// File says that the path is no directory.
	File bool `json:"file,omitempty"`
	// Source, if set, is what is found at Path instead of what lies there.
	Source string `json:"source,omitempty"`
	// Make says that the directory may be made if it is missing.
	Make bool `json:"make,omitempty"`
}

// scratch are the folders of an attempt's scratch directory that stand for the
// machine's.
var scratch = []struct{ path, folder string }{{"/tmp", "tmp"}, {"/var/tmp", "vartmp"}}

// Of returns the rules of a command, the outer paths first. state is belay's
// state directory, scratchDir the attempt's own, which need not exist yet.
func Of(c sandbox.Command, state, scratchDir string) ([]Rule, error) {
	root, err := workspace(c)
	if err != nil {
		return nil, err
	}
	var s set
	for _, d := range scratch {
		if info, err := os.Lstat(d.path); err == nil && info.IsDir() {
			s.add(Rule{Path: d.path, Kind: Writable, Source: filepath.Join(scratchDir, d.folder), Make: true})
		}
	}
	s.run()
	s.sockets(root)
	homes := homesOf(c.Env)
	s.caches(homes, c.Env)
	s.credentials(homes)
	for _, p := range append([]string{state}, c.Protected...) {
		s.hide(p)
	}
	if root != "" {
		kind := Writable
		if c.ReadOnly {
			kind = ReadOnly
		}
		s.add(Rule{Path: root, Kind: kind})
		if !c.ReadOnly {
			s.repositories(root)
		}
	}
	return s.sorted(), s.sound(root)
}

// workspace checks what may be written.
func workspace(c sandbox.Command) (string, error) {
	if c.Workspace == "" {
		return "", nil
	}
	root, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil || !filepath.IsAbs(c.Workspace) {
		return "", fmt.Errorf("scope: workspace %q is not an absolute path of a folder", c.Workspace)
	}
	for _, bad := range []string{"/", "/dev", "/etc", "/proc", "/sys", "/usr", "/home", "/tmp", "/var", "/var/tmp", "/run"} {
		if root == bad {
			return "", fmt.Errorf("scope: the workspace is %s: to let commands write there would hold nothing; work in a folder of your own below it", root)
		}
	}
	return root, nil
}

// set collects rules, one a path.
type set struct{ rules map[string]Rule }

func (s *set) add(r Rule) {
	if s.rules == nil {
		s.rules = map[string]Rule{}
	}
	if have, ok := s.rules[r.Path]; ok && have.Kind >= r.Kind {
		return
	}
	s.rules[r.Path] = r
}

// at adds a rule for what a path leads to, if anything is there.
func (s *set) at(path string, k Kind) {
	// Most of what is asked for is not there, and one look tells.
	if _, err := os.Lstat(path); err != nil {
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	info, err := os.Lstat(real)
	if err != nil {
		return
	}
	s.add(Rule{Path: real, Kind: k, File: !info.IsDir()})
}

func (s *set) hide(path string) { s.at(path, Hidden) }

// sorted returns parents before what is in them.
func (s *set) sorted() []Rule {
	rules := make([]Rule, 0, len(s.rules))
	for _, r := range s.rules {
		rules = append(rules, r)
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.Path, b.Path) })
	return rules
}

// sound refuses a workspace that is itself to be hidden.
func (s *set) sound(root string) error {
	if root != "" && s.rules[root].Kind == Hidden {
		return fmt.Errorf("scope: the workspace %s is one of the folders that commands must not see (belay's own, or credentials); work in another", root)
	}
	return nil
}

// Within reports whether path is dir or below it.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Make makes the directories that the rules say may be made.
func Make(rules []Rule) error {
	for _, r := range rules {
		if !r.Make {
			continue
		}
		dir := r.Path
		mode := os.FileMode(0o755)
		if r.Source != "" {
			dir, mode = r.Source, 0o700
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("scope: %w", err)
		}
	}
	return nil
}

// Split separates the paths that must not come into being from the rules that
// a backend applies.
func Split(rules []Rule) (apply []Rule, absent []string) {
	for _, r := range rules {
		if r.Kind == Absent {
			absent = append(absent, r.Path)
		} else {
			apply = append(apply, r)
		}
	}
	return apply, absent
}

// Environment is the command's environment with its temporary folder set to
// the given one.
func Environment(env []string, tmp string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		for _, name := range []string{"TMPDIR=", "TMP=", "TEMP=", "GOTMPDIR="} {
			if strings.HasPrefix(kv, name) {
				return true
			}
		}
		return false
	})
	return append(out, "TMPDIR="+tmp)
}

func lookup(env []string, name string) string {
	v := ""
	for _, kv := range env {
		if k, val, ok := strings.Cut(kv, "="); ok && k == name {
			v = val
		}
	}
	return v
}

// homesOf are the home directories that may hold this user's credentials.
func homesOf(env []string) []string {
	var homes []string
	own, _ := os.UserHomeDir()
	for _, h := range []string{own, lookup(env, "HOME")} {
		if h = filepath.Clean(h); filepath.IsAbs(h) && h != "/" && !slices.Contains(homes, h) {
			homes = append(homes, h)
		}
	}
	return homes
}
