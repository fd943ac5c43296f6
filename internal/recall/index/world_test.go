package index

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/moment"
	"belay/internal/recall"
)

// book is a ledger that only remembers: what recall reads of one.
type book struct {
	ledger.Ledger
	mu        sync.Mutex
	order     []string
	streams   map[string][]event.Event
	repos     map[string]string
	artifacts map[string]string
	reads     int
}

func newBook() *book {
	return &book{streams: map[string][]event.Event{}, repos: map[string]string{}, artifacts: map[string]string{}}
}

func (b *book) Goal(_ context.Context, goal string) (ledger.Row, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	es := b.streams[goal]
	if len(es) == 0 {
		return ledger.Row{}, ledger.ErrNotFound
	}
	return ledger.Row{Goal: goal, Head: uint64(len(es)), Repo: b.repos[goal]}, nil
}

func (b *book) Goals(ctx context.Context, f ledger.Filter) ([]ledger.Row, error) {
	var out []ledger.Row
	for _, g := range b.order {
		if r, err := b.Goal(ctx, g); err == nil && (f.Repo == "" || r.Repo == f.Repo) {
			out = append([]ledger.Row{r}, out...)
		}
	}
	return out, nil
}

func (b *book) Read(_ context.Context, goal string, after uint64, limit int) ([]event.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	es := b.streams[goal]
	es = es[min(after, uint64(len(es))):]
	if limit > 0 {
		es = es[:min(limit, len(es))]
	}
	return append([]event.Event{}, es...), nil
}

func (b *book) OpenArtifact(_ context.Context, sha string) (io.ReadCloser, error) {
	s, ok := b.artifacts[sha]
	if !ok {
		return nil, ledger.ErrNotFound
	}
	return io.NopCloser(strings.NewReader(s)), nil
}

// start is when the first event of every test happened.
var start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// add appends an event a minute after the one before and returns it.
func (b *book) add(goal, op, cause string, p event.Payload) event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.streams[goal]; !ok {
		b.order = append(b.order, goal)
	}
	seq := uint64(len(b.streams[goal]) + 1)
	e := event.Event{Goal: goal, Seq: seq, ID: fmt.Sprintf("%s-%d", goal, seq), Type: p.EventType(), Version: 1, Op: op, Cause: cause,
		Time: moment.Of(start.Add(time.Duration(seq) * time.Minute)), Actor: event.ActorRuntime, Payload: p}
	e.Hash = event.RefOf([]byte(e.ID+fmt.Sprint(p)), "").SHA256
	b.streams[goal] = append(b.streams[goal], e)
	return e
}

// does is an operation with its result.
func (b *book) does(goal, op, tool, say string, a event.Access, outcome event.Outcome, output string) {
	cause := ""
	if say != "" {
		cause = b.add(goal, "", "", event.ModelResponded{Parts: []event.Part{{Kind: event.PartText, Text: say}}}).ID
	}
	args, _ := json.Marshal(map[string]any{"command": a.Command, "paths": append(a.Reads, a.Writes...)})
	b.add(goal, op, cause, event.OperationProposed{Tool: tool, Arguments: args, Access: a})
	b.add(goal, op, "", event.OperationStarted{Attempt: 1})
	r := event.Result{Output: event.Text{Head: output}}
	if outcome != event.Succeeded {
		r.Fault = fault.New(fault.Internal, fault.Tool, "exit code 1", "")
	}
	b.add(goal, op, "", event.OperationFinished{Tool: tool, Attempt: 1, Outcome: outcome, Result: r})
}

func open2(t *testing.T, c Config) *Index {
	t.Helper()
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), FileName)
	}
	x := New(c)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func find(t *testing.T, x *Index, q recall.Query, files recall.Files) recall.Answer {
	t.Helper()
	a, err := x.Search(t.Context(), q, files)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return a
}

// tree is a repository of a test.
type tree struct {
	root  string
	mu    sync.Mutex
	files map[string]string
	read  []string
	// name stands for the content where hashing it would cost more than the test.
	name string
}

func (r *tree) Root() string { return r.root }
func (r *tree) Tree(context.Context) (string, error) {
	if r.name != "" {
		return r.name, nil
	}
	b, _ := json.Marshal(r.files)
	return event.RefOf(b, "").SHA256, nil
}
func (r *tree) List(context.Context, string) ([]recall.FileID, error) {
	var out []recall.FileID
	for p, c := range r.files {
		out = append(out, recall.FileID{Path: p, ID: event.RefOf([]byte(c), "").SHA256})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}
func (r *tree) Read(_ context.Context, _ string, paths []string, limit int64) (map[string][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]byte{}
	for _, p := range paths {
		r.read = append(r.read, p)
		c := []byte(r.files[p])
		out[p] = c[:min(int64(len(c)), limit)]
	}
	return out, nil
}
