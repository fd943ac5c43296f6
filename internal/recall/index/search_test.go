package index

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/moment"
	"belay/internal/recall"
)

// story is a goal in which a test failed, a file was mended, and the test passed.
func story(b *book, goal string) {
	b.repos[goal] = "/repo"
	b.add(goal, "", "", event.GoalReceived{Spec: event.GoalSpec{Text: "repair the parser of config files"}, Repo: "/repo"})
	b.does(goal, "op1", "read_file", "I will look at the parser first.", event.Access{Reads: []string{"internal/config/parse.go"}}, event.Succeeded, "1→package config\n2→func parseHeader() {}")
	b.does(goal, "op2", "run_test", "Now the tests, to see what fails.", event.Access{Command: "go test ./internal/config"}, event.Failed,
		"--- FAIL: TestParseHeader (0.00s)\n    parse_test.go:12: unexpected token ';' in header\nFAIL")
	b.does(goal, "op3", "file_patch", "The semicolon is not skipped.", event.Access{Writes: []string{"internal/config/parse.go"}}, event.Succeeded, "patched internal/config/parse.go")
	b.does(goal, "op4", "run_test", "Again.", event.Access{Command: "go test ./internal/config"}, event.Succeeded, "ok  	internal/config	0.01s")
	b.add(goal, "", "", event.DecisionRecorded{Decision: "semicolons end a header", Reason: "as in 配置文件的格式"})
	b.add(goal, "", "", event.UserMessage{Mode: event.Message, Text: "数据库连接失败，请检查"})
}

func refs(a recall.Answer) []string {
	var out []string
	for _, h := range a.Hits {
		out = append(out, h.Ref)
	}
	return out
}

func TestAFailureComesWithItsActionItsReasonAndWhatMendedIt(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	x := open2(t, Config{Ledger: b})
	a := find(t, x, recall.Query{Text: "unexpected token header", Goal: "g1"}, nil)
	if len(a.Hits) == 0 {
		t.Fatal("nothing was found")
	}
	h := a.Hits[0]
	if h.Op != "op2" || h.Kind != recall.Operation || h.Tool != "run_test" || h.Outcome != "failed" || h.Action != "run_test: go test ./internal/config" {
		t.Errorf("%+v", h)
	}
	if !strings.Contains(h.Text, "parse_test.go:12: unexpected token ';' in header") {
		t.Errorf("the feedback is %q", h.Text)
	}
	if h.Because != "Now the tests, to see what fails." {
		t.Errorf("because %q", h.Because)
	}
	want := []string{"op3 file_patch internal/config/parse.go succeeded", "op4 run_test: go test ./internal/config succeeded"}
	var got []string
	for _, l := range h.Then {
		got = append(got, l.Op+" "+l.Action+" "+l.Outcome)
	}
	if !slices.Equal(got, want) {
		t.Errorf("then %q, want %q", got, want)
	}
	if h.Ref != "event:g1/9" {
		t.Errorf("reference %s", h.Ref)
	}
}

