package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
)

// Each kind of criterion that belay looks at itself: a case that must pass, and
// cases that must not, with the reason that a person would give. The test runner
// of these worlds is a shell script that speaks like pytest.

const runner = `pass=0; fail=0
for t in tests/test_*; do
	if [ -e quick ] && [ $t = tests/test_lines ]; then continue; fi
	if sh "$t"; then pass=$((pass+1)); else fail=$((fail+1)); echo "FAILED $t::it - assertion"; fi
done
if [ $fail -gt 0 ]; then echo "$fail failed, $pass passed in 0.01s"; exit 1; fi
echo "$pass passed in 0.01s"
`

func suite() map[string]string {
	return map[string]string{"code.txt": "broken\n", "run.sh": runner, "tests/test_code": "grep -q . code.txt\n", "tests/test_lines": "test $(wc -l < code.txt) -eq 1\n"}
}

// judged runs a goal whose model plays the steps, claims, and gives up when it
// is refused. It returns what the verdict says of the criterion c.
func judged(t *testing.T, files map[string]string, criteria, steps string) (w *world, r result, c event.CriterionResult) {
	t.Helper()
	w = newWorld(t, files)
	w.git("init", "-q")
	w.git("add", "-A")
	w.git("commit", "-qm", "First")
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n"+criteria)
	r = w.belay("run", "--file", goal, "--model", w.script("steps:\n"+steps+stepDone+"then: I give up.\n"), "--plan", "never", "--approve", "auto")
	for _, v := range of[event.VerificationFinished](t, w.events()) {
		for _, x := range v.Verdict.Criteria {
			if x.ID == "c" && v.Refused == "" {
				c = x
			}
		}
	}
	if copies, err := os.ReadDir(filepath.Join(w.dir, "state.scratch")); err == nil {
		t.Errorf("private copies are left: %v", copies)
	}
	return w, r, c
}

// verdictIs checks a criterion's result, its reason, and what the run ends as.
func verdictIs(t *testing.T, r result, c event.CriterionResult, want, reason string) {
	t.Helper()
	if c.Result != want || !strings.Contains(c.Reason, reason) {
		t.Errorf("the verdict is %s (%s), want %s (%s)\n%v", c.Result, c.Reason, want, reason, r)
	}
	if done := strings.Contains(r.out, "completed: verified"); done != (want == event.Pass) || done != (r.code == 0) {
		t.Errorf("the run does not end as the verdict says: %v", r)
	}
}

func writeStep(path, content string) string {
	return stepCall("write_file", map[string]any{"path": path, "content": content})
}

