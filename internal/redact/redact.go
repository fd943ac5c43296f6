// Package redact takes secrets out of text before it is stored, logged, shown
// or sent: the values of known secret variables, and the well-known shapes of
// keys. What was taken out is visible as [redacted: kind].
//
// It must not know where a text comes from or goes to, and it leaves alone
// what merely looks random: commit ids, digests, UUIDs, test vectors.
//
// # How it works
//
// Text is looked at line by line. No shape but a private key's block spans
// lines, so a line can be judged by itself, and a stream can be judged as it
// comes: Writer holds back what is not decided yet, in bounded memory, and
// gives the same result however the bytes were cut into writes. Line ends stay
// where they are, so that line numbers do not move.
//
// A detector first looks for a literal that every match contains; most lines
// are passed on after that.
package redact

import (
	"encoding/json"
	"io"
	"sort"
	"strings"
)

// Marker is what stands for a secret of a kind.
func Marker(kind string) string { return "[redacted: " + kind + "]" }

// markerStart begins every marker.
const markerStart = "[redacted: "

// Marked reports how many markers a text holds.
func Marked(s string) int { return strings.Count(s, markerStart) }

// Redactor knows the secrets of one process. The zero value and nil know the
// shapes alone. It is safe for concurrent use: nothing in it changes.
type Redactor struct {
	values []Value // longest first
	index  *index
}

// Value is a known secret and the name that stands for it in a marker.
type Value struct{ Name, Secret string }

// minValue is the length in bytes below which a value is too short to be told
// apart from ordinary text.
const minValue = 8

// New returns a Redactor for known secrets. Values that are too short or too
// plain to be told from ordinary text are left out; a value of several lines
// counts line by line. Each is also known in the forms in which it commonly
// travels (inside JSON, in a URL, in base64).
func New(values ...Value) *Redactor {
	r := &Redactor{}
	seen := map[string]bool{}
	add := func(name, secret string) {
		if len(secret) >= minValue && !seen[secret] {
			seen[secret] = true
			r.values = append(r.values, Value{name, secret})
		}
	}
	for _, v := range values {
		for _, line := range strings.Split(strings.ReplaceAll(v.Secret, "\r\n", "\n"), "\n") {
			if line = strings.TrimSpace(line); !telling(line) {
				continue
			}
			for _, form := range forms(line) {
				add(v.Name, form)
			}
		}
	}
	sort.SliceStable(r.values, func(i, j int) bool { return len(r.values[i].Secret) > len(r.values[j].Secret) })
	r.index = newIndex(r.values)
	return r
}

// Text returns a text without its secrets.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	w := r.Writer(&b)
	// A Builder takes everything.
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// Holds reports whether a text holds a secret, and of which kind the first is.
func (r *Redactor) Holds(s string) (kind string, yes bool) {
	clean := r.Text(s)
	if clean == s {
		return "", false
	}
	// The first marker that the text did not bring along names the kind.
	i := 0
	for i < len(clean) && i < len(s) && clean[i] == s[i] {
		i++
	}
	at := strings.Index(clean[max(0, i-len(markerStart)):], markerStart)
	if at < 0 {
		return "secret", true
	}
	kind, _, _ = strings.Cut(clean[max(0, i-len(markerStart))+at+len(markerStart):], "]")
	return kind, true
}

// JSON redacts every string inside a JSON value, keys included, and reports
// the kind of the first one that held a secret; "" means that raw came back
// unchanged. What is no JSON is redacted as text.
func (r *Redactor) JSON(raw []byte) (clean []byte, kind string) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		kind, _ = r.Holds(string(raw))
		if kind == "" {
			return raw, ""
		}
		return []byte(r.Text(string(raw))), kind
	}
	v = r.walk(v, &kind)
	if kind == "" {
		return raw, ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`{}`), kind // it came out of a decoder: it can be encoded
	}
	return b, kind
}

func (r *Redactor) walk(v any, kind *string) any {
	switch v := v.(type) {
	case string:
		k, yes := r.Holds(v)
		if !yes {
			return v
		}
		if *kind == "" {
			*kind = k
		}
		return r.Text(v)
	case []any:
		for i := range v {
			v[i] = r.walk(v[i], kind)
		}
	case map[string]any:
		return r.walkMap(v, kind)
	}
	return v
}

// walkMap also looks at a value together with its key: {"password": "…"} is an
// assignment although neither half is a secret by itself.
func (r *Redactor) walkMap(m map[string]any, kind *string) any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok && assigned(k, s) {
			if *kind == "" {
				*kind = kindAssigned
			}
			out[r.Text(k)] = Marker(kindAssigned)
			continue
		}
		name := r.walk(k, kind).(string)
		out[name] = r.walk(v, kind)
	}
	return out
}

// finding is one secret in a line: its own span, and the span of all that had
// to be there to recognise it.
type finding struct {
	from, to           int
	matchFrom, matchTo int
	kind               string
}

// passes bounds how often a line is looked at again: taking one secret out can
// make a boundary at which the next one begins.
const passes = 4

// line redacts one line, or a part of a long one.
func (r *Redactor) line(s string) string {
	for range passes {
		fs := r.find(s)
		if len(fs) == 0 {
			return s
		}
		var b strings.Builder
		at := 0
		for _, f := range fs {
			b.WriteString(s[at:f.from])
			b.WriteString(Marker(f.kind))
			at = f.to
		}
		b.WriteString(s[at:])
		s = b.String()
	}
	return s
}

// find returns the secrets of a line in order; none overlaps another.
func (r *Redactor) find(s string) []finding {
	could := r.scan(s)
	if could == 0 {
		return nil
	}
	var fs []finding
	if could.has(valuesBit) {
		for _, v := range r.values {
			for at := 0; ; {
				i := strings.Index(s[at:], v.Secret)
				if i < 0 {
					break
				}
				from, to := at+i, at+i+len(v.Secret)
				fs = append(fs, finding{from, to, from, to, v.Name})
				at = to
			}
		}
	}
	low := lower(s)
	for i := range detectors {
		if could.has(i) {
			fs = detectors[i].find(s, low, fs)
		}
	}
	return merge(fs)
}

// merge sorts findings and joins those that overlap; the earlier and longer
// one names the kind.
func merge(fs []finding) []finding {
	if len(fs) < 2 {
		return fs
	}
	sort.SliceStable(fs, func(i, j int) bool {
		if fs[i].from != fs[j].from {
			return fs[i].from < fs[j].from
		}
		return fs[i].to > fs[j].to
	})
	out := fs[:1]
	for _, f := range fs[1:] {
		last := &out[len(out)-1]
		if f.from >= last.to {
			out = append(out, f)
			continue
		}
		last.to, last.matchTo = max(last.to, f.to), max(last.matchTo, f.matchTo)
		last.matchFrom = min(last.matchFrom, f.matchFrom)
	}
	return out
}

// lower lowers ASCII letters, so that positions stay.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 'A' && c <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if c := b[i]; c >= 'A' && c <= 'Z' {
					b[i] = c + 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
