// Package symbols is the port to what is defined and used in a repository's
// source files: symbols, read off the syntax and never off the text alone.
//
// It must not know goals, models or the ledger. Its promise is honesty about
// what it does not see: a language that no parser reads here, a file that could
// not be read, an index that is still being built are said with every answer.
package symbols

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Kind is what a symbol is.
type Kind string

// The kinds.
const (
	Function  Kind = "function"
	Method    Kind = "method"
	Class     Kind = "class"
	Struct    Kind = "struct"
	Interface Kind = "interface"
	Enum      Kind = "enum"
	Type      Kind = "type"
	Module    Kind = "module"
	Macro     Kind = "macro"
	Constant  Kind = "constant"
	Variable  Kind = "variable"
	Field     Kind = "field"
)

// Symbol is one definition.
type Symbol struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Path is relative to the root, "" where the file is known anyway.
	Path string `json:"path,omitempty"`
	// Line and End are the first and the last line, from 1.
	Line int `json:"line"`
	End  int `json:"end"`
	// Container is what the symbol is defined in, outermost first, joined by
	// dots: "" at the top of a file.
	Container string `json:"container,omitempty"`
	// Signature is the definition's first line or lines without its body.
	Signature string `json:"signature"`
}

// Qualified is the name with its container.
func (s Symbol) Qualified() string {
	if s.Container == "" {
		return s.Name
	}
	return s.Container + "." + s.Name
}

// Use is one name and the lines on which it occurs as an identifier, where it
// is defined included.
type Use struct {
	Name  string `json:"name"`
	Lines []int  `json:"lines"`
}

// File is what a parser reads off one file.
type File struct {
	Language string   `json:"language"`
	Symbols  []Symbol `json:"symbols"` // in the order of the file
	Uses     []Use    `json:"uses"`    // sorted by name
	// Broken says that the syntax has errors: what stands near them may be
	// missing.
	Broken bool `json:"broken,omitempty"`
	// Cut says that there was more than MaxSymbols or MaxUses.
	Cut bool `json:"cut,omitempty"`
}

// What is kept of one file at most: a generated file must not fill the index.
const (
	MaxSymbols   = 5_000
	MaxUses      = 100_000 // occurrences
	MaxName      = 200     // bytes of a name
	MaxSignature = 240     // bytes of a signature
	MaxDepth     = 12      // containers within each other
	MaxContainer = 300     // bytes of a container
	// MaxBytes is the largest file that is parsed.
	MaxBytes = 2 << 20
)

// Parser reads files of some languages.
type Parser interface {
	// Version names what results for a language depend on beside the content, ""
	// when the language is not read here and now.
	Version(ctx context.Context, language string) string
	// Parse reads one file. An *Unreadable says that this content cannot be read,
	// today and tomorrow; any other error is of the moment.
	Parse(ctx context.Context, language string, content []byte) (File, error)
}

// Unreadable is the error for a content that no symbols can be read off.
type Unreadable struct{ Why string }

func (u *Unreadable) Error() string { return u.Why }

// NoParser is the error for a language that no parser reads here. It holds the
// language.
type NoParser struct{ Language string }

func (n *NoParser) Error() string {
	if n.Language == "" {
		return "no language that belay knows by its name"
	}
	return "nothing here reads " + n.Language + "; " + Remedy
}

// Remedy says how the other languages are had.
const Remedy = "Go is read by belay itself, other languages by the program belay-symbols (make symbols; docs/symbols.md)"

// IsUnreadable reports whether the content itself is the reason, and which.
func IsUnreadable(err error) (why string, ok bool) {
	var u *Unreadable
	if errors.As(err, &u) {
		return u.Why, true
	}
	return "", false
}

// Query asks for definitions or uses.
type Query struct {
	// Name is a symbol's name, alone or behind its containers: "Append",
	// "Store.Append".
	Name string
	// Prefix takes names that begin with Name too, in any case.
	Prefix bool
	// Under limits the answer to a file or folder, "" for everywhere.
	Under string
	// Limit bounds the answer; 0 means 100.
	Limit int
}

