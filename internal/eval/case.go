package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// CaseFile is the name of the file that makes a folder a case.
const CaseFile = "case.yaml"

// DefaultTimeout bounds a run whose case names no limit.
const DefaultTimeout = 2 * time.Minute

// Case is one case, read and checked.
type Case struct {
	// Name is the folder below the one that was named, Dir its absolute path.
	Name string `yaml:"-"`
	Dir  string `yaml:"-"`

	Title string `yaml:"title"`
	Why   string `yaml:"why"`
	// Field are the ids of reports from users that the case re-enacts.
	Field []string `yaml:"field"`
	Repo  Repo     `yaml:"repo"`
	// Goal and Model are a file of the folder, or stand in case.yaml itself.
	// Model may also name a real model as PROVIDER:NAME.
	Goal  Inline `yaml:"goal"`
	Model Inline `yaml:"model"`
	Run   Run    `yaml:"run"`
	// Policy is the user's policy file for this case.
	Policy Inline            `yaml:"policy"`
	Env    map[string]string `yaml:"env"`
	// Needs are programs without which nothing can be said: infra.
	Needs   []string `yaml:"needs"`
	Timeout Duration `yaml:"timeout"`
	Answers []Answer `yaml:"answers"`
	Acts    []Act    `yaml:"acts"`
	Checks  []Check  `yaml:"checks"`
	Expect  Expect   `yaml:"expect"`
}

// Repo is the repository that a run works on.
type Repo struct {
	// Folder is copied; its default is the folder repo, if there is one. Files
	// are laid over it.
	Folder string            `yaml:"folder"`
	Files  map[string]string `yaml:"files"`
	// Git and Commit fetch a repository at one commit instead, without its
	// history: what comes after the commit is not there to be found.
	Git    string `yaml:"git"`
	Commit string `yaml:"commit"`
	// Plain leaves a copied folder without a git repository of its own.
	Plain bool `yaml:"plain"`
	// Overlay (a folder) and Dirty are laid over after the commit: the user's own
	// uncommitted work.
	Overlay string            `yaml:"overlay"`
	Dirty   map[string]string `yaml:"dirty"`
}

// Inline is a file name, or the content itself.
type Inline struct {
	File string
	Body []byte
}

// UnmarshalYAML accepts both forms.
func (i *Inline) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		i.File = n.Value
		return nil
	}
	b, err := yaml.Marshal(n)
	i.Body = b
	return err
}

// Run are the flags of belay run.
type Run struct {
	Approve          string   `yaml:"approve"`
	Plan             string   `yaml:"plan"`
	Sandbox          string   `yaml:"sandbox"`
	AcceptUnverified bool     `yaml:"accept_unverified"`
	ApprovalTimeout  Duration `yaml:"approval_timeout"`
}

// Duration is a Go duration in YAML.
type Duration time.Duration

// UnmarshalYAML reads 90s, 2m and their kind.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("line %d: %q is no duration (30s, 2m)", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// Answer answers what a run at rest asks: an operation or a plan, by tool and
// by what its preview shows, or a question, by its words.
type Answer struct {
	Tool  string  `yaml:"tool"`
	Shows Pattern `yaml:"shows"`
	Asks  Pattern `yaml:"asks"`
	// Say is approve or deny for an operation, else the words themselves.
	Say    string `yaml:"say"`
	Reason string `yaml:"reason"`
	// Times is how often it may be used; 0 is always.
	Times int `yaml:"times"`
}

// Act is something that people or the world do during a run.
type Act struct {
	When When   `yaml:"when"`
	Do   []Deed `yaml:"do"`
}

// When is the instant of an act: an event of the ledger, or the run coming to
// rest with an exit code.
type When struct {
	Event event.Type `yaml:"event"`
	Tool  string     `yaml:"tool"`
	Op    string     `yaml:"op"`
	// Text is looked for in the event's payload.
	Text Pattern `yaml:"text"`
	Rest *int    `yaml:"rest"`
	// Nth counts from 1; 0 is the first.
	Nth int `yaml:"nth"`
}

// Pattern is a regular expression in YAML.
type Pattern struct{ *regexp.Regexp }

