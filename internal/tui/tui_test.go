package tui

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/core/approval"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/moment"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)

func running() core.Snapshot {
	return core.Snapshot{Goal: "73c36d5ecbc8c2a4", Text: "Mend slug.Title so that it keeps digits", Status: lifecycle.Active,
		CurrentAction: "running run_test: go test ./...",
		Todos: []event.Todo{{ID: "a", Content: "read the code", Status: event.TodoCompleted}, {ID: "b", Content: "mend it", Status: event.TodoInProgress},
			{ID: "c", Content: "run the tests", Status: event.TodoPending, DependsOn: []string{"b"}}},
		Criteria: []core.CriterionView{{Criterion: event.Criterion{ID: "tests", Command: "go test ./..."}, Result: event.Fail, Reason: "1 test failed on this tree"},
			{Criterion: event.Criterion{ID: "scope", Text: "only slug/ is changed"}, Result: event.Pass}},
		Budget: core.BudgetView{Limits: event.Limits{Amount: event.Amount{Steps: 40, CostMicros: 2_000_000}}, Used: event.Amount{Steps: 7, Tokens: 24_500, CostMicros: 131_000}}}
}

func asking(preview string) core.Snapshot {
	v := running()
	v.CurrentAction, v.WaitReason = "waiting for approval of file_patch: slug/slug.go", event.WaitApproval
	v.PendingApprovals = []approval.Pending{{Op: "op7", Tool: "file_patch", Why: []string{"writes slug/slug.go"},
		Intent: event.Intent{Hash: "h7", Preview: event.Text{Head: preview}}}, {Op: "op8", Tool: "run_command", Intent: event.Intent{Hash: "h8"}}}
	return v
}

func entries(n int) []core.Entry {
	var out []core.Entry
	for i := range n {
		out = append(out, core.Entry{Seq: uint64(i + 1), Time: moment.Of(start.Add(time.Duration(i) * time.Second)), Name: "tool_executed: read_file",
			Op: fmt.Sprintf("op%d", i+1), Detail: fmt.Sprintf("file %d", i+1)})
	}
	return out
}

func screen(w, h int, v core.Snapshot) Screen {
	return Screen{Width: w, Height: h, Now: start, Entries: entries(30)}.Took(v)
}

const patch = "--- a/slug/slug.go\n+++ b/slug/slug.go\n@@ -1,3 +1,3 @@\n func Title(s string) string {\n-\treturn strip(s)\n+\treturn keep(s, unicode.IsDigit)\n }\n"

// TestScreens shows what is drawn, at the sizes that people have.
func TestScreens(t *testing.T) {
	t.Parallel()
	later := func(s Screen) Screen { s.Now = start.Add(75 * time.Second); return s }
	waiting := running()
	waiting.CurrentAction, waiting.WaitReason, waiting.WaitDetail = "", event.WaitUserInput, "Should digits at the front stay?"
	waiting.OpenOperations = []core.OpenOperation{{Op: "op9", Tool: core.ToolAskUser}}
	handed := running()
	handed.Status, handed.PauseReason, handed.CurrentAction = lifecycle.Paused, event.PausedNoProg, ""
	handed.HandOff = &event.GoalHandedOff{Why: "no progress: run_test was called 7 times"}
	handed.Next = core.Next(handed)
	done := running()
	done.Status, done.How, done.CurrentAction = lifecycle.Completed, event.Verified, ""
	typing, _ := screen(80, 24, running()).Key("s", "s")
	for _, r := range "keep it small" {
		typing, _ = typing.Key(string(r), string(r))
	}
	confirm, _ := screen(80, 24, running()).Key("c", "c")
	for name, s := range map[string]Screen{
		"running":  later(screen(100, 30, running())).Streamed("op7", "ok   slug 0.01s\nFAIL slug 0.02s\n"),
		"approval": screen(100, 30, asking(patch)), "approval_small": screen(40, 12, asking(patch)),
		"rules": screen(80, 24, asking(patch)).Offer([]event.Rule{{Tool: "write", Path: "slug/**"}}, true),
		"tiny":  screen(20, 4, running()), "one_line": screen(30, 1, asking(patch)), "typing": typing, "confirm": confirm,
		"question": screen(80, 20, waiting), "handed_off": screen(80, 20, handed), "done": screen(80, 20, done),
		"problem": screen(80, 16, running()).Said("goal 73c3: the question has changed since it was shown", true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, s.Render())
		})
	}
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		golden(t, "list", goals(90, 12).Render())
	})
}

