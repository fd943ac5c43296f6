package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arg is one word of a command after expansion, as far as it is known before
// the command runs.
type arg struct {
	src    string // as written
	val    string // the value when static, else what it is known to begin with
	frag   string // for an unknown value: its known pieces, joined by \x00
	static bool   // val is the whole value
	glob   bool   // val is a file name pattern that the shell expands
	loose  bool   // may turn out as no word or as several, of any shape
	tame   bool   // unknown, but certainly no option
	repeat bool   // stands for one or more words of this shape
	vanish bool   // may turn out as no word
}

func known(val string) arg { return arg{src: val, val: val, static: true} }

// plain reports whether the word is exactly val.
func (a arg) plain() bool { return a.static && !a.glob }

// mayBeFlag reports whether a word that is not fully known can turn out to
// begin with a dash. A pattern that begins with a wildcard can: a file may be
// named like an option.
func (a arg) mayBeFlag() bool {
	switch {
	case a.plain():
		return false
	case a.loose:
		return true
	case a.tame:
		return false
	case a.glob:
		return a.val == "" || strings.IndexByte("*?[-", a.val[0]) >= 0
	default:
		// --name= is an option for certain, and its name is known.
		return a.val == "" || a.val[0] == '-' && !(strings.HasPrefix(a.val, "--") && strings.Contains(a.val, "="))
	}
}

// isFlag reports whether the known beginning of the word makes it an option.
func (a arg) isFlag() bool { return len(a.val) > 1 && a.val[0] == '-' }

// piece is part of a word: text, or something unknown.
type piece struct {
	text   string
	quoted bool
	static bool
	raw    bool // source text, in which a backslash quotes the next byte
	loose  bool
	tame   bool
	vanish bool // tame, but may be empty
}

// maxVariants bounds how many readings of one command are judged one by one.
// Beyond it a word counts as unknown.
const maxVariants = 48

// expand returns the readings of a word: each is a list of words, because an
// unquoted value can be several, or none. Usually there is one reading of one
// word.
func (w *walker) expand(word *syntax.Word) [][]arg {
	if len(word.Parts) == 1 {
		if l, ok := word.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(l.Value, "\\*?[{~") {
			return [][]arg{{{src: l.Value, val: l.Value, static: true}}}
		}
	}
	src := w.source(word)
	words, ok := w.braces(word)
	if !ok {
		return [][]arg{{{src: src, loose: true}}}
	}
	readings := [][]arg{nil}
	for _, b := range words {
		readings = product(readings, w.expandPlain(b, src))
		if len(readings) > maxVariants {
			return [][]arg{{{src: src, loose: true}}}
		}
	}
	return readings
}

func product(left, right [][]arg) [][]arg {
	if len(right) == 1 && len(left) == 1 {
		return [][]arg{append(left[0], right[0]...)}
	}
	var out [][]arg
	for _, l := range left {
		for _, r := range right {
			out = append(out, append(append([]arg{}, l...), r...))
		}
	}
	return out
}

// braces splits {a,b} into words. It reports false when what is there is not
// surely understood.
func (w *walker) braces(word *syntax.Word) ([]*syntax.Word, bool) {
	suspicious := false
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.Contains(l.Value, "{") {
			suspicious = true
		}
	}
	if !suspicious {
		return []*syntax.Word{word}, true
	}
	if len(word.Parts) == 1 && word.Parts[0].(*syntax.Lit).Value == "{}" {
		return []*syntax.Word{word}, true
	}
	split := &syntax.Word{Parts: append([]syntax.WordPart{}, word.Parts...)}
	if !syntax.SplitBraces(split) {
		// Braces without a comma or a range are text; with one, the parser
		// and bash might differ.
		return []*syntax.Word{word}, !braceLike(word)
	}
	out := []*syntax.Word{{}}
	for _, p := range split.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			for _, o := range out {
				o.Parts = append(o.Parts, p)
			}
			continue
		}
		if b.Sequence || len(out)*len(b.Elems) > maxVariants {
			return nil, false
		}
		var next []*syntax.Word
		for _, o := range out {
			for _, e := range b.Elems {
				for _, ep := range e.Parts {
					if _, nested := ep.(*syntax.BraceExp); nested {
						return nil, false
					}
				}
				parts := append(append([]syntax.WordPart{}, o.Parts...), e.Parts...)
				next = append(next, &syntax.Word{Parts: parts})
			}
		}
		out = next
	}
	for _, o := range out {
		if braceLike(o) {
			return nil, false
		}
	}
	return out, true
}

