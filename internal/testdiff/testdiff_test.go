package testdiff

import (
	"strings"
	"testing"
)

func TestIsTest(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{
		"a_test.go": true, "pkg/slug_test.go": true, "slug.go": false, "test_slug.py": true, "slug_test.py": true, "conftest.py": true,
		"tests/helper.py": true, "src/a.test.ts": true, "src/a.spec.jsx": true, "src/__tests__/a.js": true, "src/a.ts": false,
		"src/test/java/FooTest.java": true, "FooTest.java": true, "spec/foo_spec.rb": true, "pkg/testdata/in.txt": true,
		"attest.go": false, "latest.py": false, "contest/main.go": false, "testing.md": false, "pytest.ini": true, "jest.config.mjs": true,
		"README.md": false, "package.json": false, "Makefile": false, "protest.rs": false, "src/lib.rs": false,
	} {
		if got := IsTest(p); got != want {
			t.Errorf("IsTest(%q) = %t", p, got)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"sh check.sh": "check.sh", "./scripts/run-tests && go test ./...": "scripts/run-tests", "python3 app.py": "", "go test ./...": "",
		"bash -c 'sh ./ci/verify.sh'": "ci/verify.sh", "/usr/bin/test -f x": "", "sh ../check.sh": "", "npm test": "",
	} {
		if got := strings.Join(Named(command), " "); got != want {
			t.Errorf("Named(%q) = %q, want %q", command, got, want)
		}
	}
}

const goTest = `package slug

import "testing"

func TestTitle(t *testing.T) {
	if got := Title("a  b"); got != "a-b" {
		t.Errorf("got %q", got)
	}
}

func TestEmpty(t *testing.T) {
	if Title("") != "" {
		t.Fatal("not empty")
	}
}
`

// Each row is a way in which tests are taken from a repository, or a change
// that takes nothing, with what a person would say.
func TestCompare(t *testing.T) {
	t.Parallel()
	edit := func(old, now string) string {
		if !strings.Contains(goTest, old) {
			t.Fatalf("%q is not in the test", old)
		}
		return strings.Replace(goTest, old, now, 1)
	}
	py := "import pytest\n\ndef test_a():\n    assert f(1) == 2\n\ndef test_b():\n    assert f(2) == 3\n"
	js := "describe('slug', () => {\n  it('joins', () => {\n    expect(slug('a b')).toBe('a-b')\n  })\n})\n"
	mk := "GOFLAGS = -v\n\nbuild:\n\tgo build ./...\n\ntest: build\n\tgo test $(GOFLAGS) ./...\n"
	pkg := `{"name":"x","scripts":{"test":"jest","build":"tsc"},"dependencies":{"a":"1"}}`
	for _, c := range []struct {
		name, command, path, before, after string
		want                               []string // in order, as "kind: words in the detail"
	}{
		{"nothing changed in what is asserted", "go test ./...", "a_test.go", goTest, edit("import \"testing\"", "import (\n\t\"testing\"\n)"), nil},
		{"a test added", "go test ./...", "a_test.go", goTest, goTest + "\nfunc TestMore(t *testing.T) {\n\tt.Skip()\n}\n", []string{"skipped: t.Skip()"}},
		{"the file deleted", "go test ./...", "a_test.go", goTest, "", []string{"deleted: "}},
		{"a test deleted", "go test ./...", "a_test.go", goTest, goTest[:strings.Index(goTest, "func TestEmpty")], []string{"deleted: TestEmpty", "weakened: not empty"}},
		{"a test skipped", "go test ./...", "a_test.go", goTest, edit("{\n\tif got", "{\n\tt.Skip(\"flaky\")\n\tif got"), []string{"skipped: t.Skip"}},
		{"a build constraint", "go test ./...", "a_test.go", goTest, "//go:build never\n\n" + goTest, []string{"skipped: //go:build never"}},
		{"commented out", "go test ./...", "a_test.go", goTest, edit("\t\tt.Errorf(\"got %q\", got)", "\t\t// t.Errorf(\"got %q\", got)"), []string{"weakened: t.Errorf"}},
		{"renamed so that it does not run", "go test ./...", "a_test.go", goTest, edit("func TestEmpty", "func checkEmpty"), []string{"deleted: TestEmpty"}},
		{"python: marked as skipped", "python3 -m pytest -q", "test_a.py", py, strings.Replace(py, "def test_b", "@pytest.mark.skip\ndef test_b", 1), []string{"skipped: @pytest.mark.skip"}},
		{"python: expected to fail", "python3 -m pytest -q", "test_a.py", py, strings.Replace(py, "def test_b", "@pytest.mark.xfail\ndef test_b", 1), []string{"skipped: @pytest.mark.xfail"}},
		{"python: asserts something else", "python3 -m pytest -q", "test_a.py", py, strings.Replace(py, "assert f(2) == 3", "assert True", 1), []string{"weakened: assert f(2) == 3"}},
		{"python: ends the run well", "python3 -m pytest -q", "test_a.py", py, strings.Replace(py, "import pytest", "import pytest, sys\nsys.exit(0)", 1), []string{"skipped: it ends the run"}},
		{"python: a conftest that leaves tests out", "python3 -m pytest -q", "conftest.py", "", "collect_ignore = ['test_a.py']\n", []string{"skipped: collect_ignore"}},
		{"js: skipped", "npm test", "a.test.js", js, strings.Replace(js, "it(", "it.skip(", 1), []string{"skipped: it.skip"}},
		{"js: only another", "npm test", "a.test.js", js, js + "it.only('x', () => {})\n", []string{"skipped: it.only"}},
		{"js: a looser expectation", "npm test", "a.test.js", js, strings.Replace(js, "toBe('a-b')", "toBeDefined()", 1), []string{"weakened: toBe('a-b')"}},
		{"rust: ignored", "cargo test", "tests/a.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1, 1), 2);\n}\n", "#[test]\n#[ignore]\nfn adds() {\n    assert_eq!(add(1, 1), 2);\n}\n", []string{"skipped: #[ignore]"}},
		{"rust: no test any more", "cargo test", "tests/a.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1, 1), 2);\n}\n", "fn adds() {\n    assert_eq!(add(1, 1), 2);\n}\n", []string{"deleted: #[test]"}},
		{"make: the target runs nothing", "make test", "Makefile", mk, strings.Replace(mk, "go test $(GOFLAGS) ./...", "true", 1), []string{"redefined: the target test"}},
		{"make: a variable that it uses", "make test", "Makefile", mk, strings.Replace(mk, "-v", "-run=XXX", 1), []string{"redefined: the target test"}},
		{"make: a target that it depends on", "make test", "Makefile", mk, strings.Replace(mk, "go build ./...", "rm *_test.go", 1), []string{"redefined: the target test"}},
		{"make: another target", "make test", "Makefile", mk, mk + "\nlint:\n\tgo vet ./...\n", nil},
		{"make: not what the command uses", "go test ./...", "Makefile", mk, "test:\n\ttrue\n", nil},
		{"npm: the script", "npm test", "package.json", pkg, strings.Replace(pkg, "jest", "exit 0", 1), []string{"redefined: the script test"}},
		{"npm: a dependency", "npm test", "package.json", pkg, strings.Replace(pkg, `"a":"1"`, `"a":"2"`, 1), nil},
		{"npm: what comes before", "npm test", "package.json", pkg, strings.Replace(pkg, `"build"`, `"pretest":"rm -r t","build"`, 1), []string{"redefined: the script test"}},
		{"pytest: settings that leave tests out", "python3 -m pytest -q", "pyproject.toml", "[project]\nname='x'\n", "[project]\nname='x'\n[tool.pytest.ini_options]\naddopts='--deselect t'\n", []string{"redefined: the settings of pytest"}},
		{"pytest: other settings", "python3 -m pytest -q", "pyproject.toml", "[project]\nname='x'\n", "[project]\nname='y'\n", nil},
		{"the command's own script", "sh check.sh", "check.sh", "exit 1\n", "exit 0\n", []string{"redefined: the test command runs it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := File{Path: c.path}
			if c.before != "" {
				f.Before = []byte(c.before)
			}
			if c.after != "" {
				f.After = []byte(c.after)
			}
			got := Compare([]File{f}, c.command, IsTest)
			if len(got) != len(c.want) {
				t.Fatalf("found %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				kind, words, _ := strings.Cut(want, ": ")
				if got[i].Kind != kind || !strings.Contains(got[i].Detail, words) {
					t.Errorf("found %q, want %q", got[i], want)
				}
			}
		})
	}
}

// A test that stands in another file now is not lost.
func TestMovedTestsAreNotLost(t *testing.T) {
	t.Parallel()
	half := strings.Index(goTest, "func TestEmpty")
	files := []File{{Path: "a_test.go", Before: []byte(goTest), After: []byte(goTest[:half])},
		{Path: "b_test.go", After: []byte("package slug\n\nimport \"testing\"\n\n" + goTest[half:])}}
	if got := Compare(files, "go test ./...", IsTest); len(got) > 0 {
		t.Errorf("a moved test: %q", got)
	}
	renamed := []File{{Path: "a_test.go", Before: []byte(goTest)}, {Path: "slug_test.go", After: []byte(goTest)}}
	if got := Compare(renamed, "go test ./...", IsTest); len(got) > 0 {
		t.Errorf("a renamed file: %q", got)
	}
	binary := []File{{Path: "testdata/x.bin", Before: []byte("\x00\x01")}}
	if got := Compare(binary, "go test ./...", IsTest); len(got) != 1 || got[0].Kind != Deleted {
		t.Errorf("a fixture that is gone: %q", got)
	}
}
