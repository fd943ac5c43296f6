package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramsOfATestCommand(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"go test ./...":                              "go",
		"cd sub && npm test":                         "npm node",
		"FOO=1 python3 -m pytest -q | tee log":       "python3 tee",
		"bash -c 'cargo test'":                       "cargo rustc",
		"./run.sh":                                   "./run.sh python3",
		"make check && echo ok":                      "make python3",
		"\"$TOOL\" test":                             "python3",
		"if true; then pytest; else .venv/bin/x; fi": "pytest .venv/bin/x python3",
	} {
		runner := map[string]string{"./run.sh": "pytest", "make check && echo ok": "unittest", "\"$TOOL\" test": "pytest"}[command]
		if got := strings.Join(programsOf(command, runner), " "); got != want {
			t.Errorf("programsOf(%q, %q) = %q, want %q", command, runner, got, want)
		}
	}
}

// A program is found as the command finds it, through links, and told from one
// of the same name with other bytes.
func TestProgramsAreIdentifiedByPathAndBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, content string, mode os.FileMode) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("a/tool", "not executable", 0o644)
	put("b/tool-1", "#!/bin/sh\n", 0o755)
	if err := os.Symlink("tool-1", filepath.Join(dir, "b/tool")); err != nil {
		t.Fatal(err)
	}
	put("work/run.sh", "#!/bin/sh\n", 0o755)
	env := []string{"PATH=" + filepath.Join(dir, "a") + ":" + filepath.Join(dir, "b")}
	got := identify([]string{"tool", "./run.sh", "nowhere"}, env, filepath.Join(dir, "work"))
	if len(got) != 2 || !strings.HasPrefix(got["tool"], filepath.Join(real, "b/tool-1")+" sha256:") || !strings.HasPrefix(got["./run.sh"], filepath.Join(real, "work/run.sh")+" sha256:") {
		t.Fatalf("identified as %q", got)
	}
	put("b/tool-1", "#!/bin/bash\n", 0o755)
	if after := identify([]string{"tool"}, env, dir); after["tool"] == got["tool"] {
		t.Errorf("other bytes are identified as %q too", after["tool"])
	}
	if got := identify([]string{"nowhere"}, nil, dir); got != nil {
		t.Errorf("nothing is identified as %q", got)
	}
}
