package core_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/core/operation"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
	"belay/internal/policy"
	"belay/internal/transcript"
)

// A script drives one goal line by line. After each line stands, indented,
// everything that followed from it: the events in the ledger and the effects
// that are wanted, or the refusal. The files are testdata/scripts/*.txt; lines
// that begin with # are comments.
//
//	go test ./internal/core -run TestScripts -update     rewrites what follows
//
// People: start KEY=VALUE…, say TEXT, steer TEXT, answer TEXT, approve [OP]
// [criterion=ID] [intent=HASH], deny likewise with reason=TEXT, pause, resume,
// cancel, revise KEY=VALUE…, extend KEY=VALUE…, reconcile OP
// succeeded|failed|retry, rollback TARGET from=TREE to=TREE
// [shown=TREE], forget ID…|all [through=SEQ].
//
// Workers, by default the one that claimed last (as W LINE names another): claim W [takeover],
// attached [tests=CMD], observed [TREE], composed [tokens=N] [window=N]
// [price=N], reply CALL; CALL…, reply text TEXT, fail KIND [after=MS]
// [used=N], prepared OP [KEY=VALUE…], ended OP [OUTCOME] [KEY=VALUE…] (a look
// of belay's own: finding=, mixed=, files=, opinion=), never OP, blocked [KIND], release, poke. Shorthands: begin KEY=VALUE… (start,
// claim w1, attached, observed), model CALL; … (composed, reply), do OP …
// (prepared, ended, observed).
//
// The world: tree T (what observations see from now on), tick MS, crash (the
// claimed worker loses its memory), foreign TYPE (an event of a newer belay).
// To look: messages, snapshot, summary, timeline, next.
var update = flag.Bool("update", false, "rewrite the golden files")

func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d scripts (%v)", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got, err := playScript(string(raw))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("%s plays otherwise (go test ./internal/core -run TestScripts -update rewrites it):\n%s", f, firstDifference(string(raw), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, strings.Join(w[min(i, len(w)):min(i+6, len(w))], "\n- "), strings.Join(g[min(i, len(g)):min(i+6, len(g))], "\n+ "))
		}
	}
	return "no difference"
}

// playScript returns the script with its output made anew.
func playScript(text string) (string, error) {
	b := newBench()
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue // the output of the last time
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := b.do(line); err != nil && !errors.As(err, new(refusal)) {
			return "", fmt.Errorf("line %d: %s: %w", i+1, line, err)
		}
		for _, l := range b.out {
			if l == "" {
				continue
			}
			out.WriteString(strings.TrimRight("    "+l, " ") + "\n")
		}
		b.out = nil
	}
	return out.String(), nil
}

// refusal is an error of Step: part of what a script shows.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// hand is a worker of a script: what it remembers.
type hand struct {
	name  string
	fence uint64
	state core.State
	wants []core.Effect
}

// bench is the world of a script: a ledger and workers that do nothing by
// themselves.
type bench struct {
	now    moment.Time
	n      byte
	events []event.Event
	state  core.State // the fold of the ledger
	fence  uint64     // of the goal's row
	tree   string
	hands  map[string]*hand
	last   *hand
	out    []string
}

func newBench() *bench {
	return &bench{now: 1_796_000_000_000_000, tree: "T0", hands: map[string]*hand{}}
}

func (b *bench) say(format string, a ...any) { b.out = append(b.out, fmt.Sprintf(format, a...)) }

func (b *bench) input(by event.Actor, fence uint64, body core.Body) core.Input {
	b.n++
	return core.Input{Now: b.now, Seed: [16]byte{b.n}, By: by, Fence: fence, StoreFence: b.fence, Body: body}
}

// person steps on the ledger as it is, like any process without a ticket.
func (b *bench) person(body core.Body) error {
	r, err := core.Step(b.state, b.input(event.ActorUser, 0, body))
	if err != nil {
		b.say("refused: %v", err)
		return refusal{err}
	}
	return b.append(r.Events)
}