// UnmarshalYAML compiles it.
func (p *Pattern) UnmarshalYAML(n *yaml.Node) error {
	re, err := regexp.Compile(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	p.Regexp = re
	return nil
}

// IsZero says that nothing was given.
func (p Pattern) IsZero() bool { return p.Regexp == nil }

// Check is a command that is run after the end on a copy of the workspace that
// the model never saw. What it lays over stands in nobody's way before.
type Check struct {
	Name    string `yaml:"name"`
	Command string `yaml:"command"`
	// Overlay is a folder, Patch a diff that is applied to the files as they
	// were at the start. Both replace what the run made of these files.
	Overlay string            `yaml:"overlay"`
	Files   map[string]string `yaml:"files"`
	Patch   string            `yaml:"patch"`
	// Before says how the command ends on the start: pass or fail. When it does
	// not, the case is broken, and the run infra.
	Before string `yaml:"before"`
	// Refuse are patterns that its output must not have.
	Refuse  []Pattern `yaml:"refuse"`
	Timeout Duration  `yaml:"timeout"`
}

// Expect is the end that a case expects. What is not named is not looked at.
type Expect struct {
	Exit   *int               `yaml:"exit"`
	Status lifecycle.Status   `yaml:"status"`
	How    event.CompletedHow `yaml:"how"`
	Wait   event.WaitReason   `yaml:"wait"`
	Pause  event.PauseReason  `yaml:"pause"`
	// Why is looked for in the reason of the rest, Missing in what the last
	// verdict or hand-off says is missing, Says in what the program printed.
	Why     Pattern         `yaml:"why"`
	Missing []Pattern       `yaml:"missing"`
	Says    []Pattern       `yaml:"says"`
	Class   Class           `yaml:"class"`
	Files   map[string]File `yaml:"files"`
	// Changed are the only paths that differ from the start at the end.
	Changed *[]string `yaml:"changed"`
	// Lines counts the lines of files, for effects that append one each.
	Lines  map[string]int `yaml:"lines"`
	Events []EventCount   `yaml:"events"`
	// Order are timeline names that come in this order, others between them.
	Order []string `yaml:"order"`
	// Git "any" lets a run change .git; by default it may not.
	Git string `yaml:"git"`
}

// File is what a file holds at the end.
type File struct {
	Is       *string   `yaml:"is"`
	Contains []Pattern `yaml:"contains"`
	Lacks    []Pattern `yaml:"lacks"`
	Absent   bool      `yaml:"absent"`
	Mode     string    `yaml:"mode"`
}

// UnmarshalYAML takes a bare text for the whole content.
func (f *File) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		f.Is = &n.Value
		return nil
	}
	type plain File
	return strictNode(n, (*plain)(f))
}

// EventCount is how often an event must come: Count times, or at least Min (1
// if nothing is said) and at most Max.
type EventCount struct {
	Event event.Type `yaml:"event"`
	Tool  string     `yaml:"tool"`
	Text  Pattern    `yaml:"text"`
	Count *int       `yaml:"count"`
	Min   *int       `yaml:"min"`
	Max   *int       `yaml:"max"`
}

