package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

const documentFile = "../../docs/openapi.json"

func TestTheDocumentOfTheAPIIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("docs/openapi.json is not what the code serves: go test ./internal/api -run TheDocument -update")
	}
}

func TestNoChangeBreaksCallersOfTheReleasedAPI(t *testing.T) {
	t.Parallel()
	released, err := os.ReadFile("testdata/openapi-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	now, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	found, err := breaking(released, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("callers of the released API would break: %s", f)
	}
}

func TestBreakingChangesAreFound(t *testing.T) {
	t.Parallel()
	whole, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(doc object)
		want   string
	}{
		{"a route is gone", func(d object) { delete(at(d, "paths"), "/v1/goals/{goal}/pause") }, "is not served any more"},
		{"a method is gone", func(d object) { delete(at(d, "paths", "/v1/goals"), "post") }, "is not served any more"},
		{"a parameter is gone", func(d object) { delete(at(d, "paths", "/v1/goals", "get"), "parameters") }, "parameter query status is gone"},
		{"a field of an answer is gone", func(d object) { delete(at(d, "components", "schemas", "Snapshot", "properties"), "wait_reason") }, ".wait_reason: is gone"},
		{"a field of a part is gone", func(d object) { delete(at(d, "components", "schemas", "Intent", "properties"), "preview") }, ".preview: is gone"},
		{"a field is of another type", func(d object) { at(d, "components", "schemas", "Snapshot", "properties", "head")["type"] = "string" }, ".head: was integer and is string"},
		{"a field may be missing", func(d object) { delete(at(d, "components", "schemas", "Started"), "required") }, "goal may be missing now"},
		{"a field is needed", func(d object) { at(d, "components", "schemas", "Say")["required"] = []any{"text", "mode"} }, "mode is needed now"},
		{"a word is refused", func(d object) {
			at(d, "components", "schemas", "StartGoal", "properties", "plan")["enum"] = []any{"auto"}
		}, "never is not taken any more"},
		{"another scope", func(d object) { at(d, "paths", "/v1/goals/{goal}/approve", "post")["x-scope"] = "operate" }, "needs another scope"},
		{"an event of a stream is gone", func(d object) {
			delete(at(d, "paths", "/v1/goals/{goal}/stream", "get", "responses", "200", "content", "text/event-stream", "x-events"), "entry")
		}, "event entry: is gone"},
	} {
		var doc object
		if err := json.Unmarshal(whole, &doc); err != nil {
			t.Fatal(err)
		}
		c.change(doc)
		changed, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		found, err := breaking(whole, changed)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("%s: found %q, want %q", c.name, found, c.want)
		}
		// The other way round, nothing that was there is lost but what c adds.
		if found, err = breaking(changed, changed); err != nil || len(found) != 0 {
			t.Errorf("%s: a document breaks itself: %q %v", c.name, found, err)
		}
	}
}
