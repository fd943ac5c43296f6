package event

import (
	"encoding/json"
	"fmt"
	"sort"
)

// Unknown keeps the payload of an event type or version that this binary does
// not know. It is stored back unchanged; no goal that holds one is advanced.
type Unknown struct {
	Type    Type            `json:"-"`
	Version int             `json:"-"`
	Raw     json.RawMessage `json:"raw"`
}

// EventType returns the type as stored.
func (u Unknown) EventType() Type { return u.Type }

// MarshalJSON shows the payload as it is.
func (u Unknown) MarshalJSON() ([]byte, error) { return u.Raw, nil }

// Damaged stands for a payload that could not be read.
type Damaged struct {
	Type   Type   `json:"-"`
	Reason string `json:"damaged"`
}

// EventType returns the type as stored.
func (d Damaged) EventType() Type { return d.Type }

// entry knows how to read one event type: the version that this binary writes,
// and one upcaster for each older version that leads to the next.
type entry struct {
	version int
	decode  func(json.RawMessage) (Payload, error)
	// upcast[v] turns version v into v+1, on the JSON.
	upcast map[int]func(json.RawMessage) (json.RawMessage, error)
}

var registry = map[Type]*entry{}

// register adds a type at version 1. A later version adds upcasters here, next
// to the payload whose shape changed.
func register[T Payload]() {
	var zero T
	t := zero.EventType()
	if registry[t] != nil {
		panic("event: " + string(t) + " registered twice")
	}
	registry[t] = &entry{version: 1, decode: func(raw json.RawMessage) (Payload, error) {
		var p T
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		return p, nil
	}}
}

// CurrentVersion is the schema version that this binary writes for a type, or
// 0 when it does not know the type.
func CurrentVersion(t Type) int {
	if e := registry[t]; e != nil {
		return e.version
	}
	return 0
}

// Types lists every type this binary knows, sorted.
func Types() []Type {
	ts := make([]Type, 0, len(registry))
	for t := range registry {
		ts = append(ts, t)
	}
	sort.Slice(ts, func(i, j int) bool { return ts[i] < ts[j] })
	return ts
}

func decodePayload(t Type, version int, raw json.RawMessage) Payload {
	e := registry[t]
	if e == nil || version > e.version || version < 1 {
		return Unknown{Type: t, Version: version, Raw: raw}
	}
	for v := version; v < e.version; v++ {
		up := e.upcast[v]
		if up == nil {
			return Damaged{Type: t, Reason: fmt.Sprintf("no way from version %d to %d", v, e.version)}
		}
		next, err := up(raw)
		if err != nil {
			return Damaged{Type: t, Reason: fmt.Sprintf("upcast from version %d: %v", v, err)}
		}
		raw = next
	}
	p, err := e.decode(raw)
	if err != nil {
		return Damaged{Type: t, Reason: err.Error()}
	}
	return p
}
