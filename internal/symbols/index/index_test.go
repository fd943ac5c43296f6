package index_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"belay/internal/fault"
	"belay/internal/symbols"
	"belay/internal/symbols/gosource"
	"belay/internal/symbols/index"
	"belay/internal/workspace"
)

// files is a workspace in memory.
type files struct {
	root string
	text map[string]string
}

func (f *files) Root() string { return f.root }

func id(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%x-%d", h.Sum64(), len(text))
}

func (f *files) Present(context.Context) (string, []workspace.Entry, error) {
	var out []workspace.Entry
	all := ""
	for p, t := range f.text {
		out = append(out, workspace.Entry{Path: p, ID: id(t)})
	}
	slices.SortFunc(out, func(a, b workspace.Entry) int { return strings.Compare(a.Path, b.Path) })
	for _, e := range out {
		all += e.Path + "\x00" + e.ID + "\x00"
	}
	return id(all), out, nil
}

func (f *files) Content(_ context.Context, e workspace.Entry, limit int64) ([]byte, error) {
	t, ok := f.text[e.Path]
	switch {
	case !ok || id(t) != e.ID:
		return nil, fault.New(fault.NotFound, fault.Environment, "changed", "").Retry()
	case int64(len(t)) > limit:
		return nil, fault.New(fault.TooLarge, fault.Environment, "large", "")
	}
	return []byte(t), nil
}

// parser reads lines "def NAME" and "use NAME" of Python files, Go as Go is,
// and counts.
type parser struct {
	gosource.Parser
	python string // the version, "" for a build without
	parses atomic.Int64
}

func (p *parser) Version(ctx context.Context, language string) string {
	if language == symbols.Python {
		return p.python
	}
	return p.Parser.Version(ctx, language)
}

func (p *parser) Parse(ctx context.Context, language string, content []byte) (symbols.File, error) {
	p.parses.Add(1)
	if language != symbols.Python {
		return p.Parser.Parse(ctx, language, content)
	}
	if strings.Contains(string(content), "crash") {
		return symbols.File{}, &symbols.Unreadable{Why: "it fell over"}
	}
	f := symbols.File{Language: language}
	at := map[string][]int{}
	for i, line := range strings.Split(string(content), "\n") {
		word, name, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		at[name] = append(at[name], i+1)
		if word == "def" {
			f.Symbols = append(f.Symbols, symbols.Symbol{Name: name, Kind: symbols.Function, Line: i + 1, End: i + 1, Signature: line})
		}
	}
	f.Uses = symbols.Sorted(at)
	return f, nil
}

type world struct {
	t     testing.TB
	dir   string
	p     *parser
	f     *files
	store *index.Store
	x     *index.Index
}

func open(t testing.TB, f *files, dir string, p *parser) *world {
	w := &world{t: t, dir: dir, p: p, f: f, store: index.New(dir, p)}
	w.x = w.store.Of(f)
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	if err := errors.Join(w.x.Close(), w.store.Close()); err != nil {
		w.t.Error(err)
	}
}

func start(t testing.TB, text map[string]string) *world {
	return open(t, &files{root: t.TempDir(), text: text}, t.TempDir(), &parser{python: "p1"})
}

