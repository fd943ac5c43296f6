package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/moment"
)

// schemas writes JSON schemas of Go types as encoding/json shows them. Named
// structs become components, so that a generated client has their names.
type schemas struct {
	all   object
	names map[reflect.Type]string
}

func newSchemas() *schemas { return &schemas{all: object{}, names: map[reflect.Type]string{}} }

// words of types that are more than text.
var enums = map[reflect.Type][]any{
	typeOf[lifecycle.Status]():     {"active", "paused", "verifying", "completed", "failed", "cancelled"},
	typeOf[event.PlanMode]():       {"auto", "always", "never"},
	typeOf[event.ApproveMode]():    {"ask", "auto", "never"},
	typeOf[event.MessageMode]():    {"message", "steer", "answer"},
	typeOf[event.Outcome]():        {"succeeded", "failed", "rejected", "cancelled", "unknown"},
	typeOf[event.CompletedHow]():   {"verified", "judged", "attested", "accepted_unverified"},
	typeOf[event.PermissionMode](): {"plan", "default"},
	typeOf[event.TodoStatus]():     {"pending", "in_progress", "completed"},
	typeOf[event.CriterionKind]():  {"command", "test", "reproduces", "scope", "tests_intact", "artifact", "review", "manual"},
}

var special = map[reflect.Type]object{
	typeOf[moment.Time]():     {"type": "string", "format": "date-time"},
	typeOf[time.Time]():       {"type": "string", "format": "date-time"},
	typeOf[json.RawMessage](): {"description": "any JSON"},
}

// of is the schema of a type.
func (s *schemas) of(t reflect.Type) object {
	if sp, ok := special[t]; ok {
		return sp
	}
	if t == typeOf[event.Event]() {
		// The payload is an interface here, and one of docs/events.md there.
		return s.component(t, "Event")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.Struct:
		if t.Name() == "" {
			return s.fields(t)
		}
		return s.component(t, s.name(t))
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		if words, ok := enums[t]; ok {
			return object{"type": "string", "enum": words}
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Interface:
		return object{}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	}
	return object{"type": "integer"}
}

func (s *schemas) component(t reflect.Type, name string) object {
	if _, ok := s.all[name]; !ok {
		s.all[name] = object{} // it may hold itself
		s.all[name] = s.fields(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// name is a type's name; one of another package with the same name gets its
// package's before it.
func (s *schemas) name(t reflect.Type) string {
	if n, ok := s.names[t]; ok {
		return n
	}
	n := t.Name()
	for _, other := range s.names {
		if other == n {
			pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
			n = strings.ToUpper(pkg[:1]) + pkg[1:] + n
			break
		}
	}
	s.names[t] = n
	return n
}

func nullable(o object) object {
	if kind, ok := o["type"].(string); ok {
		c := object{}
		for k, v := range o {
			c[k] = v
		}
		c["type"] = []any{kind, "null"}
		return c
	}
	return object{"anyOf": []any{o, object{"type": "null"}}}
}

// fields is the schema of a struct: what encoding/json may leave out is not
// required, what it may write as null may be null.
func (s *schemas) fields(t reflect.Type) object {
	props, required := object{}, []string{}
	s.add(t, props, &required)
	o := object{"type": "object", "properties": props}
	if len(required) > 0 {
		sort.Strings(required)
		var words []any
		for _, r := range required {
			words = append(words, r)
		}
		o["required"] = words
	}
	return o
}

func (s *schemas) add(t reflect.Type, props object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && tag == "":
			s.add(f.Type, props, required)
			continue
		case tag == "":
			panic(fmt.Sprintf("api: %s.%s has no JSON name", t, f.Name))
		}
		schema := s.of(f.Type)
		optional := strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
		if !optional {
			*required = append(*required, tag)
			if k := f.Type.Kind(); (k == reflect.Slice || k == reflect.Map) && special[f.Type] == nil {
				schema = nullable(schema)
			}
		} else if f.Type.Kind() == reflect.Pointer {
			schema = s.of(f.Type.Elem()) // left out rather than null
		}
		props[tag] = schema
	}
}
