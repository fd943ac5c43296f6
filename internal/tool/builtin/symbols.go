package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/symbols"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/tool/textcap"
	"belay/internal/workspace/edit"
)

const (
	maxDefinitions = 40 // definitions that are shown
	maxUseFiles    = 60 // files in which uses are looked at
	maxUseLines    = 80 // lines of uses that are shown
	maxUsesFile    = 10 // of one file
	maxSymbolBytes = 10 << 10
	// maxCatchUp is how long a question waits for the index: the rest is said to
	// be missing.
	maxCatchUp = 5 * time.Second
)

var symbolsDef = &definition{
	name:   "symbols",
	effect: event.Read,
	doc:    "Source code by syntax, not in comments or strings. With name (sum, Store.Append): where it is defined and used. With path alone: what that file defines, with lines and signatures.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "name", Keep: true, Aliases: []string{"symbol", "query"}},
		{Name: "path", Aliases: append(slices.Clone(pathAliases), dirAliases...)},
	}},
}

// symbolsTool shows definitions and uses of a name, or the outline of a file.
type symbolsTool struct{ base }

// Describe implements tool.Tool.
func (t symbolsTool) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	if _, name := (symbols.Query{Name: v.String("name")}).Split(); name == "" && v.Has("name") {
		return nil, event.Access{}, args.Invalid(t.def.name, "name", "it is empty; expected the name of a symbol, or path alone")
	}
	if artifactOf(v.String("path")) != "" {
		return nil, event.Access{}, args.Invalid(t.def.name, "path", "it names stored output; expected a file or folder of the workspace")
	}
	if err := t.cleanField(v, "path", "", v.Has("name")); err != nil {
		return nil, event.Access{}, err
	}
	a := event.Access{Reads: []string{"."}}
	if p := v.String("path"); p != "" {
		a.Reads = []string{p}
	} else if !v.Has("name") {
		return nil, event.Access{}, args.Invalid(t.def.name, "name", "it is missing, and path too; expected the name of a symbol, or the path of a file to outline")
	}
	n, err := v.JSON()
	return n, a, err
}

// Run implements tool.Runner.
func (t symbolsTool) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return failed(ctx, err)
	}
	if env.Symbols == nil {
		return failed(ctx, fault.New(fault.NotFound, fault.Environment, "symbols are not kept here", "use search_text instead"))
	}
	if !v.Has("name") {
		return outline(ctx, env, v.String("path"))
	}
	soon, cancel := context.WithTimeout(ctx, maxCatchUp)
	err = env.Symbols.Sync(soon)
	late := soon.Err() != nil
	cancel()
	if ctx.Err() != nil || err != nil && !late {
		return failed(ctx, fmt.Errorf("the symbol index cannot catch up: %w", err))
	}
	if late {
		env.Symbols.Poke() // so that the next question finds more
	}
	f := &finding{ctx: ctx, env: env, q: symbols.Query{Name: v.String("name"), Under: v.String("path"), Limit: maxDefinitions}}
	text, err := f.answer(late)
	if err != nil {
		return failed(ctx, err)
	}
	return succeeded(text)
}

// finding is one answer in the making.
type finding struct {
	ctx context.Context
	env tool.Env
	q   symbols.Query
	out strings.Builder
	// defined are the lines of definitions, which are no news among the uses.
	defined map[string]map[int]bool
}

