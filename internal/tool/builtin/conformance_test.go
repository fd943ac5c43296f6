package builtin_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
	"belay/internal/tool/tooltest"
)

var valid = map[string][]string{
	"read_file":   {`{"path":"a.go"}`, `{"path":"./src//a.go","offset":3,"limit":10}`},
	"list_files":  {`{}`, `{"path":"src/","glob":"**/*.go"}`},
	"search_text": {`{"pattern":"func \\w+"}`, `{"pattern":"a","path":"src","glob":"*.go","ignore_case":true,"context":2}`},
	"symbols":     {`{"name":"Append"}`, `{"name":"Store.Append","path":"src"}`, `{"path":"a.go"}`},
	"write_file":  {`{"path":"a","content":""}`, `{"path":"a","content":"x <y> & z\n"}`},
	"file_patch": {`{"path":"a","old_string":"x","new_string":""}`, `{"path":"a","old_string":"x","new_string":"y","replace_all":true}`,
		`{"edits":[{"path":"a","old_string":"x","new_string":"y"},{"path":"b","old_string":"x","new_string":"y","replace_all":true}]}`},
	"run_command":     {`{"command":"ls"}`, `{"command":"ls","dir":"src","timeout_s":30,"network":"full","reason":"to fetch"}`},
	"run_test":        {`{}`, `{"command":"go test ./...","dir":"src","timeout_s":30,"network":"loopback","reason":"it serves itself"}`},
	"update_plan":     {`{"steps":["a"]}`, `{"summary":"s","steps":[{"id":"1","text":"a"},"b"],"scope":["src/**"],"open_questions":["q"],"criteria":[{"id":"c","kind":"scope","text":"t","command":"make","allow":["a"],"forbid":["b"],"path":"p","contains":"x","branch":"b","commit":"m"}]}`},
	"update_todos":    {`{"todos":[]}`, `{"todos":[{"id":"1","content":"a","status":"completed","evidence":"op","reason":"r","depends_on":["2"],"acceptance":"tests"}]}`},
	"record_decision": {`{"decision":"d"}`, `{"decision":"d","reason":"r","scope":"s","revokes":"d1"}`},
	"delegate":        {`{"goal":"g"}`, `{"goal":"g","tests":["make check"],"scope":["src/**"],"share_percent":30,"read_only":true}`},
	"apply_child":     {`{"child":"op1"}`},
	"ask_user":        {`{"question":"q"}`, `{"question":"q","options":["a"]}`},
	"finish":          {`{}`, `{"summary":"s"}`},
	"check_operation": {`{"op":"op7"}`},
	"recall":          {`{"query":"panic in parseHeader tool:run_test outcome:failed"}`},
	"git_push":        {`{"branch":"fix/x","message":"m"}`, `{"branch":"fix/x","message":"Fix x\n\nBecause.","remote":"up","paths":["a","b/"],"allow_default":true}`},
}

func TestEveryToolKeepsThePromisesOfThePort(t *testing.T) {
	t.Parallel()
	for _, tl := range builtin.All() {
		t.Run(tl.Spec().Name, func(t *testing.T) {
			t.Parallel()
			tooltest.Run(t, tl, valid[tl.Spec().Name]...)
		})
	}
}

func TestTheToolsAreTheOnesOfTheDesignInFixedOrder(t *testing.T) {
	t.Parallel()
	want := []struct {
		name   string
		effect event.EffectClass
	}{
		{"read_file", event.Read}, {"list_files", event.Read}, {"search_text", event.Read},
		{"symbols", event.Read},
		{"write_file", event.Verifiable}, {"file_patch", event.Verifiable},
		{"run_command", event.Supervised}, {"run_test", event.Supervised},
		{"update_plan", event.Control}, {"update_todos", event.Control}, {"record_decision", event.Control},
		{"ask_user", event.Control}, {"finish", event.Control},
		{"check_operation", event.Read}, {"recall", event.Read}, {"delegate", event.Control}, {"apply_child", event.Verifiable}, {"git_push", event.Keyed},
	}
	all := builtin.All()
	if len(all) != len(want) {
		t.Fatalf("%d tools", len(all))
	}
	for i, w := range want {
		s := all[i].Spec()
		if s.Name != w.name || s.Effect != w.effect {
			t.Errorf("tool %d is %s (%s), want %s (%s)", i, s.Name, s.Effect, w.name, w.effect)
		}
		_, runs := all[i].(tool.Runner)
		_, prepares := all[i].(tool.Preparer)
		_, probes := all[i].(tool.Prober)
		if runs != (w.effect != event.Control) || prepares != w.effect.SideEffect() || probes != w.effect.SideEffect() {
			t.Errorf("%s (%s): runs %v, prepares %v, probes %v", w.name, w.effect, runs, prepares, probes)
		}
	}
}