func goals(w, h int) List {
	row := func(id, status, wait, how, title string, ago time.Duration) core.Overview {
		return core.Overview{Row: ledger.Row{Goal: id, Status: status, WaitReason: wait, How: how, Title: title, Updated: moment.Of(start.Add(-ago))}}
	}
	gs := []core.Overview{row("aaaa1111", "completed", "", "verified", "done long ago", 72*time.Hour), row("bbbb2222", "active", "", "", "runs", time.Second),
		row("cccc3333", "active", "approval", "", "waits for you", 5*time.Minute), row("dddd4444", "paused", "", "", "rests", 3*time.Hour)}
	gs[1].Action, gs[1].Held = "asking openai:gpt", true
	return List{Width: w, Height: h, Now: start}.Took(gs)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	var b strings.Builder
	for _, l := range strings.Split(got, "\n") {
		b.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != b.String() {
		t.Errorf("%v; drawn (-update rewrites it):\n%s\nwant:\n%s", err, b.String(), want)
	}
}

// TestKeys shows what each key means where.
func TestKeys(t *testing.T) {
	t.Parallel()
	claim := running()
	claim.WaitReason = event.WaitUserInput
	question := claim
	question.OpenOperations = []core.OpenOperation{{Op: "op9", Tool: core.ToolAskUser}}
	ruled := screen(80, 24, asking(patch)).Offer([]event.Rule{{Command: "make *"}}, true)
	for name, c := range map[string]struct {
		s    Screen
		keys string // words are named keys or typed, with _ for a blank
		want string
	}{
		"approve":                     {screen(80, 24, asking(patch)), "y", `{"Act":"approve","Op":"op7","Intent":"h7"}`},
		"approve by its letter":       {screen(80, 24, asking(patch)), "a", `{"Act":"approve","Op":"op7","Intent":"h7"}`},
		"deny with a reason":          {screen(80, 24, asking(patch)), "n too_wide enter", `{"Act":"deny","Op":"op7","Intent":"h7","Text":"too wide"}`},
		"deny without one":            {screen(80, 24, asking(patch)), "n enter", `{"Act":"deny","Op":"op7","Intent":"h7"}`},
		"deny, and think better":      {screen(80, 24, asking(patch)), "n x esc", "null"},
		"always":                      {screen(80, 24, asking(patch)), "A", `{"Act":"suggest","Op":"op7","Save":true}`},
		"for the goal":                {screen(80, 24, asking(patch)), "g", `{"Act":"suggest","Op":"op7"}`},
		"save the rule":               {ruled, "y", `{"Act":"always","Op":"op7","Intent":"h7","Rules":[{"decision":"","command":"make *"}],"Save":true}`},
		"not the rule":                {ruled, "n", "null"},
		"steer":                       {screen(80, 24, running()), "s go_on enter", `{"Act":"say","Text":"go on","Mode":"steer"}`},
		"steer while asked":           {screen(80, 24, asking(patch)), "s y enter", `{"Act":"say","Text":"y","Mode":"steer"}`},
		"message":                     {screen(80, 24, running()), "m hi enter", `{"Act":"say","Text":"hi","Mode":"message"}`},
		"mend what is typed":          {screen(80, 24, running()), "m hix backspace enter", `{"Act":"say","Text":"hi","Mode":"message"}`},
		"type anew":                   {screen(80, 24, running()), "m hix ctrl+u yo enter", `{"Act":"say","Text":"yo","Mode":"message"}`},
		"nothing typed":               {screen(80, 24, running()), "m enter", "null"},
		"keys are letters when typed": {screen(80, 24, running()), "m pcq enter", `{"Act":"say","Text":"pcq","Mode":"message"}`},
		"pause":                       {screen(80, 24, running()), "p", `{"Act":"pause"}`},
		"resume":                      {screen(80, 24, running()), "r", `{"Act":"resume"}`},
		"cancel asks":                 {screen(80, 24, running()), "c", "null"},
		"cancel":                      {screen(80, 24, running()), "c y", `{"Act":"cancel"}`},
		"not cancel":                  {screen(80, 24, running()), "c enter", "null"},
		"accept a claim":              {screen(80, 24, claim), "y", `{"Act":"approve"}`},
		"refuse a claim":              {screen(80, 24, claim), "n no enter", `{"Act":"deny","Text":"no"}`},
		"answer a question":           {screen(80, 24, question), "enter yes enter", `{"Act":"say","Text":"yes","Mode":"message"}`},
		"a question has no yes key":   {screen(80, 24, question), "y", "null"},
		"no approval to answer":       {screen(80, 24, running()), "y", "null"},
		"quit":                        {screen(80, 24, running()), "q", `{"Act":"quit"}`},
		"quit while typing":           {screen(80, 24, running()), "m q ctrl+c", `{"Act":"quit"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.s
			var last *Command
			for _, word := range strings.Fields(c.keys) {
				switch word {
				case "enter", "esc", "backspace", "ctrl+u", "ctrl+c":
					s, last = s.Key(word, "")
					continue
				}
				for _, r := range strings.ReplaceAll(word, "_", " ") {
					s, last = s.Key(string(r), string(r))
				}
			}
			if got := asJSON(t, last); got != c.want {
				t.Errorf("%s means %s, want %s", c.keys, got, c.want)
			}
		})
	}
}

// asJSON leaves out what is empty.
func asJSON(t *testing.T, c *Command) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`,"(Op|Intent|Text|Mode)":""|,"Rules":null|,"Save":false`).ReplaceAllString(string(b), "")
}

// An approval that is taken back or changed while it is looked at is not
// answered by the key that was meant for the old one.
func TestAnAnswerIsForWhatIsShown(t *testing.T) {
	t.Parallel()
	s, _ := screen(80, 24, asking(patch)).Key("n", "n")
	next := asking(patch)
	next.PendingApprovals = next.PendingApprovals[1:]
	s = s.Took(next)
	if _, c := s.Key("enter", ""); c != nil {
		t.Errorf("the reason that was typed for op7 answers %+v", c)
	}
	s = screen(80, 24, asking(patch)).Offer([]event.Rule{{Command: "make *"}}, true).Took(next)
	if _, c := s.Key("y", "y"); c == nil || c.Act != Approve || c.Op != "op8" {
		t.Errorf("%+v", c)
	}
}

// All of what is approved can be read, however long and wide it is.
func TestTheWholePreviewCanBeRead(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "+line %03d %s|end %03d\n", i, strings.Repeat("x", 150), i)
	}
	s := screen(60, 20, asking(b.String()))
	seen := ""
	for range 800 {
		seen += s.Render() + "\n"
		s, _ = s.Key("down", "")
	}
	for i := range 200 {
		if !strings.Contains(seen, fmt.Sprintf("line %03d", i)) || !strings.Contains(seen, fmt.Sprintf("end %03d", i)) {
			t.Fatalf("line %d cannot be read", i)
		}
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Whatever a model, a repository or a command writes, and whatever the size of
// the terminal: exactly as many lines as there are, none wider, and not one
// control character but our own colours.
func TestNothingDrawnIsWiderThanTheTerminalOrSteersIt(t *testing.T) {
	t.Parallel()
	hostile := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b[2J\x1b]0;title\x07", "\u202egpj.exe", "a\rb", "\x9b31m", "中文字符宽", "e\u0301\u0301", "\xff\xfe", "👩‍👩‍👧‍👦", "a\tb"}))
	rapid.Check(t, func(t *rapid.T) {
		v := asking(hostile.Draw(t, "preview"))
		v.Text, v.CurrentAction, v.WaitDetail = hostile.Draw(t, "text"), hostile.Draw(t, "action"), hostile.Draw(t, "detail")
		v.Todos[0].Content, v.Criteria[0].Reason = hostile.Draw(t, "todo"), hostile.Draw(t, "reason")
		v.PendingApprovals[0].Why, v.PendingApprovals[0].Tool = []string{hostile.Draw(t, "why")}, hostile.Draw(t, "tool")
		if rapid.Bool().Draw(t, "nothing asked") {
			v.PendingApprovals = nil
		}
		s := Screen{Width: rapid.IntRange(0, 120).Draw(t, "width"), Height: rapid.IntRange(0, 40).Draw(t, "height"), Color: rapid.Bool().Draw(t, "color"), Now: start}.Took(v)
		s.Entries = []core.Entry{{Name: hostile.Draw(t, "name"), Detail: hostile.Draw(t, "entry"), Op: "op1"}}
		s = s.Streamed("op1", hostile.Draw(t, "stream")).Said(hostile.Draw(t, "notice"), true)
		if rapid.Bool().Draw(t, "typing") {
			s, _ = s.Key("s", "s")
			s, _ = s.Key("", hostile.Draw(t, "typed"))
		}
		l := goals(s.Width, s.Height)
		l.Color, l.Goals[0].Title, l.Goals[1].Action = s.Color, hostile.Draw(t, "title"), hostile.Draw(t, "now")
		for _, drawn := range []string{s.Render(), l.Render()} {
			lines := strings.Split(drawn, "\n")
			if len(lines) != max(1, s.Height) {
				t.Fatalf("%d lines for a height of %d", len(lines), s.Height)
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > max(1, s.Width) {
					t.Fatalf("%q is wider than %d", l, s.Width)
				}
				for _, r := range sgr.ReplaceAllString(l, "") {
					if unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
						t.Fatalf("%q holds %U", l, r)
					}
				}
				if !s.Color && strings.Contains(l, "\x1b") {
					t.Fatalf("colour where none is wanted: %q", l)
				}
			}
		}
	})
}

func TestStreamsAreBoundedAndProgressBarsStayOneLine(t *testing.T) {
	t.Parallel()
	s := screen(80, 24, running())
	for i := range 2000 {
		s = s.Streamed("op7", fmt.Sprintf("\r%d%%", i))
	}
	if len(s.live) != 1 || s.live[0] != "1999%" {
		t.Errorf("%q", s.live)
	}
	s = s.Streamed("op8", strings.Repeat("line\n", 10_000))
	if len(s.live) > maxLines {
		t.Errorf("%d lines are kept", len(s.live))
	}
	s = s.Streamed("op9", strings.Repeat("x", 1<<20))
	if len(s.live[0]) > maxInput {
		t.Errorf("a line of %d bytes is kept", len(s.live[0]))
	}
	for range maxEntries * 2 {
		s = s.Happened(event.Event{Payload: event.GoalPaused{Reason: event.PausedByUser}})
	}
	if len(s.Entries) != maxEntries {
		t.Errorf("%d entries are kept", len(s.Entries))
	}
}

// Who has scrolled back sees the same lines when something happens.
func TestWhatIsLookedAtStays(t *testing.T) {
	t.Parallel()
	s := screen(80, 24, running())
	s, _ = s.Key("pgup", "")
	first := strings.Split(s.Render(), "\n")[8]
	s = s.Happened(event.Event{Payload: event.GoalPaused{Reason: event.PausedByUser}})
	if got := strings.Split(s.Render(), "\n")[8]; got != first {
		t.Errorf("%q became %q", first, got)
	}
	s, _ = s.Key("end", "")
	if !strings.Contains(s.Render(), "goal_paused") {
		t.Error("the end is not shown")
	}
}

func TestTheCursorOfTheListFollowsItsGoal(t *testing.T) {
	t.Parallel()
	l := goals(80, 24)
	l, _, _ = l.Key("end")
	was := l.goal
	var again []core.Overview
	for _, g := range l.Goals {
		if g.Goal == was {
			g.Status, g.WaitReason = "active", "approval" // it moves to the top
		}
		again = append(again, g)
	}
	l = l.Took(again)
	if l.goal != was || l.Goals[l.at].Goal != was {
		t.Errorf("the cursor is on %s, was on %s", l.goal, was)
	}
	if _, open, _ := l.Key("enter"); open != was {
		t.Errorf("opens %s", open)
	}
	if l = l.Took(nil); l.at != 0 {
		t.Errorf("at %d of nothing", l.at)
	}
	l.Render()
}
