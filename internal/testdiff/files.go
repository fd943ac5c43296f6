package testdiff

import (
	"belay/internal/lazyre"
	"path"
	"strings"
)

var (
	testName   = lazyre.New(`(?i)(_test\.go|_test\.py|_tests?\.rs|_spec\.rb|_test\.rb|_test\.exs|[._-](test|spec)s?\.[cm]?[jt]sx?|tests?\.(java|kt|cs|scala|swift|php))$`)
	testConfig = lazyre.New(`^(conftest\.py|pytest\.ini|\.pytest\.ini|tox\.ini|noxfile\.py|(jest|vitest|karma|playwright|cypress)(\.[a-z]+)?\.config\.[cm]?[jt]s|jest\.config\.json|\.mocharc(\..+)?|phpunit\.xml(\.dist)?|\.rspec)$`)
	testFolder = map[string]bool{"test": true, "tests": true, "__tests__": true, "testdata": true, "spec": true, "specs": true,
		"__snapshots__": true, "__fixtures__": true, "e2e": true}
)

// IsTest reports whether a path is a test or stands beside tests to serve them:
// by the names that test frameworks look for, and by the folders that they
// keep. Tests inside of source files (Rust, doctests) are no files of their
// own and so are not known.
func IsTest(p string) bool {
	dir, base := path.Split(p)
	if testName.MatchString(base) || testConfig.MatchString(base) || strings.HasPrefix(base, "test_") && strings.HasSuffix(base, ".py") {
		return true
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if testFolder[part] {
			return true
		}
	}
	return false
}

// scripts are names that say that a file which a test command names is there to
// test, and is not what is tested.
var scripts = lazyre.New(`(?i)(\.(sh|bash|bats)$)|(^|[._-])(tests?|checks?|verify)([._-]|$)`)

// Named are the words of a test command that look like its own scripts: paths
// in the form that a tree has them.
func Named(command string) []string {
	var out []string
	for _, w := range words(command) {
		w = strings.TrimPrefix(path.Clean(w), "./")
		if strings.ContainsAny(w, "./") && !strings.HasPrefix(w, "/") && !strings.HasPrefix(w, "..") && scripts.MatchString(path.Base(w)) {
			out = append(out, w)
		}
	}
	return out
}

// words splits shell text roughly: it only has to find names in it.
func words(command string) []string {
	return strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>'\"`$=", r) })
}

// Config reports whether a path is a file that may define what the usual test
// commands run, beside files that are tests themselves.
func Config(p string) bool {
	switch path.Base(p) {
	case "Makefile", "makefile", "GNUmakefile", "package.json", "pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "justfile":
		return true
	}
	return testConfig.MatchString(path.Base(p))
}
