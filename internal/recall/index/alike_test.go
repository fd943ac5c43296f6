package index

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/recall"
)

// grams embeds by hashed runs of three characters: alike is what is spelled alike.
type grams struct {
	name  string
	asked atomic.Int64
	err   error
	// wrong answers with a vector too few.
	wrong bool
}

func (g *grams) Name() string { return g.name }
func (g *grams) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if g.err != nil {
		return nil, g.err
	}
	g.asked.Add(int64(len(texts)))
	out := make([][]float32, len(texts))
	for i, t := range texts {
		v := make([]float32, 256)
		t = strings.ToLower(t)
		for j := 0; j+3 <= len(t); j++ {
			h := fnv.New32a()
			h.Write([]byte(t[j : j+3]))
			v[h.Sum32()%256]++
		}
		out[i] = v
	}
	if g.wrong && len(out) > 1 {
		out = out[1:]
	}
	return out, nil
}

func TestWhatIsAlikeIsFoundWithoutACommonWord(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.does("g1", "op1", "run_command", "", event.Access{Command: "ls"}, event.Succeeded, "nothing to see")
	b.add("g1", "", "", event.DecisionRecorded{Decision: "authentication by certificates"})
	repo := &tree{root: "/repo", files: map[string]string{"auth.txt": "authenticating callers\n", "zoo.txt": "wombats\n"}}
	e := &grams{name: "g"}
	x := open2(t, Config{Ledger: b, Embedder: e})
	a := find(t, x, recall.Query{Text: "authenticated certification", Goal: "g1"}, repo)
	if got := refs(a); len(got) < 2 || !slices.Contains(got, "event:g1/4") || !slices.Contains(got, "auth.txt:1") {
		t.Errorf("%q %q", got, a.Notes)
	}
	if !slices.Contains(a.Hits[0].By, "vectors") {
		t.Errorf("%+v", a.Hits[0])
	}
	// Nothing is embedded twice but the question.
	before := e.asked.Load()
	find(t, x, recall.Query{Text: "authenticated certification", Goal: "g1"}, repo)
	if n := e.asked.Load() - before; n != 1 {
		t.Errorf("%d texts were embedded again", n)
	}
	// Another model's vectors are others.
	x.Embedder = &grams{name: "other"}
	if got := refs(find(t, x, recall.Query{Text: "authenticated certification", Goal: "g1"}, repo)); !slices.Contains(got, "auth.txt:1") {
		t.Errorf("%q", got)
	}
	if got := refs(find(t, open2(t, Config{Ledger: b}), recall.Query{Text: "authenticated certification", Goal: "g1"}, repo)); len(got) != 0 {
		t.Errorf("by text alone: %q", got)
	}
}

func TestAnEmbedderThatFailsCostsTheLikenessAlone(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	for name, e := range map[string]*grams{"an error": {name: "g", err: errors.New("no such model")}, "a wrong answer": {name: "g", wrong: true}} {
		a := find(t, open2(t, Config{Ledger: b, Embedder: e}), recall.Query{Text: "unexpected token", Goal: "g1"}, nil)
		if len(a.Hits) == 0 || a.Hits[0].Op != "op2" || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "searched by text alone") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestOneSearchEmbedsNoMoreThanItsShareAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBook()
	for i := range newVectors {
		b.add("g1", "", "", event.UserMessage{Text: fmt.Sprintf("message number %d", i)})
	}
	e := &grams{name: "g"}
	x := open2(t, Config{Ledger: b, Embedder: e})
	a := find(t, x, recall.Query{Text: "message", Goal: "g1"}, nil)
	if n := e.asked.Load(); n > newVectors+1 || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "not everything has a vector yet") {
		t.Errorf("%d texts, %q", n, a.Notes)
	}
	for range 4 {
		a = find(t, x, recall.Query{Text: "message", Goal: "g1"}, nil)
	}
	if len(a.Notes) != 0 {
		t.Errorf("%q", a.Notes)
	}
}

// marks is a source that knows one place.
type marks struct{ err error }

func (marks) Name() string { return "symbols" }
func (m marks) Find(context.Context, recall.Query) ([]recall.Hit, error) {
	return []recall.Hit{{Kind: recall.Symbol, Ref: "parse.go:7", Path: "parse.go", Line: 7, Action: "function parseHeader"}}, m.err
}

func TestWhatOtherSourcesFindIsFused(t *testing.T) {
	t.Parallel()
	b := newBook()
	story(b, "g1")
	x := open2(t, Config{Ledger: b})
	a, err := x.Search(t.Context(), recall.Query{Text: "parseHeader", Goal: "g1"}, nil, marks{})
	if err != nil || !slices.ContainsFunc(a.Hits[:2], func(h recall.Hit) bool { return h.Ref == "parse.go:7" && slices.Equal(h.By, []string{"symbols"}) }) {
		t.Errorf("%v %+v", err, a.Hits)
	}
	a, err = x.Search(t.Context(), recall.Query{Text: "parseHeader", Goal: "g1"}, nil, marks{err: errors.New("not built")})
	if err != nil || len(a.Hits) == 0 || !slices.Equal(a.Notes, []string{"symbols were not searched: not built"}) {
		t.Errorf("%v %+v", err, a)
	}
}

func TestAPackedVectorKeepsItsDirection(t *testing.T) {
	t.Parallel()
	vector := rapid.SliceOfN(rapid.Float32Range(-8, 8), 32, 32)
	rapid.Check(t, func(t *rapid.T) {
		a, b := vector.Draw(t, "a"), vector.Draw(t, "b")
		var dot, aa, bb float64
		for i := range a {
			dot, aa, bb = dot+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
		}
		if aa < 1e-3 || bb < 1e-3 {
			return
		}
		if want, got := dot/math.Sqrt(aa*bb), cosine(pack(a), pack(b)); math.Abs(want-got) > 0.03 {
			t.Fatalf("cosine %f, packed %f", want, got)
		}
	})
	if cosine(pack([]float32{1}), pack([]float32{1, 2})) != 0 || cosine(pack([]float32{0, 0}), pack([]float32{1, 2})) != 0 || cosine(pack([]float32{float32(math.NaN()), 1}), pack([]float32{1, 2})) != 0 {
		t.Error("what cannot be compared is alike")
	}
}
