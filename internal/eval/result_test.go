package eval

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/fault"
)

const hostile = "<script>alert(1)</script> \x1b[31m\x00 ]]> &amp; \u009b31m \" ' {{.}} javascript:x\xff"

func someResults() Results {
	r := Results{Header: Header{Format: Format, Begun: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), WallMS: 1234, Repeat: 2, Parallel: 2, Version: hostile}}
	for i, o := range Outcomes {
		r.Runs = append(r.Runs, Result{Case: "case/" + hostile, Title: hostile, Shows: hostile, Field: []string{hostile}, Repeat: i + 1, Outcome: o, Class: Loop,
			ClassWhy: hostile, Why: []string{hostile}, Goal: "g", Status: lifecycle.Paused, Rest: hostile, Missing: []string{hostile}, Tail: []string{hostile},
			Criteria: []event.CriterionResult{{ID: hostile, Result: "fail", Reason: hostile, Evidence: []string{hostile}}}, Steps: 3, CostMicros: 1500000,
			Files: map[string]string{"report": "runs/x/report.html"}, Scratch: hostile})
	}
	return r
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	r := someResults()
	b, err := r.Page()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, bad := range []string{"<script", "\x1b", "\x00", "\u009b", "javascript:x\""} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if re := regexp.MustCompile(`(?i)(https?:|src=|url\(|@import|<link)`); re.MatchString(text) {
		t.Errorf("the page asks for something: %q", re.FindString(text))
	}
	for _, want := range []string{`href="runs/x/report.html"`, "default-src 'none'", "1 of 4 runs passed", "$1.5000"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if b, err = r.JUnit(); err != nil {
		t.Fatal(err)
	}
	var s junitSuite
	if err := xml.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if s.Tests != 4 || s.Failures != 1 || s.Errors != 2 || len(s.Cases) != 4 || s.Cases[1].Failure == nil || s.Cases[0].Failure != nil || s.Cases[3].Error.Type != "infra" {
		t.Errorf("junit: %+v", s)
	}
	if strings.ContainsAny(line(r.Runs[1]), "\x1b\x00\u009b") {
		t.Error("the terminal would act on a line of the table")
	}
}

func TestResultsComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	r, dir := someResults(), t.TempDir()
	for i := range r.Runs {
		r.Runs[i].Case = "plain"
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := got.write(other); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadResults(other); err != nil || !reflect.DeepEqual(again, got) || got.Runs[1].Outcome != Fail || len(got.Runs[0].Files) != 1 || got.WallMS != r.WallMS {
		t.Errorf("%v: %.2000v\n%.2000v", err, got, again)
	}
	text, err := os.ReadFile(filepath.Join(dir, ResultsFile))
	if err != nil || strings.Count(string(text), "\n") != len(r.Runs)+2 {
		t.Errorf("one run a line: %v\n%.2000s", err, text)
	}
	if err := os.WriteFile(filepath.Join(dir, ResultsFile), []byte(`{"format":"other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadResults(dir); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("another format: %v", err)
	}
	if _, err := ReadResults(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("no results: %v", err)
	}
}

func TestTheExitCodeTellsFailureFromNothingToSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs []Outcome
		code int
	}{{[]Outcome{Pass, Pass}, 0}, {[]Outcome{Pass, Infra}, 1}, {[]Outcome{Fail, Infra}, 6}, {[]Outcome{Pass, TimeOut}, 6}} {
		var r Results
		for _, o := range c.runs {
			r.Runs = append(r.Runs, Result{Outcome: o})
		}
		code := 0
		if err := r.verdict(); err != nil {
			code = err.(failure).ExitCode()
		}
		if code != c.code {
			t.Errorf("%v: exit %d, want %d", c.runs, code, c.code)
		}
	}
}

func TestComparingPairsCasesAndLeavesOutWhatSaysNothing(t *testing.T) {
	t.Parallel()
	run := func(name string, o Outcome, steps int64) Result {
		return Result{Case: name, Outcome: o, Class: Loop, Steps: steps, CostMicros: steps * 1000}
	}
	a := Results{Runs: []Result{run("same", Pass, 2), run("better", Fail, 9), run("worse", Pass, 2), run("worse", Pass, 4), run("shaky", Infra, 50), run("old", Pass, 1)}}
	b := Results{Runs: []Result{run("same", Pass, 4), run("same", TimeOut, 500), run("better", Pass, 3), run("worse", Pass, 2), run("worse", Fail, 8), run("shaky", Pass, 1), run("new", Pass, 1)}}
	c := CompareResults(a, b)
	if len(c.Better) != 1 || c.Better[0].Case != "better" || len(c.Worse) != 1 || c.Worse[0].Case != "worse" || c.Worse[0].B.rate() != 0.5 {
		t.Errorf("changed: %+v %+v", c.Better, c.Worse)
	}
	if len(c.Unclear) != 1 || c.Unclear[0] != "shaky" || len(c.OnlyA) != 1 || len(c.OnlyB) != 1 {
		t.Errorf("left out: %v %v %v", c.Unclear, c.OnlyA, c.OnlyB)
	}
	if c.Cases != 3 || !near(c.RateA, 2.0/3) || !near(c.RateB, 2.5/3) || c.B.TimeOut != 1 {
		t.Errorf("rates: %+v", c)
	}
	// Means a case over judged runs: (2+9+3)/3 and (4+3+5)/3.
	if !near(c.A.Steps, 14.0/3) || !near(c.B.Steps, 4) || !near(c.B.CostMicros, 4000) {
		t.Errorf("steps: %g %g", c.A.Steps, c.B.Steps)
	}
	var out strings.Builder
	c.print(&out)
	for _, want := range []string{"worse", "2/2 -> 1/2", "unclear shaky", "only A  old", "66.7 %", "Newcombe"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestEveryExpectationCanFail: each field of expect finds an end that is not so.
func TestEveryExpectationCanFail(t *testing.T) {
	t.Parallel()
	start, repo := t.TempDir(), t.TempDir()
	files := map[string]string{"a.txt": "one\ntwo\n", "b.txt": "b\n", ".git/HEAD": "x\n"}
	if err := putFiles(start, files); err != nil {
		t.Fatal(err)
	}
	if err := putFiles(repo, files); err != nil {
		t.Fatal(err)
	}
	tape := newTape(testCriterion).rejected(4, fault.NotRead).parked(event.PausedNoProg, fault.NotRead)
	end := End{Exit: 5, Snapshot: core.View(core.Fold(core.State{}, tape.es), nil), Events: tape.es, Said: "hello\n", Class: EditWithoutRead, Repo: repo, Start: start}
	four, five, zero, none := 4, 5, 0, []string{}
	good := func(s string) Pattern { return Pattern{regexp.MustCompile(s)} }
	text := func(s string) *string { return &s }
	fits := Expect{Exit: &five, Status: lifecycle.Paused, How: "none", Wait: "none", Pause: event.PausedNoProg, Class: EditWithoutRead, Why: good("parked"),
		Missing: []Pattern{good("check.sh")}, Says: []Pattern{good("hello")}, Changed: &none, Lines: map[string]int{"a.txt": 2}, Order: []string{"task_received", "goal_handed_off"},
		Files:  map[string]File{"a.txt": {Is: text("one\ntwo\n"), Contains: []Pattern{good("tw")}, Lacks: []Pattern{good("three")}, Mode: "0644"}, "c.txt": {Absent: true}},
		Events: []EventCount{{Event: event.TypeOperationRejected, Tool: "file_patch", Text: good("not_read"), Count: &four}, {Event: event.TypeGoalPaused}, {Event: event.TypeGoalCompleted, Max: &zero}}}
	if u := fits.Unmet(end); len(u) > 0 {
		t.Fatalf("what is so is not taken for it: %v", u)
	}
	for name, x := range map[string]Expect{
		"exit": {Exit: &zero}, "status": {Status: lifecycle.Completed}, "how": {How: event.Verified}, "wait": {Wait: event.WaitApproval}, "pause": {Pause: event.PausedBudget},
		"class": {Class: Loop}, "why": {Why: good("budget")}, "missing": {Missing: []Pattern{good("b.sh")}}, "says": {Says: []Pattern{good("bye")}},
		"changed": {Changed: &[]string{"a.txt"}}, "lines": {Lines: map[string]int{"a.txt": 3}}, "order": {Order: []string{"goal_handed_off", "task_received"}},
		"is": {Files: map[string]File{"a.txt": {Is: text("one")}}}, "contains": {Files: map[string]File{"a.txt": {Contains: []Pattern{good("x")}}}},
		"lacks": {Files: map[string]File{"a.txt": {Lacks: []Pattern{good("one")}}}}, "absent": {Files: map[string]File{"a.txt": {Absent: true}}},
		"there": {Files: map[string]File{"c.txt": {}}}, "mode": {Files: map[string]File{"a.txt": {Mode: "755"}}},
		"least": {Events: []EventCount{{Event: event.TypeGoalCompleted}}}, "most": {Events: []EventCount{{Event: event.TypeGoalPaused, Max: &zero}}},
		"count": {Events: []EventCount{{Event: event.TypeOperationRejected, Count: &five}}}, "tool": {Events: []EventCount{{Event: event.TypeOperationRejected, Tool: "run_test"}}},
		"text": {Events: []EventCount{{Event: event.TypeOperationRejected, Text: good("stale")}}},
	} {
		if u := x.Unmet(end); len(u) != 1 {
			t.Errorf("%s: %q, want one complaint", name, u)
		}
	}
	if err := putFiles(repo, map[string]string{"b.txt": "other\n", ".git/HEAD": "y\n"}); err != nil {
		t.Fatal(err)
	}
	if u := (Expect{Changed: &none}).Unmet(end); len(u) != 2 {
		t.Errorf("a changed file and a changed .git: %q", u)
	}
	if u := (Expect{Git: "any"}).Unmet(end); len(u) != 0 {
		t.Errorf("a .git that may change: %q", u)
	}
}
