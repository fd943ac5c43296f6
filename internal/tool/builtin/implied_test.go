package builtin

import (
	"slices"
	"testing"
)

// TestACommandNamesWhatItRuns: an approval is bound to the content of these
// files, named or not.
func TestACommandNamesWhatItRuns(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"sh build.sh":                   {"build.sh"},
		"./run x":                       {"./run"},
		"python3 tools/a.py --fast":     {"tools/a.py"},
		"python3 -m tools.gen":          {"tools/gen.py", "tools/gen/__main__.py"},
		"make all":                      {"Makefile"},
		"make -C sub":                   {"sub/Makefile"},
		"CI=1 npm run build && echo ok": {"package.json"},
		"timeout 5 make":                {"Makefile"},
		"bash -c 'make && sh x.sh'":     {"Makefile", "x.sh"},
		"sh < in.sh":                    {"in.sh"},
		"gcc --config=cc.ini a.c":       {"cc.ini", "a.c"},
		"(cd x; just go) | tee log":     {"justfile"},
	} {
		got := scanShell(command).words
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: %s is not among %q", command, w, got)
			}
		}
	}
	if got := scanShell("echo make npm").words; slices.Contains(got, "Makefile") || slices.Contains(got, "package.json") {
		t.Errorf("words that run nothing imply files: %q", got)
	}
}
