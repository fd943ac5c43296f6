// Package environment says in a few facts what a repository is made of and
// which programs it needs: the light depth of environment_captured. It is a
// function of the list of files; which versions a machine has, others look up.
package environment

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"belay/internal/symbols"
)

// File is a file of a tree: its path, and what identifies its content.
type File struct{ Path, ID string }

// manifests are the files in which dependencies stand, with the programs that
// read them.
var manifests = map[string][]string{
	"go.mod": {"go"}, "go.work": {"go"},
	"package.json": {"node", "npm"}, "pnpm-lock.yaml": {"node", "pnpm"}, "yarn.lock": {"node", "yarn"}, "bun.lock": {"bun"}, "deno.json": {"deno"},
	"pyproject.toml": {"python3"}, "requirements.txt": {"python3"}, "setup.py": {"python3"}, "setup.cfg": {"python3"}, "Pipfile": {"python3"}, "uv.lock": {"python3", "uv"}, "poetry.lock": {"python3", "poetry"},
	"Cargo.toml": {"cargo", "rustc"},
	"pom.xml":    {"java", "mvn"}, "build.gradle": {"java", "gradle"}, "build.gradle.kts": {"java", "gradle"},
	"Gemfile":        {"ruby", "bundle"},
	"CMakeLists.txt": {"cmake"}, "meson.build": {"meson"},
	"Makefile": {"make"}, "GNUmakefile": {"make"}, "makefile": {"make"},
	"composer.json": {"php", "composer"}, "mix.exs": {"elixir"}, "Package.swift": {"swift"},
}

// needed are the programs that source files of a language need.
var needed = map[string]string{
	symbols.Go: "go", symbols.Python: "python3", symbols.JavaScript: "node", symbols.TypeScript: "node", symbols.TSX: "node",
	symbols.Rust: "rustc", symbols.Java: "java", symbols.C: "cc", symbols.CPP: "c++", symbols.Ruby: "ruby",
}

// maxDepth is how deep in the tree a manifest counts: those of vendored or
// generated packages stand deeper.
const maxDepth = 2

// IsManifest reports whether dependencies stand in a file.
func IsManifest(name string) bool {
	if strings.Count(name, "/") > maxDepth {
		return false
	}
	base := path.Base(name)
	_, ok := manifests[base]
	return ok || strings.HasPrefix(base, "requirements") && strings.HasSuffix(base, ".txt")
}

// The keys of facts that are no program's name.
const (
	KeyFiles        = "files"
	KeyFolders      = "folders"
	KeyLanguages    = "languages"
	KeyManifests    = "manifests"
	KeySystem       = "system"
	KeyTodos        = "todos"
	KeyTests        = "tests"
	KeySymbols      = "symbols"
	PrefixToolchain = "toolchain "
)

// How many items of a kind a fact names.
const (
	maxFolders   = 12
	maxLanguages = 8
	maxManifests = 12
)

// Of are the facts of a tree.
func Of(files []File) map[string]string {
	folders, languages := map[string]int{}, map[string]int{}
	var found []string
	for _, f := range files {
		top, _, deep := strings.Cut(f.Path, "/")
		if !deep {
			top = "."
		}
		folders[top]++
		if l := symbols.Language(f.Path); l != "" {
			languages[l]++
		}
		if IsManifest(f.Path) {
			found = append(found, f.Path+"@"+f.ID[:min(len(f.ID), 10)])
		}
	}
	out := map[string]string{KeyFiles: fmt.Sprint(len(files))}
	add := func(key string, items []string, most int) {
		if n := len(items) - most; n > 0 {
			items = append(items[:most:most], fmt.Sprintf("%d more", n))
		}
		if len(items) > 0 {
			out[key] = strings.Join(items, ", ")
		}
	}
	add(KeyFolders, ranked(folders), maxFolders)
	add(KeyLanguages, ranked(languages), maxLanguages)
	slices.SortFunc(found, func(a, b string) int {
		if d := strings.Count(a, "/") - strings.Count(b, "/"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	add(KeyManifests, found, maxManifests)
	return out
}

// ranked are names with their counts, the most frequent first.
func ranked(n map[string]int) []string {
	names := make([]string, 0, len(n))
	for k := range n {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool {
		if n[names[i]] != n[names[j]] {
			return n[names[i]] > n[names[j]]
		}
		return names[i] < names[j]
	})
	for i, k := range names {
		names[i] = fmt.Sprintf("%s %d", k, n[k])
	}
	return names
}

// Needs are the programs that a repository of these files needs, sorted.
func Needs(files []File) []string {
	need := map[string]bool{"git": true}
	for _, f := range files {
		if l := symbols.Language(f.Path); l != "" {
			need[needed[l]] = true
		}
		if !IsManifest(f.Path) {
			continue
		}
		for _, p := range manifests[path.Base(f.Path)] {
			need[p] = true
		}
	}
	out := make([]string, 0, len(need))
	for p := range need {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// Deep are the facts of an index of symbols.
func Deep(s symbols.Status) map[string]string {
	if !s.Looked {
		return map[string]string{KeySymbols: "not read yet"}
	}
	out := map[string]string{}
	total := 0
	for _, l := range s.Languages {
		total += l.Symbols
		v := fmt.Sprintf("%d files, %d symbols", l.Files, l.Symbols)
		if l.Missing {
			v = fmt.Sprintf("%d files that nothing here reads", l.Files)
		}
		out[KeySymbols+" "+l.Language] = v
	}
	out[KeySymbols] = fmt.Sprint(total)
	if s.Pending > 0 {
		out[KeySymbols] += fmt.Sprintf(", %d files not read yet", s.Pending)
	}
	if s.Failed > 0 {
		out[KeySymbols] += fmt.Sprintf(", %d files that could not be read", s.Failed)
	}
	return out
}

// Toolchains are the versions among facts as one short line: go 1.26.8, node
// v18.20.4. What is not known or not there is left out.
func Toolchains(facts map[string]string) string {
	var out []string
	for k, v := range facts {
		name, ok := strings.CutPrefix(k, PrefixToolchain)
		version, _, known := strings.Cut(v, " (")
		if ok && known && version != "" && name != "git" {
			out = append(out, name+" "+version)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
