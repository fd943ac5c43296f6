package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const goodCase = `
title: a case
repo: {files: {a.txt: "x\n"}}
goal: {goal: do it}
model: {steps: [{text: done}]}
expect: {exit: 0}
`

func writeCase(t testing.TB, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, CaseFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAWrongCaseIsNamed: every mistake comes with the field or the line.
func TestAWrongCaseIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{strings.Replace(goodCase, "title: a case", "", 1), "title:"},
		{strings.Replace(goodCase, "expect: {exit: 0}", "", 1), "expect:"},
		{strings.Replace(goodCase, "exit: 0", "exits: 0", 1), "exits"},
		{goodCase + "colour: red\n", "colour"},
		{goodCase + "timeout: soon\n", "soon"},
		{strings.Replace(goodCase, "exit: 0", "exit: 0, class: bad_luck", 1), "expect.class"},
		{strings.Replace(goodCase, "exit: 0", "events: [{event: goal_finished}]", 1), "expect.events[0].event"},
		{strings.Replace(goodCase, "exit: 0", "exit: 0, why: '('", 1), "missing closing"},
		{goodCase + "acts: [{when: {event: turn_started}, do: [kil]}]\n", `"kil" is no deed`},
		{goodCase + "acts: [{when: {event: turn_started}, do: [{write: {path: a, contents: b}}]}]\n", `"contents"`},
		{goodCase + "acts: [{when: {event: turn_started}, do: [write]}]\n", "needs a value"},
		{goodCase + "acts: [{when: {event: turn_started}, do: [{pause: now}]}]\n", "takes no text"},
		{goodCase + "acts: [{when: {event: sunset}, do: [kill]}]\n", "acts[0].when.event"},
		{goodCase + "acts: [{when: {rest: 3, event: turn_started}, do: [kill]}]\n", "acts[0].when"},
		{goodCase + "acts: [{do: [kill]}]\n", "acts[0].when"},
		{goodCase + "acts: [{when: {rest: 3}}]\n", "acts[0].do"},
		{goodCase + "answers: [{tool: run_command, say: perhaps}]\n", "answers[0].say"},
		{goodCase + "checks: [{name: x}]\n", "checks[0].command"},
		{goodCase + "checks: [{command: x, before: maybe}]\n", "checks[0].before"},
		{strings.Replace(goodCase, "goal: {goal: do it}", "", 1), "goal: there is no file goal.yaml"},
		{strings.Replace(goodCase, `{files: {a.txt: "x\n"}}`, "{git: x}", 1), "repo.commit"},
		{strings.Replace(goodCase, `{files: {a.txt: "x\n"}}`, "{git: x, commit: y, folder: z}", 1), "not from both"},
		{strings.Replace(goodCase, "a.txt", "../a.txt", 1), "outside the repository"},
		{"a: [", "case.yaml"},
	} {
		dir := filepath.Join(t.TempDir(), "c")
		writeCase(t, dir, c.text)
		_, err := Load(dir, "c")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "case.yaml") {
			t.Errorf("want %q in: %v\n%s", c.want, err, c.text)
		}
	}
	dir := filepath.Join(t.TempDir(), "c")
	writeCase(t, dir, goodCase)
	if c, err := Load(dir, "c"); err != nil || c.Timeout == 0 || *c.Expect.Exit != 0 {
		t.Errorf("the good one: %+v %v", c, err)
	}
}

func TestCasesAreFoundAtAnyDepthAndABrokenOneHidesNoOther(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeCase(t, filepath.Join(root, "b"), goodCase)
	writeCase(t, filepath.Join(root, "deep/er/a"), goodCase)
	writeCase(t, filepath.Join(root, "broken"), "title: x\n")
	writeCase(t, filepath.Join(root, "b/repo/inner"), goodCase) // a part of b
	cases, broken, err := Find([]string{root, filepath.Join(root, "b")})
	if err != nil || len(cases) != 2 || cases[0].Name != "b" || cases[1].Name != "deep/er/a" || len(broken) != 1 || broken[0].Name != "broken" {
		t.Errorf("%+v %+v %v", cases, broken, err)
	}
	if cs, _, err := Find([]string{filepath.Join(root, "b", CaseFile)}); err != nil || len(cs) != 1 || cs[0].Name != "b" {
		t.Errorf("by its file: %+v %v", cs, err)
	}
	for _, none := range []string{filepath.Join(root, "nowhere"), t.TempDir()} {
		if _, _, err := Find([]string{none}); err == nil {
			t.Errorf("%s: no error", none)
		}
	}
}

