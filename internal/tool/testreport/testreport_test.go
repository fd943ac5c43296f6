package testreport_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/tool/testreport"
)

// The logs in testdata are real: made with go 1.26, cargo 1.95, node 20,
// jest 30, vitest 4, mocha 11, pytest 7.2 and Python 3.11, only the folder
// names changed.
var logs = map[string]event.TestCounts{
	"go-plain.txt": {Runner: "go", Passed: 1, Failed: 4,
		Failing: []string{"TestTwo", "TestTwo/bad_case", "example.com/m/d [build failed]", "TestBoom"}},
	"go-v.txt": {Runner: "go", Passed: 5, Failed: 4, Skipped: 1,
		Failing: []string{"TestTwo", "TestTwo/bad_case", "example.com/m/d [build failed]", "TestBoom"}},
	"go-json.txt": {Runner: "go", Passed: 5, Failed: 4, Skipped: 1,
		Failing: []string{"TestTwo/bad_case", "TestTwo", "example.com/m/d [failed outside a test]", "TestBoom"}},
	"go-ok.txt":      {Runner: "go", Passed: 1},
	"go-cached.txt":  {Runner: "go", Passed: 1},
	"go-dir.txt":     {Runner: "go", Passed: 1},
	"go-cover.txt":   {Runner: "go", Passed: 1},
	"go-norun.txt":   {Runner: "go"},
	"go-norun-v.txt": {Runner: "go"},
	"go-nofiles.txt": {Runner: "go"},
	"go-setup.txt":   {Runner: "go", Failed: 1, Failing: []string{"./nope [setup failed]"}},

	"cargo-fail.txt":  {Runner: "cargo", Passed: 3, Failed: 1, Skipped: 1, Failing: []string{"tests::bad"}},
	"cargo-ok.txt":    {Runner: "cargo", Passed: 4, Skipped: 1},
	"cargo-none.txt":  {Runner: "cargo"},
	"cargo-build.txt": {Runner: "cargo", Failed: 1, Failing: []string{"slug (lib test) [build failed]"}},

	"pytest-fail.txt":       pytestMixed,
	"pytest-q.txt":          pytestMixed,
	"pytest-qq.txt":         pytestMixed,
	"pytest-xdist.txt":      pytestMixed,
	"pytest-ok.txt":         {Runner: "pytest", Passed: 1},
	"pytest-v.txt":          {Runner: "pytest", Passed: 1},
	"pytest-qq-ok.txt":      {Runner: "pytest", Passed: 1},
	"pytest-x.txt":          {Runner: "pytest", Passed: 1, Failed: 1, Failing: []string{"test_a.py::test_bad"}},
	"pytest-none.txt":       {Runner: "pytest"},
	"pytest-deselected.txt": {Runner: "pytest"},
	"pytest-collect.txt":    {Runner: "pytest", Failed: 1, Failing: []string{"col/test_col.py"}},
	"pytest-junit.xml": {Runner: "junit", Passed: 3, Failed: 3, Skipped: 2,
		Failing: []string{"test_a.test_bad", "test_a.test_err", "test_a.test_p[a b]"}},

	"unittest-fail.txt": unittestMixed,
	"unittest-v.txt":    unittestMixed,
	"unittest-ok.txt":   {Runner: "unittest", Passed: 1},
	"unittest-none.txt": {Runner: "unittest"},
	"unittest-import.txt": {Runner: "unittest", Failed: 1,
		Failing: []string{"nomod (unittest.loader._FailedTest.nomod)"}},

	"jest-fail.txt":    jestMixed,
	"jest-verbose.txt": jestMixed,
	"jest-ok.txt":      {Runner: "jest", Passed: 1},
	"jest-none.txt":    {Runner: "jest"},
	"jest-suite.txt":   {Runner: "jest", Failed: 1, Failing: []string{"j/c.test.js [test suite failed to run]"}},

	"vitest-fail.txt":   vitestMixed,
	"vitest-colour.txt": vitestMixed,
	"vitest-ok.txt":     {Runner: "vitest", Passed: 1},
	"vitest-none.txt":   {Runner: "vitest"},
	"vitest-suite.txt":  {Runner: "vitest", Failed: 1, Failing: []string{"c.test.js [ c.test.js ]"}},
	"vitest-junit.xml": {Runner: "junit", Passed: 2, Failed: 2, Skipped: 2,
		Failing: []string{"a.test.js.math > bad", "c.test.js"}},

	"node-tap.txt":  {Runner: "node", Passed: 2, Failed: 2, Skipped: 2, Failing: []string{"bad", "inner bad"}},
	"node-spec.txt": {Runner: "node", Passed: 2, Failed: 2, Skipped: 2, Failing: []string{"bad", "inner bad"}},
	"node-junit.xml": {Runner: "junit", Passed: 2, Failed: 2, Skipped: 2,
		Failing: []string{"test.bad", "test.inner bad"}},

	"mocha-fail.txt": {Runner: "mocha", Passed: 1, Failed: 1, Skipped: 1, Failing: []string{"math bad"}},
	"mocha-ok.txt":   {Runner: "mocha", Passed: 1},
	"mocha-none.txt": {Runner: "mocha"},
}

