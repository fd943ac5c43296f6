package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"belay/internal/core"
)

func TestTheDemoShowsTheTimelineOfTheFirstSeedAndAnswersItsQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	begun := time.Now()
	r := w.must(0, "demo")
	if took := time.Since(begun); took > 60*time.Second {
		t.Errorf("the demo took %s", took)
	}
	_, timeline, ok := strings.Cut(r.out, "\ntimeline\n")
	if !ok {
		t.Fatalf("no timeline: %v", r)
	}
	timeline, questions, _ := strings.Cut(timeline, "\nfive questions")
	var names []string
	for line := range strings.Lines(timeline) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			names = append(names, name)
		}
	}
	inOrder(t, names, "task_received", "plan_mode_entered", "plan_updated", "plan_mode_exited", "tool_executed: read_file",
		"local_test_completed: exit_code=1", "approval_requested: file_patch", "approval_granted: file_patch", "repo_state_mutated",
		"diff_updated", "local_test_completed: exit_code=0", "agent_loop_stopped: finished")
	if n := strings.Count(questions, " yes  event "); n != 5 || strings.Contains(questions, " no\n") {
		t.Errorf("%d of five questions are answered yes:\n%s", n, questions)
	}
	if left, _ := os.ReadDir(w.dir + "/state"); len(left) > 0 {
		t.Errorf("the demo left something in the user's state directory")
	}
}

func TestJSONIsOneObjectALineWithoutGapsAndEndsInTheResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	r := w.must(0, runToy(w.script(repair), "--json")...)
	type line struct {
		Kind     string `json:"kind"`
		Event    record `json:"event"`
		ExitCode *int   `json:"exit_code"`
		Snapshot struct {
			Status string `json:"status"`
			Head   uint64 `json:"head"`
			How    string `json:"completed_how"`
		} `json:"snapshot"`
	}
	var last line
	seq := uint64(0)
	for text := range strings.Lines(r.out) {
		if last.Kind == "result" {
			t.Errorf("a line after the result: %s", text)
		}
		last = line{}
		if err := json.Unmarshal([]byte(text), &last); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		if last.Kind == "event" {
			if seq++; last.Event.Seq != seq {
				t.Fatalf("seq %d in place of %d", last.Event.Seq, seq)
			}
		}
	}
	if last.Kind != "result" || last.ExitCode == nil || *last.ExitCode != 0 || last.Snapshot.Status != "completed" || last.Snapshot.How != "verified" || last.Snapshot.Head != seq {
		t.Errorf("the last line is %+v after event %d", last, seq)
	}
	if got := decodeEvents(t, w.must(0, "events", w.goal()).out); len(got) != int(seq) {
		t.Errorf("%d events in the ledger, %d were shown", len(got), seq)
	}
}

func TestJSONIsWholeThroughASlowPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	model := w.script("steps:\n" + stepCommand("seq 1 200000") + stepRead + stepFix + stepTest + stepDone)
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command("belay", runToy(model, "--json")...)
	p.Dir, p.Env = w.repo, w.env
	p.Stdout = wr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	wr.Close()
	// A reader that takes little at a time: the program must wait for it, and
	// must not leave before all is taken.
	var got strings.Builder
	buf := make([]byte, 512)
	for {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			break
		}
		time.Sleep(20 * time.Microsecond) // a slow reader, not a wait for a state
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(got.String(), "\n"), "\n")
	for i, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Fatalf("line %d of %d is cut: %.200s", i+1, len(lines), l)
		}
	}
	if !strings.HasPrefix(lines[len(lines)-1], `{"kind":"result"`) {
		t.Errorf("the last line is %.200s", lines[len(lines)-1])
	}
}

