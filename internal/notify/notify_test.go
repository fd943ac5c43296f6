package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/core"
	"belay/internal/core/approval"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

func waiting() core.Snapshot {
	return core.Snapshot{Goal: "g1", Text: "mend it\nand more", Status: lifecycle.Active, WaitReason: event.WaitApproval, WaitDetail: "file_patch (op7)",
		PendingApprovals: []approval.Pending{{Op: "op7", Tool: "file_patch"}}}
}

// TestWhatIsWorthTelling: what needs a person and what has ended, not what the
// person just did nor what goes on by itself.
func TestWhatIsWorthTelling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    core.Snapshot
		want string
	}{
		{waiting(), "belay: goal g1 waits for an approval: op7 file_patch: mend it"},
		{core.Snapshot{Goal: "g", Text: "x", Status: lifecycle.Active, WaitReason: event.WaitUserInput}, "belay: goal g waits for you: x"},
		{core.Snapshot{Goal: "g", Text: "x", Status: lifecycle.Completed, How: event.Verified}, "belay: goal g completed (verified): x"},
		{core.Snapshot{Goal: "g", Text: "x", Status: lifecycle.Cancelled}, "belay: goal g cancelled: x"},
		{core.Snapshot{Goal: "g", Text: "x", Status: lifecycle.Failed, Fault: &core.Fault{Message: "why"}}, "belay: goal g failed: x"},
		{core.Snapshot{Goal: "g", Text: "x", Status: lifecycle.Paused, PauseReason: event.PausedBudget}, "belay: goal g stopped: budget_exhausted: x"},
		{core.Snapshot{Goal: "g", Status: lifecycle.Paused, PauseReason: event.PausedByUser}, ""},
		{core.Snapshot{Goal: "g", Status: lifecycle.Active}, ""},
		{core.Snapshot{Goal: "g", Status: lifecycle.Active, WaitReason: event.WaitRetry}, ""},
		{core.Snapshot{Goal: "g", Status: lifecycle.Verifying}, ""},
	} {
		if Calls(c.s) != (c.want != "") {
			t.Errorf("%s %s %s: calls %t", c.s.Status, c.s.WaitReason, c.s.PauseReason, Calls(c.s))
		} else if c.want != "" && Of(c.s).Summary != c.want {
			t.Errorf("%q, want %q", Of(c.s).Summary, c.want)
		}
	}
}

func TestACommandIsToldByInputAndEnvironment(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	n := Notifier{Command: `cat > "$OUT"; env | grep BELAY_ | sort >> "$OUT"`, Env: []string{"OUT=" + out, "PATH=" + os.Getenv("PATH")},
		Redact: func(s string) string { return strings.ReplaceAll(s, "mend", "[hidden]") }, Problem: func(err error) { t.Error(err) }}
	n.Tell(t.Context(), waiting())
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	var got Notice
	if err := json.Unmarshal([]byte(first), &got); err != nil || got.Goal != "g1" || got.Text != "[hidden] it" || len(got.Pending) != 1 {
		t.Errorf("%v: %+v", err, got)
	}
	if want := "BELAY_GOAL=g1\nBELAY_PAUSE_REASON=\nBELAY_STATUS=active\nBELAY_SUMMARY=belay: goal g1 waits for an approval: op7 file_patch: [hidden] it\nBELAY_WAIT_REASON=approval\n"; rest != want {
		t.Errorf("%q, want %q", rest, want)
	}
}

// A text of the goal is no shell text.
func TestATextCannotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := waiting()
	s.Text = "$(touch " + dir + "/pwned); `touch " + dir + "/pwned`"
	Notifier{Command: `echo "$BELAY_SUMMARY" > /dev/null`, Problem: func(err error) { t.Error(err) }}.Tell(t.Context(), s)
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("it ran: %v", left)
	}
}

func TestAURLIsTold(t *testing.T) {
	t.Parallel()
	var got Notice
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // a body that is cut is no JSON
		if err := json.Unmarshal(b, &got); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s %q: %v", r.Method, b, err)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	var problems []error
	n := Notifier{URL: server.URL, Problem: func(err error) { problems = append(problems, err) }}
	n.Tell(t.Context(), waiting())
	if got.Goal != "g1" || len(problems) != 0 {
		t.Errorf("%+v, %v", got, problems)
	}
	got = Notice{}
	n.Command = "exit 3"
	n.Tell(t.Context(), waiting())
	if got.Goal != "g1" || len(problems) != 1 {
		t.Errorf("a command that fails keeps the URL from being told: %+v, %v", got, problems)
	}
	n.Command, problems = "", nil
	status = http.StatusTeapot
	n.Tell(t.Context(), waiting())
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "418") {
		t.Errorf("%v", problems)
	}
}

// What cannot be told is said and holds nothing up, also when the caller is
// about to end.
func TestWhatCannotBeToldIsSaid(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, n := range map[string]Notifier{"a command": {Command: "echo no such pager; exit 3"}, "a URL": {URL: "http://127.0.0.1:1/"}} {
		var problem error
		n.Problem = func(err error) { problem = err }
		n.Tell(ended, waiting())
		if problem == nil || !strings.Contains(problem.Error(), "goal g1") {
			t.Errorf("%s: %v", name, problem)
		}
		if name == "a command" && !strings.Contains(problem.Error(), "no such pager") {
			t.Errorf("%v", problem)
		}
	}
	for _, bad := range []string{"example.org", "ftp://x/", "http://", ":"} {
		if (Notifier{URL: bad}).Check() == nil {
			t.Errorf("%q is taken for a URL", bad)
		}
	}
}
