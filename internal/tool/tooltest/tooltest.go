// Package tooltest is the conformance suite that every tool passes, whoever
// wrote it: what the port promises about Spec and Describe, held against the
// tool by generated arguments. It must not know any particular tool.
package tooltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
)

var toolName = regexp.MustCompile(`^[a-z][a-z_]{2,63}$`)

// Run holds one tool against the port. valid are arguments that the tool
// accepts, as JSON objects that use every field at least once between them.
func Run(t *testing.T, tl tool.Tool, valid ...string) {
	t.Helper()
	spec := tl.Spec()
	schema, resolved := specification(t, spec)
	props := schema.Properties
	t.Run("valid arguments", func(t *testing.T) {
		used := map[string]bool{}
		for _, v := range valid {
			m := object(t, v)
			for name := range m {
				used[name] = true
			}
			accept(t, tl, resolved, []byte(v))
		}
		for name := range props {
			if !used[name] {
				t.Errorf("no valid example uses %s", name)
			}
		}
	})
	t.Run("a field that is missing is named", func(t *testing.T) {
		for _, name := range schema.Required {
			for _, v := range valid {
				m := object(t, v)
				delete(m, name)
				refuse(t, tl, encode(t, m), name)
			}
		}
	})
	t.Run("a field that does not exist is named", func(t *testing.T) {
		for _, v := range valid {
			m := object(t, v)
			m["no_such_thing"] = 1
			refuse(t, tl, encode(t, m), "no_such_thing")
		}
	})
	t.Run("a field of another type is named", func(t *testing.T) {
		for _, v := range valid {
			m := object(t, v)
			for name, was := range m {
				for _, wrong := range wrongFor(props[name]) {
					m[name] = wrong
					refuse(t, tl, encode(t, m), name)
				}
				m[name] = was
			}
		}
	})
	t.Run("what is no object is refused", func(t *testing.T) {
		for _, raw := range []string{`{`, `[]`, `[1]`, `"x"`, `3`, `true`, `nul`, `{"a":}`, `{} {}`, "{\"a\":\"\xff\"}", `{"a":1,}`} {
			refuse(t, tl, []byte(raw), spec.Name)
		}
	})
	t.Run("generated arguments", func(t *testing.T) { generated(t, tl, schema, resolved) })
}

// specification checks what a tool declares.
func specification(t *testing.T, spec tool.Spec) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	if !toolName.MatchString(spec.Name) || len(spec.Description) < 10 {
		t.Errorf("name %q, description %q", spec.Name, spec.Description)
	}
	switch spec.Effect {
	case event.Read, event.Verifiable, event.Supervised, event.Keyed, event.Opaque, event.Control:
	default:
		t.Errorf("%s has the effect class %q", spec.Name, spec.Effect)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		t.Fatalf("the schema of %s can not be read: %v", spec.Name, err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("the schema of %s is not valid: %v", spec.Name, err)
	}
	if schema.Type != "object" {
		t.Errorf("the schema of %s is of type %q", spec.Name, schema.Type)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, spec.Schema); err != nil || compact.Len() != len(spec.Schema) {
		t.Errorf("the schema of %s has blanks that cost tokens (%v)", spec.Name, err)
	}
	return &schema, resolved
}

// accept checks all that Describe promises for arguments that it takes.
func accept(t testing.TB, tl tool.Tool, resolved *jsonschema.Resolved, raw []byte) {
	t.Helper()
	given := bytes.Clone(raw)
	n, a, err := tl.Describe(raw)
	if err != nil {
		t.Fatalf("%s does not take %s: %v", tl.Spec().Name, raw, err)
	}
	if !bytes.Equal(raw, given) {
		t.Fatalf("Describe changed its argument %s to %s", given, raw)
	}
	var v any
	if err := json.Unmarshal(n, &v); err != nil {
		t.Fatalf("%s: the normal form %s of %s is not JSON: %v", tl.Spec().Name, n, raw, err)
	}
	if err := resolved.Validate(v); err != nil {
		t.Fatalf("%s: the normal form %s of %s does not fit the schema: %v", tl.Spec().Name, n, raw, err)
	}
	if c := canonical(t, v); !bytes.Equal(c, n) {
		t.Fatalf("%s: the normal form %s is not canonical, which is %s", tl.Spec().Name, n, c)
	}
	for range 2 {
		n2, a2, err := tl.Describe(n)
		if err != nil || !bytes.Equal(n, n2) || fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", a2) {
			t.Fatalf("%s is not idempotent: %s %+v becomes %s %+v, %v", tl.Spec().Name, n, a, n2, a2, err)
		}
	}
	for _, p := range append(append([]string{}, a.Reads...), a.Writes...) {
		if p == "" || strings.Contains(p, "//") || strings.HasPrefix(p, "./") || p == ".." || strings.HasPrefix(p, "../") {
			t.Fatalf("%s: the path %q of %s is not cleaned", tl.Spec().Name, p, raw)
		}
	}
}

// refuse checks that arguments are refused in words that name something.
func refuse(t testing.TB, tl tool.Tool, raw []byte, name string) {
	t.Helper()
	_, _, err := tl.Describe(raw)
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("%s takes %s, or refuses it without a fault: %v", tl.Spec().Name, raw, err)
	}
	if f.Kind != fault.InvalidArguments || !strings.Contains(f.Message, name) || !strings.HasPrefix(f.Message, tl.Spec().Name) || f.SuggestedAction == "" {
		t.Fatalf("%s refuses %s without naming %s: %v", tl.Spec().Name, raw, name, f)
	}
}