func TestTestsIntact(t *testing.T) {
	t.Parallel()
	const fix = stepRead + stepFix
	skip := func(path, content string) string {
		return stepCall("read_file", map[string]any{"path": path}) + writeStep(path, content)
	}
	for _, k := range []struct{ name, steps, more, want, reason string }{
		{"the code alone changes", fix, "", event.Pass, ""},
		{"a test is added", fix + writeStep("tests/test_more", "grep -q fixed code.txt\n"), "", event.Pass, ""},
		{"a test is deleted", fix + stepCommand("rm tests/test_lines"), "", event.Fail, "deleted: tests/test_lines"},
		{"a test is emptied so that what it asserted does not hold any more", stepRead + writeStep("code.txt", "fixed\n\n") + skip("tests/test_lines", "true\n"), "", event.Fail,
			"tests that stood before do not pass any more over the present code (1 failed: tests/test_lines::it)"},
		{"the same, where the user allows it", stepRead + writeStep("code.txt", "fixed\n\n") + skip("tests/test_lines", "true\n"), ", allow: [tests/test_lines]", event.Pass, ""},
		{"the runner is redefined", fix + skip("run.sh", "echo '2 passed in 0.01s'\n"), "", event.Fail, "redefined: run.sh: the test command runs it"},
		{"the code keeps one of them from running", fix + writeStep("quick", "yes\n"), "", event.Fail, "of the tests that stood before only 1 ran; 2 ran on the code as the goal found it"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w, r, c := judged(t, suite(), "  - {id: c, kind: tests_intact, command: sh run.sh"+k.more+"}\n", k.steps)
			verdictIs(t, r, c, k.want, k.reason)
			if _, err := os.Stat(filepath.Join(w.repo, "tests")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReproduces(t *testing.T) {
	t.Parallel()
	const fix, shows = stepRead + stepFix, "tests/test_fixed"
	test := writeStep(shows, "grep -q fixed code.txt\n")
	one := `if [ -e tests/test_fixed ] && sh tests/test_fixed; then echo "1 passed in 0.01s"; else echo "FAILED tests/test_fixed::it - no"; echo "1 failed in 0.01s"; exit 1; fi` + "\n"
	files := suite()
	files["one.sh"] = one
	for _, k := range []struct{ name, steps, more, want, reason string }{
		{"a test that fails before and passes now", test + fix, "", event.Pass, ""},
		{"three times over", test + fix, ", repeat: 3", event.Pass, ""},
		{"a test that passes before as well", writeStep(shows, "true\n") + fix, "", event.Fail, "passes also on the code as the goal found it, so it does not show the problem"},
		{"a mended test and no mended code", writeStep(shows, "true\n"), "", event.Fail, "nothing but tests differs from what the goal found"},
		{"it still fails", test + stepRead + writeStep("other.txt", "x\n"), "", event.Fail, "fails on a copy of the present code (1 failed: tests/test_fixed::it)"},
		{"it passes here by what git ignores", writeStep(shows, "test -e made.out\n") + fix + stepCommand("touch made.out"), "", event.Fail, "fails on a copy of the present code"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			own := map[string]string{".gitignore": "*.out\n"}
			for n, c := range files {
				own[n] = c
			}
			_, r, c := judged(t, own, "  - {id: c, kind: reproduces, command: sh one.sh"+k.more+"}\n", k.steps)
			verdictIs(t, r, c, k.want, k.reason)
		})
	}
}

func TestArtifact(t *testing.T) {
	t.Parallel()
	const sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" // of "hello\n"
	notes := writeStep("NOTES.md", "hello\n")
	commit := func(message string) string {
		return stepCommand("git -c user.name=T -c user.email=t@x commit -qm '" + message + "' --allow-empty")
	}
	for _, k := range []struct{ name, criterion, steps, want, reason string }{
		{"a file", "path: NOTES.md", notes, event.Pass, ""},
		{"no file", "path: NOTES.md", stepRead, event.Fail, "NOTES.md does not exist"},
		{"a file that git ignores", "path: build.out", stepCommand("echo x > build.out"), event.Pass, ""},
		{"its content", "path: NOTES.md, contains: hell, matches: '^h.*o$|hello', sha256: " + sum, notes, event.Pass, ""},
		{"other content", "path: NOTES.md, contains: goodbye", notes, event.Fail, `NOTES.md does not contain "goodbye"`},
		{"another pattern", "path: NOTES.md, matches: '^x'", notes, event.Fail, `NOTES.md does not match "^x"`},
		{"another hash", "path: NOTES.md, sha256: " + sum, writeStep("NOTES.md", "Hello\n"), event.Fail, "has the SHA-256"},
		{"a file outside", "path: link", stepCommand("ln -s /etc/passwd link"), event.Fail, "outside"},
		{"a branch", "branch: fix", stepCommand("git branch fix"), event.Pass, ""},
		{"no branch", "branch: fix", stepRead, event.Fail, "there is no branch fix"},
		{"a commit", "commit: Repair", commit("Repair it"), event.Pass, ""},
		{"another commit", "commit: Repair", commit("Something"), event.Fail, `none of the 1 commits on HEAD since the start has "Repair" in its message`},
		{"a commit that stood before", "commit: First", stepRead, event.Fail, `none of the 0 commits on HEAD since the start has "First"`},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			_, r, c := judged(t, map[string]string{"code.txt": "broken\n", ".gitignore": "*.out\n"}, "  - {id: c, kind: artifact, "+k.criterion+"}\n", k.steps)
			verdictIs(t, r, c, k.want, k.reason)
		})
	}
}

func TestReview(t *testing.T) {
	t.Parallel()
	const fix = stepRead + stepFix
	answer := func(step string) string {
		return "  - when: {contains: [You are a reviewer, 'Is it mended, and nothing else?', '+fixed']}\n    " + step + "\n"
	}
	opinion := func(args string) string { return answer("calls: [{tool: give_opinion, raw: '" + args + "'}]") }
	for _, k := range []struct{ name, reviewer, want, reason string }{
		{"a yes", opinion(`{"result":"pass","reason":"It is."}`), event.Pass, ""},
		{"a yes in a text", answer("text: '{\"result\":\"pass\",\"reason\":\"It is.\"}'"), event.Pass, ""},
		{"a no", opinion(`{"result":"fail","reason":"code.txt:1 has a typo"}`), event.Fail, "the reviewer says no: code.txt:1 has a typo"},
		{"not sure", opinion(`{"result":"unknown","reason":"I cannot see the tests"}`), event.ResultUnknown, "the reviewer gave no usable opinion: I cannot see the tests"},
		{"a field too many", opinion(`{"result":"pass","reason":"ok","score":10}`), event.ResultUnknown, "malformed"},
		{"no reason", opinion(`{"result":"pass"}`), event.ResultUnknown, "result or reason is missing"},
		{"a word that is none", opinion(`{"result":"LGTM","reason":"ok"}`), event.ResultUnknown, `result is "LGTM"`},
		{"prose", answer("text: 'Looks good to me: pass'"), event.ResultUnknown, "malformed"},
		{"two answers", answer(`calls: [{tool: give_opinion, raw: '{"result":"fail","reason":"no"}'}, {tool: give_opinion, raw: '{"result":"pass","reason":"yes"}'}]`), event.ResultUnknown, "2 answers"},
		{"a tool that it does not have", answer("calls: [{tool: finish, args: {}}]"), event.ResultUnknown, "which a reviewer does not have"},
		{"nothing", answer("text: ' '"), event.ResultUnknown, "0 answers"},
		{"cut", answer("cut: true\n    text: x"), event.ResultUnknown, "the stream ended before the response did"},
		{"a provider that refuses", answer("fail: {kind: bad_credentials, times: -1}\n    text: x"), event.ResultUnknown, "it could not be checked"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			goal := filepath.Join(w.dir, "goal.yaml")
			w.put(goal, "goal: repair code.txt\nacceptance:\n  - {id: t, kind: test, command: sh check.sh}\n  - {id: c, kind: review, text: 'Is it mended, and nothing else?'}\n")
			r := w.belay("run", "--file", goal, "--model", w.script("steps:\n"+k.reviewer+fix+stepTest+stepDone+"then: I give up.\n"), "--plan", "never", "--approve", "auto")
			var c event.CriterionResult
			for _, v := range of[event.VerificationFinished](t, w.events()) {
				c = v.Verdict.Criteria[1]
			}
			if c.Result != k.want || !strings.Contains(c.Reason, k.reason) {
				t.Fatalf("the verdict is %s (%s), want %s (%s)\n%v", c.Result, c.Reason, k.want, k.reason, r)
			}
			if done := strings.Contains(r.out, "completed: judged"); done != (k.want == event.Pass) || done != (r.code == 0) {
				t.Errorf("the run does not end as the verdict says: %v", r)
			}
			if used := w.snapshot().Budget.Used.Steps; k.name == "a yes" && used != 5 {
				t.Errorf("%d steps are charged, want 5: the reviewer's is one", used)
			}
		})
	}
}

