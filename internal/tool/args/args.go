// Package args declares what arguments a tool takes, and reads what a model
// wrote against that: it says exactly which field does not fit and what was
// expected there, accepts harmless habits, and brings what fits into one
// normal form. From the same declaration comes the JSON Schema that the model
// sees. It must not know any tool, the workspace or what arguments are for.
//
// # Habits that are accepted
//
//   - a number or truth value written as a string ("12", "true"), and a whole
//     number written as 12.0
//   - another common name of a field, where the declaration lists it
//   - null or "" for an optional field: the same as leaving it out
//   - an array written as a string of JSON; one element without its array
//   - a plain string in place of an object, where the declaration says which
//     field it stands for
//   - all arguments as a string of JSON; no arguments at all for {}
//   - a synonym of an enumerated word, where the declaration lists it
//   - words about the call itself ("description"), where the declaration lists
//     them: they are dropped
//
// Anything else is refused, so that a mistake never becomes an action that was
// not meant.
//
// # The normal form
//
// Canonical JSON: keys sorted, nothing optional that equals its default, one
// spelling for each value. The identity of an action is a hash over it.
package args

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"belay/internal/fault"
)

// Values are arguments that fit: string, int64, bool, []string and []Values by
// field name. A field that was not given, or equals its default, is absent.
type Values map[string]any

// String returns a field or "".
func (v Values) String(name string) string { s, _ := v[name].(string); return s }

// Int returns a field or the given default.
func (v Values) Int(name string, otherwise int64) int64 {
	if n, ok := v[name].(int64); ok {
		return n
	}
	return otherwise
}

// Bool returns a field or false.
func (v Values) Bool(name string) bool { b, _ := v[name].(bool); return b }

// Strings returns a field or nil.
func (v Values) Strings(name string) []string { s, _ := v[name].([]string); return s }

// Objects returns a field or nil.
func (v Values) Objects(name string) []Values { o, _ := v[name].([]Values); return o }

// Has reports whether the field was given.
func (v Values) Has(name string) bool { _, ok := v[name]; return ok }

// JSON is the normal form.
func (v Values) JSON() (json.RawMessage, error) {
	b, err := marshal(v)
	if err != nil {
		return nil, fmt.Errorf("args: writing normalised arguments: %w", err)
	}
	return b, nil
}

// Invalid is the fault for one field of a tool's arguments.
func Invalid(tool, field, problem string) *fault.Fault {
	return fault.New(fault.InvalidArguments, fault.Model, fmt.Sprintf("%s: argument %q: %s", tool, field, problem),
		"call it again with that argument mended")
}

// maxProblems is how many fields one answer names.
const maxProblems = 5

// Parse reads what a model wrote. The error is a *fault.Fault of kind
// invalid_arguments that names each field that does not fit.
func (o *Object) Parse(tool string, raw json.RawMessage) (Values, error) {
	m, err := object(raw)
	if err != nil {
		return nil, fault.New(fault.InvalidArguments, fault.Model, tool+": "+err.Error(),
			"call it again with one JSON object that has "+o.usage())
	}
	r := &reader{}
	v := r.object("", o, m)
	if len(r.problems) == 0 {
		return v, nil
	}
	list := r.problems
	if len(list) > maxProblems {
		list = append(list[:maxProblems:maxProblems], fmt.Sprintf("and %d more", len(r.problems)-maxProblems))
	}
	return nil, fault.New(fault.InvalidArguments, fault.Model, tool+": "+strings.Join(list, "; "), "it takes "+o.usage())
}

// usage lists the fields in words.
func (o *Object) usage() string {
	if len(o.Fields) == 0 {
		return "no arguments"
	}
	list := make([]string, len(o.Fields))
	for i, f := range o.Fields {
		list[i] = f.Name
		if !f.Required {
			list[i] += "?"
		}
		if f.Of != nil {
			list[i] += ": [{" + f.Of.usage() + "}]"
		}
	}
	return strings.Join(list, ", ")
}

