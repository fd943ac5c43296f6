package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/tool/textcap"
	"belay/internal/workspace/edit"
)

const (
	maxMatchesFile = 40  // lines shown of one file
	maxMatches     = 200 // lines shown in all
	maxSearchBytes = 12 << 10
	maxMatchLine   = 300 // bytes shown of one line
	searchBatch    = 64  // files that are searched before their results are shown
)

var searchTextDef = &definition{
	name:   "search_text",
	effect: event.Read,
	doc:    "Search file contents line by line with a regular expression (RE2), like ripgrep; files that git ignores are left out.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "pattern", Required: true, Keep: true, Aliases: []string{"regex", "regexp", "query"}},
		{Name: "path", Aliases: append([]string{"dir"}, dirAliases...), Doc: "folder, file or artifact:SHA256"},
		{Name: "glob", Aliases: []string{"include", "file_pattern"}},
		{Name: "ignore_case", Type: args.Boolean, Aliases: []string{"case_insensitive", "-i"}, Default: false},
		{Name: "context", Type: args.Integer, Max: 20, Default: int64(0), Aliases: []string{"-C"}, Doc: "lines around each match"},
	}},
}

// searchText is grep over the workspace.
type searchText struct{ base }

// slots bounds how many files are held in memory at once over all searches
// that run side by side, however many a model asks for in one response.
var slots = make(chan struct{}, max(2, min(runtime.GOMAXPROCS(0), 4)))

// maxSearched is the largest file that is searched: times the number of slots,
// it is what searches can take of memory.
const maxSearched = 16 << 20

// Describe implements tool.Tool.
func (t searchText) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	if _, err := t.compile(v); err != nil {
		return nil, event.Access{}, err
	}
	a, err := t.scope(v)
	if err != nil {
		return nil, event.Access{}, err
	}
	n, err := v.JSON()
	return n, a, err
}

func (t searchText) compile(v args.Values) (*regexp.Regexp, error) {
	pattern := v.String("pattern")
	if pattern == "" {
		return nil, args.Invalid(t.def.name, "pattern", "it is empty; expected a regular expression")
	}
	flags := "(?m)"
	if v.Bool("ignore_case") {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + "(?:" + pattern + ")")
	if err != nil {
		return nil, args.Invalid(t.def.name, "pattern", fmt.Sprintf("not a regular expression of RE2 (no look-around, no back-references; escape ( [ { . * + ? | \\ to mean themselves): %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	return re, nil
}

// found is what one file brought.
type found struct {
	path    string
	lines   []foundLine
	matches int64
	// why says that the file could not be searched.
	why string
}

type foundLine struct {
	n     int64
	text  string
	match bool
}

// Run implements tool.Runner.
func (t searchText) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return failed(ctx, err)
	}
	re, err := t.compile(v)
	if err != nil {
		return failed(ctx, err)
	}
	s := &search{re: re, around: int(v.Int("context", 0)), whole: !strings.Contains(v.String("pattern"), `\A`) && !strings.Contains(v.String("pattern"), `\z`)}
	if sum := artifactOf(v.String("path")); sum != "" {
		g := s.grep(maxMatches)
		l := &lineWriter{to: g.line}
		if err := copyArtifact(ctx, env, sum, l); err != nil {
			return failed(ctx, err)
		}
		l.close()
		s.add(found{path: "artifact:" + sum[:12], lines: g.lines, matches: g.matches})
		return succeeded(s.report(1))
	}
	_, files, err := selected(ctx, env.Workspace, v)
	if err != nil {
		return failed(ctx, err)
	}
	for from := 0; from < len(files); from += searchBatch {
		batch := files[from:min(from+searchBatch, len(files))]
		results := make([]found, len(batch))
		s.batch(ctx, env, batch, results)
		if ctx.Err() != nil {
			return failed(ctx, ctx.Err())
		}
		for _, f := range results {
			s.add(f)
		}
	}
	return succeeded(s.report(len(files)))
}

// search collects results in path order within its caps, and counts past them.
type search struct {
	re     *regexp.Regexp
	around int
	whole  bool // a content without a match has no line with one

	out     strings.Builder
	shown   int64
	matches int64
	files   int64
	binary  int64
	other   []string // files that could not be searched
	full    atomic.Bool
}

// batch searches files side by side, each result in its own place.
func (s *search) batch(ctx context.Context, env tool.Env, files []string, results []found) {
	var wg sync.WaitGroup
	for i, name := range files {
		select {
		case <-ctx.Done():
		case slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-slots }()
				results[i] = s.file(ctx, env, name)
			})
		}
	}
	wg.Wait()
}

const isBinary = "binary"

