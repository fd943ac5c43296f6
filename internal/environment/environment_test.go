package environment_test

import (
	"fmt"
	"reflect"
	"testing"

	"belay/internal/environment"
	"belay/internal/symbols"
)

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFactsSayWhatATreeIsMadeOf(t *testing.T) {
	t.Parallel()
	files := []environment.File{{"README.md", "1"}, {"go.mod", "0123456789abcdef"}, {"cmd/main.go", "2"}, {"internal/a.go", "3"}, {"internal/b.go", "4"},
		{"web/package.json", "55"}, {"web/src/x.ts", "6"}, {"web/node/deep/down/package.json", "7"}, {"requirements-dev.txt", "8"}}
	same(t, environment.Of(files), map[string]string{"files": "9", "folders": ". 3, web 3, internal 2, cmd 1", "languages": "go 3, typescript 1",
		"manifests": "go.mod@0123456789, requirements-dev.txt@8, web/package.json@55"})
	same(t, environment.Needs(files), []string{"git", "go", "node", "npm"})
	same(t, environment.Of(nil), map[string]string{"files": "0"})
	var many []environment.File
	for i := range 30 {
		many = append(many, environment.File{Path: fmt.Sprintf("d%02d/x", i), ID: "1"})
	}
	same(t, environment.Of(many)["folders"], "d00 1, d01 1, d02 1, d03 1, d04 1, d05 1, d06 1, d07 1, d08 1, d09 1, d10 1, d11 1, 18 more")
}

func TestDeepFactsSayHowMuchOfTheSymbolsIsKnown(t *testing.T) {
	t.Parallel()
	same(t, environment.Deep(symbols.Status{}), map[string]string{"symbols": "not read yet"})
	same(t, environment.Deep(symbols.Status{Looked: true}), map[string]string{"symbols": "0"})
	same(t, environment.Deep(symbols.Status{Looked: true, Pending: 2, Failed: 1, Languages: []symbols.Coverage{{Language: "go", Files: 3, Symbols: 40}, {Language: "ruby", Files: 5, Missing: true}}}),
		map[string]string{"symbols": "40, 2 files not read yet, 1 files that could not be read", "symbols go": "3 files, 40 symbols", "symbols ruby": "5 files that nothing here reads"})
}

func TestToolchainsAreOneShortLineOfWhatIsThere(t *testing.T) {
	t.Parallel()
	same(t, environment.Toolchains(map[string]string{"files": "3 (x)", "toolchain go": "1.26.8 (/go)", "toolchain cc": "12.2 (/cc)", "toolchain git": "2.3 (/git)",
		"toolchain node": "not on PATH", "toolchain npm": "not known yet, at /npm", "toolchain java": " (/java)"}), "cc 12.2, go 1.26.8")
	same(t, environment.Toolchains(nil), "")
}