// object reads the outermost object.
func object(raw json.RawMessage) (map[string]any, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("the arguments are not valid UTF-8")
	}
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok { // arguments that were encoded twice
		if v, err = decode([]byte(s)); err != nil {
			return nil, fmt.Errorf("the arguments are a string, not an object; and in the string, %w", err)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		return v, nil
	case nil:
		return map[string]any{}, nil
	default:
		return nil, fmt.Errorf("the arguments are %s, not an object", kind(v))
	}
}

// decode reads exactly one JSON value and says where it is broken.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax) && syntax.Offset <= int64(len(raw)):
			return nil, fmt.Errorf("not JSON at byte %d, %s: %s", syntax.Offset, near(raw, int(syntax.Offset)), strings.TrimPrefix(err.Error(), "json: "))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("the JSON breaks off at byte %d, %s", len(raw), near(raw, len(raw)))
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	end := d.InputOffset()
	if rest := bytes.TrimSpace(raw[end:]); len(rest) > 0 {
		return nil, fmt.Errorf("not JSON at byte %d: %q follows the end of the object", end+1, clip(string(rest)))
	}
	return v, nil
}

// near quotes what stands in front of a place.
func near(raw []byte, at int) string {
	if at <= 1 {
		return "at the start"
	}
	return fmt.Sprintf("after %q", strings.ToValidUTF8(string(raw[max(at-21, 0):at-1]), ""))
}

func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// kind names a JSON value in words.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %q", clip(v))
	case json.Number:
		return "the number " + clip(v.String())
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}

// reader collects what does not fit.
type reader struct{ problems []string }

func (r *reader) problem(at, format string, a ...any) {
	r.problems = append(r.problems, fmt.Sprintf("argument %q: ", at)+fmt.Sprintf(format, a...))
}

func (r *reader) object(at string, o *Object, m map[string]any) Values {
	v := Values{}
	taken := map[string]bool{}
	for _, name := range o.Ignored {
		taken[name] = true
	}
	for _, f := range o.Fields {
		name := at + f.Name
		given, ok := m[f.Name]
		taken[f.Name] = true
		for _, alias := range f.Aliases {
			other, has := m[alias]
			taken[alias] = true
			switch {
			case !has || other == nil:
			case !ok || given == nil:
				given, ok = other, true
			case !equal(given, other):
				r.problem(name, "given twice, as %s and as %s, with different values", f.Name, alias)
			}
		}
		before := len(r.problems)
		var val any
		if ok && given != nil {
			val = r.value(name, f, given)
		}
		if val != nil && val != f.Default {
			v[f.Name] = val
		}
		if val == nil && f.Required && len(r.problems) == before {
			r.problem(name, "missing; expected %s", f.expected())
		}
	}
	for _, name := range unknown(m, taken) {
		hint := ""
		if best := o.nearest(name); best != "" {
			hint = fmt.Sprintf("; did you mean %q?", best)
		}
		r.problem(at+name, "there is no such argument%s", hint)
	}
	return v
}

