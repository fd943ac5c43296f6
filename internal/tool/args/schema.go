package args

import (
	"bytes"
	"encoding/json"
)

// Type is what a field holds.
type Type uint8

// The types of fields.
const (
	String Type = iota
	Integer
	Boolean
	Strings // an array of strings
	Objects // an array of objects
)

// Field is one argument.
type Field struct {
	Name     string
	Type     Type
	Doc      string // shown to the model; keep it short
	Required bool
	// Aliases are other names that models give it.
	Aliases []string
	// Enum lists the strings that are allowed, Synonyms maps others to them.
	Enum     []string
	Synonyms map[string]string
	// Min and Max bound an integer; a Max of 0 means no bound.
	Min, Max int64
	// Default is dropped from normalised arguments when it is given: an int64,
	// a bool or a string.
	Default any
	// Keep says that an empty string is a value like any other. Otherwise an
	// empty string is the same as none.
	Keep bool
	// Of are the fields of the objects of an Objects field, and Bare names the
	// one that a plain string in place of an object stands for.
	Of   *Object
	Bare string
}

// Object is the arguments of one tool.
type Object struct {
	Fields []Field
	// Ignored are arguments that models add out of habit and that mean nothing
	// here; they are dropped.
	Ignored []string
}

// Schema is the JSON Schema of the object: compact, fields in the order of
// their declaration.
func (o *Object) Schema() json.RawMessage {
	var b bytes.Buffer
	o.schema(&b)
	return b.Bytes()
}

func (o *Object) schema(b *bytes.Buffer) {
	b.WriteString(`{"type":"object","properties":{`)
	var required []string
	for i, f := range o.Fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(f.Name))
		b.WriteByte(':')
		f.schema(b)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	b.WriteByte('}')
	if len(required) > 0 {
		b.WriteString(`,"required":[`)
		for i, r := range required {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(r))
		}
		b.WriteByte(']')
	}
	b.WriteString("}") // that other properties are refused is told to who sends them
}

func (f Field) schema(b *bytes.Buffer) {
	switch f.Type {
	case String:
		b.WriteString(`{"type":"string"`)
		for i, e := range f.Enum {
			b.WriteString([]string{`,"enum":[`, `,`}[min(i, 1)] + quote(e))
		}
		if len(f.Enum) > 0 {
			b.WriteByte(']')
		}
	case Integer:
		// Its bounds are told to who exceeds them: each schema is sent with every
		// request.
		b.WriteString(`{"type":"integer"`)
	case Boolean:
		b.WriteString(`{"type":"boolean"`)
	case Strings:
		b.WriteString(`{"type":"array","items":{"type":"string"}`)
	case Objects:
		b.WriteString(`{"type":"array","items":`)
		if f.Bare != "" {
			b.WriteString(`{"anyOf":[{"type":"string"},`)
		}
		f.Of.schema(b)
		if f.Bare != "" {
			b.WriteString(`]}`)
		}
	}
	if f.Doc != "" {
		b.WriteString(`,"description":` + quote(f.Doc))
	}
	b.WriteByte('}')
}

func quote(s string) string {
	b, err := marshal(s)
	if err != nil {
		panic("args: a schema text is not UTF-8: " + s) // declared in our own source
	}
	return string(b)
}

// marshal is json.Marshal without the escapes that HTML needs and a model's
// code would be littered with.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