func braceLike(word *syntax.Word) bool {
	open, sep := false, false
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			open = open || strings.Contains(l.Value, "{")
			sep = sep || strings.Contains(l.Value, ",") || strings.Contains(l.Value, "..")
		}
	}
	return open && sep
}

// expandPlain expands a word without brace expansion.
func (w *walker) expandPlain(word *syntax.Word, src string) [][]arg {
	variants := [][]piece{nil}
	for i, p := range word.Parts {
		alts := w.pieces(p, false, i == 0)
		if len(variants)*len(alts) > maxVariants {
			alts = []piece{{loose: true}}
		}
		if len(alts) == 1 {
			for j := range variants {
				variants[j] = append(variants[j], alts[0])
			}
			continue
		}
		var next [][]piece
		for _, v := range variants {
			for _, a := range alts {
				next = append(next, append(append([]piece{}, v...), a))
			}
		}
		variants = next
	}
	out := make([][]arg, 0, len(variants))
	for _, v := range variants {
		out = append(out, assemble(v, src))
	}
	return out
}

// pieces returns the alternatives for one word part.
func (w *walker) pieces(p syntax.WordPart, quoted, first bool) []piece {
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			return []piece{{text: unescape(p.Value, "$`\"\\\n"), quoted: true, static: true}}
		}
		if first && strings.HasPrefix(p.Value, "~") && len(p.Value) > 1 && p.Value[1] != '/' {
			return []piece{{}} // ~user, ~+ and their kind
		}
		return []piece{{text: p.Value, static: true, raw: true}}
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, "\\") {
			if text, ok := ansi(p.Value); ok {
				return []piece{{text: text, quoted: true, static: true}}
			}
			return []piece{{quoted: true}}
		}
		return []piece{{text: p.Value, quoted: true, static: true}}
	case *syntax.DblQuoted:
		return w.quotedPieces(p)
	case *syntax.ParamExp:
		return w.paramPieces(p, quoted)
	case *syntax.CmdSubst:
		tame := w.tame(p)
		return []piece{{quoted: quoted || tame, loose: !quoted && !tame, tame: tame, vanish: !quoted && tame && !numberCommand(p)}}
	case *syntax.ArithmExp:
		return []piece{{quoted: true, tame: true}}
	case *syntax.ProcSubst:
		return []piece{{text: "/dev/fd/", quoted: true}}
	default:
		return []piece{{loose: true}}
	}
}

func (w *walker) quotedPieces(q *syntax.DblQuoted) []piece {
	out := []piece{{quoted: true, static: true, tame: false}}
	for _, p := range q.Parts {
		alts := w.pieces(p, true, false)
		if len(out)*len(alts) > maxVariants {
			return []piece{{quoted: true}}
		}
		var next []piece
		for _, o := range out {
			for _, a := range alts {
				next = append(next, join(o, a))
			}
		}
		out = next
	}
	return out
}

// join glues two pieces of a quoted string: what is known stays known up to
// the first unknown piece. The rest is kept as a fragment in the text after a
// \x00, which no shell word can hold.
func join(a, b piece) piece {
	j := piece{quoted: true, static: a.static && b.static, loose: a.loose || b.loose}
	switch {
	case a.static && a.text == "" && !b.static:
		j.text, j.tame = b.text, b.tame
	case a.static:
		j.text = a.text + midWord(b.text)
		j.tame = false
	default:
		j.text, j.tame = a.text+"\x00"+b.text, a.tame
	}
	return j
}

// paramPieces are the possible values of a parameter.
func (w *walker) paramPieces(p *syntax.ParamExp, quoted bool) []piece {
	if p.Length || p.Param != nil && plainParam(p) && strings.Contains("#?$!", p.Param.Value) {
		return []piece{{quoted: true, tame: true, vanish: !quoted && !p.Length && p.Param.Value == "!"}}
	}
	if p.Param == nil || !plainParam(p) {
		multi := p.Index != nil || p.Excl || p.Param != nil && (p.Param.Value == "@" || p.Param.Value == "*")
		return []piece{{quoted: quoted && !multi, loose: !quoted || multi}}
	}
	name := p.Param.Value
	if name == "@" || name == "*" {
		return []piece{{loose: true}}
	}
	vals, open := w.values(name, p.Pos())
	var out []piece
	for _, v := range vals {
		if !v.static || v.glob {
			// A quoted value is one word, whatever it is.
			u := piece{text: prefixOf(v), quoted: quoted, loose: !quoted && !v.tame, tame: v.tame, vanish: !quoted && v.tame}
			if v.loose {
				u.text = ""
			}
			out = append(out, u)
			continue
		}
		out = append(out, piece{text: v.val, quoted: quoted, static: true})
	}
	if open || len(out) == 0 {
		unknown := piece{quoted: quoted, loose: !quoted}
		if home[name] && len(out) == 0 {
			// The environment's own folders are paths, never options.
			unknown = piece{text: homePrefix(name), quoted: true}
		}
		out = append(out, unknown)
	}
	return out
}

