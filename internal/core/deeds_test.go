package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"belay/internal/core/operation"
	"belay/internal/event"
)

func deed(s *State, id, tool, args string, outcome event.Outcome, output string) {
	s.did(operation.Op{ID: id, Tool: tool, Args: json.RawMessage(args)},
		event.OperationFinished{Outcome: outcome, Result: event.Result{Output: event.Text{Head: output}}})
}

func TestDeedsSayWhatWasDoneAndHowItEnded(t *testing.T) {
	t.Parallel()
	var s State
	deed(&s, "op1", "read_file", `{"path":"a/b.go","offset":3}`, event.Succeeded, "1→package b")
	deed(&s, "op2", "search_text", `{"pattern":"\\bParse\\b","path":"a"}`, event.Succeeded, "a/b.go:7: Parse")
	deed(&s, "op3", "run_command", `{"command":"go build\n./..."}`, event.Failed, "exit code 1 after 2s\n# pkg\na/b.go:12:3: undefined: Parze\nmore")
	deed(&s, "op4", "file_patch", `{"edits":[{"path":"a/b.go","old_string":"\n\tfunc Parse(x int) {\n","new_string":"y"}],"path":"a/b.go"}`, event.Succeeded, "done")
	deed(&s, "op5", "read_file", `{"path":"a/b.go","offset":90}`, event.Succeeded, "1→package b")
	got := s.Summary()
	for _, want := range []string{"- op2 search_text a \\bParse\\b\n", "- op3 run_command go build ./...: failed, a/b.go:12:3: undefined: Parze\n",
		"- op4 file_patch a/b.go at \"func Parse(x int) {\"\n", "- op5 read_file a/b.go (2 times)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "op1 ") {
		t.Error("what was done twice stands there twice")
	}
}

func TestDeedsAreBounded(t *testing.T) {
	t.Parallel()
	var s State
	for i := range 3 * maxDeeds {
		deed(&s, fmt.Sprint("op", i), "run_command", fmt.Sprintf(`{"command":"make %d %s"}`, i, strings.Repeat("文 x", 2000)), event.Failed, strings.Repeat("error: "+strings.Repeat("y", 5000)+"\n", 50))
	}
	if len(s.Deeds) != maxDeeds || s.Deeds[maxDeeds-1].Op != fmt.Sprint("op", 3*maxDeeds-1) {
		t.Errorf("%d deeds", len(s.Deeds))
	}
	sizes := []int{}
	for level := 1; level <= MaxLevel; level++ {
		sizes = append(sizes, len(s.summary(level)))
	}
	if sizes[0] > 20<<10 || sizes[1] > 6<<10 || sizes[2] > 3<<10 {
		t.Errorf("summaries of %v bytes", sizes)
	}
}
