package script

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v4"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
)

// Script is a parsed file.
type Script struct {
	// Source names the file in messages.
	Source string
	file   file
	order  []*step // the steps in order, repeated ones repeated
	any    []*step // the steps with when
	then   *step
}

type file struct {
	Name      string    `yaml:"name"`
	Window    int64     `yaml:"window"`
	MaxOutput int64     `yaml:"max_output"`
	Price     *price    `yaml:"price"`
	Steps     []*step   `yaml:"steps"`
	Then      yaml.Node `yaml:"then"`
}

// price is in US dollars per million tokens.
type price struct {
	Input       float64 `yaml:"input"`
	CachedInput float64 `yaml:"cached_input"`
	CacheWrite  float64 `yaml:"cache_write"`
	Output      float64 `yaml:"output"`
}

type step struct {
	Name     string     `yaml:"name"`
	Expect   *condition `yaml:"expect"`
	When     *condition `yaml:"when"`
	Fail     *failure   `yaml:"fail"`
	Cut      bool       `yaml:"cut"`
	DelayMS  int64      `yaml:"delay_ms"`
	Block    string     `yaml:"block_until_file"`
	Thinking string     `yaml:"thinking"`
	Text     string     `yaml:"text"`
	Calls    []call     `yaml:"calls"`
	Stop     string     `yaml:"stop"`
	Usage    *usage     `yaml:"usage"`
	Repeat   int        `yaml:"repeat"`

	number int // place in the file, from 1; 0 is then
}

type condition struct {
	Contains    []string `yaml:"contains"`
	NotContains []string `yaml:"not_contains"`
	LastResult  []string `yaml:"last_result_contains"`
	LastUser    []string `yaml:"last_user_contains"`
	ToolNames   []string `yaml:"tool_names"`
}

type failure struct {
	Kind         string `yaml:"kind"`
	Status       int    `yaml:"status"`
	Message      string `yaml:"message"`
	RetryAfterMS int64  `yaml:"retry_after_ms"`
	Times        int    `yaml:"times"`
}

type call struct {
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args"`
	Raw  *string        `yaml:"raw"`
	ID   string         `yaml:"id"`
}

type usage struct {
	Input       int64 `yaml:"input"`
	CachedInput int64 `yaml:"cached_input"`
	CacheWrite  int64 `yaml:"cache_write"`
	Output      int64 `yaml:"output"`
	Reasoning   int64 `yaml:"reasoning"`
}

// Load reads a script file.
func Load(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.BadRequest, fault.User, fmt.Sprintf("the script cannot be read: %v", err), "name an existing file with --model script:FILE")
	}
	return parse(b, path)
}

// Parse reads a script from bytes, for scripts that are built in.
func Parse(b []byte) (*Script, error) { return parse(b, "script") }

func parse(b []byte, source string) (*Script, error) {
	s := &Script{Source: source}
	bad := func(err error) error {
		return fault.New(fault.BadRequest, fault.User, fmt.Sprintf("%s is no valid script: %v", source, err), "correct the file; its keys are those that the documentation of scripts lists")
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&s.file); err != nil && !errors.Is(err, io.EOF) {
		return nil, bad(err)
	}
	for i, st := range s.file.Steps {
		if st == nil {
			return nil, bad(fmt.Errorf("step %d is empty", i+1))
		}
		st.number = i + 1
		if err := st.check(); err != nil {
			return nil, bad(err)
		}
		if st.When != nil {
			s.any = append(s.any, st)
			continue
		}
		for range max(st.Repeat, 1) {
			s.order = append(s.order, st)
		}
	}
	if len(s.file.Steps) == 0 {
		return nil, bad(errors.New("it has no steps"))
	}
	if err := s.readThen(); err != nil {
		return nil, bad(err)
	}
	return s, nil
}

// readThen accepts a text or a step.
func (s *Script) readThen() error {
	s.then = &step{Text: "The script has ended: it has no step for this request."}
	switch n := &s.file.Then; n.Kind {
	case 0:
	case yaml.ScalarNode:
		s.then.Text = n.Value
	default:
		b, err := yaml.Marshal(n)
		if err != nil {
			return err
		}
		s.then = &step{}
		dec := yaml.NewDecoder(bytes.NewReader(b))
		dec.KnownFields(true)
		if err := dec.Decode(s.then); err != nil {
			return fmt.Errorf("line %d: then: %w", n.Line, err)
		}
		if s.then.When != nil {
			return fmt.Errorf("line %d: then cannot have when", n.Line)
		}
		return s.then.check()
	}
	return nil
}

