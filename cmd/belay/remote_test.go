package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/event"
)

// serveHere starts a server that the command line finds.
func (w *world) serveHere() *process {
	w.t.Helper()
	p := w.start("serve", "--json", "--listen", "off")
	p.await(`"listening"`)
	return p
}

// workers are the processes that have worked on the goal.
func (w *world) workers() map[string]bool {
	w.t.Helper()
	pids := map[string]bool{}
	for _, s := range of[event.TurnStarted](w.t, w.events()) {
		pids[strings.Split(s.Worker, "/")[2]] = true
	}
	return pids
}

func (p *process) pid() string { return fmt.Sprint(p.cmd.Process.Pid) }

func TestTheCommandLineUsesTheServerThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	server := w.serveHere()
	w.cwd = filepath.Join(w.dir, "home")
	w.script(repair)
	r := w.must(0, "run", "repair code.txt", "--repo", "../repo", "--model", "script:../model.yaml", "--test", "sh check.sh", "--plan", "never", "--approve", "auto")
	if !strings.Contains(r.out, "goal_completed: verified") || !strings.Contains(r.out, "agent_loop_stopped: finished") {
		t.Errorf("the way there is not shown: %v", r)
	}
	if got := w.workers(); len(got) != 1 || !got[server.pid()] {
		t.Errorf("processes %v worked on the goal, want the server's alone, %s", got, server.pid())
	}
	g := w.goal()
	w.put(filepath.Join(w.dir, "belay.yaml"), "policy: {rules: [{decision: deny, command: 'rm *', match: [rm x]}, {decision: allow, command: make}]}\n")
	w.must(0, "policy", "allow", "--command", "make build")
	// What the server says is what would be read here, byte for byte.
	for _, args := range [][]string{
		{"goals"}, {"goals", "--status", "paused"}, {"show", g[:5]}, {"show", g, "--at", "9"}, {"timeline", g}, {"timeline", g, "-f"}, {"events", g},
		{"events", g, "--after", "20"}, {"events", g, "-f"}, {"diff", g}, {"log", g, "op3"}, {"audit", g}, {"report", g}, {"report", g, "--html"}, {"budget", g},
		{"checkpoints", g}, {"policy", "list", "--repo", ".."}, {"policy", "goal", g}, {"policy", "check", "../belay.yaml"},
		{"policy", "explain", "make build && rm -r x", "--repo", "../repo", "--test", "sh check.sh"}, {"rollback", g, "cp0"},
		// Errors too.
		{"show", "nope"}, {"show", g, "--at", "999"}, {"log", g, "op99"}, {"pause", g}, {"approve", g}, {"say", g, "on"}, {"cancel", g},
		{"reconcile", g, "op1", "--look"}, {"reconcile", g, "op1", "--failed"}, {"rollback", g, "cp77"}, {"policy", "revoke", "nope"}, {"policy", "check", "nowhere.yaml"},
	} {
		for _, form := range []string{"--json", "--plain"} {
			args := append(args, form)
			there, here := w.belay(args...), w.belay(append(args, "--local")...)
			if there.code != here.code || there.out != here.out || there.err != here.err {
				t.Errorf("over the server:\n%v\nhere:\n%v", there, here)
			}
		}
	}
	// And what it changes is changed.
	w.must(0, "rollback", g, "cp0", "--yes")
	if w.read("code.txt") != "broken\n" {
		t.Error("the rollback did nothing")
	}
	if r := w.must(0, "policy", "revoke", "always-"+strings.Fields(w.must(0, "policy", "list", "--repo", "..").out)[1][len("always-"):]); !strings.Contains(r.out, "revoked") {
		t.Errorf("%v", r)
	}
}

func TestACommandGoesToNoServerThatMeansSomethingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	server := w.serveHere()
	w.must(0, "policy", "allow", "--command", "make")
	other := *w
	other.env = append(append([]string{}, w.env...), "BELAY_CONFIG="+filepath.Join(w.dir, "other"))
	if r := other.must(0, "policy", "list"); !strings.Contains(r.out, "no rules") {
		t.Errorf("the rules of another configuration: %v", r)
	}
	// A socket of the same name that somebody else has made in its place.
	stale := filepath.Join(w.dir, "state", servingFile)
	b, err := os.ReadFile(stale)
	if err != nil {
		t.Fatal(err)
	}
	server.kill()
	server.wait()
	w.must(0, runToy(w.script(repair))...)
	if got := w.workers(); got[server.pid()] {
		t.Errorf("processes %v", got)
	}
	// Drained, it leaves nothing that says it were there.
	again := w.serveHere()
	if now, err := os.ReadFile(stale); err != nil || string(now) == string(b) {
		t.Errorf("the word of the killed server is still there: %v", err)
	}
	_ = again.cmd.Process.Signal(syscall.SIGTERM)
	if r := again.wait(); r.code != 0 {
		t.Errorf("%v", r)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the server went and left word that it runs: %v", err)
	}
}

