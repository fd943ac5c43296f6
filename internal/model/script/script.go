package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// Provider is the name of this adapter in Info and in the parts it makes.
const Provider = "script"

// Model plays a script.
type Model struct {
	script *Script
	name   string

	mu       sync.Mutex
	attempts map[string]int // only for requests that tell no attempt
}

var (
	_ model.Model  = (*Model)(nil)
	_ model.Bodier = (*Model)(nil)
)

// New makes a model that plays s under a name, which is usually the file's.
func New(s *Script, name string) *Model {
	if name == "" {
		name = filepath.Base(s.Source)
	}
	return &Model{script: s, name: name, attempts: map[string]int{}}
}

// Info is what the file says.
func (m *Model) Info() model.Info {
	f := m.script.file
	return model.Info{Provider: Provider, Name: m.name, Window: f.Window, MaxOutput: f.MaxOutput,
		Price: f.Price.port(m.script.Source), CountError: wire.EstimateError}
}

// Count estimates as the real adapters do.
func (m *Model) Count(_ context.Context, r model.Request) (int64, error) {
	return wire.Estimate(r), nil
}

// Body returns the canonical text of a request, so that the measuring of the
// stable prefix works as with a real wire.
func (m *Model) Body(r model.Request) ([]byte, int, error) {
	if _, err := wire.Turns(r.Messages, Provider); err != nil {
		return nil, 0, err
	}
	v := look(r)
	return []byte(v.all), v.stable, nil
}

// marker is the opaque part that tells which step a response was.
type marker struct {
	// Next is the place in the order that comes next; a when step repeats the
	// place that was due before it.
	Next int `json:"next"`
}

// Send plays the step that the request is due.
func (m *Model) Send(ctx context.Context, r model.Request, onDelta func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, cancelled(err)
	}
	// A history that a real provider would refuse is refused here too.
	if _, err := wire.Turns(r.Messages, Provider); err != nil {
		return model.Response{}, err
	}
	v := look(r)
	st, next := m.script.due(v)
	if err := m.wait(ctx, st); err != nil {
		return model.Response{}, err
	}
	if st.Expect != nil {
		if missing := st.Expect.unmet(v); len(missing) > 0 {
			return model.Response{}, m.script.bad(st, "the request is not what the script expects: "+strings.Join(missing, "; "), v)
		}
	}
	resp, err := m.script.reply(st, next, v, r)
	if err != nil {
		return model.Response{}, err
	}
	attempt := m.attempt(r, v)
	if f := st.Fail; f != nil && (f.Times < 0 || attempt <= max(f.Times, 1)) {
		return model.Response{}, f.fault()
	}
	if onDelta == nil {
		onDelta = func(model.Delta) {}
	}
	if st.Cut && attempt <= 1 {
		onDelta(model.Delta{Text: resp.text()[:len(resp.text())/2]})
		return model.Response{Usage: resp.Usage, UsageKnown: true},
			fault.New(fault.StreamCut, fault.Provider, "script: the stream ended before the response did", "ask again").Retry()
	}
	resp.deltas(onDelta)
	return resp.Response, nil
}

// attempt is the number of this try of this request, from 1.
func (m *Model) attempt(r model.Request, v view) int {
	if r.Attempt > 0 {
		return r.Attempt
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts[v.all[:v.stable]]++
	return m.attempts[v.all[:v.stable]]
}

func (m *Model) wait(ctx context.Context, st *step) error {
	if st.DelayMS > 0 {
		t := time.NewTimer(time.Duration(st.DelayMS) * time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return cancelled(ctx.Err())
		}
	}
	if st.Block == "" {
		return nil
	}
	// The file system tells of a new file only through platform interfaces
	// that are not worth it for a test aid.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(st.Block); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.BadRequest, fault.User, fmt.Sprintf("script: block_until_file: %v", err), "correct the path in the script")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cancelled(ctx.Err())
		}
	}
}