// strictNode decodes a node and refuses unknown keys with their line.
func strictNode(n *yaml.Node, into any) error {
	b, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// Load reads the case in a folder. Every error names the file and the field.
func Load(dir, name string) (Case, error) {
	c := Case{Name: name, Dir: dir}
	path := filepath.Join(dir, CaseFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read a case: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// check says what is wrong with a case, naming the field.
func (c *Case) check() error {
	if strings.TrimSpace(c.Title) == "" {
		return errors.New("title: say in one line what the case shows")
	}
	if c.Goal.File == "" && c.Goal.Body == nil {
		c.Goal.File = "goal.yaml"
	}
	if c.Model.File == "" && c.Model.Body == nil && exists(filepath.Join(c.Dir, "model.yaml")) {
		c.Model.File = "model.yaml"
	}
	if c.Goal.Body == nil && !exists(filepath.Join(c.Dir, c.Goal.File)) {
		return fmt.Errorf("goal: there is no file %s in the case's folder; name one, or write the goal here", c.Goal.File)
	}
	if c.Timeout == 0 {
		c.Timeout = Duration(DefaultTimeout)
	}
	if err := c.Repo.check(c.Dir); err != nil {
		return err
	}
	for i, a := range c.Answers {
		if err := a.check(); err != nil {
			return fmt.Errorf("answers[%d]%w", i, err)
		}
	}
	for i, a := range c.Acts {
		if err := a.check(); err != nil {
			return fmt.Errorf("acts[%d]%w", i, err)
		}
	}
	for i, ch := range c.Checks {
		if err := ch.check(); err != nil {
			return fmt.Errorf("checks[%d]%w", i, err)
		}
	}
	return c.Expect.check()
}

func (r *Repo) check(dir string) error {
	switch {
	case r.Git == "" && r.Commit != "":
		return errors.New("repo.commit: it goes with repo.git")
	case r.Git != "" && r.Commit == "":
		return errors.New("repo.commit: name the commit of repo.git")
	case r.Git != "" && (r.Folder != "" || r.Plain):
		return errors.New("repo: a repository comes from git or from a folder, not from both")
	}
	if r.Git == "" && r.Folder == "" && (r.Files == nil || exists(filepath.Join(dir, "repo"))) {
		r.Folder = "repo"
	}
	for _, files := range []map[string]string{r.Files, r.Dirty} {
		for name := range files {
			if !filepath.IsLocal(name) {
				return fmt.Errorf("repo: the file %q is outside the repository", name)
			}
		}
	}
	return nil
}

func (a Answer) check() error {
	switch {
	case a.Say == "":
		return errors.New(".say: approve, deny, or the words of the answer")
	case !a.Asks.IsZero() && (a.Tool != "" || !a.Shows.IsZero()):
		return errors.New(": it answers an operation (tool, shows) or a question (asks), not both")
	case a.Asks.IsZero() && a.Say != "approve" && a.Say != "deny":
		return fmt.Errorf(".say: an operation is answered by approve or deny, not %q", a.Say)
	}
	return nil
}

func (a Act) check() error {
	switch {
	case a.When.Event == "" && a.When.Rest == nil:
		return errors.New(".when: name an event, or rest with the exit code")
	case a.When.Event != "" && a.When.Rest != nil:
		return errors.New(".when: an event or a rest, not both")
	case a.When.Event != "" && event.CurrentVersion(a.When.Event) == 0:
		return fmt.Errorf(".when.event: there is no event %q", a.When.Event)
	case len(a.Do) == 0:
		return errors.New(".do: nothing to do")
	}
	return nil
}

func (c Check) check() error {
	if strings.TrimSpace(c.Command) == "" {
		return errors.New(".command: name the command to run")
	}
	if c.Before != "" && c.Before != event.Pass && c.Before != event.Fail {
		return fmt.Errorf(".before: pass or fail, not %q", c.Before)
	}
	return nil
}

func (e Expect) check() error {
	for i, n := range e.Events {
		if event.CurrentVersion(n.Event) == 0 {
			return fmt.Errorf("expect.events[%d].event: there is no event %q", i, n.Event)
		}
	}
	if e.Class != "" && Classes[e.Class] == "" {
		return fmt.Errorf("expect.class: there is no class %q (docs/evals.md lists them)", e.Class)
	}
	if e.Git != "" && e.Git != "any" {
		return fmt.Errorf("expect.git: any, or nothing; not %q", e.Git)
	}
	if e.Exit == nil && e.Status == "" && len(e.Files) == 0 && len(e.Events) == 0 {
		return errors.New("expect: say at least the exit code, the status, a file or an event; a case that expects nothing shows nothing")
	}
	return nil
}

// Find lists the cases at paths: a case's folder, its case.yaml, or a folder
// with cases at any depth. Broken cases come back as errors beside the good
// ones, in order, so that one does not hide the others.
func Find(paths []string) ([]Case, []Broken, error) {
	var cases []Case
	var broken []Broken
	seen := map[string]bool{}
	take := func(dir, name string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		c, err := Load(dir, name)
		if err != nil {
			broken = append(broken, Broken{Name: name, Err: err})
			return
		}
		cases = append(cases, c)
	}
	for _, p := range paths {
		dir, err := filepath.Abs(p)
		if err != nil {
			return nil, nil, err
		}
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("no case there: %w", err)
		case !info.IsDir():
			take(filepath.Dir(dir), filepath.Base(filepath.Dir(dir)))
			continue
		case exists(filepath.Join(dir, CaseFile)):
			take(dir, filepath.Base(dir))
			continue
		}
		found, err := foldersWithCases(dir)
		if err != nil {
			return nil, nil, err
		}
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("no case in %s: a case is a folder with %s", p, CaseFile)
		}
		for _, name := range found {
			take(filepath.Join(dir, name), filepath.ToSlash(name))
		}
	}
	return cases, broken, nil
}

// Broken is a case that cannot be read.
type Broken struct {
	Name string
	Err  error
}

// foldersWithCases lists them below dir; what is inside a case is not searched.
func foldersWithCases(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if exists(filepath.Join(path, CaseFile)) {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			found = append(found, rel)
			return fs.SkipDir
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
