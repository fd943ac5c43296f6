package api

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"belay/client"
	"belay/internal/core"
)

// documentVersion is the version of the API, not of belay: its first number
// would change with a change that breaks callers.
const documentVersion = "1.0.0"

type object = map[string]any

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// Document is the OpenAPI 3.1 document of everything that is served, written
// from the table of routes and the Go types in it.
func Document() ([]byte, error) {
	s := newSchemas()
	paths := object{}
	for _, r := range routes() {
		item, _ := paths[r.path].(object)
		if item == nil {
			item = object{}
			paths[r.path] = item
		}
		item[strings.ToLower(r.method)] = r.document(s)
	}
	problem := s.of(typeOf[client.Problem]())
	doc := object{
		"openapi": "3.1.0",
		"info": object{"title": "belay", "version": documentVersion,
			"description": "A durable runtime for coding agents. Names are those of the snapshot, as belay --json prints them."},
		"security": []any{object{"token": []any{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "made by belay token new; scopes: watch, answer (and watch), operate (and all)"}},
			"responses": object{"Problem": object{"description": "what went wrong (RFC 9457)",
				"content": object{"application/problem+json": object{"schema": problem}}}},
			"schemas": s.all,
		},
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	return append(b, '\n'), err
}

// document describes one route.
func (r route) document(s *schemas) object {
	op := object{"summary": r.summary, "operationId": r.id()}
	if r.scope == "" {
		op["security"] = []any{}
	} else {
		op["x-scope"] = string(r.scope)
	}
	var params []any
	for _, m := range inPath.FindAllStringSubmatch(r.path, -1) {
		what := map[string]string{"goal": "the id of a goal, or a prefix that fits no other", "op": "an op_id", "sha256": "lower-case hex", "id": "the id of a rule"}[m[1]]
		params = append(params, object{"name": m[1], "in": "path", "required": true, "description": what, "schema": object{"type": "string"}})
	}
	for _, q := range r.query {
		schema := object{"type": q.kind}
		if q.kind == "array" {
			schema["items"] = object{"type": "string"}
		}
		params = append(params, object{"name": q.name, "in": "query", "description": q.what, "schema": schema})
	}
	if r.command {
		params = append(params, object{"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": 200},
			"description": "sent again under the same key within a day, the same request is answered and nothing is done twice"})
	}
	if params != nil {
		op["parameters"] = params
	}
	if r.in != nil {
		op["requestBody"] = object{"content": object{"application/json": object{"schema": s.of(r.in)}}}
	}
	ok := object{"description": "done"}
	switch {
	case r.out != nil:
		ok["content"] = object{"application/json": object{"schema": s.of(r.out)}}
	case r.media == "text/event-stream":
		ok["content"] = object{r.media: object{"schema": object{"type": "string"}, "x-events": r.streamed(s)}}
	default:
		ok["content"] = object{r.media: object{}}
	}
	op["responses"] = object{strconv.Itoa(r.status): ok, "default": object{"$ref": "#/components/responses/Problem"}}
	return op
}

// streamed says what the data of each event of a stream is.
func (r route) streamed(s *schemas) object {
	marker := s.of(typeOf[client.Head]())
	if strings.Contains(r.path, "{op}") {
		piece := s.of(typeOf[client.Output]())
		return object{"output": piece, "end": piece}
	}
	if strings.Contains(r.path, "{goal}") {
		return object{"event": s.of(typeOf[client.Event]()), "entry": s.of(typeOf[core.Entry]()), "head": marker, "caught_up": marker}
	}
	return object{"goal": s.of(typeOf[core.Overview]()), "caught_up": marker}
}

// id names a route for those who generate clients.
func (r route) id() string {
	words := []string{strings.ToLower(r.method)}
	for _, part := range strings.Split(strings.Trim(r.path, "/"), "/") {
		if part = strings.Trim(part, "{}"); part != "v1" {
			words = append(words, strings.ReplaceAll(part, ".", "_"))
		}
	}
	return strings.Join(words, "_")
}