// A reviewer is not asked while something that can be run stands against the
// claim, and its opinion does not stand against a failing test.
func TestAReviewerIsAskedLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n  - {id: c, kind: review, text: 'Is it mended?'}\n  - {id: t, kind: test, command: sh check.sh}\n")
	w.must(5, "run", "--file", goal, "--model", w.script("steps:\n  - when: {contains: [You are a reviewer]}\n    calls: [{tool: give_opinion, args: {result: pass, reason: yes}}]\n"+stepTest+stepDone+"then: I give up.\n"), "--plan", "never", "--approve", "auto")
	for _, p := range of[event.OperationProposed](t, w.events()) {
		if p.Tool == "check_review" {
			t.Error("the reviewer was asked although the tests fail")
		}
	}
}

// The report tells the tests that stood before from those that this run wrote,
// and names the programs that evidence was made with.
func TestTheReportTellsOldTestsFromNew(t *testing.T) {
	t.Parallel()
	w, r, _ := judged(t, suite(), "  - {id: t, kind: test, command: sh run.sh}\n  - {id: c, kind: tests_intact}\n",
		stepRead+stepFix+writeStep("tests/test_more", "grep -q fixed code.txt\n")+stepTest)
	if r.code != 0 {
		t.Fatal(r)
	}
	md := w.must(0, "report", w.goal()).out
	for _, want := range []string{"- stood before: 3 files, none changed", "as they stood, over the code of now (op7): 2 passed, 0 failed", "on the code as the goal found it (op8): 2 passed",
		`- written in this run: tests/test\_more`, "all of them now (op4): 3 passed, 0 failed, 0 skipped, 1 more than stood before", "by belay, for c, in a copy of tree"} {
		if !strings.Contains(md, want) {
			t.Errorf("the report does not say %q:\n%s", want, md)
		}
	}
	for _, run := range of[event.TestCompleted](t, w.events()) {
		if !strings.Contains(run.Environment["python3"], " sha256:") {
			t.Errorf("the tools of the test run are %q", run.Environment)
		}
	}
}