// generated holds the tool against arguments made from its schema and against
// arbitrary JSON.
func generated(t *testing.T, tl tool.Tool, schema *jsonschema.Schema, resolved *jsonschema.Resolved) {
	taken, all := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		v := fromSchema(rt, schema)
		if err := resolved.Validate(plain(rt, v)); err != nil {
			rt.Fatalf("the generator made %v: %v", v, err)
		}
		raw := encode(rt, v)
		all++
		_, _, err := tl.Describe(raw)
		var f *fault.Fault
		switch {
		case err == nil:
			taken++
			accept(tb{t, rt}, tl, resolved, raw)
		case !errors.As(err, &f) || f.Kind != fault.InvalidArguments:
			rt.Fatalf("%s: %s: %v", tl.Spec().Name, raw, err)
		}
	})
	if taken == 0 {
		t.Errorf("%s takes none of %d arguments that fit its schema", tl.Spec().Name, all)
	}
	rapid.Check(t, func(rt *rapid.T) {
		raw := encode(rt, anything(rt, schema, 0))
		if rapid.Bool().Draw(rt, "cut") && len(raw) > 1 {
			raw = raw[:rapid.IntRange(1, len(raw)-1).Draw(rt, "at")]
		}
		_, _, err := tl.Describe(raw)
		var f *fault.Fault
		if err != nil && !errors.As(err, &f) {
			rt.Fatalf("%s: %s: not a fault: %v", tl.Spec().Name, raw, err)
		}
		if err == nil {
			accept(tb{t, rt}, tl, resolved, raw)
		}
	})
}

// tb lets a helper for tests fail a rapid check.
type tb struct {
	testing.TB
	rt *rapid.T
}

func (b tb) Helper()                           {}
func (b tb) Fatalf(format string, args ...any) { b.rt.Fatalf(format, args...) }

type fataler interface {
	Fatalf(format string, args ...any)
}

func encode(t fataler, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

func plain(t fataler, v any) any {
	var out any
	if err := json.Unmarshal(encode(t, v), &out); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return out
}

func canonical(t testing.TB, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatalf("encode: %v", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func object(t testing.TB, raw string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatalf("the valid example %s is no object: %v", raw, err)
	}
	return m
}

// wrongFor lists values that a field can not mean.
func wrongFor(s *jsonschema.Schema) []any {
	nested := map[string]any{"zz": 1}
	switch s.Type {
	case "string":
		if len(s.Enum) > 0 {
			return []any{nested, 3, "no such word"}
		}
		return []any{nested, 3, true, []any{1}}
	case "integer":
		return []any{nested, "many", 1.5, true, []any{1}, -7}
	case "boolean":
		return []any{nested, "maybe", 3, []any{1}}
	case "array":
		return []any{3, true, []any{3}, []any{[]any{}}, nested}
	}
	return nil
}

// fields are the names of a schema's properties in a fixed order.
func fields(s *jsonschema.Schema) []string { return slices.Sorted(maps.Keys(s.Properties)) }

// words make arguments that mean something to most tools.
var words = []string{"alpha", "src/a.go", "./b//c.txt", "*.go", "go test ./...", "x < y & z", "é世", "12"}

// fromSchema draws a value that fits.
func fromSchema(t *rapid.T, s *jsonschema.Schema) any {
	if len(s.AnyOf) > 0 {
		s = rapid.SampledFrom(s.AnyOf).Draw(t, "branch")
	}
	switch s.Type {
	case "object":
		m := map[string]any{}
		required := map[string]bool{}
		for _, r := range s.Required {
			required[r] = true
		}
		for _, name := range fields(s) {
			if required[name] || rapid.Bool().Draw(t, name) {
				m[name] = fromSchema(t, s.Properties[name])
			}
		}
		return m
	case "array":
		n := rapid.IntRange(0, 3).Draw(t, "n")
		list := make([]any, n)
		for i := range list {
			list[i] = fromSchema(t, s.Items)
		}
		return list
	case "integer":
		lo, hi := int64(0), int64(1000)
		if s.Minimum != nil {
			lo = int64(*s.Minimum)
		}
		if s.Maximum != nil {
			hi = int64(*s.Maximum)
		}
		return rapid.Int64Range(lo, hi).Draw(t, "int")
	case "boolean":
		return rapid.Bool().Draw(t, "bool")
	}
	if len(s.Enum) > 0 {
		return rapid.SampledFrom(s.Enum).Draw(t, "enum")
	}
	return rapid.SampledFrom(words).Draw(t, "word")
}

// anything draws JSON that may or may not fit, often under the right names.
func anything(t *rapid.T, s *jsonschema.Schema, depth int) any {
	kinds := 6
	if depth > 2 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.SampledFrom([]any{0, 1, -1, 2.5, 3.0, 1e300, int64(1) << 62}).Draw(t, "number")
	case 3, 4:
		return rapid.SampledFrom([]string{"", " ", "a", "\x00", "../x", "/etc/passwd", "[", "[1]", `["a"]`, `{"path":"a"}`, "true", "3", "(", "{a", "[z"}).Draw(t, "string")
	case 5:
		n := rapid.IntRange(0, 2).Draw(t, "n")
		list := make([]any, n)
		for i := range list {
			list[i] = anything(t, s, depth+1)
		}
		return list
	}
	m := map[string]any{}
	for _, name := range fields(s) {
		p := s.Properties[name]
		if rapid.Bool().Draw(t, name) {
			if rapid.Bool().Draw(t, "fits") {
				m[name] = fromSchema(t, p)
			} else {
				m[name] = anything(t, s, depth+1)
			}
		}
	}
	return m
}
