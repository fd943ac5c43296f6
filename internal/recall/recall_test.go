package recall_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/moment"
	"belay/internal/recall"
)

func TestTermsOfPathsIdentifiersAndScriptsWithoutSpaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"internal/recall/terms_test.go": "internal recall termstest terms test go",
		"parseHTTPRequest":              "parsehttprequest parse http request",
		"snake_case_name":               "snakecasename snake case name",
		"kebab-case.min.js":             "kebab case min js",
		"sha256Sum":                     "sha256sum sha 256 sum",
		"utf8":                          "utf8 utf 8",
		"__init__":                      "init",
		"ABC":                           "abc",
		"Ünïcode Größe":                 "ünïcode größe",
		"数据库":                           "数据 据库 库",
		"库":                             "库",
		"读取file数据":                      "读取 取 file 数据 据",
		"こんにちは":                         "こん んに にち ちは は",
		"x = a[i]; // --":               "x a i",
		"":                              "",
		"\xff\xfe bad":                  "bad",
	} {
		if got := strings.Join(recall.Terms(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// words are what texts in tests are made of.
func words() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z]{1,6}([A-Z][a-z]{1,5}){0,3}`), rapid.StringMatching(`[a-z]{1,5}(_[a-z0-9]{1,5}){0,3}`),
		rapid.StringMatching(`[a-z]{1,4}(/[a-zA-Z_]{1,6}){0,3}\.(go|py)`), rapid.StringMatching(`[一-龥ぁ-ん]{1,6}`), rapid.StringMatching(`[A-Z]{1,4}[0-9]{0,3}`), rapid.String())
}

// What is searched for as it stands in a text is found in it.
func TestAWordOfATextIsWantedByTermsThatTheTextHas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ws := rapid.SliceOfN(words(), 1, 8).Draw(t, "words")
		text := strings.Join(ws, " ")
		terms := map[string]bool{}
		for _, x := range recall.Terms(text) {
			if x == "" || strings.ContainsAny(x, " \"") || len(x) > 64 {
				t.Fatalf("term %q", x)
			}
			if terms[x] {
				t.Fatalf("%q twice", x)
			}
			terms[x] = true
		}
		for _, w := range recall.Words(text) {
			for i, way := range w.Ways {
				for _, x := range way {
					begun := false
					for have := range terms {
						begun = begun || w.Prefix && strings.HasPrefix(have, x)
					}
					if !terms[x] && !begun {
						t.Fatalf("%q is wanted by %q (way %d), which %q does not have", w.Word, x, i, text)
					}
				}
			}
		}
	})
}

func TestSpellingsOfOneNameAreOneTerm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-z]{2,6}`), 1, 4).Draw(t, "parts")
		camel := parts[0]
		for _, p := range parts[1:] {
			camel += strings.ToUpper(p[:1]) + p[1:]
		}
		snake := strings.Join(parts, "_")
		a, b := recall.Terms(camel), recall.Terms(snake)
		if !slices.Equal(a, b) || !slices.Equal(a, recall.Terms(strings.ToUpper(snake))) {
			t.Fatalf("%q is %q, %q is %q", camel, a, snake, b)
		}
	})
}

func TestFusedRanksAgreeWithTheListsTheyComeFrom(t *testing.T) {
	t.Parallel()
	key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(rapid.SliceOfDistinct(key, rapid.ID[string]), 0, 4).Draw(t, "lists")
		got := recall.Fuse(lists...)
		seen := map[string]bool{}
		for _, k := range got {
			if seen[k] {
				t.Fatalf("%q twice in %q", k, got)
			}
			seen[k] = true
		}
		for _, l := range lists {
			for _, k := range l {
				if !seen[k] {
					t.Fatalf("%q of %q is missing", k, lists)
				}
				delete(seen, k)
				seen[k] = true
			}
		}
		if n := len(seen); n != len(got) {
			t.Fatalf("%q has more than %q", got, lists)
		}
		// Who is before another in every list is before it in the end.
		before := func(a, b string) bool {
			for _, l := range lists {
				i, j := slices.Index(l, a), slices.Index(l, b)
				if i < 0 || j >= 0 && j < i {
					return false
				}
			}
			return len(lists) > 0
		}
		for i, a := range got {
			for _, b := range got[i+1:] {
				if before(b, a) {
					t.Fatalf("%q is before %q in %q, behind it in %q", b, a, lists, got)
				}
			}
		}
		if len(lists) > 0 && !slices.Equal(recall.Fuse(lists[0]), append([]string{}, lists[0]...)) && len(lists[0]) > 0 {
			t.Fatal("one list does not stay as it is")
		}
	})
}

