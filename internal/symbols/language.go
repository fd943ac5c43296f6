package symbols

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// The languages.
const (
	Go         = "go"
	Python     = "python"
	JavaScript = "javascript"
	TypeScript = "typescript"
	TSX        = "tsx"
	Rust       = "rust"
	Java       = "java"
	C          = "c"
	CPP        = "c++"
	Ruby       = "ruby"
)

var byExtension = map[string]string{
	".go": Go,
	".py": Python, ".pyi": Python, ".pyw": Python,
	".js": JavaScript, ".mjs": JavaScript, ".cjs": JavaScript, ".jsx": JavaScript,
	".ts": TypeScript, ".mts": TypeScript, ".cts": TypeScript, ".tsx": TSX,
	".rs":   Rust,
	".java": Java,
	".c":    C, ".h": C,
	".cc": CPP, ".cpp": CPP, ".cxx": CPP, ".c++": CPP, ".hh": CPP, ".hpp": CPP, ".hxx": CPP, ".ipp": CPP, ".inl": CPP,
	".rb": Ruby, ".rake": Ruby, ".gemspec": Ruby, ".ru": Ruby,
}

var byName = map[string]string{"Rakefile": Ruby, "Gemfile": Ruby}

// Language is the language of a file by its name, "" for one that is not known.
func Language(name string) string {
	base := path.Base(name)
	if l, ok := byName[base]; ok {
		return l
	}
	return byExtension[strings.ToLower(path.Ext(base))]
}

// marksOfCPP tell a header in C++ from one in C.
var marksOfCPP = [][]byte{[]byte("namespace "), []byte("template<"), []byte("template <"), []byte("public:"), []byte("private:"), []byte("protected:"),
	[]byte("std::"), []byte("constexpr "), []byte("virtual "), []byte("operator=")}

// LanguageOf is Language, and looks into headers, which C and C++ share.
func LanguageOf(name string, content []byte) string {
	l := Language(name)
	if l == C && strings.EqualFold(path.Ext(name), ".h") {
		for _, m := range marksOfCPP {
			if bytes.Contains(content, m) {
				return CPP
			}
		}
	}
	return l
}

// Readable refuses what no parser should be given: too large, or no text.
func Readable(content []byte) error {
	if len(content) > MaxBytes {
		return &Unreadable{Why: "it is larger than 2 MiB"}
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return &Unreadable{Why: "it is binary"}
	}
	return nil
}

// Tidy brings what a parser found into the bounds of a File, whatever the
// parser was given.
func Tidy(f File) File {
	if len(f.Symbols) > MaxSymbols {
		f.Symbols, f.Cut = f.Symbols[:MaxSymbols], true
	}
	for i := range f.Symbols {
		s := &f.Symbols[i]
		s.Name, s.Container = short(s.Name, MaxName), short(s.Container, MaxContainer)
		s.Signature = short(strings.Join(strings.Fields(s.Signature), " "), MaxSignature)
	}
	n := 0
	for i := range f.Uses {
		u := &f.Uses[i]
		u.Name = short(u.Name, MaxName)
		if n += len(u.Lines); n > MaxUses {
			f.Uses, f.Cut = f.Uses[:i], true
			break
		}
	}
	return f
}

// short cuts a text to valid UTF-8 of at most n bytes.
func short(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Sorted are uses by name.
func Sorted(at map[string][]int) []Use {
	out := make([]Use, 0, len(at))
	for name, lines := range at {
		out = append(out, Use{Name: name, Lines: lines})
	}
	slices.SortFunc(out, func(a, b Use) int { return strings.Compare(a.Name, b.Name) })
	return out
}
