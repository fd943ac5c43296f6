package builtin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
	"belay/internal/recall"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
)

// found is a Recall that has the same answer for everything.
type found struct {
	answer  recall.Answer
	q       recall.Query
	earlier bool
}

func (f *found) Search(_ context.Context, q recall.Query, earlier bool) (recall.Answer, error) {
	f.q, f.earlier = q, earlier
	return f.answer, nil
}

func (f *found) Event(_ context.Context, ref string) (string, error) {
	if ref != "event:7" {
		return "", fault.New(fault.NotFound, fault.Model, "there is no "+ref+" to see", "")
	}
	return "event:g/7 user_message\ntext: |\n  one\n  two\n", nil
}

func use(t *testing.T, env tool.Env, name, args string) (event.Outcome, string) {
	t.Helper()
	tl, err := builtin.New(builtin.Config{}).Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := tl.Describe(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	o, r, err := tl.(tool.Runner).Run(t.Context(), env, tool.Call{Goal: "g", Op: "op9", Attempt: 1, Args: n})
	if err != nil {
		t.Fatal(err)
	}
	return o, r.Output.Head
}

func TestRecallShowsPairsWithReferencesThatCanBeRead(t *testing.T) {
	t.Parallel()
	f := &found{answer: recall.Answer{Notes: []string{"12 events are not indexed yet"}, Hits: []recall.Hit{
		{Kind: recall.Operation, Ref: "event:g/57", Goal: "g", Seq: 57, Op: "op4", Time: moment.Time(1_764_500_000_000_000), Tool: "run_test", Outcome: "failed", Action: "run_test: go test ./...",
			Text: "--- FAIL: TestX\nx_test.go:3: boom", Because: "Let me see.", Whole: strings.Repeat("a", 64), Alike: 2,
			Then: []recall.Link{{Ref: "event:g/63", Op: "op6", Action: "run_test: go test ./...", Outcome: "succeeded"}}},
		{Kind: recall.File, Ref: "a.go:3", Path: "a.go", Line: 3, Action: "a.go", Text: "func x() {}"},
		{Kind: recall.File, Ref: "secret.go:1", Path: "secret.go", Line: 1, Action: "secret.go", Text: "hush"},
		{Kind: recall.Said, Ref: "event:other/3", Goal: "other", Seq: 3, Action: "the user: hello"},
	}}}
	o, text := use(t, tool.Env{Recall: f, Unreadable: hides("secret.go")}, "recall", `{"query":"boom outcome:failed in:earlier"}`)
	want := `1. op4 run_test: go test ./... → failed (event:57, 11-30 10:53, whole output artifact:` + strings.Repeat("a", 64) + `, and 2 alike)
   because: Let me see.
   │ --- FAIL: TestX
   │ x_test.go:3: boom
   then: op6 run_test: go test ./... → succeeded (event:63)
2. a.go (a.go:3)
   │ func x() {}
3. the user: hello (event:other/3)
[12 events are not indexed yet]
`
	if o != event.Succeeded || text != want {
		t.Errorf("%s\n%s", o, text)
	}
	if f.q.Text != "boom" || f.q.Outcome != "failed" || !f.earlier {
		t.Errorf("%+v %v", f.q, f.earlier)
	}
}

func TestRecallStaysWithinItsCap(t *testing.T) {
	t.Parallel()
	f := &found{}
	for range 100 {
		f.answer.Hits = append(f.answer.Hits, recall.Hit{Kind: recall.Said, Ref: "event:g/1", Action: strings.Repeat("word ", 60)})
	}
	if _, text := use(t, tool.Env{Recall: f}, "recall", `{"query":"word"}`); len(text) > 8400 || !strings.Contains(text, "more hits; narrow the query") {
		t.Errorf("%d bytes: …%s", len(text), text[len(text)-80:])
	}
	if _, text := use(t, tool.Env{Recall: &found{}}, "recall", `{"query":"word"}`); !strings.HasPrefix(text, "Nothing was found") {
		t.Errorf("%q", text)
	}
}

func TestRecallRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	tl, err := builtin.New(builtin.Config{}).Lookup("recall")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{"query":""}`, `{"query":"x outcome:great"}`, `{"query":"x since:whenever"}`, `{}`} {
		if _, _, err := tl.Describe(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if o, text := use(t, tool.Env{}, "recall", `{"query":"x"}`); o != event.Failed || !strings.Contains(text, "cannot search") {
		t.Errorf("%s %s", o, text)
	}
}

func TestReadFileReadsAnEventByItsReference(t *testing.T) {
	t.Parallel()
	env := tool.Env{Recall: &found{}}
	if o, text := use(t, env, "read_file", `{"path":"event:7","offset":2}`); o != event.Succeeded || !strings.Contains(text, "3→  one\n") || !strings.Contains(text, "[lines 2 to 4 of 4]") {
		t.Errorf("%s %q", o, text)
	}
	if o, text := use(t, env, "read_file", `{"path":"event:8"}`); o != event.Failed || !strings.Contains(text, "there is no event:8") {
		t.Errorf("%s %q", o, text)
	}
	// It reads no file, so there is none for a rule to judge.
	tl, err := builtin.New(builtin.Config{}).Lookup("read_file")
	if err != nil {
		t.Fatal(err)
	}
	if _, a, err := tl.Describe(json.RawMessage(`{"path":"event:7"}`)); err != nil || len(a.Reads) != 0 {
		t.Errorf("%+v %v", a, err)
	}
}
