package index

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/recall"
)

// vocabulary is as words are in real logs and code: few of them make up most of a
// text.
func vocabulary(r *rand.Rand, n int) func() string {
	words := make([]string, n)
	for i := range words {
		var b strings.Builder
		for range 2 + r.Intn(3) {
			b.WriteString([]string{"con", "par", "ser", "ver", "map", "log", "ing", "tor", "net", "val", "key", "dex"}[r.Intn(12)])
		}
		words[i] = fmt.Sprintf("%s%d", b.String(), i)
	}
	z := rand.NewZipf(r, 1.1, 4, uint64(n-1))
	return func() string { return words[z.Uint64()] }
}

// long is a goal of at least n events, as a run of many steps leaves them.
func long(b *book, goal string, n int) {
	r := rand.New(rand.NewSource(7))
	word := vocabulary(r, 20_000)
	text := func(n int) string {
		ws := make([]string, n)
		for i := range ws {
			ws[i] = word()
		}
		return strings.Join(ws, " ")
	}
	for i := 0; len(b.streams[goal]) < n; i++ {
		path := fmt.Sprintf("internal/%s/%s.go", word(), word())
		outcome, output := event.Succeeded, text(60)
		if i%7 == 0 {
			outcome, output = event.Failed, "error: "+text(20)+"\n--- FAIL: Test"+word()
		}
		a := event.Access{Reads: []string{path}}
		if i%3 == 0 {
			a = event.Access{Command: "go test ./internal/" + word()}
		}
		if i%500 == 0 {
			output += " needle" + fmt.Sprint(i)
		}
		b.does(goal, fmt.Sprintf("op%d", i), []string{"run_test", "read_file", "file_patch"}[i%3], text(12), a, outcome, output)
	}
}

// benchEvents is the size of a very long goal.
const benchEvents = 100_000

var questions = []recall.Query{
	{Text: "needle5000"},
	{Text: "error"},
	{Text: "error FAIL test internal go"},
	{Text: "why did the tests of internal/server fail with error", Outcome: "failed"},
	{Text: "run_test go test ./internal", Tool: "run_test"},
	{Text: "error needle1500", Since: 1},
	{Outcome: "failed"},
}

func BenchmarkSearchOver100000Events(b *testing.B) {
	l := newBook()
	long(l, "g1", benchEvents)
	long(l, "g2", 2_000)
	x := New(Config{Ledger: l, Path: filepath.Join(b.TempDir(), FileName), Wait: time.Hour})
	defer x.Close()
	began := time.Now()
	if _, err := x.Search(b.Context(), recall.Query{Text: "warm"}, nil); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	for _, q := range questions {
		for _, goal := range []string{"g1", ""} {
			q.Goal = goal
			b.Run(fmt.Sprintf("%q/%s/goal=%s", q.Text, q.Tool+q.Outcome, goal), func(b *testing.B) {
				for b.Loop() {
					if _, err := x.Search(b.Context(), q, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	b.Logf("102,000 events taken in in %v: %.0f a second", took.Round(time.Millisecond), 102_000/took.Seconds())
}

func BenchmarkRepositoryOf20MB(b *testing.B) {
	r := rand.New(rand.NewSource(3))
	word := vocabulary(r, 30_000)
	repo := &tree{root: "/repo", name: "t1", files: map[string]string{}}
	size := 0
	for i := 0; size < 20<<20; i++ {
		var s strings.Builder
		for range 50 + r.Intn(300) {
			for range 4 + r.Intn(6) {
				s.WriteString(word() + " ")
			}
			s.WriteString("\n")
		}
		repo.files[fmt.Sprintf("src/%s/%s_%d.go", word(), word(), i)] = s.String()
		size += s.Len()
	}
	x := New(Config{Ledger: newBook(), Path: filepath.Join(b.TempDir(), FileName), Wait: time.Hour})
	defer x.Close()
	began := time.Now()
	if _, err := x.Search(b.Context(), recall.Query{Text: "warm"}, repo); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	for _, text := range []string{word(), word() + " " + word() + " " + word(), "no such thing", "src"} {
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Search(b.Context(), recall.Query{Text: text}, repo); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Logf("%d files, %d MB taken in in %v", len(repo.files), size>>20, took.Round(time.Millisecond))
}