func TestAQueryInWordsTakesFilters(t *testing.T) {
	t.Parallel()
	now := moment.Of(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	q, earlier, err := recall.Parse(`panic: nil map file:internal/x.go tool:run_test outcome:failed since:2h until:2026-11-30T11:30 in:events in:earlier http://x`, now)
	if err != nil || !earlier || q.Text != "panic: nil map http://x" || q.File != "internal/x.go" || q.Tool != "run_test" || q.Outcome != "failed" ||
		q.Since.String() != "2026-11-30T10:00:00.000000Z" || q.Until.String() != "2026-11-30T11:30:00.000000Z" ||
		!slices.Equal(q.Kinds, []recall.Kind{recall.Operation, recall.Said, recall.Fact}) {
		t.Errorf("%+v, %v, %v", q, earlier, err)
	}
	for _, bad := range []string{"outcome:great", "since:yesterday", "in:space"} {
		if _, _, err := recall.Parse("x "+bad, now); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	for text, empty := range map[string]bool{"": true, "  ,;": true, "a": false, "file:x": false, "outcome:failed": false, "in:files": true} {
		if q, _, _ := recall.Parse(text, now); q.Empty() != empty || (q.Check() == nil) == empty {
			t.Errorf("%q: empty %v, check %v", text, q.Empty(), q.Check())
		}
	}
	for text, want := range map[string]string{"90m": "10:30", "1d": "12:00", "2026-11-30": "00:00"} {
		if got, err := recall.When(text, now); err != nil || got.Std().Format("15:04") != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestAReferenceReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		goal, seq := rapid.StringMatching(`[0-9a-f]{1,16}`).Draw(t, "goal"), rapid.Uint64Range(1, 1<<62).Draw(t, "seq")
		if g, s, ok := recall.ParseReference(recall.Reference(goal, seq)); !ok || g != goal || s != seq {
			t.Fatalf("%s/%d: %s/%d, %v", goal, seq, g, s, ok)
		}
	})
	for ref, want := range map[string]bool{"event:7": true, "event:0": false, "event:a/0": false, "event:/3": false, "artifact:7": false, "event:": false, "event:a/b/3": false} {
		if _, _, ok := recall.ParseReference(ref); ok != want {
			t.Errorf("%q: %v", ref, ok)
		}
	}
}

func TestEveryEventTypeIsSearchedOrLeftOutOnPurpose(t *testing.T) {
	t.Parallel()
	silent := map[event.Type]bool{event.TypeModelRequested: true, event.TypeWorkspaceObserved: true, event.TypeTurnStarted: true, event.TypeTurnEnded: true,
		event.TypeVerificationStarted: true, event.TypeWorkspacePacked: true, event.TypeDiffUpdated: true, event.TypeContextCompacted: true,
		event.TypeOperationStarted: true, event.TypeGoalWoken: true, event.TypePolicyChanged: true, event.TypeModelResponded: true}
	for _, typ := range event.Types() {
		raw, _, err := event.Encode(event.Event{Goal: "g", Seq: 1, Type: typ, Version: event.CurrentVersion(typ), Payload: event.Unknown{Type: typ, Raw: json.RawMessage("{}")}})
		if err != nil {
			t.Fatal(err)
		}
		e := event.Decode(raw, "", nil)
		if _, ok := recall.DocumentOf(e); ok == silent[typ] {
			t.Errorf("%s: searched %v", typ, ok)
		}
	}
}

func TestADocumentHoldsWhatAnOperationIsAndCameTo(t *testing.T) {
	t.Parallel()
	d, ok := recall.DocumentOf(event.Event{Type: event.TypeOperationProposed, Op: "op1", Payload: event.OperationProposed{Tool: "file_patch",
		Arguments: json.RawMessage(`{"edits":[{"path":"a/b.go","old_string":"x := 1","new_string":"x := 2"}]}`), Access: event.Access{Writes: []string{"./a/b.go"}}}})
	if !ok || d.Kind != recall.Operation || d.Tool != "file_patch" || !slices.Equal(d.Files, []string{"a/b.go"}) || !strings.Contains(d.Text, "x := 2") || d.Act == "" {
		t.Errorf("%+v", d)
	}
	d, ok = recall.DocumentOf(event.Event{Type: event.TypeOperationFinished, Op: "op1", Payload: event.OperationFinished{Tool: "run_test", Outcome: event.Failed,
		Result: event.Result{Output: event.Text{Head: "boom", Whole: event.Ref{SHA256: "ab"}}, Fault: fault.New(fault.Internal, fault.Tool, "exit code 2", ""),
			Test: &event.TestCounts{Failing: []string{"TestX"}}, Seen: []event.FileSeen{{Path: "c.go"}}}}})
	if !ok || d.Outcome != "failed" || d.Whole != "ab" || !strings.Contains(d.Text, "TestX") || !strings.Contains(d.Text, "exit code 2") || !slices.Equal(d.Files, []string{"c.go"}) {
		t.Errorf("%+v", d)
	}
	if _, ok := recall.DocumentOf(event.Event{Type: event.TypeModelResponded, Payload: event.ModelResponded{Parts: []event.Part{{Kind: event.PartCall, Tool: "x"}}}}); ok {
		t.Error("a response of calls alone is a document")
	}
}

func TestAnEventReadsWithEverythingItHolds(t *testing.T) {
	t.Parallel()
	text, err := recall.Render(event.Event{Goal: "g1", Seq: 7, ID: "i", Type: event.TypeOperationFinished, Op: "op3", Actor: "runtime", Cause: "c",
		Payload: event.OperationFinished{Tool: "run_test", Attempt: 1, Outcome: event.Failed, Result: event.Result{Output: event.Text{Head: "line one\nline two\n"}, Seen: []event.FileSeen{{Path: "a.go", Hash: "h"}}}}})
	want := `event:g1/7 operation_finished 
op_id: op3
actor: runtime
id: i
cause: c
attempt: 1
outcome: failed
result:
  output:
    head: |
      line one
      line two
  seen:
    -
      hash: h
      path: a.go
tool: run_test
`
	if err != nil || text != want {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestASnippetShowsTheBestLinesInOrder(t *testing.T) {
	t.Parallel()
	text := "alpha\nbeta\nerror in parseHeader\ngamma\ndelta\nerror elsewhere\nomega"
	lines, best := recall.Snippet(text, recall.Words("error parse_header"), 4)
	if best != 3 || !slices.Equal(lines, []string{"beta", "error in parseHeader", "gamma", "…", "error elsewhere"}) {
		t.Errorf("%d %q", best, lines)
	}
	if lines, best := recall.Snippet("\n\none\ntwo\nthree", recall.Words("absent"), 2); best != 0 || !slices.Equal(lines, []string{"one", "two"}) {
		t.Errorf("%d %q", best, lines)
	}
}

func TestPlacesAreThePathItsFoldersAndItsName(t *testing.T) {
	t.Parallel()
	if got := recall.Places("./a/b//c.go"); !slices.Equal(got, []string{"a/b/c.go", "c.go", "a/b", "a"}) {
		t.Errorf("%q", got)
	}
	if got := recall.Places("/"); got != nil {
		t.Errorf("%q", got)
	}
}