func (f *finding) answer(late bool) (string, error) {
	found, more, err := f.env.Symbols.Find(f.ctx, f.q)
	if err != nil {
		return "", err
	}
	found = f.readable(found)
	places, morePlaces, err := f.env.Symbols.Uses(f.ctx, symbols.Query{Name: f.q.Name, Under: f.q.Under, Limit: maxUseFiles})
	if err != nil {
		return "", err
	}
	st, err := f.env.Symbols.Status(f.ctx)
	if err != nil {
		return "", err
	}
	gaps := st.Gaps()
	if late && st.Pending == 0 {
		gaps = strings.TrimPrefix(gaps+"; the index had not caught up with the files as they are now", "; ")
	}
	if len(found) == 0 && len(places) == 0 {
		return "", f.nothing(gaps)
	}
	f.definitions(found)
	total, shown := f.uses(places)
	notes := plural(int64(len(found)+more), "definition")
	if more > 0 {
		notes += fmt.Sprintf(", %d shown", len(found))
	}
	notes += "; " + plural(int64(total), "line") + " with other uses"
	if morePlaces > 0 {
		notes += fmt.Sprintf(" in the first %d of %d files", len(places), len(places)+morePlaces)
	}
	if shown < total || morePlaces > 0 {
		notes += fmt.Sprintf(", %d shown: narrow it down with path", shown)
	}
	if gaps != "" {
		notes += "; " + gaps
	}
	return f.out.String() + "[" + notes + "]\n", nil
}

// nothing says so, what comes near, and where nobody has looked.
func (f *finding) nothing(gaps string) error {
	near, _, err := f.env.Symbols.Find(f.ctx, symbols.Query{Name: f.q.Name, Prefix: true, Under: f.q.Under, Limit: 5})
	if err != nil {
		return err
	}
	said := "no symbol " + f.q.Name
	if f.q.Under != "" {
		said += " in " + f.q.Under
	}
	if gaps != "" {
		said += " in what is read (" + gaps + ")"
	}
	instead := "use search_text for text, comments and strings"
	var names []string
	for _, s := range f.readable(near) {
		names = append(names, fmt.Sprintf("%s in %s:%d", s.Qualified(), s.Path, s.Line))
	}
	if len(names) > 0 {
		instead = "there is " + strings.Join(names, ", ") + "; " + instead
	}
	return fault.New(fault.NoMatch, fault.Model, said, instead)
}

// readable leaves out what the goal's rules deny to be read.
func (f *finding) readable(found []symbols.Symbol) []symbols.Symbol {
	if f.env.Unreadable == nil || !f.env.Unreadable.Any() {
		return found
	}
	var out []symbols.Symbol
	for _, s := range found {
		if !f.env.Unreadable.Holds(s.Path) {
			out = append(out, s)
		}
	}
	return out
}

func (f *finding) definitions(found []symbols.Symbol) {
	f.defined = map[string]map[int]bool{}
	for _, s := range found {
		if f.defined[s.Path] == nil {
			f.defined[s.Path] = map[int]bool{}
		}
		f.defined[s.Path][s.Line] = true
		in := ""
		if s.Container != "" {
			in = " in " + s.Container
		}
		fmt.Fprintf(&f.out, "%s:%s defined%s: %s\n", s.Path, span(s), in, described(f.env, s))
	}
}

// uses shows lines with their text, and counts all.
func (f *finding) uses(places []symbols.Place) (total, shown int) {
	for _, p := range places {
		var lines []int
		for _, n := range p.Lines {
			if !f.defined[p.Path][n] {
				lines = append(lines, n)
			}
		}
		if f.env.Unreadable != nil && f.env.Unreadable.Any() && f.env.Unreadable.Holds(p.Path) {
			continue
		}
		total += len(lines)
		if len(lines) == 0 || shown >= maxUseLines || f.out.Len() >= maxSymbolBytes || f.ctx.Err() != nil {
			continue
		}
		text := f.lines(p.Path)
		for _, n := range lines[:min(len(lines), maxUsesFile)] {
			at := ""
			if n <= len(text) {
				at = textcap.Line(strings.TrimSpace(text[n-1]), maxMatchLine)
			}
			fmt.Fprintf(&f.out, "%s:%d: %s\n", p.Path, n, at)
			shown++
		}
	}
	return total, shown
}

// lines are a file's lines as they are now; what cannot be read is shown
// without its text.
func (f *finding) lines(path string) []string {
	file, err := f.env.Workspace.Read(f.ctx, path)
	if err != nil {
		return nil
	}
	text, _, err := edit.Decode(file.Bytes)
	if err != nil {
		return nil
	}
	return strings.Split(f.env.Secrets.Text(text), "\n")
}
