package eval

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func instance() map[string]any {
	return map[string]any{"instance_id": "demo__demo-1", "repo": "demo/demo", "base_commit": "abc123", "problem_statement": "mean is wrong\nlong story",
		"hints_text": "look at len", "test_patch": "--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-x\n+y\n", "FAIL_TO_PASS": `["t.py::a", "t.py::it's"]`, "PASS_TO_PASS": []string{"t.py::b"},
		"version": "1.0", "patch": "the solution, which nobody may see"}
}

func TestInstancesAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	one, err := json.Marshal(instance())
	if err != nil {
		t.Fatal(err)
	}
	second := strings.Replace(string(one), "demo-1", "demo-2", 1)
	for name, text := range map[string]string{"array": "[" + string(one) + "," + second + "]", "lines": string(one) + "\n" + second + "\n\n"} {
		all, err := ReadInstances([]byte(text))
		if err != nil || len(all) != 2 || all[1].ID != "demo__demo-2" || !reflect.DeepEqual([]string(all[0].FailToPass), []string{"t.py::a", "t.py::it's"}) || len(all[0].PassToPass) != 1 {
			t.Errorf("%s: %+v %v", name, all, err)
		}
	}
	for field, bad := range map[string]any{"instance_id": "../up", "repo": "", "base_commit": "--upload-pack=x", "problem_statement": " ", "test_patch": "", "FAIL_TO_PASS": "[]"} {
		in := instance()
		in[field] = bad
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadInstances(b); err == nil || !strings.Contains(err.Error(), field) && !strings.Contains(err.Error(), "dash") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, text := range []string{"", "[]", "{", "[1]", string(one) + string(one)} {
		if _, err := ReadInstances([]byte(text)); err == nil {
			t.Errorf("no error for %.20q", text)
		}
	}
}

func TestAnInstanceBecomesACase(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(instance())
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadInstances(b)
	if err != nil {
		t.Fatal(err)
	}
	repos, out := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(repos, "demo__demo", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	im := Import{Repos: repos, Out: out, Test: DefaultTest}
	if err := im.Write(all[0]); err != nil {
		t.Fatal(err)
	}
	if err := im.Write(all[0]); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second time: %v", err)
	}
	c, err := Load(filepath.Join(out, "demo__demo-1"), "demo__demo-1")
	if err != nil {
		t.Fatal(err)
	}
	if c.Repo.Git != filepath.Join(repos, "demo__demo") || c.Repo.Commit != "abc123" || len(c.Checks) != 2 || c.Checks[0].Before != "fail" || c.Checks[1].Before != "pass" {
		t.Errorf("%+v", c)
	}
	if want := `python3 -m pytest -q -p no:cacheprovider 't.py::a' 't.py::it'\''s'`; c.Checks[0].Command != want {
		t.Errorf("%s\n%s", c.Checks[0].Command, want)
	}
	if !c.Checks[0].Refuse[0].MatchString("3 passed, 2 skipped in 0.1s") || c.Checks[0].Refuse[0].MatchString("3 passed, 0 skipped") {
		t.Error("skipped tests count")
	}
	goal, err := os.ReadFile(filepath.Join(out, "demo__demo-1", "goal.yaml"))
	if err != nil || !strings.Contains(string(goal), "long story") || strings.Contains(string(goal), "look at len") || strings.Contains(string(goal), "solution") {
		t.Errorf("the goal: %v\n%s", err, goal)
	}
	if s, err := (Import{}).source("demo/demo"); err != nil || s != "https://github.com/demo/demo.git" {
		t.Errorf("%s %v", s, err)
	}
	if _, err := (Import{}).source("demo"); err == nil {
		t.Error("a repository that is nowhere")
	}
	if got := patched("diff --git a/x b/x\n--- a/x\n+++ b/x\n--- /dev/null\n+++ b/new.py\nrename from old\nrename to young\n"); !reflect.DeepEqual(got, []string{"x", "new.py", "old", "young"}) {
		t.Errorf("%v", got)
	}
}