func TestACommandLineSeesItsGoalThroughARestartOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	server := w.serveHere()
	g := w.gate()
	p := w.start(runToy(w.script(gated()))...)
	w.id = strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	p.await(`turn_started`)
	g.open(p)
	server.kill()
	server.wait()
	server = w.serveHere()
	g.close()
	if r := p.wait(); r.code != 0 || !strings.Contains(r.out, "goal_completed: verified") {
		t.Errorf("the goal was not seen through a restart of the server: %v", r)
	}
	if got := w.readAt("effects.log"); got != "effect\n" {
		t.Errorf("effects: %q", got)
	}
	if got := w.workers(); len(got) != 2 || !got[server.pid()] || got[p.pid()] {
		t.Errorf("processes %v worked on it", got)
	}
}

// gated is a repair whose first command waits at the gate.
func gated() string {
	return "steps:\n" + stepCommand("cat ../gate; echo effect >> ../effects.log") + stepRead + stepFix + stepTest + stepDone
}

func TestACommandLineLeavesAGoalOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	server := w.serveHere()
	g := w.gate()
	p := w.start(runToy(w.script(gated()))...)
	w.id = strings.Fields(p.await(`^goal [0-9a-f]+`))[1]
	p.await(`turn_started`)
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	if r := p.wait(); r.code != 130 || !strings.Contains(r.err, "the server goes on with it") {
		t.Errorf("%v", r)
	}
	g.open(server)
	g.close()
	if r := w.must(0, "resume", w.id); !strings.Contains(r.out, "completed: verified") {
		t.Errorf("%v", r)
	}
	if got := w.workers(); len(got) != 1 || !got[server.pid()] {
		t.Errorf("processes %v worked on it", got)
	}
}

func TestATerminalAsksForAGoalOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	server := w.serveHere()
	tty := newTerminal(t)
	p := w.attach(tty, "run", "repair code.txt", "--model", w.script(repair), "--test", "sh check.sh", "--plan", "never")
	p.prompt("a message: ")
	tty.say(t, "y")
	p.await("goal_completed: verified")
	if r := p.wait(); r.code != 0 {
		t.Errorf("%v", r)
	}
	if g := of[event.ApprovalGranted](t, w.events()); len(g) != 1 || g[0].By != event.ActorUser {
		t.Errorf("granted: %+v", g)
	}
	if got := w.workers(); len(got) != 1 || !got[server.pid()] {
		t.Errorf("processes %v", got)
	}
}

func TestAServerThatIsNamedNeedsAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	s := w.serveAPI()
	at := func(scope string) world {
		far := *w
		far.env = append(append([]string{}, w.env...), "BELAY_SERVER=http://"+s.addr, "BELAY_STATE="+filepath.Join(w.dir, "elsewhere"))
		if scope != "" {
			far.env = append(far.env, "BELAY_TOKEN="+w.token(scope))
		}
		return far
	}
	none, watch, operate := at(""), at("watch"), at("operate")
	if r := none.must(2, "goals"); !strings.Contains(r.err, "BELAY_TOKEN") {
		t.Errorf("%v", r)
	}
	model := w.script(repair)
	if r := watch.must(2, runToy(model)...); !strings.Contains(r.err, "scope operate") {
		t.Errorf("%v", r)
	}
	if r := watch.must(0, "goals"); !strings.Contains(r.out, "no goals yet") {
		t.Errorf("%v", r)
	}
	operate.must(0, runToy(model)...)
	if r := watch.must(0, "goals"); !strings.Contains(r.out, "completed (verified)") {
		t.Errorf("%v", r)
	}
	if r := operate.must(0, "goals", "--local"); !strings.Contains(r.out, "no goals yet") {
		t.Errorf("--local: %v", r)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "elsewhere", "ledger.db")); err != nil {
		t.Errorf("--local read no ledger: %v", err)
	}
	if r := operate.must(2, "goals", "--server", "http://belay.example.org"); !strings.Contains(r.err, "https") {
		t.Errorf("a token over plain HTTP: %v", r)
	}
}