// The four ways to complete are told apart wherever a person or a script looks.
func TestTheFourWaysToCompleteAreToldApart(t *testing.T) {
	t.Parallel()
	const fix = stepRead + stepFix + stepTest
	for how, k := range map[event.CompletedHow]struct {
		criteria string
		more     []string
	}{
		event.Verified:           {criteria: "  - {kind: test, command: sh check.sh}\n"},
		event.Judged:             {criteria: "  - {kind: test, command: sh check.sh}\n  - {kind: review, text: Is it mended?}\n"},
		event.Attested:           {criteria: "  - {kind: test, command: sh check.sh}\n  - Is it mended?\n"},
		event.AcceptedUnverified: {more: []string{"--accept-unverified"}},
	} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{"code.txt": "broken\n", "check.sh": checkScript})
			goal := filepath.Join(w.dir, "goal.yaml")
			w.put(goal, "goal: repair code.txt\nacceptance:\n"+k.criteria)
			model := w.script("steps:\n  - when: {contains: [You are a reviewer]}\n    calls: [{tool: give_opinion, args: {result: pass, reason: yes it is}}]\n" + fix + stepDone)
			r := w.belay(append([]string{"run", "--file", goal, "--model", model, "--plan", "never", "--approve", "auto"}, k.more...)...)
			if how == event.Attested {
				w.must(0, "approve", w.goal())
				r = w.belay("resume", w.goal())
			}
			if r.code != 0 {
				t.Fatal(r)
			}
			for where, text := range map[string]string{"the last lines of run": r.out, "show": w.must(0, "show", w.goal()).out, "goals": w.must(0, "goals").out,
				"report": w.must(0, "report", w.goal()).out, "show --json": w.must(0, "show", w.goal(), "--json").out, "report --json": w.must(0, "report", w.goal(), "--json").out,
				"goals --json": w.must(0, "goals", "--json").out} {
				for _, word := range []event.CompletedHow{event.Verified, event.Judged, event.Attested, event.AcceptedUnverified} {
					said := strings.Contains(text, string(word)) && (word != event.Verified || !strings.Contains(strings.ReplaceAll(text, "accepted_unverified", ""), "unverified")) ||
						strings.Contains(text, strings.ReplaceAll(string(word), "_", " "))
					if word == how && !said {
						t.Errorf("%s does not say %s:\n%s", where, how, text)
					}
					if word != how && strings.Contains(text, "completed: "+string(word)+"\n") {
						t.Errorf("%s says %s of a goal that is %s", where, word, how)
					}
				}
			}
		})
	}
}

