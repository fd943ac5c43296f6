package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/model"
)

func TestTextIsWrittenAsJSONReadsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		var back string
		if err := json.Unmarshal(AppendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if utf8.ValidString(s) && back != s || !utf8.ValidString(back) {
			t.Fatalf("%q came back as %q", s, back)
		}
		rest := rapid.String().Draw(t, "rest")
		if utf8.ValidString(s) && string(AppendText(AppendText(nil, s), rest)) != string(AppendText(nil, s+rest)) {
			t.Fatalf("%q and %q do not extend each other", s, rest)
		}
	})
}

func TestArgumentsGoBackAsAnObjectWhateverTheModelWrote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        `{}`,
		" \n":                     `{}`,
		`{"a": 1}`:                `{"a": 1}`,
		" {\"a\":\n1} ":           "{\"a\":\n1}",
		`{"a":`:                   `{"_raw":"{\"a\":"}`,
		`[1]`:                     `{"_raw":"[1]"}`,
		`"x"`:                     `{"_raw":"\"x\""}`,
		`null`:                    `{"_raw":"null"}`,
		"{\"a\":\"\xff\"}":        `{"_raw":"{\"a\":\"` + "\ufffd" + `\"}"}`,
		`{"a":1} {"b":2}`:         `{"_raw":"{\"a\":1} {\"b\":2}"}`,
		strings.Repeat("[", 20e3): `{"_raw":"` + strings.Repeat("[", 20e3) + `"}`,
	} {
		if got := string(Object(in)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%.40q became %.60s, want %.60s", in, got, want)
		}
	}
}

func call(id string) event.Part {
	return event.Part{Kind: event.PartCall, CallID: id, Tool: "t", Arguments: "{}"}
}

func results(ids ...string) model.Message {
	m := model.Message{Role: model.ToolRole}
	for _, id := range ids {
		m.Results = append(m.Results, model.ToolResult{CallID: id, Text: "of " + id})
	}
	return m
}

// show is a history in one line: u for a text, [ids] for calls with their results.
func show(turns []Turn) string {
	var b strings.Builder
	for _, t := range turns {
		if t.Parts == nil {
			b.WriteString("u(" + strings.Join(t.User, "+") + ") ")
			continue
		}
		b.WriteString("a(")
		for _, p := range t.Parts {
			b.WriteString(p.Text + p.CallID + ",")
		}
		b.WriteString(")")
		for _, r := range t.Results {
			b.WriteString("[" + r.CallID + ":" + r.Text + "]")
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

func TestHistoriesAreBroughtIntoNormalForm(t *testing.T) {
	t.Parallel()
	say := func(s string) model.Message { return model.Message{Role: model.User, Text: s} }
	answer := func(parts ...event.Part) model.Message { return model.Message{Role: model.Assistant, Parts: parts} }
	text := func(s string) event.Part { return event.Part{Kind: event.PartText, Text: s} }
	for name, c := range map[string]struct {
		in   []model.Message
		want string
	}{
		"results in another order":     {[]model.Message{say("x"), answer(call("a"), call("b")), results("b"), results("a")}, "u(x) a(a,b,)[a:of a][b:of b]"},
		"a message between":            {[]model.Message{answer(call("a")), say("wait"), results("a")}, "a(a,)[a:of a] u(wait)"},
		"results after a later answer": {[]model.Message{answer(call("a")), say("wait"), answer(text("ok")), results("a")}, "a(a,)[a:of a] u(wait) a(ok,)"},
		"neighbours are joined":        {[]model.Message{say("x"), say(" "), say("y"), answer(text("1")), answer(text(""), call("a")), results("a"), answer(text("2"))}, "u(x+y) a(1,a,)[a:of a] a(2,)"},
		"an id that comes again":       {[]model.Message{answer(call("a")), results("a"), answer(call("a")), results("a")}, "a(a,)[a:of a] a(a_2,)[a_2:of a]"},
		"ids that only differ in junk": {[]model.Message{answer(call("a.b"), call("a/b"), call("")), results("a/b", "", "a.b")}, "a(a_b,a_b_2,call,)[a_b:of a.b][a_b_2:of a/b][call:of ]"},
		"an answer that says nothing":  {[]model.Message{say("x"), answer(text("\n")), say("y")}, "u(x+y)"},
	} {
		turns, err := Turns(c.in, "p")
		if err != nil || show(turns) != c.want {
			t.Errorf("%s: %s (%v), want %s", name, show(turns), err, c.want)
		}
	}
}

func TestPartsOfAnotherProviderAreLeftOut(t *testing.T) {
	t.Parallel()
	in := []model.Message{{Role: model.Assistant, Parts: []event.Part{
		{Kind: event.PartOpaque, Provider: "other", Data: json.RawMessage(`1`)},
		{Kind: event.PartThink, Text: "hm", Provider: "p", Data: json.RawMessage(`2`)},
		{Kind: event.PartThink, Text: "no data", Provider: "p"},
		{Kind: event.PartOpaque, Provider: "p", Data: json.RawMessage(`{torn`)},
		{Kind: event.PartCall, CallID: "a", Tool: "t", Provider: "other", Data: json.RawMessage(`3`)},
	}}, results("a")}
	turns, err := Turns(in, "p")
	if err != nil {
		t.Fatal(err)
	}
	if p := turns[0].Parts; len(p) != 2 || string(p[0].Data) != "2" || p[1].CallID != "a" || p[1].Data != nil {
		t.Errorf("%+v", turns[0].Parts)
	}
	if in[0].Parts[4].Data == nil {
		t.Error("the caller's history was changed")
	}
}

func TestTheEstimateOfKnownTextsIsNearTheVocabularys(t *testing.T) {
	t.Parallel()
	// The counts are o200k's, as the compat module measures them; there the
	// bound is checked on far more text.
	for text, truth := range map[string]int64{
		"The quick brown fox jumps over the lazy dog.":                           10,
		"func (s *Server) Serve(l net.Listener) error {\n\treturn s.serve(l)\n}": 20,
		"": 0,
	} {
		got := Tokens(text)
		if float64(got) < float64(truth)*(1-EstimateError) || got > truth*3 {
			t.Errorf("%q: %d tokens, the vocabulary says %d", text, got, truth)
		}
	}
}