// home are variables that hold an absolute path in every environment that
// belay gives a command.
var home = map[string]bool{"HOME": true, "PWD": true, "TMPDIR": true}

func homePrefix(name string) string {
	if name == "HOME" {
		return "~/"
	}
	return "/"
}

// midWord is a known beginning where it stands inside a word: there the home
// folder's ~ would be text.
func midWord(text string) string {
	if strings.HasPrefix(text, "~/") {
		return "/"
	}
	return text
}

func prefixOf(v arg) string {
	if !v.glob {
		return v.val
	}
	if i := strings.IndexAny(v.val, "*?["); i >= 0 {
		return v.val[:i]
	}
	return v.val
}

// plainParam reports whether the expansion is $name or ${name}.
func plainParam(p *syntax.ParamExp) bool {
	return !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil &&
		p.Flags == nil && p.NestedParam == nil && len(p.Modifiers) == 0 && !p.IsSet
}

// builder collects the words that the pieces of one word make.
type builder struct {
	src   string
	out   []arg
	cur   arg
	pat   string // cur's text as a pattern: literal wildcards escaped
	begun bool
}

func (b *builder) flush() {
	if b.begun {
		if b.cur.glob {
			b.cur.val = b.pat
		}
		b.out = append(b.out, b.cur)
	}
	b.cur, b.pat, b.begun = arg{src: b.src, static: true}, "", false
}

func (b *builder) put(text, pat string, glob bool) {
	b.begun = true
	if !b.cur.static {
		b.cur.frag += "\x00" + text
		return
	}
	b.cur.val += text
	b.pat += pat
	b.cur.glob = b.cur.glob || glob
}

func (b *builder) unknown(p piece) {
	if b.cur.static {
		known, _, _ := strings.Cut(p.text, "\x00")
		b.cur.frag = b.cur.val + "\x00" + p.text
		b.cur.tame = !b.begun && p.tame
		b.cur.vanish = !b.begun && p.vanish
		if b.cur.glob {
			// A wildcard before the unknown piece: nothing after it is sure.
			b.cur.val = prefixOf(arg{val: b.pat, glob: true})
			b.cur.glob = false
		} else {
			if b.cur.val != "" {
				known = midWord(known)
			}
			b.cur.val += known
		}
	} else {
		b.cur.frag += "\x00" + p.text
	}
	b.cur.static, b.begun = false, true
	b.cur.loose = b.cur.loose || p.loose
}

// assemble makes words of pieces: an unquoted value is split at blanks, an
// unquoted wildcard makes a pattern.
func assemble(ps []piece, src string) []arg {
	b := &builder{src: src, cur: arg{src: src, static: true}}
	for _, p := range ps {
		switch {
		case !p.static:
			b.unknown(p)
		case p.raw:
			b.put(unescape(p.text, ""), p.text, hasWildcard(p.text))
		case p.quoted:
			b.put(p.text, escapeGlob(p.text), false)
		default:
			b.split(p.text)
		}
	}
	b.flush()
	return b.out
}

// split adds an unquoted value.
func (b *builder) split(text string) {
	blank := func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }
	for i := 0; i < len(text); {
		if blank(text[i]) {
			b.flush()
			i++
			continue
		}
		j := i
		for j < len(text) && !blank(text[j]) {
			j++
		}
		b.put(text[i:j], text[i:j], strings.ContainsAny(text[i:j], "*?["))
		i = j
	}
}

// hasWildcard reports whether source text holds a wildcard that no backslash
// takes away.
func hasWildcard(v string) bool {
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

func escapeGlob(v string) string {
	if !strings.ContainsAny(v, "*?[\\") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if strings.IndexByte("*?[\\", v[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

// unescape takes the backslash from before each byte of which, or from before
// any byte when which is empty. A backslash before a newline vanishes with it.
func unescape(v, which string) string {
	if !strings.Contains(v, "\\") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] == '\\' && i+1 < len(v) && (which == "" || strings.IndexByte(which, v[i+1]) >= 0) {
			i++
			if v[i] == '\n' {
				continue
			}
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

// ansi reads the escapes of a $'…' string that every shell agrees on.
func ansi(v string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			b.WriteByte(v[i])
			continue
		}
		if i++; i == len(v) {
			return "", false
		}
		switch v[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '\\', '\'', '"':
			b.WriteByte(v[i])
		default:
			return "", false
		}
	}
	return b.String(), true
}
