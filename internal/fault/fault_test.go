package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"belay/internal/fault"
)

type block struct {
	name     string
	messages []string
}

// corpus reads blocks of messages: "## name", then one message a line.
func corpus(t *testing.T, file string) []block {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, line := range strings.Split(string(raw), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			blocks = append(blocks, block{name: strings.TrimPrefix(line, "## ")})
		case line == "" || strings.HasPrefix(line, "# ") || len(blocks) == 0:
		default:
			b := &blocks[len(blocks)-1]
			b.messages = append(b.messages, strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\x1b`, "\x1b").Replace(line))
		}
	}
	for _, b := range blocks {
		if len(b.messages) < 2 {
			t.Fatalf("%s: block %q compares nothing", file, b.name)
		}
	}
	return blocks
}

func TestTheSameProblemHasOneSignature(t *testing.T) {
	t.Parallel()
	for _, b := range corpus(t, "testdata/same.txt") {
		for _, m := range b.messages[1:] {
			if fault.Signature(m) != fault.Signature(b.messages[0]) {
				t.Errorf("%s:\n\t%q\n\t%q", b.name, fault.Normalise(b.messages[0]), fault.Normalise(m))
			}
		}
	}
}

func TestDifferentProblemsHaveDifferentSignatures(t *testing.T) {
	t.Parallel()
	for _, b := range corpus(t, "testdata/different.txt") {
		seen := map[string]string{}
		for _, m := range b.messages {
			s := fault.Signature(m)
			if other, twice := seen[s]; twice {
				t.Errorf("%s: one signature for\n\t%s\n\t%s\nboth read as %q", b.name, other, m, fault.Normalise(m))
			}
			seen[s] = m
		}
	}
}

// What varies from run to run is put into a message at random; the signature
// is that of the message with nothing put in.
func TestWhatVariesIsNoPartOfASignature(t *testing.T) {
	t.Parallel()
	holes := map[string]*rapid.Generator[string]{
		"{path}":   rapid.StringMatching(`/[a-z]{1,8}(/[a-z0-9_.-]{1,8}){1,4}\.[a-z]{1,3}`),
		"{number}": rapid.StringMatching(`[0-9]{1,10}`),
		"{addr}":   rapid.StringMatching(`0x[0-9a-f]{1,16}`),
		"{hash}":   rapid.StringMatching(`[0-9a-f]{40}`),
		"{id}":     rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`),
		"{time}":   rapid.StringMatching(`20[0-9]{2}-1[0-2]-[0-2][0-9]T[01][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{3})?Z`),
		"{host}":   rapid.StringMatching(`[1-9][0-9]?\.[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2}:[0-9]{2,5}`),
		"{took}":   rapid.StringMatching(`[0-9]{1,4}(\.[0-9]{1,3})?(ms|s|µs)`),
	}
	messages := []string{"open {path}: no such file", "{time} request {id} failed", "got {number} items, want some", "segfault at {addr}",
		"commit {hash} is gone", "dial {host}: refused", "gave up after {took}", "{path}:{number}: bad thing ({took})"}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(messages).Draw(t, "message")
		fill := func(label string) string {
			out := m
			for _, hole := range []string{"{path}", "{number}", "{addr}", "{hash}", "{id}", "{time}", "{host}", "{took}"} {
				if strings.Contains(out, hole) {
					out = strings.ReplaceAll(out, hole, holes[hole].Draw(t, label+hole))
				}
			}
			return out
		}
		a, b := fill("a"), fill("b")
		if fault.Signature(a) != fault.Signature(b) {
			t.Fatalf("%q → %q\n%q → %q", a, fault.Normalise(a), b, fault.Normalise(b))
		}
	})
}

func TestASignatureIsStableUnderItsOwnForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		n := fault.Normalise(text)
		if n != fault.Normalise(text) || strings.TrimSpace(n) != n || strings.ContainsAny(n, "\n\t\r") {
			t.Fatalf("%q → %q", text, n)
		}
		if (fault.Signature(text) == "") != (n == "") {
			t.Fatalf("%q has the signature %q", text, fault.Signature(text))
		}
		if s := fault.Signature(text); s != "" && len(s) != 16 {
			t.Fatalf("the signature %q has not 16 digits", s)
		}
	})
}

func TestALongTextCostsNoMoreThanItsHead(t *testing.T) {
	t.Parallel()
	head := strings.Repeat("every line fails the same way. ", 140)
	if fault.Signature(head+strings.Repeat("x", 1<<20)) != fault.Signature(head+strings.Repeat("y", 1<<20)) {
		t.Error("what stands far behind takes part")
	}
	// The cut must not fall into a rune: the normal form is shown to people.
	if n := fault.Normalise(strings.Repeat("ü", 5000)); !utf8.ValidString(n) {
		t.Error("the normal form is not valid text")
	}
}

func TestAFaultIsAnErrorAndAValue(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.StaleEdit, fault.Model, "the file changed", "read it again")
	if f.Signature != fault.Signature("stale_edit: the file changed") || f.Retryable {
		t.Errorf("%+v", f)
	}
	var err error = fmt.Errorf("tool: %w", f)
	var back *fault.Fault
	if !errors.As(err, &back) || back.Error() != "stale_edit: the file changed (read it again)" {
		t.Errorf("%v", err)
	}
	if r := f.Retry(); !r.Retryable || f.Retryable {
		t.Error("Retry changed the fault it was called on")
	}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var stored fault.Fault
	if err := json.Unmarshal(raw, &stored); err != nil || stored != *f {
		t.Errorf("%+v, %v", stored, err)
	}
}