// worker steps on what the worker remembers; when the ledger knows more, it
// reads that and steps again, as the driver does.
func (b *bench) worker(w *hand, body core.Body) error {
	if w == nil {
		return errors.New("nobody has claimed the goal")
	}
	for {
		holder := w.fence >= max(w.state.Fence, b.fence)
		r, err := core.Step(w.state, b.input(event.Worker(w.name), w.fence, body))
		if err != nil {
			b.say("refused: %v", err)
			return refusal{err}
		}
		if w.state.Head != b.state.Head {
			b.say("(%s reads %d events that it does not know, and steps again)", w.name, b.state.Head-w.state.Head)
			w.state = b.state
			continue
		}
		if err := b.append(r.Events); err != nil {
			return err
		}
		w.state = b.state
		if holder {
			w.fence = b.state.Fence
		}
		w.wants = r.Effects
		b.showWants(w)
		return nil
	}
}

// append is the ledger; it holds what the core promises on every append.
func (b *bench) append(es []event.Event) error {
	for _, e := range es {
		if e.Seq != b.state.Head+1 {
			return fmt.Errorf("event %d after %d", e.Seq, b.state.Head)
		}
		b.events = append(b.events, e)
		b.state = core.Apply(b.state, e)
		if b.state.Refuse != "" {
			return fmt.Errorf("an illegal event: %s", b.state.Refuse)
		}
		b.say("%s", eventLine(e))
	}
	b.fence = max(b.fence, b.state.Fence)
	var cached core.State
	if raw, err := json.Marshal(b.state); err != nil {
		return err
	} else if err := json.Unmarshal(raw, &cached); err != nil {
		return err
	}
	if js(core.Fold(cached, nil)) != js(core.Fold(b.state, nil)) {
		return errors.New("the state does not survive its cache")
	}
	return nil
}

// The words of advice, and identities that follow from other words, are held
// elsewhere.
var advice = regexp.MustCompile(`,"(?:suggested_action|signature)":"(?:[^"\\]|\\.)*"`)

var longHex = regexp.MustCompile(`\b[0-9a-f]{16,64}\b`)

func eventLine(e event.Event) string {
	payload := advice.ReplaceAllString(js(e.Payload), "")
	payload = longHex.ReplaceAllStringFunc(payload, func(h string) string { return h[:6] + "…" })
	op := ""
	if e.Op != "" {
		op = " " + e.Op
	}
	return fmt.Sprintf("%3d f%d %-10s %s%s %s", e.Seq, e.Fence, strings.TrimPrefix(string(e.Actor), "worker:"), e.Type, op, payload)
}

func (b *bench) showWants(w *hand) {
	var parts []string
	for _, e := range w.wants {
		parts = append(parts, wantLine(e, b.now))
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	b.say("%s (fence %d) wants %s", w.name, w.fence, strings.Join(parts, ", "))
}

func wantLine(e core.Effect, now moment.Time) string {
	switch e := e.(type) {
	case core.Observe:
		return strings.TrimSpace("observe " + e.After)
	case core.Compose:
		return fmt.Sprintf("compose taking %v", e.Taken)
	case core.Ask:
		return fmt.Sprintf("ask %s (attempt %d, %d tokens of output)", e.Request, e.Attempt, e.MaxOutput)
	case core.Prepare:
		return "prepare " + e.Op.ID
	case core.Run:
		return fmt.Sprintf("run %s.%d", e.Op.ID, e.Attempt)
	case core.Probe:
		return fmt.Sprintf("probe %s.%d", e.Op.ID, e.Attempt)
	case core.Stop:
		return fmt.Sprintf("stop %s.%d (%s)", e.Op.ID, e.Attempt, e.Reason)
	case core.Wake:
		return fmt.Sprintf("wake in %d ms", e.At.SinceMS(now))
	}
	return e.Key()
}

// words splits a line into its words and its KEY=VALUE pairs; double quotes
// keep spaces.
func words(line string) (plain []string, keys map[string]string) {
	keys = map[string]string{}
	var cur strings.Builder
	quoted, any := false, false
	flush := func() {
		if !any {
			return
		}
		w := cur.String()
		if k, v, ok := strings.Cut(w, "="); ok && k != "" && !strings.ContainsAny(k, " \"") {
			keys[k] = v
		} else {
			plain = append(plain, w)
		}
		cur.Reset()
		any = false
	}
	for _, c := range line {
		switch {
		case c == '"':
			quoted, any = !quoted, true
		case c == ' ' && !quoted:
			flush()
		default:
			cur.WriteRune(c)
			any = true
		}
	}
	flush()
	return plain, keys
}

func num(keys map[string]string, name string, def int64) int64 {
	v, ok := keys[name]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is no number", name, v))
	}
	return n
}

func at(plain []string, i int, def string) string {
	if i < len(plain) {
		return plain[i]
	}
	return def
}

