package testdiff

import (
	"belay/internal/lazyre"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// redefined are the findings about what the test command runs: the part of each
// file that it goes through.
func redefined(files []File, command string) []Finding {
	ws := words(command)
	uses := func(names ...string) bool {
		return slices.ContainsFunc(ws, func(w string) bool { return slices.Contains(names, path.Base(w)) })
	}
	var out []Finding
	for _, f := range files {
		was, is, what := "", "", ""
		switch base := path.Base(f.Path); {
		case slices.Contains(Named(command), f.Path):
			was, is, what = string(f.Before), string(f.After), "the test command runs it"
		case uses("make", "gmake") && (base == "Makefile" || base == "makefile" || base == "GNUmakefile"):
			t := makeTargets(ws)
			was, is, what = recipes(f.Before, t), recipes(f.After, t), "the target "+strings.Join(t, ", ")
		case uses("just") && base == "justfile":
			t := makeTargets(ws)
			was, is, what = recipes(f.Before, t), recipes(f.After, t), "the recipe "+strings.Join(t, ", ")
		case uses("npm", "yarn", "pnpm", "bun", "npx", "jest", "vitest", "mocha") && base == "package.json":
			names := npmScripts(ws)
			was, is, what = packageTests(f.Before, names), packageTests(f.After, names), "the script "+strings.Join(names, ", ")+" or its test settings"
		case uses("jest", "vitest", "mocha", "npm", "yarn", "pnpm", "bun", "npx") && testConfig.MatchString(base) && !strings.HasSuffix(base, ".ini") && base != "conftest.py":
			was, is, what = string(f.Before), string(f.After), "the settings of the test runner"
		case uses("pytest", "py.test", "tox") && slices.Contains([]string{"pytest.ini", ".pytest.ini", "tox.ini", "pyproject.toml", "setup.cfg"}, base):
			was, is, what = pytestSections(f.Before), pytestSections(f.After), "the settings of pytest"
		}
		if was != is {
			out = append(out, Finding{Redefined, f.Path, what + " changed"})
		}
	}
	return out
}

// makeTargets are the targets that a command names; test stands for none.
func makeTargets(ws []string) []string {
	var out []string
	for i, w := range ws {
		if base := path.Base(w); base != "make" && base != "gmake" && base != "just" {
			continue
		}
		for _, t := range ws[i+1:] {
			if !strings.HasPrefix(t, "-") {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return []string{"test"}
	}
	return out
}

var target = lazyre.New(`^([A-Za-z0-9_. /%-]+?)\s*(?::[^=]|:$)`)

// recipes are the rules of the named targets and of what they depend on, with
// the variables of the file: any of them can decide what runs.
func recipes(makefile []byte, targets []string) string {
	rules, vars := map[string]string{}, []string{}
	current := ""
	for line := range strings.Lines(string(makefile)) {
		line = strings.TrimRight(line, "\r\n")
		switch g := target.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "\t"), current != "" && strings.HasPrefix(line, "  "):
			if current != "" {
				rules[current] += line + "\n"
			}
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"):
		case g != nil && g[1] != ".PHONY":
			current = g[1]
			rules[current] += line + "\n"
		default:
			current = ""
			if strings.Contains(line, "=") {
				vars = append(vars, line)
			}
		}
	}
	var b strings.Builder
	seen := map[string]bool{}
	var visit func(string)
	visit = func(t string) {
		if seen[t] || rules[t] == "" {
			return
		}
		seen[t] = true
		b.WriteString(rules[t])
		head, _, _ := strings.Cut(rules[t], "\n")
		_, deps, _ := strings.Cut(head, ":")
		for _, d := range strings.Fields(deps) {
			visit(d)
		}
	}
	for _, t := range targets {
		visit(t)
	}
	for _, v := range vars {
		name := strings.TrimSpace(strings.TrimRight(strings.SplitN(v, "=", 2)[0], ":+?! "))
		if strings.Contains(b.String(), "$("+name+")") || strings.Contains(b.String(), "${"+name+"}") || name == "SHELL" || name == ".SHELLFLAGS" {
			b.WriteString(v + "\n")
		}
	}
	return b.String()
}

// npmScripts are the scripts of package.json that a command runs.
func npmScripts(ws []string) []string {
	for i, w := range ws {
		if (w == "run" || w == "run-script") && i+1 < len(ws) {
			return []string{ws[i+1]}
		}
	}
	return []string{"test"}
}

func packageTests(raw []byte, names []string) string {
	var p struct {
		Scripts map[string]string `json:"scripts"`
		Jest    json.RawMessage   `json:"jest"`
		Vitest  json.RawMessage   `json:"vitest"`
		Mocha   json.RawMessage   `json:"mocha"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return string(raw)
	}
	var b strings.Builder
	for _, n := range names {
		for _, s := range []string{"pre" + n, n, "post" + n} {
			b.WriteString(p.Scripts[s] + "\n")
		}
	}
	b.Write(p.Jest)
	b.Write(p.Vitest)
	b.Write(p.Mocha)
	return b.String()
}

var pytestHead = lazyre.New(`^\[(tool\.pytest\.ini_options|tool\.pytest|tool:pytest|pytest)\]`)

// pytestSections are the parts of an ini or toml file that pytest reads.
func pytestSections(raw []byte) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(string(raw)) {
		l := strings.TrimSpace(line)
		if strings.HasPrefix(l, "[") && strings.HasSuffix(l, "]") {
			in = pytestHead.MatchString(l)
		}
		if in && l != "" && !strings.HasPrefix(l, "#") {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}