// Split parts a name from the containers before it. The separators of all
// languages are understood.
func (q Query) Split() (container, name string) {
	s := strings.NewReplacer("::", ".", "#", ".", "->", ".").Replace(strings.TrimSpace(q.Name))
	s = strings.TrimSuffix(strings.Trim(s, "."), "()")
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return "", s
}

// Max is the limit in force.
func (q Query) Max() int {
	if q.Limit > 0 {
		return q.Limit
	}
	return 100
}

// Place is a file and the lines in it.
type Place struct {
	Path  string `json:"path"`
	Lines []int  `json:"lines"`
}

// Finder answers from what is indexed already.
type Finder interface {
	// Find lists definitions, the best first: the exact name before another
	// case, that before a prefix; then by path and line. More counts what the
	// limit left out.
	Find(ctx context.Context, q Query) (found []Symbol, more int, err error)
	// Uses lists where a name occurs as an identifier, by path. More counts the
	// files that the limit left out.
	Uses(ctx context.Context, q Query) (places []Place, more int, err error)
	// Status says how much of the repository the answers cover.
	Status(ctx context.Context) (Status, error)
}

// Index keeps the symbols of one workspace up to date.
type Index interface {
	Finder
	// Poke lets the index catch up with the workspace in the background. It
	// returns at once.
	Poke()
	// Sync catches up with the workspace as it is now, or until the context
	// ends: then what is indexed so far can be asked, and Status says how much
	// is missing.
	Sync(ctx context.Context) error
	// Outline reads the symbols of one file as it is now, the bytes as given.
	Outline(ctx context.Context, path string, content []byte) (File, error)
	// Close ends what runs in the background.
	Close() error
}

// Status is how much of a repository an index covers.
type Status struct {
	// Looked says that the repository was looked at at all.
	Looked bool `json:"looked"`
	// Languages are the languages of the repository that are read, sorted.
	Languages []Coverage `json:"languages,omitempty"`
	// Pending are files that are not read yet, Failed those that could not be.
	Pending int `json:"pending,omitempty"`
	Failed  int `json:"failed,omitempty"`
	// Failures are the first of them, with the reason.
	Failures []string `json:"failures,omitempty"`
}

// Coverage is one language of a repository.
type Coverage struct {
	Language string `json:"language"`
	Files    int    `json:"files"`
	Symbols  int    `json:"symbols,omitempty"`
	// Missing says that no parser reads it here.
	Missing bool `json:"missing,omitempty"`
}

// Gaps says in words what the answers do not cover, "" when they cover all
// source files.
func (s Status) Gaps() string {
	var gaps []string
	var missing []string
	for _, l := range s.Languages {
		if l.Missing {
			missing = append(missing, fmt.Sprintf("%s (%s)", l.Language, files(l.Files)))
		}
	}
	if len(missing) > 0 {
		gaps = append(gaps, "not read here: "+strings.Join(missing, ", ")+"; "+Remedy)
	}
	if s.Pending > 0 {
		gaps = append(gaps, files(s.Pending)+" not read yet: ask again soon")
	}
	if s.Failed > 0 {
		gaps = append(gaps, fmt.Sprintf("%s could not be read, the first: %s", files(s.Failed), strings.Join(s.Failures[:min(len(s.Failures), 1)], "")))
	}
	return strings.Join(gaps, "; ")
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// Parsers is several parsers as one: the first that reads a language does.
type Parsers []Parser

// Version implements Parser.
func (ps Parsers) Version(ctx context.Context, language string) string {
	for _, p := range ps {
		if v := p.Version(ctx, language); v != "" {
			return v
		}
	}
	return ""
}

// Parse implements Parser.
func (ps Parsers) Parse(ctx context.Context, language string, content []byte) (File, error) {
	for _, p := range ps {
		if p.Version(ctx, language) != "" {
			return p.Parse(ctx, language, content)
		}
	}
	return File{}, &NoParser{Language: language}
}