// do plays one line.
func (b *bench) do(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	plain, keys := words(rest)
	switch verb {
	case "begin":
		return b.all("start "+rest, "claim w1", "attached "+rest, "observed")
	case "model":
		return b.all("composed", "reply "+rest)
	case "do":
		return b.all("prepared "+rest, "ended "+rest, "observed")
	case "as":
		w := b.hands[at(plain, 0, "")]
		if w == nil {
			return fmt.Errorf("there is no worker %q", at(plain, 0, ""))
		}
		before := b.last
		b.last = w
		_, inner, _ := strings.Cut(rest, " ")
		err := b.do(inner)
		b.last = before
		return err
	case "tree":
		b.tree = at(plain, 0, "")
	case "tick":
		ms, err := strconv.ParseInt(at(plain, 0, ""), 10, 64)
		if err != nil {
			return err
		}
		b.now = b.now.AddMS(ms)
	case "crash":
		delete(b.hands, b.last.name)
		b.last = nil
	case "foreign":
		return b.foreign(at(plain, 0, ""))
	case "messages", "snapshot", "summary", "timeline", "next":
		return b.look(verb)
	default:
		if body, err := b.peopleSay(verb, rest, plain, keys); body != nil || err != nil {
			if err != nil {
				return err
			}
			return b.person(body)
		}
		return b.workersSay(verb, rest, plain, keys)
	}
	return nil
}