// kinds are the faults that a script can inject.
var kinds = map[string]struct {
	kind  fault.Kind
	blame fault.Blame
	retry bool
}{
	"overloaded":       {fault.Overloaded, fault.Provider, true},
	"rate_limited":     {fault.RateLimited, fault.Provider, true},
	"timeout":          {fault.Timeout, fault.Provider, true},
	"stream_cut":       {fault.StreamCut, fault.Provider, true},
	"network":          {fault.Network, fault.Environment, true},
	"server_error":     {fault.ServerError, fault.Provider, true},
	"malformed_reply":  {fault.MalformedReply, fault.Provider, true},
	"context_overflow": {fault.ContextOverflow, fault.Runtime, false},
	"bad_credentials":  {fault.BadCredentials, fault.User, false},
	"bad_request":      {fault.BadRequest, fault.Runtime, false},
	"refused":          {fault.Refused, fault.Model, false},
	"unknown_model":    {fault.UnknownModel, fault.User, false},
}

// label names a step in messages.
func (st *step) label() string {
	switch {
	case st.number == 0:
		return "then"
	case st.Name != "":
		return fmt.Sprintf("step %d (%s)", st.number, st.Name)
	}
	return fmt.Sprintf("step %d", st.number)
}

func (st *step) check() error {
	if st.Repeat < 0 || st.DelayMS < 0 {
		return fmt.Errorf("%s: repeat and delay_ms cannot be negative", st.label())
	}
	for i, c := range st.Calls {
		if c.Tool == "" {
			return fmt.Errorf("%s: call %d names no tool", st.label(), i+1)
		}
		if c.Raw != nil && c.Args != nil {
			return fmt.Errorf("%s: call %d has both args and raw", st.label(), i+1)
		}
	}
	if f := st.Fail; f != nil {
		if f.Kind == "" && f.Status == 0 {
			return fmt.Errorf("%s: fail needs a kind or a status", st.label())
		}
		if _, ok := kinds[f.Kind]; f.Kind != "" && !ok {
			names := make([]string, 0, len(kinds))
			for k := range kinds {
				names = append(names, k)
			}
			sort.Strings(names)
			return fmt.Errorf("%s: fail has the unknown kind %q; there are %s", st.label(), f.Kind, strings.Join(names, ", "))
		}
	}
	for _, c := range []*condition{st.Expect, st.When} {
		if c == nil {
			continue
		}
		for _, list := range [][]string{c.Contains, c.NotContains, c.LastResult, c.LastUser} {
			for _, text := range list {
				if _, _, err := pattern(text); err != nil {
					return fmt.Errorf("%s: %w", st.label(), err)
				}
			}
		}
	}
	return st.checkTemplates()
}

func (st *step) checkTemplates() error {
	texts := []string{st.Text, st.Thinking}
	for _, c := range st.Calls {
		if c.Raw != nil {
			texts = append(texts, *c.Raw)
		}
		collectStrings(c.Args, &texts)
	}
	for _, text := range texts {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			if _, err := regexp.Compile(m[1]); err != nil {
				return fmt.Errorf("%s: in %s: %w", st.label(), m[0], err)
			}
		}
	}
	return nil
}

func collectStrings(v any, into *[]string) {
	switch v := v.(type) {
	case string:
		*into = append(*into, v)
	case map[string]any:
		for _, x := range v {
			collectStrings(x, into)
		}
	case []any:
		for _, x := range v {
			collectStrings(x, into)
		}
	}
}

// pattern reads a condition: a text, or a regular expression between slashes.
func pattern(text string) (string, *regexp.Regexp, error) {
	if len(text) < 3 || text[0] != '/' || text[len(text)-1] != '/' {
		return text, nil, nil
	}
	re, err := regexp.Compile(text[1 : len(text)-1])
	if err != nil {
		return "", nil, fmt.Errorf("condition %s: %w", text, err)
	}
	return "", re, nil
}

func (p *price) port(source string) *model.Price {
	if p == nil {
		return nil
	}
	micros := func(usd float64) int64 { return int64(usd*1e6 + 0.5) }
	return &model.Price{Input: micros(p.Input), CachedInput: micros(p.CachedInput), CacheWrite: micros(p.CacheWrite),
		Output: micros(p.Output), Source: source}
}

func (u *usage) port() event.Usage {
	return event.Usage{Input: u.Input, CachedInput: u.CachedInput, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning}
}