// The fixed part of a prompt has to stay under 12 KB, and one more where the two
// tools for child goals are offered.
func TestAllToolsTogetherStayUnderEightKilobytes(t *testing.T) {
	t.Parallel()
	total, forChildren := 0, 0
	for _, tl := range builtin.All() {
		s := tl.Spec()
		n := len(s.Name) + len(s.Description) + len(s.Schema)
		if s.Name == "delegate" || s.Name == "apply_child" {
			forChildren += n
			continue
		}
		total += n
	}
	t.Logf("%d bytes, and %d for child goals", total, forChildren)
	if total > 8000 || forChildren > 1100 {
		t.Errorf("%d bytes of names, descriptions and schemas, and %d for child goals", total, forChildren)
	}
}

// What starts children is offered only where the goal may start some.
func TestDelegateIsOfferedOnlyWhereThereMayBeChildren(t *testing.T) {
	t.Parallel()
	for _, offered := range []bool{true, false} {
		for _, name := range []string{"delegate", "apply_child"} {
			if _, err := builtin.New(builtin.Config{Children: offered}).Lookup(name); (err == nil) != offered {
				t.Errorf("%s with children=%t: %v", name, offered, err)
			}
		}
	}
}

// What a model is offered does not change in a goal's life, so where there is
// no git it is never offered git_push.
func TestGitPushIsOfferedOnlyInAGitRepository(t *testing.T) {
	t.Parallel()
	with, without := builtin.New(builtin.Config{Git: true}).All(), builtin.New(builtin.Config{}).All()
	if len(with) != len(without)+1 || with[len(with)-1].Spec().Name != "git_push" {
		t.Fatalf("%d and %d tools", len(with), len(without))
	}
	for i, tl := range without {
		if tl.Spec().Name != with[i].Spec().Name {
			t.Errorf("tool %d is %s or %s", i, tl.Spec().Name, with[i].Spec().Name)
		}
	}
}

func TestAnUnknownToolIsRefusedNamingTheKnownOnes(t *testing.T) {
	t.Parallel()
	r := builtin.New(builtin.Config{})
	if tl, err := r.Lookup("file_patch"); err != nil || tl.Spec().Name != "file_patch" {
		t.Errorf("%v, %v", tl, err)
	}
	_, err := r.Lookup("str_replace")
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.UnknownTool || !strings.Contains(f.Message, "str_replace") || !strings.Contains(f.SuggestedAction, "file_patch") {
		t.Errorf("%v", err)
	}
}

func describe(t *testing.T, c builtin.Config, name, raw string) (string, event.Access, error) {
	t.Helper()
	tl, err := builtin.New(c).Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	n, a, err := tl.Describe(json.RawMessage(raw))
	return string(n), a, err
}

