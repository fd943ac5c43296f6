package index_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/symbols"
	"belay/internal/symbols/gosource"
	"belay/internal/symbols/helper"
	"belay/internal/symbols/index"
	"belay/internal/workspace"
	"belay/internal/workspace/local"
)

const manyFiles = 5_000

// source is a file of a generated repository: about 100 lines, that name each
// other.
func source(language string, i int) string {
	var b strings.Builder
	if language == symbols.Go {
		fmt.Fprintf(&b, "package p%d\n\ntype Store%d struct {\n\tname string\n\trows []int\n}\n", i%50, i)
	}
	for k := range 12 {
		switch language {
		case symbols.Go:
			fmt.Fprintf(&b, "\n// Method%d does its part.\nfunc (s *Store%d) Method%d(ctx Context, in []Row%d) (int, error) {\n\ttotal%d := len(s.rows)\n\tfor _, row := range in {\n\t\ttotal%d += row.Value%d()\n\t}\n\treturn Helper%d(total%d), nil\n}\n", k, i, k, (i+k)%500, k, k, k, (i*7+k)%900, k)
		default:
			fmt.Fprintf(&b, "\nclass Store%d_%d(Base%d):\n    \"\"\"It does its part.\"\"\"\n    def method_%d(self, ctx, rows):\n        total_%d = len(self.rows)\n        for row in rows:\n            total_%d += row.value_%d()\n        return helper_%d(total_%d)\n", i, k, i%40, k, k, k, k, (i*7+k)%900, k)
		}
	}
	return b.String()
}

// repository is a real workspace of generated files, and an index over it that
// reads Go itself and Python by the program that BELAY_SYMBOLS names.
func repository(b *testing.B, language string, n int) (root string, x *index.Index, look *timed) {
	b.Helper()
	root = b.TempDir()
	end := map[string]string{symbols.Go: ".go", symbols.Python: ".py"}[language]
	for i := range n {
		path := filepath.Join(root, fmt.Sprintf("d%02d", i%50), fmt.Sprintf("f%04d%s", i, end))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(source(language, i)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	ws, err := local.Open(b.Context(), root, local.Options{State: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := ws.Observe(b.Context()); err != nil { // attaching has done this long before
		b.Fatal(err)
	}
	h := helper.New(helper.Config{Path: os.Getenv("BELAY_SYMBOLS")})
	store := index.New(b.TempDir(), symbols.Parsers{gosource.Parser{}, h})
	look = &timed{Workspace: ws}
	x = store.Of(look)
	b.Cleanup(func() { x.Close(); store.Close(); h.Close(); ws.Close() })
	return root, x, look
}

// timed measures what the workspace takes to say which files there are.
type timed struct {
	workspace.Workspace
	took time.Duration
}

func (t *timed) Present(ctx context.Context) (string, []workspace.Entry, error) {
	began := time.Now()
	defer func() { t.took += time.Since(began) }()
	return t.Workspace.Present(ctx)
}

func each(b *testing.B, f func(b *testing.B, language string)) {
	b.Run("go", func(b *testing.B) { f(b, symbols.Go) })
	b.Run("python", func(b *testing.B) {
		if os.Getenv("BELAY_SYMBOLS") == "" {
			b.Skip("BELAY_SYMBOLS names no program: make symbols, then BELAY_SYMBOLS=$PWD/bin/belay-symbols")
		}
		f(b, symbols.Python)
	})
}

// BenchmarkRepository indexes 5,000 files for the first time.
func BenchmarkRepository(b *testing.B) {
	each(b, func(b *testing.B, language string) {
		for b.Loop() {
			b.StopTimer()
			_, x, _ := repository(b, language, manyFiles)
			b.StartTimer()
			if err := x.Sync(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			st, err := x.Status(context.Background())
			if err != nil || st.Gaps() != "" || len(st.Languages) != 1 || st.Languages[0].Files != manyFiles {
				b.Fatalf("%+v, %v", st, err)
			}
			b.ReportMetric(float64(st.Languages[0].Symbols), "symbols")
			b.StartTimer()
		}
	})
}

// BenchmarkChangedFile changes one file of 5,000 and catches up: the whole look
// at the workspace included.
func BenchmarkChangedFile(b *testing.B) {
	each(b, func(b *testing.B, language string) {
		root, x, look := repository(b, language, manyFiles)
		if err := x.Sync(context.Background()); err != nil {
			b.Fatal(err)
		}
		paths, err := filepath.Glob(filepath.Join(root, "d07", "*"))
		if err != nil {
			b.Fatal(err)
		}
		i := 0
		look.took = 0
		for b.Loop() {
			b.StopTimer()
			i++
			if err := os.WriteFile(paths[0], []byte(source(language, manyFiles+i)), 0o644); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := x.Sync(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(look.took.Microseconds())/float64(b.N)/1000, "looking-ms/op")
	})
}

// BenchmarkFind asks for one name among those of 5,000 files.
func BenchmarkFind(b *testing.B) {
	_, x, _ := repository(b, symbols.Go, manyFiles)
	if err := x.Sync(context.Background()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if found, _, err := x.Find(context.Background(), symbols.Query{Name: "Store77.Method3"}); err != nil || len(found) != 1 {
			b.Fatal(len(found), err)
		}
	}
}
