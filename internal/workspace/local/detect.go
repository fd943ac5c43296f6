package local

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// testCommands finds the repository's own test commands by looking at its
// files; nothing is run. What a language's tool finds at the root comes first;
// a Makefile's target counts only when nothing else does.
func (w *Workspace) testCommands(files []string) []string {
	at := map[string]bool{}
	for _, f := range files {
		at[f] = true
	}
	var out []string
	if at["go.mod"] {
		out = append(out, "go test ./...")
	}
	if at["Cargo.toml"] {
		out = append(out, "cargo test")
	}
	if c := w.nodeTest(at); c != "" {
		out = append(out, c)
	}
	if c := w.pythonTest(files, at); c != "" {
		out = append(out, c)
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if at[name] {
			if testTarget.Match(w.head32k(name)) {
				return []string{"make test"}
			}
			return nil // make reads the first of them only
		}
	}
	return nil
}

var (
	testTarget = regexp.MustCompile(`(?m)^test[ \t]*:([^=]|$)`)
	pytestConf = regexp.MustCompile(`(?m)^\[(tool\.pytest\.ini_options|tool\.pytest|tool:pytest|pytest)\]`)
	pytestUse  = regexp.MustCompile(`(?m)^\s*(import pytest|from pytest)\b|^def test_|^async def test_`)
	unitUse    = regexp.MustCompile(`(?m)^\s*(import unittest|from unittest|from django\.test)\b`)
)

func (w *Workspace) nodeTest(at map[string]bool) string {
	if !at["package.json"] {
		return ""
	}
	var p struct {
		Scripts        map[string]string `json:"scripts"`
		PackageManager string            `json:"packageManager"`
	}
	f, err := w.locate("package.json")
	if err != nil || f.absent() || f.info.Size() > w.maxRead {
		return ""
	}
	b, err := w.root.ReadFile(f.real)
	if err != nil || json.Unmarshal([]byte(strings.TrimPrefix(string(b), "\ufeff")), &p) != nil {
		return ""
	}
	// The second text is what npm init writes.
	if s := p.Scripts["test"]; strings.TrimSpace(s) == "" || strings.Contains(s, "no test specified") {
		return ""
	}
	name, _, _ := strings.Cut(p.PackageManager, "@")
	switch {
	case name == "pnpm" || name == "yarn" || name == "bun":
	case at["pnpm-lock.yaml"]:
		name = "pnpm"
	case at["yarn.lock"]:
		name = "yarn"
	case at["bun.lock"] || at["bun.lockb"]:
		name = "bun"
	default:
		name = "npm"
	}
	if name == "bun" {
		return "bun run test"
	}
	return name + " test"
}

// maxTestFiles bounds how many test files are looked into.
const maxTestFiles = 50

func (w *Workspace) pythonTest(files []string, at map[string]bool) string {
	const pytest = "python3 -m pytest -q"
	if at["pytest.ini"] || at[".pytest.ini"] || at["conftest.py"] {
		return pytest
	}
	for _, f := range []string{"pyproject.toml", "setup.cfg", "tox.ini"} {
		if at[f] && pytestConf.Match(w.head32k(f)) {
			return pytest
		}
	}
	var unit []string
	seen := 0
	for _, f := range files {
		name := path.Base(f)
		if name == "conftest.py" {
			return pytest
		}
		if !strings.HasSuffix(name, ".py") || !strings.HasPrefix(name, "test") && !strings.HasSuffix(name, "_test.py") {
			continue
		}
		if seen++; seen > maxTestFiles {
			break
		}
		text := w.head32k(f)
		switch {
		case pytestUse.Match(text):
			return pytest
		case unitUse.Match(text):
			unit = append(unit, f)
		}
	}
	if len(unit) == 0 {
		return ""
	}
	return "python3 -m unittest discover" + discoverFlags(unit, at)
}

// discoverFlags finds the start folder and name pattern with which unittest
// sees the files: the folder they share if it is no package all the way down,
// else the root, from which packages are importable.
func discoverFlags(unit []string, at map[string]bool) string {
	top := path.Dir(unit[0])
	for _, f := range unit[1:] {
		for d := path.Dir(f); top != "." && d != top && !strings.HasPrefix(d, top+"/"); {
			top = path.Dir(top)
		}
	}
	flags := ""
	if top != "." {
		flags = " -s " + top
		if at[top+"/__init__.py"] {
			flags += " -t ."
		}
	}
	if !slices.ContainsFunc(unit, func(f string) bool { return strings.HasPrefix(path.Base(f), "test") }) {
		flags += " -p '*_test.py'"
	}
	return flags
}