func TestFiltersNarrowByFileToolOutcomeTimeAndKind(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	x := open2(t, Config{Ledger: b})
	ops := func(q recall.Query) string {
		q.Goal = "g1"
		var out []string
		for _, h := range find(t, x, q, nil).Hits {
			out = append(out, h.Op)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	at := func(minute int) moment.Time { return moment.Of(start.Add(time.Duration(minute) * time.Minute)) }
	for _, c := range []struct {
		name string
		q    recall.Query
		want string
	}{
		{"a file", recall.Query{File: "internal/config/parse.go"}, "op1 op3"},
		{"a folder", recall.Query{File: "internal/"}, "op1 op3"},
		{"a bare name", recall.Query{File: "parse.go"}, "op1 op3"},
		{"another file", recall.Query{File: "main.go"}, ""},
		{"a tool", recall.Query{Tool: "run_test"}, "op2 op4"},
		{"a tool with words", recall.Query{Text: "config", Tool: "run_test"}, "op2 op4"},
		{"an outcome", recall.Query{Outcome: "failed"}, "op2"},
		{"an outcome with words of the action", recall.Query{Text: "go test", Outcome: "failed"}, "op2"},
		{"tool and outcome", recall.Query{Tool: "run_test", Outcome: "succeeded"}, "op4"},
		{"since", recall.Query{Text: "config", Since: at(14)}, "op4"},
		{"until", recall.Query{Text: "config", Kinds: []recall.Kind{recall.Operation}, Until: at(4)}, "op1"},
		{"what was said is no operation", recall.Query{Text: "parser", Kinds: []recall.Kind{recall.Operation}}, ""},
		{"nothing such", recall.Query{Text: "kangaroo"}, ""},
	} {
		if got := ops(c.q); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestIdentifiersPathsAndOtherScriptsAreFound(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	x := open2(t, Config{Ledger: b})
	for text, want := range map[string]string{
		"parse_header": "op1", "ParseHeader": "op1", "testparseheader": "op2", "config/parse.go": "op1",
		"连接失败": "数据库", "配置": "decision", "库": "数据库", "请检查": "数据库",
	} {
		a := find(t, x, recall.Query{Text: text, Goal: "g1"}, nil)
		if !slices.ContainsFunc(a.Hits, func(h recall.Hit) bool { return h.Op == want || strings.Contains(h.Action, want) }) {
			t.Errorf("%q: %+v", text, a.Hits)
		}
	}
}

func TestGoalsAreApartUnlessAllAreAsked(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	story(b, "g2")
	b.repos["g2"] = "/other"
	x := open2(t, Config{Ledger: b})
	goals := func(q recall.Query) string {
		q.Text, q.Limit = "semicolons", 50
		seen := map[string]bool{}
		for _, h := range find(t, x, q, nil).Hits {
			seen[h.Goal] = true
		}
		return fmt.Sprint(seen["g1"], seen["g2"])
	}
	if got := goals(recall.Query{Goal: "g1"}); got != "true false" {
		t.Errorf("one goal: %s", got)
	}
	if got := goals(recall.Query{Repo: "/other"}); got != "false true" {
		t.Errorf("one repository: %s", got)
	}
	if got := goals(recall.Query{}); got != "true true" {
		t.Errorf("all: %s", got)
	}
}

func TestEqualFailuresAreFolded(t *testing.T) {
	t.Parallel()
	b := newBook()
	for i := range 20 {
		b.does("g1", fmt.Sprintf("op%d", i+1), "run_test", "", event.Access{Command: "make test"}, event.Failed, "undefined: quux")
	}
	b.does("g1", "op21", "run_test", "", event.Access{Command: "make check"}, event.Failed, "undefined: quux too")
	a := find(t, open2(t, Config{Ledger: b}), recall.Query{Text: "undefined quux", Goal: "g1"}, nil)
	if len(a.Hits) != 2 || a.Hits[0].Alike+a.Hits[1].Alike != 19 {
		t.Errorf("%d hits: %+v", len(a.Hits), a.Hits)
	}
}

func TestWhatOutputKeptApartHoldsIsFound(t *testing.T) {
	t.Parallel()
	b := newBook()
	log := strings.Repeat("compiling\n", 3000) + "warning: zebra crossing ignored\n" + strings.Repeat("linking\n", 3000)
	ref := event.RefOf([]byte(log), "text/plain")
	b.artifacts[ref.SHA256] = log
	b.add("g1", "op1", "", event.OperationProposed{Tool: "run_command", Arguments: []byte(`{"command":"make"}`), Access: event.Access{Command: "make"}})
	b.add("g1", "op1", "", event.OperationFinished{Tool: "run_command", Outcome: event.Succeeded, Result: event.Result{Output: event.Text{Head: "compiling\nlinking", Whole: ref, Cut: true}}})
	a := find(t, open2(t, Config{Ledger: b}), recall.Query{Text: "zebra", Goal: "g1"}, nil)
	if len(a.Hits) != 1 || a.Hits[0].Whole != ref.SHA256 || !strings.Contains(a.Hits[0].Text, "zebra crossing") {
		t.Errorf("%+v", a.Hits)
	}
}

func TestTheIndexFollowsTheLedgerAndReadsNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	x := open2(t, Config{Ledger: b})
	find(t, x, recall.Query{Text: "header", Goal: "g1"}, nil)
	before := b.reads
	find(t, x, recall.Query{Text: "header", Goal: "g1"}, nil)
	if b.reads != before {
		t.Errorf("a search with nothing new read the ledger %d times", b.reads-before)
	}
	b.does("g1", "op9", "run_command", "", event.Access{Command: "echo kangaroo"}, event.Succeeded, "kangaroo")
	if a := find(t, x, recall.Query{Text: "kangaroo", Goal: "g1"}, nil); len(a.Hits) != 1 || a.Hits[0].Op != "op9" {
		t.Errorf("%+v", a.Hits)
	}
	// Deleted at will, and another process comes along.
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(x.Path + f)
	}
	again, other := open2(t, Config{Ledger: b, Path: x.Path}), open2(t, Config{Ledger: b, Path: x.Path})
	for _, x := range []*Index{again, other} {
		if a := find(t, x, recall.Query{Text: "kangaroo", Goal: "g1"}, nil); len(a.Hits) != 1 {
			t.Errorf("%+v", a.Hits)
		}
	}
	b.add("g1", "", "", event.UserMessage{Text: "wombat"})
	for _, x := range []*Index{again, other} {
		if a := find(t, x, recall.Query{Text: "wombat", Goal: "g1"}, nil); len(a.Hits) != 1 {
			t.Errorf("%+v", a.Hits)
		}
	}
}

func TestALedgerThatWasSetBackIsTakenInAnew(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	b.add("g1", "", "", event.UserMessage{Text: "kangaroo"})
	x := open2(t, Config{Ledger: b})
	find(t, x, recall.Query{Text: "kangaroo", Goal: "g1"}, nil)
	b.streams["g1"] = b.streams["g1"][:3]
	b.add("g1", "", "", event.UserMessage{Text: "wombat"})
	if a := find(t, x, recall.Query{Text: "kangaroo", Goal: "g1"}, nil); len(a.Hits) != 0 {
		t.Errorf("what the ledger has not was found: %+v", a.Hits)
	}
	if a := find(t, x, recall.Query{Text: "wombat", Goal: "g1"}, nil); len(a.Hits) != 1 {
		t.Errorf("%+v", a.Hits)
	}
}

func TestADamagedIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	path := filepath.Join(t.TempDir(), FileName)
	for name, garble := range map[string]func() error{
		"no database":   func() error { return os.WriteFile(path, []byte(strings.Repeat("garbage", 5000)), 0o600) },
		"cut off":       func() error { return os.Truncate(path, 9000) },
		"empty":         func() error { return os.Truncate(path, 0) },
		"other version": func() error { return nil },
	} {
		x := open2(t, Config{Ledger: b, Path: path})
		find(t, x, recall.Query{Text: "header", Goal: "g1"}, nil)
		if name == "other version" {
			if _, err := x.db.write.Exec("PRAGMA user_version = 77"); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if err := garble(); err != nil {
			t.Fatal(err)
		}
		y := open2(t, Config{Ledger: b, Path: path})
		if a := find(t, y, recall.Query{Text: "header", Goal: "g1"}, nil); len(a.Hits) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
		if err := y.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADamagedIndexThatAnotherHasOpenIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	x := open2(t, Config{Ledger: b})
	find(t, x, recall.Query{Text: "header", Goal: "g1"}, nil)
	if _, err := x.db.write.Exec("PRAGMA user_version = 77"); err != nil {
		t.Fatal(err)
	}
	_, err := open2(t, Config{Ledger: b, Path: x.Path}).Search(t.Context(), recall.Query{Text: "header", Goal: "g1"}, nil)
	if err == nil || !strings.Contains(err.Error(), "another belay has it open") {
		t.Errorf("%v", err)
	}
}

func TestOnlyFilesThatChangedAreReadAgain(t *testing.T) {
	t.Parallel()
	b := newBook()
	repo := &tree{root: "/repo", files: map[string]string{"a.go": "package a\n\nfunc frobnicate() {}\n", "b.go": "package a\n\nvar wombat = 1\n", "c.bin": "x\x00wombat"}}
	x := open2(t, Config{Ledger: b})
	q := recall.Query{Text: "wombat"}
	if got := refs(find(t, x, q, repo)); !slices.Equal(got, []string{"b.go:3"}) {
		t.Errorf("%q", got)
	}
	repo.read = nil
	find(t, x, q, repo)
	if len(repo.read) != 0 {
		t.Errorf("read again: %q", repo.read)
	}
	repo.files["a.go"], repo.files["d.go"] = "package a\n// a wombat\n", "package wombat\n"
	delete(repo.files, "b.go")
	got := refs(find(t, x, q, repo))
	slices.Sort(got)
	if !slices.Equal(got, []string{"a.go:2", "d.go:1"}) {
		t.Errorf("%q", got)
	}
	slices.Sort(repo.read)
	if !slices.Equal(repo.read, []string{"a.go", "d.go"}) {
		t.Errorf("read %q", repo.read)
	}
}

func TestAFileOfARepositoryIsFoundByNameAndByContent(t *testing.T) {
	t.Parallel()
	repo := &tree{root: "/repo", files: map[string]string{
		"internal/http/client.go": strings.Repeat("// filler\n", 100) + "func (c *Client) RoundTripper() {}\n",
		"README.md":               "# A client of http\n", "vendor/x/client.go": "func RoundTripper() {}\n",
	}}
	x := open2(t, Config{Ledger: newBook()})
	if got := refs(find(t, x, recall.Query{Text: "round_tripper"}, repo)); len(got) == 0 || got[0] != "internal/http/client.go:101" {
		t.Errorf("%q", got)
	}
	if got := refs(find(t, x, recall.Query{Text: "http/client.go"}, repo)); len(got) == 0 || !strings.HasPrefix(got[0], "internal/http/client.go:") {
		t.Errorf("%q", got)
	}
	if got := refs(find(t, x, recall.Query{Text: "RoundTripper", File: "vendor"}, repo)); !slices.Equal(got, []string{"vendor/x/client.go:1"}) {
		t.Errorf("%q", got)
	}
	if got := refs(find(t, x, recall.Query{Text: "RoundTripper", Outcome: "failed"}, repo)); len(got) != 0 {
		t.Errorf("a file has no outcome: %q", got)
	}
}