func (b *bench) all(lines ...string) error {
	for _, l := range lines {
		if err := b.do(l); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) foreign(typ string) error {
	e := event.Event{Goal: "g", Seq: b.state.Head + 1, ID: "foreign", Type: event.Type(typ), Version: 9, Time: b.now, Actor: "runtime",
		Fence: b.fence, Payload: event.Unknown{Type: event.Type(typ), Version: 9, Raw: []byte(`{"of":"a newer belay"}`)}}
	b.events = append(b.events, e)
	b.state = core.Apply(b.state, e)
	b.say("%s", eventLine(e))
	b.say("refuse: %s", b.state.Refuse)
	return nil
}

func (b *bench) peopleSay(verb, rest string, plain []string, keys map[string]string) (core.Body, error) {
	switch verb {
	case "start":
		s := core.Start{Goal: "g", Spec: b.spec(keys), Settings: settings(keys), Repo: "/w"}
		if c := keys["setup"]; c != "" {
			s.Worktree = &event.Worktree{Of: "/of", Dir: "/w", Setup: strings.Split(c, ";")}
		}
		return s, nil
	case "say":
		return core.Say{Mode: event.Message, Text: rest}, nil
	case "steer":
		return core.Say{Mode: event.Steer, Text: rest}, nil
	case "answer":
		return core.Say{Mode: event.Answer, Text: rest}, nil
	case "approve":
		return core.Approve{Op: at(plain, 0, ""), Criterion: keys["criterion"], Intent: keys["intent"]}, nil
	case "deny":
		return core.Deny{Op: at(plain, 0, ""), Criterion: keys["criterion"], Intent: keys["intent"], Reason: keys["reason"]}, nil
	case "pause":
		return core.Pause{}, nil
	case "resume":
		return core.Resume{}, nil
	case "cancel":
		return core.Cancel{Reason: rest}, nil
	case "revise":
		return core.Revise{Spec: b.spec(keys)}, nil
	case "forget":
		word := event.MemoryForgotten{Repo: "/w", Through: map[string]uint64{"g": uint64(num(keys, "through", 0))}}
		if word.All = at(plain, 0, "") == "all"; !word.All {
			word.Items = plain
		}
		return core.Forget{Word: word}, nil
	case "extend":
		return core.ExtendBudget{Limits: b.limits(keys)}, nil
	case "rollback":
		o := core.Observation{Tree: keys["from"], From: cmp.Or(keys["shown"], b.state.Revision.Tree), Changes: []event.Change{{Path: "a", Status: "modified"}}}
		return core.Rollback{Of: core.RollbackOf{Target: at(plain, 0, ""), From: keys["from"], Tree: keys["to"]}, Observation: o}, nil
	case "reconcile":
		if what := at(plain, 1, ""); what != "retry" {
			return core.Reconcile{Op: at(plain, 0, ""), Outcome: event.Outcome(what), Reason: keys["reason"]}, nil
		}
		return core.Reconcile{Op: at(plain, 0, ""), Retry: true, Reason: keys["reason"]}, nil
	}
	return nil, nil
}

func (b *bench) limits(keys map[string]string) event.Limits {
	l := event.Limits{Amount: event.Amount{Turns: num(keys, "turns", 0), Steps: num(keys, "steps", 0), Tokens: num(keys, "tokens", 0),
		CostMicros: num(keys, "cost", 0), ToolMS: num(keys, "tool_ms", 0)}}
	if ms := num(keys, "deadline", 0); ms > 0 {
		l.Deadline = b.now.AddMS(ms)
	}
	return l
}

func (b *bench) spec(keys map[string]string) event.GoalSpec {
	s := event.GoalSpec{Text: "mend it", Limits: b.limits(keys)}
	if t := keys["text"]; t != "" {
		s.Text = t
	}
	if c := keys["test"]; c != "" {
		s.Acceptance = append(s.Acceptance, event.Criterion{ID: "tests", Kind: event.CriterionTest, Command: c})
	}
	if c := keys["command"]; c != "" {
		s.Acceptance = append(s.Acceptance, event.Criterion{ID: "checked", Kind: event.CriterionCommand, Command: c})
	}
	if q := keys["manual"]; q != "" {
		s.Acceptance = append(s.Acceptance, event.Criterion{ID: "looks", Kind: event.CriterionManual, Text: q})
	}
	if a := keys["scope"]; a != "" {
		s.Acceptance = append(s.Acceptance, event.Criterion{ID: "scope", Kind: event.CriterionScope, Allow: strings.Split(a, ",")})
	}
	for _, c := range strings.Split(keys["also"], ";") {
		if c == "" {
			continue
		}
		var x event.Criterion
		if err := json.Unmarshal([]byte(strings.ReplaceAll(c, "'", "\"")), &x); err != nil {
			panic(err)
		}
		s.Acceptance = append(s.Acceptance, x)
	}
	return s
}

func settings(keys map[string]string) event.Settings {
	s := event.Settings{Model: "script:s", Plan: event.PlanNever, Approve: event.ApproveAsk, SameError: num(keys, "same_error", 0),
		RefusedClaims: num(keys, "refused_claims", 0), StepsPerTurn: num(keys, "steps_per_turn", 0), RetryBaseMS: num(keys, "retry_base", 0),
		RetryCapMS: num(keys, "retry_cap", 0), RetryWindowMS: num(keys, "retry_window", 0), MaxOutput: num(keys, "max_output", 0),
		ParallelReads: num(keys, "parallel", 0), AcceptUnverified: keys["accept_unverified"] != ""}
	if p := keys["plan"]; p != "" {
		s.Plan = event.PlanMode(p)
	}
	if a := keys["approve"]; a != "" {
		s.Approve = event.ApproveMode(a)
	}
	if d := keys["deny_command"]; d != "" {
		s.Rules = []event.Rule{{ID: "no", Decision: string(policy.Deny), Command: d, Reason: "the rule of this script"}}
	}
	return s
}

func (b *bench) workersSay(verb, rest string, plain []string, keys map[string]string) error {
	w := b.last
	switch verb {
	case "claim":
		takeover := at(plain, 1, "") == "takeover"
		if takeover {
			b.fence++
		}
		w = &hand{name: at(plain, 0, ""), fence: b.fence, state: b.state}
		b.hands[w.name], b.last = w, w
		return b.worker(w, core.Claimed{Worker: w.name, Takeover: takeover})
	case "attached":
		a := event.WorkspaceAttached{Root: "/w", Tree: b.tree, Sandbox: "none"}
		if c := keys["tests"]; c != "" {
			a.TestCommands = []string{c}
		}
		a.Instructions.Head = keys["rules"]
		var m event.MemoryRecalled
		for id := range strings.SplitSeq(keys["memory"], ",") {
			if kind := map[byte]event.MemoryKind{'d': event.MemoryDecision, 'c': event.MemoryCommand}[(id + " ")[0]]; kind != "" {
				m.Items = append(m.Items, event.MemoryItem{ID: id, Kind: kind, Text: "what " + id + " says"})
			}
		}
		return b.worker(w, core.Attached{Workspace: a, Memory: m})
	case "observed":
		return b.worker(w, core.Observed{Observation: b.observation(at(plain, 0, b.tree))})
	case "composed":
		head := b.state.Head
		var taken []uint64
		for _, e := range w.wants {
			if c, ok := e.(core.Compose); ok {
				head, taken = c.Head, c.Taken
			}
		}
		p := num(keys, "price", 0)
		return b.worker(w, core.Composed{Head: head, Taken: taken, Tokens: num(keys, "tokens", 1000), Window: num(keys, "window", 0),
			MaxOutput: num(keys, "max_output", 0), InputPrice: p, OutputPrice: p, PriceKnown: p > 0, Bytes: num(keys, "bytes", 4000),
			Cut: uint64(num(keys, "cut", 0))})
	case "reply":
		return b.worker(w, b.reply(rest))
	case "fail":
		return b.worker(w, b.failure(plain, keys))
	case "prepared":
		return b.worker(w, b.prepared(at(plain, 0, ""), keys))
	case "ended":
		return b.worker(w, b.ended(plain, keys))
	case "never":
		o, _ := b.state.Find(at(plain, 0, ""))
		return b.worker(w, core.NeverHappened{Op: o.ID, Attempt: o.Attempt})
	case "blocked":
		return b.worker(w, core.Blocked{Fault: *fault.New(fault.Storage, fault.Environment, "the directory is taken", "").Retry()})
	case "release":
		return b.worker(w, core.Released{})
	case "poke":
		return b.worker(w, core.Poke{})
	}
	return fmt.Errorf("no such line: %s", verb)
}

func (b *bench) observation(tree string) core.Observation {
	o := core.Observation{Tree: tree, From: b.state.Revision.Tree}
	if tree != b.state.Revision.Tree {
		o.Changes = []event.Change{{Path: "a.go", Status: "modified", Added: 1, Deleted: 1}}
	}
	if tree != b.state.BaselineTree() {
		o.Diff, o.DiffChanges = event.Text{Head: "diff to " + tree}, []event.Change{{Path: "a.go", Status: "modified", Added: 1, Deleted: 1}}
	}
	return o
}

func (b *bench) failure(plain []string, keys map[string]string) core.Body {
	kind := fault.Kind(at(plain, 0, ""))
	f := fault.New(kind, fault.Provider, "the provider says "+string(kind), "")
	switch kind {
	case fault.Overloaded, fault.RateLimited, fault.Timeout, fault.StreamCut, fault.Network, fault.ServerError:
		f = f.Retry()
	}
	f.RetryAfterMS = num(keys, "after", 0)
	r := core.ReplyFailed{Fault: *f}
	if b.state.Request != nil {
		r.Request = b.state.Request.ID
	}
	if id := keys["request"]; id != "" {
		r.Request = id
	}
	if n := num(keys, "used", 0); n > 0 {
		r.Used = &event.Amount{Tokens: n}
	}
	return r
}

// reply is a response: calls separated by semicolons, or "text" and words.
func (b *bench) reply(rest string) core.Body {
	r := core.Replied{Response: event.ModelResponded{Usage: event.Usage{Input: 900, Output: 100}, StopReason: "end"}}
	if b.state.Request != nil {
		r.Request = b.state.Request.ID
	}
	for i, call := range strings.Split(rest, ";") {
		call = strings.TrimSpace(call)
		if strings.HasPrefix(call, "request=") {
			r.Request = strings.TrimPrefix(call, "request=")
			continue
		}
		if text, ok := strings.CutPrefix(call, "text "); ok {
			r.Response.Parts = append(r.Response.Parts, event.Part{Kind: event.PartText, Text: text})
			continue
		}
		p := proposal(call)
		p.CallID = fmt.Sprintf("%s.c%d", r.Request, i+1)
		r.Proposals = append(r.Proposals, p)
		r.Response.Parts = append(r.Response.Parts, event.Part{Kind: event.PartCall, CallID: p.CallID, Tool: p.Tool, Arguments: string(p.Args)})
	}
	return r
}

// proposal reads one call of a script.
func proposal(call string) core.Proposal {
	verb, rest, _ := strings.Cut(call, " ")
	plain, keys := words(rest)
	arg := func(kv ...any) json.RawMessage {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			if kv[i+1] != "" {
				m[kv[i].(string)] = kv[i+1]
			}
		}
		return json.RawMessage(js(m))
	}
	switch verb {
	case "read":
		return core.Proposal{Tool: "read_file", Effect: event.Read, Args: arg("path", plain[0]), Access: event.Access{Reads: plain[:1]}}
	case "write":
		return core.Proposal{Tool: "write_file", Effect: event.Verifiable, Args: arg("path", plain[0], "content", plain[1], "description", keys["description"]),
			Access: event.Access{Writes: plain[:1]}}
	case "test":
		return core.Proposal{Tool: "run_test", Effect: event.Supervised, Args: arg("command", "make check"), Access: event.Access{Command: "make check", Test: true}}
	case "run":
		cmd := strings.Join(plain, " ")
		return core.Proposal{Tool: "run_command", Effect: event.Supervised, Args: arg("command", cmd, "description", keys["description"], "timeout_s", keys["timeout_s"]),
			Access: event.Access{Command: cmd}}
	case "opaque":
		return core.Proposal{Tool: "mystery", Effect: event.Opaque, Args: arg("to", plain[0]), Access: event.Access{Remote: plain[0]}}
	case "push":
		return core.Proposal{Tool: "git_push", Effect: event.Keyed, Args: arg("branch", plain[0]), Access: event.Access{Remote: plain[0]}}
	case "plan":
		return core.Proposal{Tool: core.ToolUpdatePlan, Effect: event.Control, Args: arg("steps", []string{"look", "mend"}, "scope", plain, "criteria", criteria(keys["criteria"]))}
	case "todos":
		return core.Proposal{Tool: core.ToolUpdateTodos, Effect: event.Control, Args: json.RawMessage(rest)}
	case "decide":
		return core.Proposal{Tool: core.ToolRecordDecision, Effect: event.Control, Args: arg("decision", rest)}
	case "revoke":
		return core.Proposal{Tool: core.ToolRecordDecision, Effect: event.Control, Args: arg("revokes", at(plain, 0, ""), "reason", strings.Join(plain[1:], " "))}
	case "ask":
		return core.Proposal{Tool: core.ToolAskUser, Effect: event.Control, Args: arg("question", rest)}
	case "finish":
		return core.Proposal{Tool: core.ToolFinish, Effect: event.Control, Args: arg("summary", rest)}
	}
	return core.Proposal{Tool: verb, Effect: event.Control, Args: json.RawMessage(`{}`), Fault: fault.New(fault.UnknownTool, fault.Model, "no such tool: "+verb, "")}
}