func TestHarmlessHabitsAreBroughtIntoTheNormalForm(t *testing.T) {
	t.Parallel()
	c := builtin.Config{Roots: []string{"/work/repo", "/tmp/link"}, TestCommand: "go test ./...", Git: true}
	for _, h := range []struct{ habit, tool, args, want string }{
		{"file_path", "read_file", `{"file_path":"a.go"}`, `{"path":"a.go"}`},
		{"filename", "read_file", `{"filename":"a.go"}`, `{"path":"a.go"}`},
		{"both names with one value", "read_file", `{"path":"a.go","file":"a.go"}`, `{"path":"a.go"}`},
		{"numbers as strings", "read_file", `{"path":"a.go","offset":"10","limit":"20"}`, `{"limit":20,"offset":10,"path":"a.go"}`},
		{"whole floats", "read_file", `{"path":"a.go","offset":10.0}`, `{"offset":10,"path":"a.go"}`},
		{"defaults", "read_file", `{"path":"a.go","offset":1,"limit":2000}`, `{"path":"a.go"}`},
		{"null", "read_file", `{"path":"a.go","offset":null}`, `{"path":"a.go"}`},
		{"an absolute path below the root", "read_file", `{"path":"/work/repo/x/../a.go"}`, `{"path":"a.go"}`},
		{"the root as the user spelled it", "read_file", `{"path":"/tmp/link/a.go"}`, `{"path":"a.go"}`},
		{"blanks around a path", "read_file", `{"path":" a.go\n"}`, `{"path":"a.go"}`},
		{"a description", "run_command", `{"command":"ls","description":"look"}`, `{"command":"ls"}`},
		{"cwd", "run_command", `{"command":"ls","cwd":"src/"}`, `{"command":"ls","dir":"src"}`},
		{"the root as folder", "run_command", `{"command":"ls","dir":"/work/repo"}`, `{"command":"ls"}`},
		{"empty optional strings", "list_files", `{"path":"","glob":""}`, `{}`},
		{"a dot for the root", "list_files", `{"path":"."}`, `{}`},
		{"no arguments", "list_files", ``, `{}`},
		{"null for the arguments", "list_files", `null`, `{}`},
		{"arguments encoded twice", "read_file", `"{\"path\":\"a.go\"}"`, `{"path":"a.go"}`},
		{"true as a string", "search_text", `{"pattern":"x","ignore_case":"True"}`, `{"ignore_case":true,"pattern":"x"}`},
		{"a single edit", "file_patch", `{"path":"a","old_string":"x","new_string":"y"}`, `{"edits":[{"new_string":"y","old_string":"x","path":"a"}]}`},
		{"old_str", "file_patch", `{"path":"a","old_str":"x","new_str":"y"}`, `{"edits":[{"new_string":"y","old_string":"x","path":"a"}]}`},
		{"edits as a string of JSON", "file_patch", `{"path":"a","edits":"[{\"old_string\":\"x\",\"new_string\":\"y\"}]"}`, `{"edits":[{"new_string":"y","old_string":"x","path":"a"}]}`},
		{"one edit without its array", "file_patch", `{"edits":{"path":"a","old_string":"x","new_string":"y"}}`, `{"edits":[{"new_string":"y","old_string":"x","path":"a"}]}`},
		{"empty edits beside a single one", "file_patch", `{"path":"a","old_string":"x","new_string":"y","edits":[]}`, `{"edits":[{"new_string":"y","old_string":"x","path":"a"}]}`},
		{"steps as strings", "update_plan", `{"steps":["a"]}`, `{"steps":[{"text":"a"}]}`},
		{"scope as a string", "update_plan", `{"steps":["a"],"scope":"src/**"}`, `{"scope":["src/**"],"steps":[{"text":"a"}]}`},
		{"scope as a string of JSON", "update_plan", `{"steps":["a"],"scope":"[\"a\",\"b\"]"}`, `{"scope":["a","b"],"steps":[{"text":"a"}]}`},
		{"done for completed", "update_todos", `{"todos":[{"content":"a","status":"Done","activeForm":"doing a"}]}`, `{"todos":[{"content":"a","status":"completed"}]}`},
		{"the goal's test command", "run_test", `{}`, `{"command":"go test ./..."}`},
		{"op_id for op", "check_operation", `{"op_id":"op3"}`, `{"op":"op3"}`},
		{"a full branch name, the default remote, the root among the paths", "git_push", `{"branch":"refs/heads/x","message":"m","remote":"origin","paths":["a","."],"allow_default":false}`, `{"branch":"x","message":"m"}`},
		{"paths in any order", "git_push", `{"branch":"x","message":"m","paths":["b/","/work/repo/a","b"]}`, `{"branch":"x","message":"m","paths":["a","b"]}`},
		{"an artifact", "read_file", `{"path":"artifact:` + strings.Repeat("a", 64) + `"}`, `{"path":"artifact:` + strings.Repeat("a", 64) + `"}`},
	} {
		got, _, err := describe(t, c, h.tool, h.args)
		if err != nil || got != h.want {
			t.Errorf("%s: %s becomes %s, %v", h.habit, h.args, got, err)
		}
	}
}

