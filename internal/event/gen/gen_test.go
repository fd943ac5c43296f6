package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"belay/internal/event"
)

var update = flag.Bool("update", false, "rewrite docs/events.md")

const committed = "../../../docs/events.md"

func generate(t *testing.T) []byte {
	t.Helper()
	page, err := reference("..", "../../fault")
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestTheCommittedReferenceIsCurrent(t *testing.T) {
	page := generate(t)
	if *update {
		if err := os.WriteFile(committed, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(was, page) {
		t.Errorf("docs/events.md is not what the code says: run `make generate` and commit it\n%s", firstDifference(was, page))
	}
}

func firstDifference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "committed: " + x[i] + "\ncode:      " + y[i]
		}
	}
	return "one ends before the other"
}

func TestEveryRegisteredTypeHasItsOwnEntry(t *testing.T) {
	page := string(generate(t))
	for _, typ := range event.Types() {
		if strings.Count(page, "\n### "+string(typ)+"\n") != 1 {
			t.Errorf("%s does not have exactly one entry", typ)
		}
	}
}

func TestEveryLinkOnThePageLeadsSomewhere(t *testing.T) {
	page := string(generate(t))
	heads := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		heads[anchor(m[1])] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(page, -1)
	if len(links) < 50 {
		t.Fatalf("only %d links found: the page is not whole", len(links))
	}
	for _, m := range links {
		if !heads[m[1]] {
			t.Errorf("no heading for #%s", m[1])
		}
	}
}

func TestThePageShowsFieldsUnderTheirJSONNames(t *testing.T) {
	page := string(generate(t))
	for _, row := range []string{
		"| `op_id` | string | *optional*",          // a renamed field of the envelope
		"| `cost_micros` | integer | *optional*",   // a field of an embedded struct
		"| `outcome` | [Outcome](#outcome) |",      // a word type
		"| `succeeded` |",                          // one of its values
		"| `fault` | [fault.Fault](#faultfault) |", // a value of another package
		"| `todos` | list of [Todo](#todo) |",      // a list
		"| `retry_at` | instant | *optional*",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("the page lacks %q", row)
		}
	}
}

func TestAHoleInThePageIsRefused(t *testing.T) {
	version := func(event.Type) int { return 1 }
	fresh := func() *vocabulary {
		v := newVocabulary()
		if err := v.read("..", ""); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, c := range map[string]struct {
		spoil func(*vocabulary, []event.Type) []event.Type
		want  string
	}{
		"a type without a group": {func(_ *vocabulary, ts []event.Type) []event.Type { return append(ts, "novelty") }, "belongs to no group"},
		"a type without a payload": {func(v *vocabulary, ts []event.Type) []event.Type {
			delete(v.typeOf, "TurnEnded")
			return ts
		}, "no payload struct"},
		"a payload without a comment": {func(v *vocabulary, ts []event.Type) []event.Type {
			v.structs["TurnEnded"].doc = ""
			return ts
		}, "no doc comment"},
		"a group entry that the codec does not know": {func(_ *vocabulary, ts []event.Type) []event.Type { return ts[1:] }, "not registered"},
	} {
		v := fresh()
		_, err := v.page(c.spoil(v, event.Types()), version)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", name, err, c.want)
		}
	}
}