func (w *world) sync() {
	w.t.Helper()
	if err := w.x.Sync(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) find(q symbols.Query) []string {
	w.t.Helper()
	found, _, err := w.x.Find(context.Background(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, s := range found {
		out = append(out, fmt.Sprintf("%s:%d %s", s.Path, s.Line, s.Qualified()))
	}
	return out
}

func (w *world) uses(q symbols.Query) string {
	w.t.Helper()
	places, _, err := w.x.Uses(context.Background(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprint(places)
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

const storeGo = `package store

type Store struct{ path string }

func (s *Store) Append(e Event) error { return s.write(e) }
func Append() {}
`

func TestDefinitionsAreFoundByNameContainerAndPrefix(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a/store.go": storeGo, "b.py": "def append\nuse Store", "c.py": "def appendix", "ab/x.py": "def append"})
	w.sync()
	for _, c := range []struct {
		q    symbols.Query
		want []string
	}{
		{symbols.Query{Name: "Append"}, []string{"a/store.go:5 Store.Append", "a/store.go:6 Append"}},
		{symbols.Query{Name: "Store.Append"}, []string{"a/store.go:5 Store.Append"}},
		{symbols.Query{Name: "Store::Append()"}, []string{"a/store.go:5 Store.Append"}},
		{symbols.Query{Name: "ore.Append"}, nil},
		{symbols.Query{Name: "append"}, []string{"ab/x.py:1 append", "b.py:1 append"}},
		{symbols.Query{Name: "append", Under: "ab"}, []string{"ab/x.py:1 append"}},
		{symbols.Query{Name: "append", Under: "a"}, nil},
		{symbols.Query{Name: "append", Under: "./"}, []string{"ab/x.py:1 append", "b.py:1 append"}},
		{symbols.Query{Name: "append", Under: "b.py"}, []string{"b.py:1 append"}},
		{symbols.Query{Name: "append", Prefix: true}, []string{"ab/x.py:1 append", "b.py:1 append", "a/store.go:5 Store.Append", "a/store.go:6 Append", "c.py:1 appendix"}},
		{symbols.Query{Name: "append", Prefix: true, Limit: 1}, []string{"ab/x.py:1 append"}},
		{symbols.Query{Name: "100%"}, nil},
		{symbols.Query{Name: ""}, nil},
	} {
		if got := w.find(c.q); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.q, got, c.want)
		}
	}
	same(t, w.uses(symbols.Query{Name: "Store"}), "[{a/store.go [3 5]} {b.py [2]}]")
	same(t, w.uses(symbols.Query{Name: "x.Store", Under: "a"}), "[{a/store.go [3 5]}]")
	if _, more, err := w.x.Find(context.Background(), symbols.Query{Name: "append", Prefix: true, Limit: 2}); err != nil || more != 3 {
		t.Errorf("%d more, %v", more, err)
	}
	if _, more, err := w.x.Uses(context.Background(), symbols.Query{Name: "append", Prefix: true, Limit: 1}); err != nil || more != 3 {
		t.Errorf("%d more, %v", more, err)
	}
}

func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a.py": "def a", "b.py": "def b", "c.py": "def c"})
	w.sync()
	same(t, w.p.parses.Load(), int64(3))
	w.f.text["b.py"] = "def b2"
	w.f.text["d.py"] = w.f.text["a.py"] // moved content is known
	delete(w.f.text, "a.py")
	w.sync()
	same(t, w.p.parses.Load(), int64(4))
	same(t, w.find(symbols.Query{Name: "a"}), []string{"d.py:1 a"})
	same(t, w.find(symbols.Query{Name: "b"}), []string(nil))
	// A content that comes back, and another process over the same file.
	w.f.text["b.py"] = "def b"
	again := open(t, w.f, w.dir, w.p)
	again.sync()
	same(t, w.p.parses.Load(), int64(4))
	same(t, again.find(symbols.Query{Name: "b"}), []string{"b.py:1 b"})
	w.sync() // the first one sees what the other wrote
	same(t, w.find(symbols.Query{Name: "b"}), []string{"b.py:1 b"})
}

func TestTheIndexSaysWhatItDoesNotCover(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a.go": storeGo, "b.py": "def b", "c.py": "crash", "d.rb": "x", "e.py": strings.Repeat("x", symbols.MaxBytes+1), "readme.md": "hello"})
	w.p.python = ""
	w.sync()
	st, err := w.x.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	same(t, st.Gaps(), "not read here: python (3 files), ruby (1 file); "+symbols.Remedy)
	parses := w.p.parses.Load()
	w.sync()
	same(t, w.p.parses.Load(), parses)
	// The program is there by now.
	with := open(t, w.f, w.dir, &parser{python: "p1"})
	with.sync()
	st, err = with.x.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	same(t, st.Failures, []string{"c.py: it fell over", "e.py: it is larger than 2 MiB"})
	same(t, st.Gaps(), "not read here: ruby (1 file); "+symbols.Remedy+"; 2 files could not be read, the first: c.py: it fell over")
	same(t, with.find(symbols.Query{Name: "b"}), []string{"b.py:1 b"})
	// What was read is not lost when the program is gone again.
	without := open(t, w.f, w.dir, &parser{})
	without.sync()
	same(t, without.find(symbols.Query{Name: "b"}), []string{"b.py:1 b"})
}

func TestAnotherParserReadsAgain(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a.py": "def a", "b.py": "def a"})
	w.sync()
	newer := open(t, w.f, w.dir, &parser{python: "p2"})
	newer.sync()
	same(t, newer.p.parses.Load() > 0, true)
	same(t, newer.find(symbols.Query{Name: "a"}), []string{"a.py:1 a", "b.py:1 a"})
}

// Contents that no path has any more go when they are many, and a root whose
// directory is gone goes with them.
func TestTheStoreDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{})
	for i := range 100 {
		w.f.text[fmt.Sprintf("f%d.py", i)] = fmt.Sprintf("def f%d", i)
	}
	w.sync()
	size := func() (n int) {
		db, err := sql.Open("sqlite", filepath.Join(w.dir, index.FileName))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRow(`SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM roots)`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	same(t, size(), 101)
	other := open(t, &files{root: t.TempDir(), text: map[string]string{"a.py": "def a"}}, w.dir, w.p)
	if err := os.Remove(w.f.root); err != nil {
		t.Fatal(err)
	}
	other.sync() // the first one of a process cleans
	same(t, size(), 2)
	same(t, other.find(symbols.Query{Name: "a"}), []string{"a.py:1 a"})
}

func TestADamagedIndexIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a.py": "def a"})
	w.sync()
	w.close()
	path := filepath.Join(w.dir, index.FileName)
	for _, junk := range []string{"not a database at all, but long enough to be read as the header of one, and then some more of it", ""} {
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(path + end)
		}
		if err := os.WriteFile(path, []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, w.f, w.dir, w.p)
		again.sync()
		same(t, again.find(symbols.Query{Name: "a"}), []string{"a.py:1 a"})
		again.close()
	}
}

func TestPokesIndexInTheBackgroundAndCloseEndsThem(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a.py": "def a"})
	for range 100 {
		w.x.Poke()
	}
	for deadline := time.Now().Add(60 * time.Second); w.p.parses.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was indexed")
		}
	}
	if err := w.x.Close(); err != nil {
		t.Fatal(err)
	}
	w.x.Poke() // and nothing starts any more
}