func unknown(m map[string]any, taken map[string]bool) []string {
	var names []string
	for name := range m {
		if !taken[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func equal(a, b any) bool {
	x, errX := marshal(a)
	y, errY := marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// nearest finds a field whose name holds the given one, or is held by it.
func (o *Object) nearest(name string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.Map(func(r rune) rune {
			if r == '_' || r == '-' {
				return -1
			}
			return r
		}, s))
	}
	n := plain(name)
	for _, f := range o.Fields {
		if p := plain(f.Name); len(n) > 2 && (strings.Contains(p, n) || strings.Contains(n, p)) {
			return f.Name
		}
	}
	return ""
}

// expected says what a field takes.
func (f Field) expected() string {
	switch f.Type {
	case Integer:
		if f.Max > 0 {
			return fmt.Sprintf("an integer from %d to %d", f.Min, f.Max)
		}
		return fmt.Sprintf("an integer of at least %d", f.Min)
	case Boolean:
		return "true or false"
	case Strings:
		return "an array of strings"
	case Objects:
		return "an array of objects {" + f.Of.usage() + "}"
	}
	switch {
	case len(f.Enum) > 0:
		return "one of " + strings.Join(f.Enum, ", ")
	case f.Keep:
		return "a string"
	}
	return "a string that is not empty"
}

// value reads one field; nil means that it counts as not given, or that a
// problem was noted.
func (r *reader) value(at string, f Field, given any) any {
	switch f.Type {
	case Integer:
		return r.integer(at, f, given)
	case Boolean:
		switch b := given.(type) {
		case bool:
			return b
		case string:
			switch strings.ToLower(strings.TrimSpace(b)) {
			case "true":
				return true
			case "false":
				return false
			case "":
				return nil
			}
		}
	case Strings:
		return r.strings(at, f, given)
	case Objects:
		return r.objects(at, f, given)
	default:
		if s, ok := given.(string); ok {
			return r.text(at, f, s)
		}
	}
	r.problem(at, "expected %s, got %s", f.expected(), kind(given))
	return nil
}

func (r *reader) text(at string, f Field, s string) any {
	if i := strings.IndexByte(s, 0); i >= 0 {
		r.problem(at, "it holds a NUL character at byte %d; expected text", i)
		return nil
	}
	if len(f.Enum) > 0 {
		s = strings.ToLower(strings.TrimSpace(s))
		if w, ok := f.Synonyms[s]; ok {
			s = w
		}
		if s != "" && !slices.Contains(f.Enum, s) {
			r.problem(at, "expected %s, got %q", f.expected(), clip(s))
			return nil
		}
	}
	if !f.Keep && strings.TrimSpace(s) == "" {
		return nil
	}
	return s
}

func (r *reader) integer(at string, f Field, given any) any {
	var text string
	switch n := given.(type) {
	case json.Number:
		text = n.String()
	case string:
		if text = strings.TrimSpace(n); text == "" {
			return nil
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		x, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			r.problem(at, "expected %s, got %s", f.expected(), kind(given))
			return nil
		}
		n = int64(x)
	}
	if n < f.Min || (f.Max > 0 && n > f.Max) {
		r.problem(at, "expected %s, got %d", f.expected(), n)
		return nil
	}
	return n
}

// array accepts an array, a string of JSON that is one, and one element alone.
func array(given any) []any {
	if s, ok := given.(string); ok && strings.HasPrefix(strings.TrimSpace(s), "[") {
		if v, err := decode([]byte(s)); err == nil {
			given = v
		}
	}
	if list, ok := given.([]any); ok {
		return list
	}
	return []any{given}
}

func (r *reader) strings(at string, f Field, given any) any {
	if s, ok := given.(string); ok && strings.TrimSpace(s) == "" {
		return nil
	}
	var out []string
	for i, e := range array(given) {
		s, ok := e.(string)
		if !ok {
			r.problem(fmt.Sprintf("%s[%d]", at, i), "expected a string (%s is %s), got %s", at, f.expected(), kind(e))
			return nil
		}
		if s, ok := r.text(fmt.Sprintf("%s[%d]", at, i), Field{}, s).(string); ok {
			out = append(out, s)
		}
	}
	if out == nil {
		return nil
	}
	return out
}

func (r *reader) objects(at string, f Field, given any) any {
	if s, ok := given.(string); ok && strings.TrimSpace(s) == "" {
		return nil
	}
	out := []Values{}
	for i, e := range array(given) {
		place := fmt.Sprintf("%s[%d]", at, i)
		if s, ok := e.(string); ok {
			if v, err := decode([]byte(s)); err == nil {
				if m, ok := v.(map[string]any); ok { // one element encoded twice
					e = m
				}
			}
		}
		m, ok := e.(map[string]any)
		if s, isText := e.(string); !ok && isText && f.Bare != "" {
			m, ok = map[string]any{f.Bare: s}, true
		}
		if !ok {
			r.problem(place, "expected an object {%s}, got %s", f.Of.usage(), kind(e))
			return nil
		}
		out = append(out, r.object(place+".", f.Of, m))
	}
	if len(out) == 0 && !f.Required {
		return nil
	}
	return out
}