var (
	pytestMixed = event.TestCounts{Runner: "pytest", Passed: 3, Failed: 3, Skipped: 2,
		Failing: []string{"test_a.py::test_bad", "test_a.py::test_p[a b]", "test_a.py::test_err"}}
	unittestMixed = event.TestCounts{Runner: "unittest", Passed: 1, Failed: 4, Skipped: 2,
		Failing: []string{"test_err (test_x.T.test_err)", "test_bad (test_x.T.test_bad)",
			"test_sub (test_x.T.test_sub) (i=1)", "test_sub (test_x.T.test_sub) (i=2)"}}
	jestMixed = event.TestCounts{Runner: "jest", Passed: 2, Failed: 2, Skipped: 2,
		Failing: []string{"math › bad", "j/c.test.js [test suite failed to run]"}}
	vitestMixed = event.TestCounts{Runner: "vitest", Passed: 2, Failed: 2, Skipped: 2,
		Failing: []string{"c.test.js [ c.test.js ]", "a.test.js > math > bad"}}
)

func same(a, b event.TestCounts) bool {
	return a.Runner == b.Runner && a.Passed == b.Passed && a.Failed == b.Failed && a.Skipped == b.Skipped &&
		slices.Equal(a.Failing, b.Failing)
}

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRealLogsAreCounted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) != len(logs) {
		t.Fatalf("%d logs for %d expectations (%v)", len(files), len(logs), err)
	}
	for name, want := range logs {
		if got := testreport.Parse(read(t, name)); !same(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestOtherFormatsAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log  string
		want event.TestCounts
	}{
		"pytest, a minute": {"=== 3 passed, 2 warnings in 75.31s (0:01:15) ===\n", event.TestCounts{Runner: "pytest", Passed: 3}},
		"pytest, nothing":  {"no tests ran in 0.01s\n", event.TestCounts{Runner: "pytest"}},
		"pytest, collection errors": {"=== 2 errors in 0.08s ===\n",
			event.TestCounts{Runner: "pytest", Failed: 2}},
		"unittest of 3.12 without tests": {"Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", event.TestCounts{Runner: "unittest"}},
		"unittest, a class that can not be set up": {"======\nERROR: setUpClass (x.T)\n------\nRan 3 tests in 0.1s\n\nFAILED (errors=1)\n",
			event.TestCounts{Runner: "unittest", Passed: 3, Failed: 1, Failing: []string{"setUpClass (x.T)"}}},
		"nextest": {"        FAIL [   0.003s] slug tests::bad\n     Summary [   0.005s] 3 tests run: 2 passed, 1 failed, 1 skipped\n",
			event.TestCounts{Runner: "cargo", Passed: 2, Failed: 1, Skipped: 1, Failing: []string{"slug tests::bad"}}},
		"plain TAP": {"1..4\nok 1 - a\nnot ok 2 - b\nok 3 # SKIP no net\nnot ok 4 - c # TODO later\n",
			event.TestCounts{Runner: "tap", Passed: 1, Failed: 1, Skipped: 2, Failing: []string{"b"}}},
		"go test, time-out": {"panic: test timed out after 1s\n\trunning tests:\n\t\tTestX (1s)\nFAIL\tm/x\t1.01s\nFAIL\n",
			event.TestCounts{Runner: "go", Failed: 1, Failing: []string{"m/x [failed outside a test]"}}},
		"a go test binary run by itself": {"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n",
			event.TestCounts{Runner: "go", Passed: 1}},
		"go test, cut off": {"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n",
			event.TestCounts{Runner: "go", Passed: 1}},
		"JUnit that breaks off": {"<testsuite name=\"x\"><testcase name=\"a\"/><testcase name=\"b\"><failure>no",
			event.TestCounts{Runner: "junit", Passed: 1}},
		"nested suites": {"<testsuite name=\"x\">\n<testsuite name=\"y\"><testcase name=\"a\"/></testsuite>\n<testcase name=\"b\"/></testsuite>\n",
			event.TestCounts{Runner: "junit", Passed: 2}},
		"CRLF": {"=== RUN   TestA\r\n--- FAIL: TestA (0.00s)\r\nFAIL\r\nFAIL\tm\t0.1s\r\n",
			event.TestCounts{Runner: "go", Failed: 1, Failing: []string{"TestA"}}},
	} {
		if got := testreport.Parse(c.log); !same(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestOrdinaryOutputIsNoTestReport(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"", "\n", "ok\n", "hello 3 passed the exam in 2s ago\n", "total 12\n-rw-r--r-- 1 root\n", "# tests 5\n",
		"1.. x\n", "FAIL\n", "error: could not compile `x` (lib) due to 1 previous error\n", "PASS\n",
		"{\"Action\":\"deploy\",\"Package\":\"x\"}\n", "Ran 3 tests in 0.1s of nothing else\n", "12 passing cars\n"} {
		if got := testreport.Parse(log); got.Runner != "" || got.Executed() != 0 {
			t.Errorf("%q is read as %+v", log, got)
		}
	}
}

func TestSeveralRunnersInOneLogAreSummed(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, len(logs))
	for n := range logs {
		// Progress letters count only where no summary is in the log, and go's
		// JSON names a package that fails without a test only once.
		if !strings.HasPrefix(n, "pytest-qq") && n != "go-json.txt" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	rapid.Check(t, func(rt *rapid.T) {
		pick := rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(rt, "logs")
		var log strings.Builder
		var want event.TestCounts
		for _, n := range pick {
			fmt.Fprintf(&log, "make: entering %s\n%s\nmake: *** ignored\n", n, read(t, n))
			c := logs[n]
			want.Passed += c.Passed
			want.Failed += c.Failed
			want.Skipped += c.Skipped
		}
		got := testreport.Parse(log.String())
		if got.Passed != want.Passed || got.Failed != want.Failed || got.Skipped != want.Skipped {
			rt.Fatalf("%v: got %+v, want %+v", pick, got, want)
		}
	})
}

func TestCountsDoNotDependOnHowTheLogIsCut(t *testing.T) {
	t.Parallel()
	for name, want := range logs {
		log := read(t, name)
		for _, k := range []int{1, 7, 4096} {
			p := testreport.NewParser()
			for rest := log; rest != ""; {
				n := min(k, len(rest))
				p.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got := p.Counts(); !same(got, want) {
				t.Errorf("%s in pieces of %d: %+v", name, k, got)
			}
		}
	}
}

func TestFailingNamesAreCapped(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 500 {
		fmt.Fprintf(&log, "--- FAIL: Test%d (0.00s)\n", i)
	}
	log.WriteString("FAIL\tm\t0.1s\n")
	got := testreport.Parse(log.String())
	if got.Failed != 500 || len(got.Failing) != testreport.MaxFailing {
		t.Errorf("%d failed, %d named", got.Failed, len(got.Failing))
	}
}

func TestHostileOutputNeverPanics(t *testing.T) {
	t.Parallel()
	bits := []string{"--- FAIL: ", "ok ", "not ok ", "1..", "Tests:", "Tests  ", " | ", "<testsuite", "<testcase", "</testsuite>", ">", "\"", "\n", "\t",
		"9999999999999999999999", "(", ")", "# tests ", "test result: ok. ", "; ", "passed", "Ran ", " tests in ", "FAILED (", "=", "{\"Action\":\"fail\"}", "  1) ", "[100%]", "\x1b[", "✖ "}
	rapid.Check(t, func(t *rapid.T) {
		log := strings.Join(rapid.SliceOf(rapid.SampledFrom(bits)).Draw(t, "bits"), "")
		c := testreport.Parse(log)
		if c.Passed < 0 || c.Failed < 0 || c.Skipped < 0 {
			t.Fatalf("%q: %+v", log, c)
		}
	})
}
