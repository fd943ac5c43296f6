package builtin

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// glob matches slash-separated paths. A pattern without a slash matches the
// base name at any depth, as in .gitignore; one with a slash matches the whole
// path. `*` and `?` stay within one name, `**` crosses names, `[a-z]` and
// `{a,b}` choose, and a leading `!` turns the answer round.
type glob struct {
	re     *regexp.Regexp
	negate bool
}

// compileGlob reads a pattern. Its errors say where the pattern is broken.
func compileGlob(pattern string) (*glob, error) {
	g := &glob{}
	p := strings.TrimPrefix(pattern, "./")
	if strings.HasPrefix(p, "!") {
		g.negate, p = true, p[1:]
	}
	if strings.HasSuffix(p, "/") { // a folder means what is in it
		p += "**"
	}
	anchored := strings.Contains(p, "/")
	p = strings.TrimPrefix(p, "/")
	var b strings.Builder
	b.WriteString(`^`)
	if !anchored {
		b.WriteString(`(?:.*/)?`)
	}
	if err := translate(&b, p); err != nil {
		return nil, err
	}
	b.WriteString(`$`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("the pattern %q can not be read: %w", pattern, err)
	}
	g.re = re
	return g, nil
}

func translate(b *strings.Builder, p string) error {
	depth := 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(p[i:], "**/") && (i == 0 || p[i-1] == '/'):
				b.WriteString(`(?:.*/)?`)
				i += 2
			case strings.HasPrefix(p[i:], "**"):
				b.WriteString(`.*`)
				i++
			default:
				b.WriteString(`[^/]*`)
			}
		case '?':
			b.WriteString(`[^/]`)
		case '[':
			end := strings.IndexByte(p[i+1:], ']')
			if end <= 0 {
				return fmt.Errorf("the [ at byte %d is never closed", i+1)
			}
			set := p[i+1 : i+1+end]
			if set[0] == '!' || set[0] == '^' {
				b.WriteString(`[^/` + strings.ReplaceAll(set[1:], `\`, `\\`) + `]`)
			} else {
				b.WriteString(`[` + strings.ReplaceAll(set, `\`, `\\`) + `]`)
			}
			i += end + 1
		case '{':
			depth++
			b.WriteString(`(?:`)
		case '}':
			if depth == 0 {
				b.WriteString(`\}`)
				continue
			}
			depth--
			b.WriteString(`)`)
		case ',':
			if depth > 0 {
				b.WriteString(`|`)
			} else {
				b.WriteString(`,`)
			}
		case '\\':
			if i+1 < len(p) {
				i++
				b.WriteString(regexp.QuoteMeta(p[i : i+1]))
			}
		default:
			if c < utf8.RuneSelf {
				b.WriteString(regexp.QuoteMeta(p[i : i+1]))
			} else {
				b.WriteByte(c) // a piece of a longer rune
			}
		}
	}
	if depth > 0 {
		return errors.New("a { is never closed")
	}
	return nil
}

// match reports whether a path fits; base is the folder that patterns with a
// slash start from, "" for the root. They may also be written from the root.
func (g *glob) match(base, p string) bool {
	if g == nil {
		return true
	}
	hit := g.re.MatchString(p) || base != "" && g.re.MatchString(strings.TrimPrefix(p, base+"/"))
	return hit != g.negate
}