func cancelled(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", fault.New(fault.Timeout, fault.Runtime, "script: the time for this request is over", "ask again with more time").Retry(), err)
	}
	return fmt.Errorf("%w: %w", fault.New(fault.Cancelled, fault.User, "script: the request was cancelled", ""), err)
}

func (f *failure) fault() *fault.Fault {
	if f.Kind == "" {
		out := wire.Target{Provider: Provider, KeyVar: "the key", BaseVar: "the base URL"}.
			Classify(wire.Failure{Status: f.Status, Message: f.text()})
		out.RetryAfterMS = max(out.RetryAfterMS, f.RetryAfterMS)
		return out
	}
	k := kinds[f.Kind]
	out := fault.New(k.kind, k.blame, "script: "+f.text(), "the script injected this fault")
	out.Retryable, out.RetryAfterMS = k.retry, f.RetryAfterMS
	return out
}

func (f *failure) text() string {
	if f.Message == "" {
		return "an injected fault"
	}
	return f.Message
}

// due finds the step for a request, and the place in the order that follows.
func (s *Script) due(v view) (*step, int) {
	at := v.next
	if at < 0 {
		at = v.replies
	}
	for _, st := range s.any {
		if len(st.When.unmet(v)) == 0 {
			return st, at
		}
	}
	if at >= len(s.order) {
		return s.then, at
	}
	return s.order[at], at + 1
}

// unmet lists the conditions that do not hold, in words.
func (c *condition) unmet(v view) []string {
	var out []string
	check := func(list []string, where, text string, want bool) {
		for _, p := range list {
			plain, re, err := pattern(p)
			has := err == nil && (re != nil && re.MatchString(text) || re == nil && strings.Contains(text, plain))
			switch {
			case want && !has:
				out = append(out, fmt.Sprintf("%s does not contain %q", where, p))
			case !want && has:
				out = append(out, fmt.Sprintf("%s contains %q", where, p))
			}
		}
	}
	check(c.Contains, "the request", v.all, true)
	check(c.NotContains, "the request", v.all, false)
	check(c.LastResult, "the last result", v.lastResult, true)
	check(c.LastUser, "the last user message", v.lastUser, true)
	for _, name := range c.ToolNames {
		if !v.tools[name] {
			out = append(out, fmt.Sprintf("the tool %q is not offered", name))
		}
	}
	return out
}

func (s *Script) bad(st *step, message string, v view) error {
	const show = 600
	last := v.lastResult
	if len(last) > show {
		last = strings.ToValidUTF8(last[:show], "") + "…"
	}
	if last != "" {
		message += fmt.Sprintf("; the last result was: %s", last)
	}
	return fault.New(fault.BadRequest, fault.User, fmt.Sprintf("%s, %s: %s", s.Source, st.label(), message),
		"correct the script, or what made the run differ from it")
}

// played is a response together with what a live view is shown of it.
type played struct{ model.Response }

func (p played) text() string {
	for _, part := range p.Parts {
		if part.Kind == event.PartText {
			return part.Text
		}
	}
	return ""
}

func (p played) deltas(onDelta func(model.Delta)) {
	for _, part := range p.Parts {
		switch part.Kind {
		case event.PartThink:
			onDelta(model.Delta{Thinking: part.Text})
		case event.PartText:
			onDelta(model.Delta{Text: part.Text})
		case event.PartCall:
			onDelta(model.Delta{Tool: part.Tool})
		}
	}
}

var placeholder = regexp.MustCompile(`\$\{/((?:[^/\\]|\\.)*)/\}`)

