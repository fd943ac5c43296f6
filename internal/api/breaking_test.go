package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// breaking lists how a document breaks those who were written for an older
// one: what they call is gone, what they may send is refused, what they read is
// gone or has become something else.
func breaking(older, newer []byte) ([]string, error) {
	var o, n object
	if err := json.Unmarshal(older, &o); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(newer, &n); err != nil {
		return nil, err
	}
	c := &comparison{older: o, newer: n, seen: map[string]bool{}}
	for path, item := range at(o, "paths") {
		for method, op := range item.(object) {
			c.operation(strings.ToUpper(method)+" "+path, op.(object), at(n, "paths", path, method))
		}
	}
	return c.found, nil
}

type comparison struct {
	older, newer object
	found        []string
	seen         map[string]bool
}

func (c *comparison) say(where, what string) { c.found = append(c.found, where+": "+what) }

func (c *comparison) operation(where string, o, n object) {
	if len(n) == 0 {
		c.say(where, "is not served any more")
		return
	}
	if a, b := o["x-scope"], n["x-scope"]; a != b {
		c.say(where, "needs another scope")
	}
	have := map[string]object{}
	for _, p := range list(n["parameters"]) {
		have[p["in"].(string)+" "+p["name"].(string)] = p
	}
	for _, p := range list(o["parameters"]) {
		name := p["in"].(string) + " " + p["name"].(string)
		if have[name] == nil {
			c.say(where, "the parameter "+name+" is gone")
		}
		delete(have, name)
	}
	for name, p := range have {
		if p["required"] == true {
			c.say(where, "the parameter "+name+" is needed now")
		}
	}
	body := []string{"requestBody", "content", "application/json", "schema"}
	c.schema(where+" body", at(o, body...), at(n, body...), true)
	for status, r := range at(o, "responses") {
		if status == strconv.Itoa(http.StatusOK) || status == strconv.Itoa(http.StatusCreated) {
			if at(n, "responses", status) == nil {
				c.say(where, "does not answer "+status+" any more")
				continue
			}
			for media, content := range at(r.(object), "content") {
				now := at(n, "responses", status, "content", media)
				if now == nil {
					c.say(where, "does not answer with "+media+" any more")
					continue
				}
				c.schema(where+" answer", at(content.(object), "schema"), at(now, "schema"), false)
				for name, s := range at(content.(object), "x-events") {
					c.schema(where+" event "+name, s.(object), at(now, "x-events", name), false)
				}
			}
		}
	}
}

// schema compares what is sent (in) or answered.
func (c *comparison) schema(where string, o, n object, in bool) {
	if o == nil && n == nil {
		return
	}
	if n == nil {
		c.say(where, "is gone")
		return
	}
	key := where[:strings.IndexByte(where+" ", ' ')] + strconv.FormatBool(in)
	if ref, ok := o["$ref"].(string); ok {
		key += ref
		if c.seen[key] {
			return
		}
		c.seen[key] = true
	}
	o, n = resolve(c.older, o), resolve(c.newer, n)
	if kind(o) != kind(n) {
		c.say(where, "was "+kind(o)+" and is "+kind(n))
		return
	}
	for name, s := range at(o, "properties") {
		c.schema(where+"."+name, s.(object), at(n, "properties", name), in)
	}
	was, is := words(o["required"]), words(n["required"])
	for name := range is {
		if in && !was[name] {
			c.say(where, name+" is needed now")
		}
	}
	for name := range was {
		if !in && !is[name] {
			c.say(where, name+" may be missing now")
		}
	}
	if items := at(o, "items"); items != nil {
		c.schema(where+"[]", items, at(n, "items"), in)
	}
	if in {
		may := words(n["enum"])
		for word := range words(o["enum"]) {
			if len(may) > 0 && !may[word] {
				c.say(where, word+" is not taken any more")
			}
		}
	}
	if more, ok := o["additionalProperties"].(object); ok {
		c.schema(where+"{}", more, at(n, "additionalProperties"), in)
	}
}

// resolve follows a reference; one that may be null is compared by what it is
// otherwise, beside being nullable.
func resolve(doc, s object) object {
	if ref, ok := s["$ref"].(string); ok {
		return at(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	if any := list(s["anyOf"]); len(any) == 2 {
		out := maps.Clone(resolve(doc, any[0]))
		out["type"] = kind(out) + " or null"
		return out
	}
	return s
}

func kind(s object) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		return t[0].(string) + " or null"
	}
	return "anything"
}

func at(v object, path ...string) object {
	for _, p := range path {
		v, _ = v[p].(object)
	}
	return v
}

func list(v any) []object {
	var out []object
	vs, _ := v.([]any)
	for _, e := range vs {
		out = append(out, e.(object))
	}
	return out
}

func words(v any) map[string]bool {
	out := map[string]bool{}
	vs, _ := v.([]any)
	for _, e := range vs {
		out[e.(string)] = true
	}
	return out
}
