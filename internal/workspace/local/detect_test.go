package local

import (
	"context"
	"strings"
	"testing"
)

func TestTestCommandsAreFoundByLooking(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		files      map[string]string
	}{
		{"nothing", "", map[string]string{"a": ""}},
		{"go", "go test ./...", map[string]string{"go.mod": "module x\n", "Makefile": "test:\n\ttrue\n"}},
		{"cargo", "cargo test", map[string]string{"Cargo.toml": ""}},
		{"npm", "npm test", map[string]string{"package.json": `{"scripts":{"test":"jest"}}`}},
		{"npm's placeholder", "", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}},
		{"no script", "", map[string]string{"package.json": `{"scripts":{"build":"x"}}`}},
		{"broken package.json", "", map[string]string{"package.json": `{`}},
		{"pnpm", "pnpm test", map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "pnpm-lock.yaml": ""}},
		{"yarn", "yarn test", map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "yarn.lock": ""}},
		{"package manager named", "pnpm test", map[string]string{"package.json": `{"packageManager":"pnpm@9.1.0","scripts":{"test":"x"}}`, "yarn.lock": ""}},
		{"pytest.ini", "python3 -m pytest -q", map[string]string{"pytest.ini": ""}},
		{"pyproject", "python3 -m pytest -q", map[string]string{"pyproject.toml": "[project]\n[tool.pytest.ini_options]\n"}},
		{"pyproject without", "", map[string]string{"pyproject.toml": "[project]\n"}},
		{"conftest", "python3 -m pytest -q", map[string]string{"tests/conftest.py": ""}},
		{"import pytest", "python3 -m pytest -q", map[string]string{"tests/test_a.py": "import os\nimport pytest\n"}},
		{"plain functions", "python3 -m pytest -q", map[string]string{"test_a.py": "def test_a():\n    pass\n"}},
		{"unittest at the root", "python3 -m unittest discover", map[string]string{"test_a.py": "import unittest\n"}},
		{"unittest in tests", "python3 -m unittest discover -s tests", map[string]string{"tests/test_a.py": "import unittest\n", "pkg/x.py": ""}},
		{"unittest in a package", "python3 -m unittest discover -s tests -t .", map[string]string{"tests/__init__.py": "", "tests/test_a.py": "from unittest import TestCase\n"}},
		{"unittest by suffix", "python3 -m unittest discover -p '*_test.py'", map[string]string{"a_test.py": "import unittest\n"}},
		{"unittest in two folders", "python3 -m unittest discover", map[string]string{"a/__init__.py": "", "a/test_a.py": "import unittest\n", "b/__init__.py": "", "b/test_b.py": "import unittest\n"}},
		{"make", "make test", map[string]string{"Makefile": "all:\n\nTEST := x\ntest: all\n\ttrue\n"}},
		{"make without a target", "", map[string]string{"Makefile": "test := x\ntests:\n\ttrue\n"}},
		{"two languages", "go test ./...|npm test", map[string]string{"go.mod": "module x\n", "package.json": `{"scripts":{"test":"x"}}`}},
		{"ignored files do not count", "", map[string]string{".gitignore": "go.mod\n", "go.mod": "module x\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put(t, root, c.files)
			w := open2(t, root, Options{})
			att, err := w.Attach(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(att.TestCommands, "|"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestInstructionsAreReadWithACap(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, map[string]string{"AGENTS.md": strings.Repeat("ü", maxInstructions)})
	w := open2(t, root, Options{})
	att, err := w.Attach(context.Background())
	if err != nil || att.Instructions != strings.Repeat("ü", maxInstructions/2) {
		t.Errorf("%d bytes, %v", len(att.Instructions), err)
	}
	out := t.TempDir()
	put(t, out, map[string]string{"secret": "s"})
	linked := t.TempDir()
	put(t, linked, map[string]string{"AGENTS.md": "-> " + out + "/secret"})
	if att, err := open2(t, linked, Options{}).Attach(context.Background()); err != nil || att.Instructions != "" {
		t.Errorf("%q %v", att.Instructions, err)
	}
}