// criteria are those of a plan, as JSON in single quotes.
func criteria(text string) any {
	if text == "" {
		return ""
	}
	return json.RawMessage(strings.ReplaceAll(text, "'", "\""))
}

func (b *bench) prepared(op string, keys map[string]string) core.Body {
	o, _ := b.state.Find(op)
	p := core.Prepared{Op: op, Observation: b.observation(b.tree), Destructive: keys["destructive"] != ""}
	if k := keys["fault"]; k != "" {
		p.Fault = fault.New(fault.Kind(k), fault.Model, "it does not fit the file: "+k, "")
	}
	switch o.Effect {
	case event.Verifiable:
		base := keys["base"]
		if base == "" {
			base = "base"
		}
		p.Files = []event.FilePrint{{Path: o.Access.Writes[0], Base: base, Result: "result"}}
		p.Preview = event.Text{Head: "-" + base + " +result"}
	case event.Supervised:
		p.TimeoutMS = num(keys, "timeout", 60_000)
	case event.Keyed:
		p.Key = op
	case event.Opaque:
		p.Review = core.Counted{Tokens: num(keys, "tokens", 1000)}
	}
	return p
}

func (b *bench) ended(plain []string, keys map[string]string) core.Body {
	op := at(plain, 0, "")
	o, _ := b.state.Find(op)
	e := core.Ended{Op: op, Attempt: int(num(keys, "attempt", int64(o.Attempt))), Outcome: event.Outcome(at(plain, 1, string(event.Succeeded))), Recovered: keys["recovered"]}
	if o.Effect == event.Read && o.Phase == operation.Proposed {
		e.Attempt = o.Attempt + 1
	}
	if t := keys["restores"]; t != "" {
		e.After = &core.Observation{Tree: t, From: b.state.Revision.Tree, Changes: []event.Change{{Path: "a", Status: "modified"}}}
	}
	e.Result.Output = event.Text{Head: cmp.Or(keys["says"], "output of "+op)}
	if file, hash, ok := strings.Cut(keys["rules"], ":"); ok {
		e.Instructions = []event.InstructionsFound{{Path: file, Hash: hash, Text: event.Text{Head: strings.Repeat("rules of "+hash+" ", int(num(keys, "of", 1)))}}}
		if hash == "" {
			e.Instructions[0].Text.Head = ""
		}
	}
	if keys["exit"] != "" || keys["signal"] != "" || keys["timed_out"] != "" || o.Effect == event.Supervised && e.Outcome != event.OutcomeUnknown {
		e.Result.Command = &event.CommandResult{ExitCode: int(num(keys, "exit", 0)), Signal: keys["signal"], DurationMS: num(keys, "ms", 10), TimedOut: keys["timed_out"] != ""}
		if e.Result.Command.ExitCode != 0 || keys["signal"] != "" {
			e.Outcome = event.Failed
		}
	}
	if keys["passed"] != "" || keys["failed"] != "" || o.Access.Test && e.Result.Command != nil {
		e.Result.Test = &event.TestCounts{Runner: "go", Passed: num(keys, "passed", 0), Failed: num(keys, "failed", 0)}
	}
	if o.Effect == event.Read && o.Criterion != "" || keys["opinion"] != "" {
		e.Result.Check, e.Result.Command = looked(o, b.state.BaselineTree(), keys), nil
	}
	if n := num(keys, "used", 0); n > 0 {
		e.Result.Used = &event.Amount{Steps: 1, Tokens: n}
	}
	if n := keys["failing"]; n != "" {
		e.Result.Test.Failing = strings.Split(n, ",")
	}
	if e.Outcome != event.Succeeded {
		kind := fault.ExitStatus
		if keys["kind"] != "" {
			kind = fault.Kind(keys["kind"])
		}
		e.Result.Fault = fault.New(kind, fault.Model, "it ended: "+string(e.Outcome), "")
	}
	return e
}