// TestAnyTextIsACaseOrAnError: no input makes the reader panic.
func TestAnyTextIsACaseOrAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	words := []string{"title: x", "acts:", "- when: {rest: 3}", "  do: [kill]", "expect: {files: {a: b}}", "repo: [", "goal: &a [*a]", "model: !!binary x", "checks: 7", "  - {}", "answers: {a: b}", "\t", "expect:\n  files: {a: {is: [1]}}"}
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 8).Draw(rt, "lines"), "\n")
		writeCase(t, dir, text)
		if c, err := Load(dir, "c"); err == nil && c.Title == "" {
			rt.Errorf("a case without a title: %q", text)
		}
	})
}

// TestDeedsAreWhatAnyoneCouldSay: each verb becomes the command of its name.
func TestDeedsAreWhatAnyoneCouldSay(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "c")
	writeCase(t, dir, goodCase+`acts:
  - when: {rest: 3}
    do: [{say: hello}, {steer: left}, approve, {approve: op2}, deny, {deny: {op: op3, reason: no}}, pause, cancel, {revise: {text: new, tests: [a, b]}},
      {reconcile: {op: op4, as: failed, reason: saw it}}, {extend: {steps: 5, tokens: 900}}, kill, resume, {linger: 3s}, {outside: ls}, {await: a}, {touch: b}, {remove: c}, {write: {path: d, content: e}}]
`)
	c, err := Load(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range c.Acts[0].Do {
		if args, ok := d.command("G"); ok {
			got = append(got, strings.Join(args, " "))
		}
		if d.Verb == "extend" {
			got = append(got, "resume G "+strings.Join(d.extension(), " "))
		}
	}
	want := "say G hello|say G left --steer|approve G|approve G op2|deny G|deny G op3 --reason no|pause G|cancel G|revise G new --test a --test b|" +
		"reconcile G op4 --failed --reason saw it|resume G --max-steps 5 --max-tokens 900"
	if strings.Join(got, "|") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "|"), want)
	}
}

// TestEveryCaseOfTheGauntletSaysWhatItReenacts: each can be read, says why it is
// there, and names reports of users that docs/field-coverage.md knows. The
// themes that it is made for are all there.
func TestEveryCaseOfTheGauntletSaysWhatItReenacts(t *testing.T) {
	t.Parallel()
	cases, broken, err := Find([]string{"../../evals/gauntlet"})
	if err != nil || len(broken) > 0 || len(cases) < 40 {
		t.Fatalf("%d cases, broken: %v, %v", len(cases), broken, err)
	}
	known, err := os.ReadFile("../../docs/field-coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	themes, titles := map[byte]int{}, map[string]string{}
	for _, c := range cases {
		if len(strings.Fields(c.Why)) < 8 || len(c.Field) == 0 {
			t.Errorf("%s does not say why it is there", c.Name)
		}
		if other := titles[c.Title]; other != "" {
			t.Errorf("%s has the title of %s", c.Name, other)
		}
		titles[c.Title] = c.Name
		for _, id := range c.Field {
			if !strings.Contains(string(known), "\n| "+id+" |") {
				t.Errorf("%s names the report %q, which nobody knows", c.Name, id)
			}
			themes[id[0]]++
		}
	}
	for _, theme := range "ABCDEFGIJKMP" {
		if themes[byte(theme)] == 0 {
			t.Errorf("no case of theme %c", theme)
		}
	}
}
