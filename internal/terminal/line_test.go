package terminal

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func hostile(t *rapid.T) string {
	return rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune{'\x1b', '\x7f', 0x9b, 0x85, '\r', '\n', '\t', 0x202e, 0x2066, 0x200f, 0x061c, 0x2028, 0xfffd}))).Draw(t, "text")
}

func TestALineStaysOneAndABlockIsMarked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := hostile(t)
		if l := Line(s); strings.Contains(l, "\n") || Safe(l) != l {
			t.Fatalf("%q becomes %q", s, l)
		}
		for i, l := range strings.Split(Block(s), "\n") {
			if i > 0 && !strings.HasPrefix(l, "  │ ") || Safe(l) != l {
				t.Fatalf("%q becomes %q", s, Block(s))
			}
		}
	})
}

func TestJSONMeansTheSameAndSteersNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{"a": hostile(t), hostile(t): "b"}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		out := JSON(b)
		if s := string(out); Safe(s) != s || strings.Contains(s, "\n") {
			t.Fatalf("%q is written", s)
		}
		var got map[string]string
		if err := json.Unmarshal(out, &got); err != nil || len(got) != len(want) {
			t.Fatalf("%v: %q", err, out)
		}
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("%q is %q, want %q", k, got[k], v)
			}
		}
	})
}