func (s *search) file(ctx context.Context, env tool.Env, name string) found {
	if info, err := os.Lstat(filepath.Join(env.Workspace.Root(), filepath.FromSlash(name))); err == nil && info.Size() > maxSearched {
		return found{path: name, why: fmt.Sprintf("%d bytes are too many, use a command", info.Size())}
	}
	f, err := env.Workspace.Read(ctx, name)
	if err != nil {
		var flt *fault.Fault
		if errors.As(err, &flt) && flt.Kind == fault.NotFound {
			return found{path: name} // gone since it was listed
		}
		return found{path: name, why: asFault(err).Message}
	}
	content := f.Bytes
	if bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")) {
		text, _, err := edit.Decode(content)
		if err != nil {
			return found{path: name, why: isBinary}
		}
		content = []byte(text)
	} else if bytes.IndexByte(content[:min(len(content), 64<<10)], 0) >= 0 {
		return found{path: name, why: isBinary}
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(content, '\r') >= 0 {
		content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	}
	if s.whole && !s.re.Match(content) {
		return found{path: name}
	}
	content = []byte(env.Secrets.Text(string(content)))
	most := maxMatchesFile
	if s.full.Load() {
		most = 0
	}
	g := s.grep(most)
	for len(content) > 0 && ctx.Err() == nil {
		line, rest, _ := bytes.Cut(content, []byte{'\n'})
		g.line(line)
		content = rest
	}
	return found{path: name, lines: g.lines, matches: g.matches}
}

// grep goes over the lines of one text.
type grep struct {
	s       *search
	most    int
	n       int64
	matches int64
	lines   []foundLine
	before  []foundLine // context that a match may still need
	after   int         // lines of context that are still owed
}

func (s *search) grep(most int) *grep { return &grep{s: s, most: most} }

func (g *grep) line(line []byte) {
	g.n++
	at := g.s.re.FindIndex(line)
	if at == nil {
		g.contextLine(line)
		return
	}
	g.matches++
	if int(g.matches) > g.most {
		g.after = 0
		return
	}
	g.lines = append(g.lines, g.before...)
	g.before = g.before[:0]
	g.lines = append(g.lines, foundLine{n: g.n, text: around(line, at), match: true})
	g.after = g.s.around
}

func (g *grep) contextLine(line []byte) {
	if g.s.around == 0 || int(g.matches) >= g.most && g.after == 0 {
		return
	}
	l := foundLine{n: g.n, text: around(line, []int{0, 0})}
	if g.after > 0 {
		g.after--
		g.lines = append(g.lines, l)
		return
	}
	if len(g.before) == g.s.around {
		g.before = append(g.before[:0], g.before[1:]...)
	}
	g.before = append(g.before, l)
}

// add takes the result of the next file.
func (s *search) add(f found) {
	switch {
	case f.why == isBinary:
		s.binary++
	case f.why != "":
		s.other = append(s.other, f.path+": "+f.why)
	}
	if f.matches == 0 {
		return
	}
	s.files++
	s.matches += f.matches
	var shown int64
	last := int64(0)
	for _, l := range f.lines {
		if s.full.Load() {
			break
		}
		if s.around > 0 && (last > 0 && l.n > last+1 || last == 0 && s.out.Len() > 0) {
			s.out.WriteString("--\n")
		}
		last = l.n
		mark := '-'
		if l.match {
			mark = ':'
			shown++
		}
		fmt.Fprintf(&s.out, "%s%c%d%c%s\n", f.path, mark, l.n, mark, l.text)
		if s.shown+shown >= maxMatches || s.out.Len() >= maxSearchBytes {
			s.full.Store(true)
		}
	}
	s.shown += shown
	if shown > 0 && shown < f.matches {
		fmt.Fprintf(&s.out, "[… %s in %s]\n", plural(f.matches-shown, "more matching line"), f.path)
	}
}

func (s *search) report(searched int) string {
	notes := fmt.Sprintf("%s in %s; %s searched", plural(s.matches, "matching line"), plural(s.files, "file"), plural(int64(searched)-s.binary-int64(len(s.other)), "file"))
	if s.shown < s.matches {
		notes += fmt.Sprintf("; %d shown: narrow it down with a longer pattern, path or glob to see the rest", s.shown)
	}
	if s.binary > 0 {
		notes += fmt.Sprintf("; %s skipped", plural(s.binary, "binary file"))
	}
	if n := len(s.other); n > 0 {
		notes += fmt.Sprintf("; %s could not be searched, the first: %s", plural(int64(n), "file"), s.other[0])
	}
	return s.out.String() + "[" + notes + "]\n"
}

// around shows one line, cut around its match when it is long.
func around(line []byte, at []int) string {
	return textcap.Around(strings.ToValidUTF8(string(line), "\uFFFD"), at[0], at[1], maxMatchLine)
}

// maxGrepLine is how much of one line of stored output is searched.
const maxGrepLine = 1 << 20

// lineWriter cuts what is written to it into lines.
type lineWriter struct {
	to  func(line []byte)
	buf []byte
}

func (l *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.keep(p)
			return n, nil
		}
		l.keep(p[:i])
		l.to(l.buf)
		l.buf = l.buf[:0]
		p = p[i+1:]
	}
}

func (l *lineWriter) keep(p []byte) {
	l.buf = append(l.buf, p[:min(len(p), maxGrepLine-len(l.buf))]...)
}

func (l *lineWriter) close() {
	if len(l.buf) > 0 {
		l.to(l.buf)
	}
}