// looked is what a look of belay's own found: finding=WORDS, mixed=TREE,
// files=N tests that stood before, opinion=WORD.
func looked(o operation.Op, baseline string, keys map[string]string) *event.CheckResult {
	of, err := core.CheckArgs(o)
	if err != nil {
		panic(err)
	}
	r := &event.CheckResult{Tree: of.Tree, Baseline: baseline, Mixed: keys["mixed"], Tests: int(num(keys, "files", 1)),
		Opinion: keys["opinion"], Reason: keys["reason"]}
	if r.Mixed == "" {
		r.Mixed = of.Tree
	}
	if f := keys["finding"]; f != "" {
		r.Findings = []string{f}
	}
	return r
}

// look shows a projection.
func (b *bench) look(what string) error {
	switch what {
	case "messages":
		var taken []uint64
		if b.last != nil {
			for _, e := range b.last.wants {
				if c, ok := e.(core.Compose); ok {
					taken = c.Taken
				}
			}
		}
		ms := transcript.Rebuild(b.events).Messages(taken)
		for _, m := range ms {
			switch {
			case len(m.Parts) > 0:
				for _, p := range m.Parts {
					b.say("%s: %s%s %s", m.Role, p.Text, p.Tool, p.Arguments)
				}
			case len(m.Results) > 0:
				for _, r := range m.Results {
					first, _, _ := strings.Cut(r.Text, "\n")
					b.say("%s: %s error=%t: %s", m.Role, r.CallID, r.Error, first)
				}
			default:
				first, _, _ := strings.Cut(m.Text, "\n")
				b.say("%s: %.64s", m.Role, first)
			}
		}
		return transcript.Check(ms)
	case "summary":
		b.out = append(b.out, strings.Split(strings.TrimSpace(b.state.Summary()), "\n")...)
	case "timeline":
		for _, e := range core.Timeline(b.events) {
			b.say("%3d %s %s", e.Seq, e.Name, longHex.ReplaceAllString(e.Detail, "…"))
		}
	case "next":
		b.say("%s", js(core.View(b.state, nil).Next))
	case "snapshot":
		var m map[string]json.RawMessage
		v := core.View(b.state, nil)
		if err := json.Unmarshal([]byte(js(v)), &m); err != nil {
			return err
		}
		for _, k := range []string{"timeline", "created", "updated", "text", "repo", "goal", "model", "checkpoints"} {
			delete(m, k)
		}
		var names []string
		for k, raw := range m {
			if s := string(raw); s != "null" && s != `""` && s != "{}" && s != "[]" {
				names = append(names, k)
			}
		}
		sort.Strings(names)
		for _, k := range names {
			b.say("%s: %s", k, longHex.ReplaceAllStringFunc(string(m[k]), func(h string) string { return h[:6] + "…" }))
		}
	}
	return nil
}
