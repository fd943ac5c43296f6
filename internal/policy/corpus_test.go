package policy

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "fill in the reasons of testdata/corpus.txt")

const corpusFile = "testdata/corpus.txt"

var corpusConfig = Config{Root: "/work/repo", TestCommands: []string{"go test ./...", "make check"}}

type example struct {
	line            int
	decision        Decision
	reason, command string
}

// corpus reads the corpus; raw keeps comments and blanks for rewriting.
func corpus(t testing.TB) (examples []example, raw []string) {
	t.Helper()
	b, err := os.ReadFile(corpusFile)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; sc.Scan(); n++ {
		raw = append(raw, sc.Text())
		if sc.Text() == "" || strings.HasPrefix(sc.Text(), "# ") {
			continue
		}
		f := strings.SplitN(sc.Text(), "\t", 3)
		if len(f) != 3 {
			t.Fatalf("%s:%d: not three columns", corpusFile, n)
		}
		examples = append(examples, example{n, Decision(f[0]), f[1], strings.ReplaceAll(f[2], "⏎", "\n")})
	}
	return examples, raw
}

func TestCorpusVerdictsAndReasons(t *testing.T) {
	examples, raw := corpus(t)
	counts := map[Decision]int{}
	for _, e := range examples {
		v := Explain(corpusConfig, e.command)
		counts[e.decision]++
		if v.Decision != e.decision {
			t.Errorf("%s:%d: %q is judged %s, want %s (%s)", corpusFile, e.line, e.command, v.Decision, e.decision, v.Reason)
		}
		if *update {
			raw[e.line-1] = string(e.decision) + "\t" + strings.ReplaceAll(v.Reason, "\n", " ") + "\t" + strings.ReplaceAll(e.command, "\n", "⏎")
			continue
		}
		if got := strings.ReplaceAll(v.Reason, "\n", " "); got != e.reason {
			t.Errorf("%s:%d: %q: reason\n got %s\nwant %s", corpusFile, e.line, e.command, got, e.reason)
		}
	}
	if n := counts[Allow]; n < 150 {
		t.Errorf("only %d harmless commands in the corpus", n)
	}
	if n := counts[Ask] + counts[Deny]; n < 150 {
		t.Errorf("only %d hostile commands in the corpus", n)
	}
	if *update {
		if err := os.WriteFile(corpusFile, []byte(strings.Join(raw, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