// The user lets belay run what a claim comes without, and asks for repeats: a
// test that passes only sometimes is no evidence.
func TestBelayRunsWhatAClaimComesWithout(t *testing.T) {
	t.Parallel()
	// The n-th run of the check fails; the count stands beside the repository.
	flaky := func(n string) map[string]string {
		return map[string]string{"code.txt": "broken\n", "check.sh": "echo x >> ../runs\nif [ $(wc -l < ../runs) -eq " + n + " ]; then echo 'FAILED t::it - x'; echo '1 failed in 0.01s'; exit 1; fi\n" + checkScript}
	}
	for _, k := range []struct{ name, n, criterion, want, reason, runs string }{
		{"it passes three times", "9", "repeat: 3", event.Pass, "", "x\nx\nx\n"},
		{"the third run fails", "3", "repeat: 3", event.ResultUnknown, "flaky: `sh check.sh` passed 2 and failed 1 times on the same tree", "x\nx\nx\n"},
		{"once is enough", "9", "text: once", event.Pass, "", "x\n"},
		{"it fails at once", "1", "repeat: 3", event.Fail, "`sh check.sh` ended with exit code 1", "x\n"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, flaky(k.n))
			goal := filepath.Join(w.dir, "goal.yaml")
			w.put(goal, "goal: repair code.txt\nverify: run\nacceptance:\n  - {id: c, kind: test, command: sh check.sh, "+k.criterion+"}\n")
			r := w.belay("run", "--file", goal, "--model", w.script("steps:\n"+stepRead+stepFix+stepDone+"  - {calls: [{tool: ask_user, args: {question: what now?}}]}\n"), "--plan", "never", "--approve", "auto")
			v := of[event.VerificationFinished](t, w.events())
			if len(v) != 1 || v[0].Verdict.Criteria[0].Result != k.want || !strings.Contains(v[0].Verdict.Criteria[0].Reason, k.reason) {
				t.Fatalf("want %s (%s): %+v\n%v", k.want, k.reason, v, r)
			}
			if got := w.readAt("runs"); got != k.runs {
				t.Errorf("the check ran %q", got)
			}
		})
	}
	w := newWorld(t, toy())
	goal, model := filepath.Join(w.dir, "goal.yaml"), w.script(repair)
	for _, bad := range []struct{ file, words string }{
		{"goal: x\nverify: always\n", `verify is "always"; it knows run`},
		{"goal: x\nacceptance: [{kind: scope, allow: [a], verify: run}]\n", "command and test criteria know verify: run"},
		{"goal: x\nacceptance: [{kind: manual, text: ok, repeat: 3}]\n", "repeat is for command, test and reproduces criteria"},
		{"goal: x\nacceptance: [{kind: test, command: make, path: a}]\n", "are for artifact criteria, not for test"},
		{"goal: x\nacceptance: [{kind: artifact}]\n", "needs a path, a branch, or commit"},
		{"goal: x\nacceptance: [{kind: artifact, path: /etc/passwd}]\n", "is absolute"},
		{"goal: x\nacceptance: [{kind: artifact, path: a, matches: '('}]\n", "matches is no regular expression"},
		{"goal: x\nacceptance: [{kind: artifact, path: a, sha256: abc}]\n", "64 lower-case hexadecimal digits"},
		{"goal: x\nacceptance: [{kind: reproduces}]\n", "needs the command that runs the test which shows the problem"},
		{"goal: x\nacceptance: [{kind: review}]\n", "needs in text what the reviewer is to judge"},
		{"goal: x\nacceptance: [{kind: tests_intact, forbid: [a]}]\n", "forbid is for scope criteria"},
	} {
		w.put(goal, bad.file)
		if r := w.must(2, "run", "--file", goal, "--model", model); !strings.Contains(r.err, bad.words) {
			t.Errorf("%q is refused without %q: %v", bad.file, bad.words, r)
		}
	}
}