func TestWhatCanNotBeMeantIsNamed(t *testing.T) {
	t.Parallel()
	c := builtin.Config{Roots: []string{"/work/repo"}, Git: true}
	for _, r := range []struct{ tool, args, names string }{
		{"read_file", `{"path":"a`, `byte 10`},
		{"read_file", `{"path":"a","offset":0}`, `"offset"`},
		{"read_file", `{"path":"a\u0000b"}`, "NUL"},
		{"read_file", `{"path":"."}`, `"path"`},
		{"read_file", `{"path":"a","file":"b"}`, "twice"},
		{"read_file", `{"path":"a","lines":3}`, `"lines"`},
		{"file_patch", `{"path":"a","old_string":"x\u0000","new_string":"y"}`, "NUL"},
		{"file_patch", `{"path":"a","old_string":"x"}`, `"new_string"`},
		{"file_patch", `{"path":"a","new_string":"x"}`, `"old_string"`},
		{"file_patch", `{"old_string":"x","new_string":"y"}`, `"path"`},
		{"file_patch", `{"path":"a","old_string":"x","new_string":"x"}`, `"new_string"`},
		{"file_patch", `{"edits":[{"path":"a","old_string":"x","new_string":"y"},{"path":"a","old_string":"x"}]}`, `"edits[1].new_string"`},
		{"file_patch", `{"edits":[{"path":"a","old_string":"x","new_string":"y","replace_al":true}]}`, `did you mean "replace_all"`},
		{"file_patch", `{"edits":[{"old_string":"x","new_string":"y"}]}`, `"edits[0].path"`},
		{"file_patch", `{"path":"a","edits":[]}`, `"old_string"`},
		{"search_text", `{"pattern":"("}`, `"pattern"`},
		{"search_text", `{"pattern":"(?=x)"}`, "RE2"},
		{"search_text", `{"pattern":"x","glob":"[a"}`, `"glob"`},
		{"run_command", `{"command":"ls","timeout":5000}`, `"timeout_s"`},
		{"run_command", `{"command":"ls","timeout_s":7200}`, "3600"},
		{"run_command", `{"command":"  "}`, `"command"`},
		{"run_command", `{"command":"ls","network":"lan","reason":"x"}`, "loopback"},
		{"run_command", `{"command":"ls","network":"full"}`, `"reason"`},
		{"update_todos", `{"todos":[{"content":"a","status":"later"}]}`, "pending, in_progress, completed"},
		{"write_file", `{"path":"a","content":{"x":1}}`, `"content"`},
		{"write_file", `{"path":"artifact:` + strings.Repeat("a", 64) + `","content":""}`, `"path"`},
		{"git_push", `{"branch":"-x","message":"m"}`, `"branch"`},
		{"git_push", `{"branch":"a..b","message":"m"}`, `"branch"`},
		{"git_push", `{"branch":"a b","message":"m"}`, `"branch"`},
		{"git_push", `{"branch":"refs/tags/v1","message":"m"}`, `"branch"`},
		{"git_push", `{"branch":"x.lock","message":"m"}`, `"branch"`},
		{"git_push", `{"branch":"x","message":"m","remote":"https://evil/x"}`, `"remote"`},
		{"git_push", `{"branch":"x","message":"m","remote":"--upload-pack=x"}`, `"remote"`},
		{"git_push", `{"branch":"x","message":"m","force":true}`, `"force"`},
		{"git_push", `{"branch":"x","message":" \n"}`, `"message"`},
	} {
		_, _, err := describe(t, c, r.tool, r.args)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.InvalidArguments || !strings.Contains(f.Message, r.names) {
			t.Errorf("%s %s: %v does not name %s", r.tool, r.args, err, r.names)
		}
	}
	for _, p := range []string{"../x", "a/../../x", "/etc/passwd", "/work/repository/x"} {
		_, _, err := describe(t, c, "read_file", `{"path":"`+p+`"}`)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.Outside {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestAccessSaysWhatIsTouched(t *testing.T) {
	t.Parallel()
	c := builtin.Config{Roots: []string{"/r"}, TestCommand: "make test", Git: true}
	for _, a := range []struct {
		tool, args string
		want       event.Access
	}{
		{"read_file", `{"path":"a"}`, event.Access{Reads: []string{"a"}}},
		{"read_file", `{"path":"artifact:` + strings.Repeat("a", 64) + `"}`, event.Access{}},
		{"list_files", `{}`, event.Access{Reads: []string{"."}}},
		{"search_text", `{"pattern":"x","path":"src"}`, event.Access{Reads: []string{"src"}}},
		{"write_file", `{"path":"/r/a","content":""}`, event.Access{Writes: []string{"a"}}},
		{"file_patch", `{"path":"a","edits":[{"old_string":"x","new_string":"y"},{"path":"b","old_string":"x","new_string":"y"},{"old_string":"p","new_string":"q"}]}`, event.Access{Writes: []string{"a", "b"}}},
		{"run_command", `{"command":"ls","dir":"src"}`, event.Access{Command: "ls", Dir: "src"}},
		{"run_test", `{}`, event.Access{Command: "make test", Test: true}},
		{"run_command", `{"command":"ls","network":"internet","reason":"x"}`, event.Access{Command: "ls", Network: "full"}},
		{"run_command", `{"command":"ls","network":"none"}`, event.Access{Command: "ls", Network: "none"}},
		{"finish", `{}`, event.Access{}},
		{"check_operation", `{"op":"op1"}`, event.Access{}},
		{"git_push", `{"branch":"x","message":"m"}`, event.Access{Remote: "branch x of origin"}},
		{"git_push", `{"branch":"x","message":"m","remote":"up","paths":[".env"]}`, event.Access{Remote: "branch x of up", Reads: []string{".env"}}},
	} {
		_, got, err := describe(t, c, a.tool, a.args)
		if err != nil || !slices.Equal(got.Reads, a.want.Reads) || !slices.Equal(got.Writes, a.want.Writes) ||
			got.Command != a.want.Command || got.Dir != a.want.Dir || got.Test != a.want.Test || got.Remote != a.want.Remote {
			t.Errorf("%s %s: %+v, %v", a.tool, a.args, got, err)
		}
	}
}
