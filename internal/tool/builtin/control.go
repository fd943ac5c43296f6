package builtin

import (
	"encoding/json"

	"belay/internal/event"
)

// control is a control tool: it says what the model means, and the core
// answers it.
type control struct{ base }

// Describe implements tool.Tool.
func (t control) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	n, err := v.JSON()
	if err == nil {
		err = t.def.check(n)
	}
	if err != nil {
		return nil, event.Access{}, err
	}
	return n, event.Access{}, nil
}

// checks turns a decoder into a check.
func checks[T any](decode func(json.RawMessage) (T, error)) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		_, err := decode(raw)
		return err
	}
}