// What the model proposes as "done" counts once a person has confirmed it with
// the plan, and adds to what the user asked for.
func TestCriteriaOfAPlanAreConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, suite())
	plan := "  - {calls: [{tool: update_plan, args: {steps: [mend it], scope: [code.txt], criteria: [{id: proof, kind: artifact, path: NOTES.md}]}}]}\n"
	run := []string{"run", "repair code.txt", "--model", w.script("steps:\n" + plan + stepRead + stepFix + stepCommand("sh run.sh") + stepDone + writeStep("NOTES.md", "mended\n") + stepCommand("sh run.sh") + stepDone), "--test", "sh run.sh", "--plan", "auto"}
	w.must(3, run...)
	if s := w.snapshot(); len(s.Criteria) != 1 || len(s.PendingApprovals) != 1 || !strings.Contains(s.PendingApprovals[0].Intent.Preview.Head, "done when: proof (artifact) path: NOTES.md") {
		t.Fatalf("before it is confirmed: %+v, asked %+v", s.Criteria, s.PendingApprovals)
	}
	w.must(0, "approve", w.goal())
	w.must(0, "policy", "goal", w.goal(), "--approve", "auto")
	if r := w.must(0, "resume", w.goal()); !strings.Contains(r.out, "completed: verified") {
		t.Error(r)
	}
	vs := of[event.VerificationFinished](t, w.events())
	if len(vs) != 2 || vs[0].Verdict.Verdict != event.Incomplete || vs[0].Verdict.Criteria[1].Reason != "NOTES.md does not exist" {
		t.Errorf("verdicts: %+v", vs)
	}
	if out := w.must(0, "show", w.goal()).out; !strings.Contains(out, "(from the plan)") {
		t.Errorf("show does not say where it is from:\n%s", out)
	}
}

// Where a private copy cannot be made, the claim is not accepted, and the reason
// names the folder and the remedy; where the user names another, it is.
func TestAPrivateCopyThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, suite())
	w.put(filepath.Join(w.dir, "state.scratch"), "a file in the way")
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n  - {id: c, kind: tests_intact, command: sh run.sh}\n")
	run := []string{"run", "--file", goal, "--model", w.script("steps:\n" + stepRead + stepFix + stepDone + "then: I give up.\n"), "--plan", "never", "--approve", "auto"}
	w.must(5, run...)
	v := of[event.VerificationFinished](t, w.events())[0].Verdict.Criteria[0]
	if v.Result != event.ResultUnknown || !strings.Contains(v.Reason, "it could not be checked: a private copy could not be made in "+w.dir+"/state.scratch") {
		t.Errorf("the verdict is %+v", v)
	}
	again := newWorld(t, suite())
	again.env = append(again.env, "BELAY_SCRATCH="+filepath.Join(again.dir, "elsewhere"))
	again.put(filepath.Join(again.dir, "state.scratch"), "a file in the way")
	run[2] = filepath.Join(again.dir, "goal.yaml")
	again.put(run[2], "goal: repair code.txt\nacceptance:\n  - {id: c, kind: tests_intact, command: sh run.sh}\n")
	again.must(0, run...)
}