// Whatever happens to the files, and in whichever steps the index catches up,
// its answers are those of the files.
func TestAnIndexThatCaughtUpAnswersAsTheFilesDo(t *testing.T) {
	t.Parallel()
	store := index.New(t.TempDir(), &parser{python: "p1"})
	t.Cleanup(func() { store.Close() })
	top := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		root, err := os.MkdirTemp(top, "root")
		if err != nil {
			r.Fatal(err)
		}
		f := &files{root: root, text: map[string]string{}}
		xs := []*index.Index{store.Of(f), store.Of(f)} // as of two processes
		defer func() {
			for _, x := range xs {
				x.Close()
			}
		}()
		name := rapid.SampledFrom([]string{"a.py", "b/a.py", "b/c.py", "bc.py", "x.md"})
		line := rapid.SampledFrom([]string{"def f", "def g", "use f", "use g", "crash"})
		at := 0
		r.Repeat(map[string]func(*rapid.T){
			"write": func(r *rapid.T) {
				f.text[name.Draw(r, "path")] = strings.Join(rapid.SliceOfN(line, 0, 4).Draw(r, "lines"), "\n")
			},
			"remove": func(r *rapid.T) { delete(f.text, name.Draw(r, "path")) },
			"sync": func(r *rapid.T) {
				at = rapid.IntRange(0, 1).Draw(r, "process")
				if err := xs[at].Sync(context.Background()); err != nil {
					r.Fatal(err)
				}
			},
		})
		if err := xs[at].Sync(context.Background()); err != nil {
			r.Fatal(err)
		}
		for _, n := range []string{"f", "g"} {
			for _, under := range []string{"", "b"} {
				if got, want := answers(r, xs[at], symbols.Query{Name: n, Under: under}), f.answers(n, under); got != want {
					r.Fatalf("%s under %q:\n%s\nwant\n%s", n, under, got, want)
				}
			}
		}
	})
}

func answers(r *rapid.T, x *index.Index, q symbols.Query) string {
	ctx := context.Background()
	found, _, err := x.Find(ctx, q)
	places, _, err2 := x.Uses(ctx, q)
	st, err3 := x.Status(ctx)
	if err := errors.Join(err, err2, err3); err != nil {
		r.Fatal(err)
	}
	out := ""
	for _, s := range found {
		out += fmt.Sprintf("%s:%d ", s.Path, s.Line)
	}
	out += "\n"
	for _, p := range places {
		out += fmt.Sprintf("%s%v ", p.Path, p.Lines)
	}
	read := 0
	for _, l := range st.Languages {
		read += l.Files
	}
	return fmt.Sprintf("%s\n%d files, %d failed, %d pending", out, read, st.Failed, st.Pending)
}

// answers are those of a reader who looks into every file.
func (f *files) answers(name, under string) string {
	defined, used, read, failed := "", "", 0, 0
	for _, path := range slices.Sorted(maps.Keys(f.text)) {
		if !strings.HasSuffix(path, ".py") {
			continue
		}
		read++
		if strings.Contains(f.text[path], "crash") {
			failed++
			continue
		}
		var lines []int
		for i, l := range strings.Split(f.text[path], "\n") {
			word, what, _ := strings.Cut(l, " ")
			if what != name || under != "" && !strings.HasPrefix(path, under+"/") {
				continue
			}
			lines = append(lines, i+1)
			if word == "def" {
				defined += fmt.Sprintf("%s:%d ", path, i+1)
			}
		}
		if len(lines) > 0 {
			used += fmt.Sprintf("%s%v ", path, lines)
		}
	}
	return fmt.Sprintf("%s\n%s\n%d files, %d failed, 0 pending", defined, used, read, failed)
}
