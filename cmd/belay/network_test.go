package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
)

// outside is a server that belongs to nobody's command. It counts who came.
func outside(t *testing.T) (port int, came func() int) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// Its visitor ends with a read: it is counted before that.
			seen <- struct{}{}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port, func() int { return len(seen) }
}

// visit goes to the server and waits until it has been let in and out.
func visit(port int) string {
	return fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && cat <&3 && echo been >> been\n", port)
}

func stepNetwork(tool, command, network string) string {
	args := map[string]any{"network": network, "reason": "to fetch what is missing"}
	if command != "" {
		args["command"] = command
	}
	return stepCall(tool, args)
}

// TestANetworkIsAskedForAndGivenOnce: by default there is none; the question
// names it and its reason; the answer holds for the very command alone.
func TestANetworkIsAskedForAndGivenOnce(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"bwrap", "landlock"} {
		t.Run(sandbox, func(t *testing.T) {
			t.Parallel()
			files := toy()
			port, came := outside(t)
			files["visit.sh"] = visit(port)
			w := confined(t, files)
			w.must(0, "policy", "allow", "--command", "bash visit.sh")
			model := w.script("steps:\n" + stepCommand("bash visit.sh") + stepNetwork("run_command", "bash visit.sh", "full") + stepCommand("bash visit.sh") +
				stepRead + stepFix + stepTest + stepDone)
			w.must(3, askingRun(model, "--sandbox", sandbox)...)
			if came() != 0 {
				t.Fatal("a command without a network reached the server")
			}
			s := w.snapshot()
			if len(s.PendingApprovals) != 1 {
				t.Fatalf("%d questions", len(s.PendingApprovals))
			}
			q := s.PendingApprovals[0]
			if q.Intent.Network != "full" || q.Access.Network != "full" || !strings.Contains(q.Intent.Preview.Head, "to fetch what is missing") ||
				!strings.Contains(strings.Join(q.Why, " "), "reaches the network") {
				t.Errorf("what is asked does not say that it reaches the network, and why: %+v", q)
			}
			w.must(0, "approve", w.goal(), q.Op)
			w.must(3, "resume", w.goal()) // up to the question about the patch
			if n := came(); n != 1 {
				t.Errorf("the server was reached %d times, want once", n)
			}
			if got := w.read("been"); got != "been\n" {
				t.Errorf("the command left %q", got)
			}
			var given []string
			for _, o := range of[event.OperationStarted](t, w.events()) {
				if o.Intent.Network != "" {
					given = append(given, o.Intent.Network)
				}
			}
			if len(given) != 1 || given[0] != "full" {
				t.Errorf("the record says of the network: %q", given)
			}
			inOrder(t, w.timeline(), "approval_requested: run_command", "approval_granted: run_command", "operation_started")
		})
	}
}

// TestANetworkByRule: the user's rule gives it without a question; the
// repository can only take it away.
func TestANetworkByRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, repository string
		reached          int
	}{
		{"granted", "", 1},
		{"taken away", "policy:\n  rules:\n    - {decision: deny, network: full, reason: no network here}\n", 0},
		{"not to be widened", "policy:\n  rules:\n    - {decision: allow, command: 'bash other.sh', network: full}\n", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := toy()
			port, came := outside(t)
			files["visit.sh"], files["other.sh"] = visit(port), visit(port)
			if c.repository != "" {
				files["belay.yaml"] = c.repository
			}
			w := confined(t, files)
			w.must(0, "policy", "allow", "--command", "bash visit.sh", "--network", "full")
			w.must(0, "policy", "allow", "--command", "bash other.sh")
			if r := w.must(0, "policy", "list"); !strings.Contains(r.out, "--command 'bash visit.sh' --network 'full'") {
				t.Error(r)
			}
			model := w.script("steps:\n" + stepCommand("bash visit.sh") + stepCommand("bash other.sh") + stepNetwork("run_command", "bash other.sh", "none") +
				stepRead + stepFix + stepTest + stepDone)
			w.must(3, askingRun(model)...)
			if n := came(); n != c.reached {
				t.Errorf("the server was reached %d times, want %d", n, c.reached)
			}
			if q := of[event.ApprovalRequested](t, w.events()); len(q) != 1 || q[0].Tool != "file_patch" {
				t.Errorf("%+v", q)
			}
		})
	}
}

// TestAGoalFileGivesItsTestANetwork: the user's word in goal.yaml is for the
// test command, and for nothing beside it.
func TestAGoalFileGivesItsTestANetwork(t *testing.T) {
	t.Parallel()
	files := toy()
	port, came := outside(t)
	files["check.sh"] = fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && cat <&3\n", port) + files["check.sh"]
	w := confined(t, files)
	goal := filepath.Join(w.dir, "goal.yaml")
	w.put(goal, "goal: repair code.txt\nacceptance:\n  - {kind: test, command: sh -c 'bash check.sh', network: full}\n")
	model := w.script("steps:\n" + stepCommand("bash check.sh; true") + stepRead + stepFix + stepCall("run_test", map[string]any{}) + stepDone)
	w.must(0, "run", "--file", goal, "--model", model, "--plan", "never", "--approve", "auto")
	if came() == 0 {
		t.Error("the goal's test was not given its network")
	}
	for _, o := range of[event.TestCompleted](t, w.events()) {
		if reached := o.Command == "sh -c 'bash check.sh'"; reached != (o.ExitCode == 0 && o.Counts.Passed == 1) {
			t.Errorf("%+v", o)
		}
	}
	for _, o := range of[event.OperationStarted](t, w.events())[:1] {
		if o.Intent.Network != "" {
			t.Error("a command beside the test was given its network")
		}
	}
	w.put(goal, "goal: x\nacceptance:\n  - {kind: test, command: 'true', network: lan}\n")
	if r := w.must(2, "run", "--file", goal, "--model", model); !strings.Contains(r.err, "network") {
		t.Error(r)
	}
}
