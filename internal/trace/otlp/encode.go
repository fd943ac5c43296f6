package otlp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"belay/internal/moment"
	"belay/internal/trace"
)

// The messages of OTLP in their JSON form: names in lowerCamelCase, ids in hex,
// 64-bit numbers as text, enums as numbers.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource struct {
			Attributes []attribute `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	scopeSpans struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		} `json:"scope"`
		Spans     []span `json:"spans"`
		SchemaURL string `json:"schemaUrl"`
	}
	span struct {
		TraceID      string      `json:"traceId"`
		SpanID       string      `json:"spanId"`
		ParentSpanID string      `json:"parentSpanId,omitempty"`
		Name         string      `json:"name"`
		Kind         int         `json:"kind"`
		Start        string      `json:"startTimeUnixNano"`
		End          string      `json:"endTimeUnixNano"`
		Attributes   []attribute `json:"attributes"`
		Events       []mark      `json:"events,omitempty"`
		Links        []link      `json:"links,omitempty"`
		Status       status      `json:"status"`
	}
	mark struct {
		Time       string      `json:"timeUnixNano"`
		Name       string      `json:"name"`
		Attributes []attribute `json:"attributes,omitempty"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
		Array  *array  `json:"arrayValue,omitempty"`
	}
	array struct {
		Values []value `json:"values"`
	}
)

// statusError is the code of a span that went wrong.
const statusError = 2

// encode writes one request.
func encode(c Config, version string, spans []trace.Span) ([]byte, error) {
	var rs resourceSpans
	about := maps.Clone(c.Resource)
	if about == nil {
		about = map[string]string{}
	}
	about["service.name"] = c.Service
	if about["service.version"] == "" && version != "" {
		about["service.version"] = version
	}
	for _, k := range slices.Sorted(maps.Keys(about)) {
		rs.Resource.Attributes = append(rs.Resource.Attributes, attribute{k, text(about[k])})
	}
	ss := scopeSpans{SchemaURL: trace.Schema}
	ss.Scope.Name, ss.Scope.Version = "belay", version
	for _, s := range spans {
		ss.Spans = append(ss.Spans, wire(s))
	}
	rs.ScopeSpans = []scopeSpans{ss}
	return json.Marshal(request{[]resourceSpans{rs}})
}

func wire(s trace.Span) span {
	out := span{TraceID: s.Trace, SpanID: s.ID, ParentSpanID: s.Parent, Name: s.Name, Kind: int(s.Kind), Start: nano(s.Start), End: nano(s.End),
		Attributes: attributes(s.Attrs)}
	for _, m := range s.Marks {
		out.Events = append(out.Events, mark{nano(m.At), m.Name, attributes(m.Attrs)})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, link{l.Trace, l.ID})
	}
	if s.Error != "" {
		out.Status = status{Code: statusError, Message: s.Message}
		out.Attributes = append(out.Attributes, attribute{"error.type", text(s.Error)})
	}
	return out
}

func attributes(as []trace.Attr) []attribute {
	out := make([]attribute, 0, len(as))
	for _, a := range as {
		out = append(out, attribute{a.Key, valueOf(a.Value)})
	}
	return out
}

func valueOf(v any) value {
	switch v := v.(type) {
	case int64:
		n := strconv.FormatInt(v, 10)
		return value{Int: &n}
	case bool:
		return value{Bool: &v}
	case []string:
		a := &array{Values: []value{}}
		for _, s := range v {
			a.Values = append(a.Values, text(s))
		}
		return value{Array: a}
	case string:
		return text(v)
	}
	return text(fmt.Sprint(v))
}

func text(s string) value { return value{String: &s} }

// nano is an instant in nanoseconds since 1970.
func nano(t moment.Time) string { return strconv.FormatInt(int64(t)*1000, 10) }