// reply makes the response of a step.
func (s *Script) reply(st *step, next int, v view, r model.Request) (played, error) {
	var missing []string
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(p string) string {
			expr := placeholder.FindStringSubmatch(p)[1]
			all := regexp.MustCompile(expr).FindAllStringSubmatch(v.all, -1)
			if len(all) == 0 {
				missing = append(missing, fmt.Sprintf("nothing matches %s", p))
				return ""
			}
			last := all[len(all)-1]
			if len(last) > 1 {
				return last[1]
			}
			return last[0]
		})
	}
	data, err := json.Marshal(marker{Next: next})
	if err != nil {
		return played{}, err
	}
	var parts []event.Part
	if st.Thinking != "" {
		parts = append(parts, event.Part{Kind: event.PartThink, Text: fill(st.Thinking), Provider: Provider})
	}
	if st.Text != "" {
		parts = append(parts, event.Part{Kind: event.PartText, Text: fill(st.Text)})
	}
	for i, c := range st.Calls {
		args, err := c.arguments(fill)
		if err != nil {
			return played{}, s.bad(st, err.Error(), v)
		}
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%d_%d_%d", st.number, v.replies+1, i+1)
		}
		parts = append(parts, event.Part{Kind: event.PartCall, CallID: id, Tool: c.Tool, Arguments: args})
	}
	parts = append(parts, event.Part{Kind: event.PartOpaque, Provider: Provider, Data: data})
	if len(missing) > 0 {
		return played{}, s.bad(st, strings.Join(missing, "; "), v)
	}
	resp := model.Response{Model: "script", Parts: parts, StopReason: st.Stop, UsageKnown: true}
	if resp.StopReason == "" {
		resp.StopReason = model.StopEnd
		if len(st.Calls) > 0 {
			resp.StopReason = model.StopToolCalls
		}
	}
	if st.Usage != nil {
		resp.Usage = st.Usage.port()
	} else {
		resp.Usage = event.Usage{Input: wire.Estimate(r), Output: outputTokens(parts)}
	}
	return played{resp}, nil
}

func outputTokens(parts []event.Part) int64 {
	n := int64(1)
	for _, p := range parts {
		n += wire.Tokens(p.Text) + wire.Tokens(p.Tool) + wire.Tokens(p.Arguments)
	}
	return n
}

func (c call) arguments(fill func(string) string) (string, error) {
	if c.Raw != nil {
		return fill(*c.Raw), nil
	}
	if c.Args == nil {
		return "{}", nil
	}
	b, err := json.Marshal(fillAll(c.Args, fill))
	if err != nil {
		return "", fmt.Errorf("the arguments of %s are no JSON: %w", c.Tool, err)
	}
	return string(b), nil
}

func fillAll(v any, fill func(string) string) any {
	switch v := v.(type) {
	case string:
		return fill(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = fillAll(x, fill)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = fillAll(x, fill)
		}
		return out
	}
	return v
}

// view is what a script sees of a request.
type view struct {
	all        string // the whole request as text
	stable     int    // how much of all comes before State
	lastResult string
	lastUser   string
	tools      map[string]bool
	replies    int // assistant messages in the history
	next       int // from the last marker; -1 without one
}

func look(r model.Request) view {
	v := view{tools: map[string]bool{}, next: -1}
	var b strings.Builder
	b.WriteString(r.System)
	for _, t := range r.Tools {
		v.tools[t.Name] = true
		b.WriteString("\n[tool " + t.Name + "] " + t.Description + " " + string(t.Schema))
	}
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			v.lastUser = m.Text
			b.WriteString("\n[user] " + m.Text)
		case model.Assistant:
			v.replies++
			for _, p := range m.Parts {
				v.part(&b, p)
			}
		case model.ToolRole:
			for _, t := range m.Results {
				v.lastResult = t.Text
				b.WriteString("\n[result " + strconv.Quote(t.CallID) + " " + t.Tool + "] " + t.Text)
			}
		}
	}
	v.stable = b.Len()
	if r.State != "" {
		b.WriteString("\n[state] " + r.State)
	}
	v.all = b.String()
	return v
}

func (v *view) part(b *strings.Builder, p event.Part) {
	switch p.Kind {
	case event.PartText:
		b.WriteString("\n[assistant] " + p.Text)
	case event.PartCall:
		b.WriteString("\n[call " + strconv.Quote(p.CallID) + " " + p.Tool + "] " + p.Arguments)
	case event.PartOpaque:
		var m marker
		if p.Provider == Provider && json.Unmarshal(p.Data, &m) == nil {
			v.next = m.Next
		}
	}
}