// TestEveryEndHasItsExitCode is the table of exit codes, each by a real run.
// Code 7 and the pause by a person stand with the tests of a second process.
func TestEveryEndHasItsExitCode(t *testing.T) {
	t.Parallel()
	bare := []string{"run", "look at code.txt", "--plan", "never"} // nothing can check it
	toyRun := []string{"run", "repair code.txt", "--test", "sh check.sh", "--plan", "never"}
	with := func(args []string, more ...string) []string { return append(slices.Clone(args), more...) }
	auto := with(toyRun, "--approve", "auto")
	for _, c := range []struct {
		name   string
		code   int
		steps  string
		args   []string
		status string
		says   string
	}{
		{"verified", 0, repair, auto, "completed", "completed: verified"},
		{"accepted beforehand", 0, "steps: [{text: I looked.}]", with(bare, "--accept-unverified"), "completed", "completed: accepted_unverified"},
		{"nothing can check it", 3, "steps: [{text: I looked.}]", bare, "active", "waits for user_input"},
		{"a question of the model", 3, "steps:\n" + stepCall("ask_user", map[string]any{"question": "Which one?"}), auto, "active", "asks: Which one?"},
		{"an approval nobody gives", 3, repair, toyRun, "active", "belay approve"},
		{"nobody approves anything", 5, repair + "then: I may not.", with(toyRun, "--approve", "never"), "paused", "no_progress"},
		{"steps used up", 4, repair, with(auto, "--max-steps", "2"), "paused", "budget_exhausted"},
		{"tokens used up", 4, repair, with(auto, "--max-tokens", "9000"), "paused", "budget_exhausted"},
		{"turns used up", 4, "steps: [{calls: [{tool: list_files, args: {}}], repeat: 70}]", with(auto, "--max-turns", "1", "--patience", "100"), "paused", "budget_exhausted"},
		{"the deadline is over", 4, repair, with(auto, "--deadline", "1ms"), "paused", "budget_exhausted"},
		{"wrong key", 5, "steps: [{fail: {kind: bad_credentials, times: -1}, text: x}]", auto, "paused", "handoff"},
		{"refused content", 5, "steps: [{fail: {kind: refused, times: -1}, text: x}]", auto, "paused", "handoff"},
		{"claims without evidence", 5, "steps: [{text: All tests pass.}]\nthen: All tests pass.", auto, "paused", "no_progress"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			r := w.must(c.code, with(c.args, "--model", w.script(c.steps))...)
			if !strings.Contains(r.out, c.says) {
				t.Errorf("does not say %q: %v", c.says, r)
			}
			if s := w.snapshot(); string(s.Status) != c.status {
				t.Errorf("status %s, want %s", s.Status, c.status)
			}
		})
	}
}

// TestAGoalIsShownAsItWas: after each of its events, and looking changes
// nothing.
func TestAGoalIsShownAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	w.must(0, runToy(w.script(repair))...)
	goal := w.goal()
	es := w.eventsOf(goal)
	now := w.must(0, "show", goal, "--json").out
	statuses := ""
	for i := range es {
		var s core.Snapshot
		if err := json.Unmarshal([]byte(w.must(0, "show", goal, "--json", "--at", fmt.Sprint(i+1)).out), &s); err != nil {
			t.Fatal(err)
		}
		if s.Head != uint64(i+1) {
			t.Errorf("after event %d the head is %d", i+1, s.Head)
		}
		if was := string(s.Status); !strings.HasSuffix(statuses, was+" ") {
			statuses += was + " "
		}
	}
	if statuses != "active verifying completed " {
		t.Errorf("it went through %s", statuses)
	}
	if last := w.must(0, "show", goal, "--json", "--at", fmt.Sprint(len(es))).out; last != now {
		t.Errorf("after its last event it is not as it is:\n%s\n%s", last, now)
	}
	for _, at := range []string{"0", fmt.Sprint(len(es) + 1)} {
		if r := w.must(2, "show", goal, "--at", at); !strings.Contains(r.err, "its last one is") {
			t.Errorf("--at %s: %v", at, r)
		}
	}
	if len(w.eventsOf(goal)) != len(es) {
		t.Error("looking back left events")
	}
}
