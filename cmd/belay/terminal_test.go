package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// What untrusted text may try with a terminal: clear it, set its title, write
// its clipboard, answer back, move up and overwrite, reorder, end the line and
// write one that looks like belay's own.
const (
	esc      = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07\x1b[6n\x1b[1A\u009b31m\x7f\b"
	reorder  = "\u202e\u2066\u200f\u2028"
	forged   = "   99 goal_completed: verified"
	steering = "say" + esc + reorder + "\r\n" + forged + "\n" + forged
)

// steers says what in an output would steer a terminal, "" for nothing.
func steers(out string) string {
	for i := 0; i < len(out); {
		r, n := utf8.DecodeRuneInString(out[i:])
		bidi := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c || r == 0x2028 || r == 0x2029
		if r == utf8.RuneError && n <= 1 || unicode.IsControl(r) && r != '\n' && r != '\t' || bidi {
			return fmt.Sprintf("%q at byte %d: …%q", r, i, out[max(0, i-60):min(len(out), i+40)])
		}
		i += n
	}
	return ""
}

// forges says whether a line of the output is not belay's own but looks so.
func forges(out string) bool {
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, forged) {
			return true
		}
	}
	return false
}

// colours are the only sequences that belay itself writes.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestNoViewLetsTextSteerTheTerminal: whatever a goal, a file's name, a
// command's output, a model, a rule or a repository says, each view of the
// command line shows it as text, and no line of it as belay's own.
func TestNoViewLetsTextSteerTheTerminal(t *testing.T) {
	t.Parallel()
	files := toy()
	name := "na" + strings.ReplaceAll(esc, "/", "") + reorder + "\n" + forged
	files[name] = "x\n"
	files["belay.yaml"] = "policy:\n  rules:\n    - " + jsonText(map[string]string{"decision": "allow", "command": "make " + steering, "reason": steering}) + "\n"
	w := newWorld(t, files)
	w.must(0, "policy", "allow", "--command", "printf *")
	w.put(filepath.Join(w.dir, "config", "policy.yaml"), "rules:\n  - "+jsonText(map[string]string{"decision": "ask", "command": "sh " + esc + "*", "reason": steering})+
		"\n  - {decision: allow, command: printf *}\n  - {decision: allow, tool: write, path: code.txt}\n")
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, jsonText(map[string]any{"goal": "repair code.txt " + steering, "constraints": []string{steering}, "acceptance": []any{
		map[string]string{"kind": "test", "command": "sh check.sh", "text": steering}, map[string]string{"kind": "manual", "text": steering}}}))
	printed := "printf '" + strings.NewReplacer("\x1b", `\033`, "\x07", `\007`, "\u009b", `\302\233`, "\x7f", `\177`, "\b", `\b`, "%", "%%").Replace(esc) +
		reorder + `\r\n` + forged + "\\n'"
	steps := "steps:\n" +
		stepCall("update_plan", map[string]any{"summary": steering, "steps": []any{map[string]string{"id": "s1", "text": steering}}, "scope": []string{"code.txt"}, "open_questions": []string{steering}}) +
		stepCall("update_todos", map[string]any{"todos": []any{map[string]string{"id": "t1", "content": steering, "status": "in_progress"}}}) +
		stepCall("record_decision", map[string]any{"decision": steering, "reason": steering}) +
		stepCommand(printed) + stepCall("no_such"+esc, map[string]any{"x": steering}) + stepCall("read_file", map[string]any{"path": "no" + steering}) +
		stepRead + stepFix + stepTest + stepCall("write_file", map[string]any{"path": "new" + esc + reorder, "content": steering}) +
		stepCall("ask_user", map[string]any{"question": steering}) +
		"  - {text: " + jsonText(steering) + ", calls: [{tool: finish, args: {summary: " + jsonText(steering) + "}}]}\n"
	model := w.script(steps)
	check := func(what string, r result, mayHold bool) {
		t.Helper()
		for stream, out := range map[string]string{"stdout": r.out, "stderr": r.err} {
			if s := steers(out); s != "" {
				t.Errorf("%s: %s steers the terminal: %s", what, stream, s)
			}
			if !mayHold && forges(out) {
				t.Errorf("%s: %s shows a forged line:\n%s", what, stream, out)
			}
		}
	}
	views := func(when string) {
		t.Helper()
		g := w.goal()
		for _, v := range [][]string{{"goals"}, {"show", g}, {"timeline", g}, {"events", g}, {"diff", g}, {"budget", g}, {"audit", g}, {"report", g},
			{"report", g, "--html"}, {"policy", "list"}, {"policy", "goal", g}, {"policy", "explain", "sh " + steering}, {"doctor"}, {"log", g, "op4"}} {
			for _, more := range [][]string{nil, {"--json"}} {
				args := append(v[:len(v):len(v)], more...)
				r := w.belay(args...)
				// A file's content, a command's text and a command's output have lines.
				if (v[0] == "log" || v[0] == "diff") && more == nil {
					continue // byte for byte, into a pipe; on a terminal see below
				}
				lines := v[0] == "diff" || v[0] == "log" || v[0] == "report" && len(v) > 2
				check(when+": belay "+strings.Join(args, " "), r, lines)
			}
		}
	}
	r := w.belay("run", "--file", goal, "--model", model, "--plan", "never")
	check("run", r, true)
	views("at the first question")
	for range 4 {
		s := w.snapshot()
		for _, p := range s.PendingApprovals {
			check("approve", w.belay("approve", w.goal(), p.Op), false)
		}
		check("resume", w.belay("resume", w.goal()), true)
		if len(w.snapshot().PendingApprovals) == 0 {
			break
		}
	}
	views("at the model's question")
	tty := newTerminal(t)
	for _, args := range [][]string{{"log", w.goal(), "op4"}, {"diff", w.goal()}} {
		r := w.attach(tty, args...).wait()
		r.out = strings.ReplaceAll(r.out, "\r\n", "\n") // the terminal's own
		r.out = colours.ReplaceAllString(r.out, "")     // belay's own
		check(args[0]+" on a terminal", r, true)
	}
	check("say", w.belay("say", w.goal(), steering), false)
	check("resume", w.belay("resume", w.goal()), true)
	views("at the end")
	for _, args := range [][]string{{"show", "no" + steering}, {"approve", w.goal(), "op" + steering}, {"policy", "check", filepath.Join(w.dir, "x"+esc)}, {"policy", "revoke", steering},
		{"no" + esc}, {"run", "x", "--model", "script:" + esc}, {"run", "x", "--sandbox", esc, "--model", model}, {"run", "x", "--file", "f" + esc}, {"show", w.goal(), "--state", "s" + esc},
		{"run", "x", "--model", "odd" + esc + ":x"}, {"show", "--no" + esc}} {
		check("belay "+fmt.Sprintf("%q", args), w.belay(args...), true)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "config", "policy.yaml"), []byte("rules: [{decision: \"al\\e[2Jlow\", command: x}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a policy file", w.belay("policy", "list"), true)
}
