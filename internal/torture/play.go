package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
	"belay/internal/failpoint"
	"belay/internal/moment"
)

// plan is how one run is disturbed.
type plan struct {
	// points are failpoints with their actions.
	points []string
	// sandbox is what confines the commands.
	sandbox string
	// kills is how many processes are killed at random instants.
	kills int
	// moves is how often the goal goes on at another place.
	moves int
	// drops is how often its connections to the server are cut.
	drops int
}

// player plays one run to its end.
type player struct {
	*world
	plan plan
	rng  *rand.Rand
	put  map[string]bool // doubts that the person has put off

	mu     sync.Mutex
	random map[string]int // kills at random instants, by what was killed
	shims  bool           // a shim may have been killed at a random instant
	cut    int            // connections that were cut
	moves  int            // how often the goal went on at another place
	lost   int            // directories that stand aside for good
	helped moment.Time    // until when the goal waited that the person has helped
}

// rounds bounds the processes of one run: each kill costs a few, and a run
// that needs more than this goes nowhere.
const rounds = 120

var errStuck = errors.New("the goal does not get anywhere")

// play drives the goal as a person with a shell would: start it, answer, look
// and settle what is in doubt, and resume it until it is completed.
func (p *player) play() error {
	last := ""
	for range rounds {
		if p.goal == "" {
			if err := p.find(); err != nil {
				return err
			}
		}
		if p.goal == "" {
			args := []string{"run", "turn one into two", "--model", "script:" + p.path("model.yaml"), "--test", "sh check.sh",
				"--plan", "always", "--approve", "ask", "--sandbox", p.plan.sandbox, "--json"}
			if p.plan.moves > 0 {
				args = append(args, "--travel")
			}
			if _, err := p.tortured(args...); err != nil {
				return err
			}
			continue
		}
		s, err := p.show()
		if err != nil {
			return err
		}
		if s.Status == lifecycle.Completed {
			return nil
		}
		if s.Status.Final() || s.Refuse != "" {
			return fmt.Errorf("the goal is %s %s", s.Status, s.Refuse)
		}
		last = fmt.Sprintf("status %s, waits for %s %s, paused by %s: %s; missing %v", s.Status, s.WaitReason, s.WaitDetail, s.PauseReason, s.PauseDetail, s.Missing)
		if err := p.next(s); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: after %d processes: %s", errStuck, rounds, last)
}

// next does what a person would do next, or lets the machine die.
func (p *player) next(s core.Snapshot) error {
	if gone, err := p.stranded(s); gone || err != nil {
		return err
	}
	due(s)
	if p.moves < p.plan.moves && p.rng.IntN(3) == 0 {
		return p.travel()
	}
	here, err := p.here()
	if err != nil {
		return err
	}
	if !here && s.WaitReason == event.WaitUserInput {
		return p.travel() // it waits for a word on what is to be seen where the workspace is
	}
	for _, o := range s.InDoubt {
		if !here {
			break // what it did is to be seen where the workspace is
		}
		// Sometimes the person is slow, and the model meets the doubt first.
		if !p.put[o.Op] && p.rng.IntN(2) == 0 {
			p.put[o.Op] = true
			continue
		}
		_, err = p.tortured(append([]string{"reconcile", p.goal, o.Op, "--reason", "looked at its effects"}, p.look(o))...)
		return err
	}
	if len(s.PendingApprovals) > 0 {
		_, err = p.tortured("approve", p.goal, s.PendingApprovals[0].Op)
		return err
	}
	if p.rng.IntN(8) == 0 {
		return p.race()
	}
	_, err = p.tortured("resume", p.goal, "--json")
	return err
}

// race resumes the goal twice at once: one of the two works, and whichever
// comes second goes or takes over what a kill has left.
func (p *player) race() error {
	first := make(chan error, 1)
	a, b := p.disturb("resume"), p.disturb("resume")
	var one, two outcome
	go func() {
		o, err := p.belay(true, a, "resume", p.goal, "--json")
		one = o
		first <- err
	}()
	two, err := p.belay(true, b, "resume", p.goal, "--json")
	if err := errors.Join(<-first, err); err != nil {
		return err
	}
	for _, o := range []outcome{one, two} {
		p.acknowledge(o)
		lost := strings.Contains(o.err, "another worker holds") || strings.Contains(o.err, "a running worker holds")
		if !o.usual() && !lost {
			p.violation("an exit code that nobody expects, with two at once: %v", o)
		}
	}
	return nil
}

// look decides about an operation in doubt by its effect.
func (p *player) look(o core.OpenOperation) string {
	for _, e := range effects {
		if e.command != "" && e.command == o.Command && e.seen(p.world) > 0 {
			return "--succeeded"
		}
	}
	return "--retry"
}

func (p *player) find() error {
	o, err := p.ask("goals", "--json")
	if err != nil {
		return err
	}
	var rows []struct {
		Goal string `json:"goal"`
	}
	if o.code != 0 || json.Unmarshal([]byte(o.out), &rows) != nil {
		return fmt.Errorf("list the goals: %v", o)
	}
	if len(rows) > 1 {
		p.violation("%d goals, one was started", len(rows))
	}
	if len(rows) > 0 {
		p.goal = rows[0].Goal
	}
	return nil
}

func (p *player) show() (s core.Snapshot, err error) {
	o, err := p.ask("show", p.goal, "--json")
	if err != nil {
		return s, err
	}
	if o.code != 0 {
		return s, fmt.Errorf("show the goal: %v", o)
	}
	return s, json.Unmarshal([]byte(o.out), &s)
}

// tortured runs a command that may be killed at any instant.
func (p *player) tortured(args ...string) (outcome, error) {
	o, err := p.belay(true, p.disturb(args[0]), args...)
	if err != nil {
		return o, err
	}
	p.acknowledge(o)
	if !o.usual() {
		p.violation("an exit code that nobody expects: %v", o)
	}
	return o, nil
}

// usual reports whether the process ended as it may: killed, completed,
// waiting for a person, handed off, with the error that was injected, or without its server.
func (o outcome) usual() bool {
	return o.killed || o.code == 0 || o.code == 3 || o.code == 5 || strings.Contains(o.err, "an injected error") || o.away()
}

// away reports whether the process gave up because the server was away for
// longer than it is waited for.
func (o outcome) away() bool {
	return o.code == 1 && strings.Contains(o.err, "postgres ") && strings.Contains(o.err, "of trying")
}

// disturb draws whether, when and what is killed of the next process, or cut
// off.
func (p *player) disturb(command string) func(int, <-chan struct{}) {
	if p.plan.drops > 0 && p.rng.IntN(3) == 0 {
		p.plan.drops--
		return p.cutOff(p.delay(command))
	}
	if p.plan.kills == 0 || p.rng.IntN(4) == 0 {
		return nil
	}
	p.plan.kills--
	delay := p.delay(command)
	what := []string{"worker", "worker", "shims", "both"}[p.rng.IntN(4)]
	return func(pid int, gone <-chan struct{}) {
		if what != "worker" && !p.awaitShim(gone) {
			return
		}
		select {
		case <-gone:
			return
		case <-time.After(delay):
		}
		done := false
		if what != "worker" && p.killShims() > 0 {
			done = true
		}
		if what != "shims" && syscall.Kill(pid, syscall.SIGKILL) == nil {
			done = true
		}
		if done {
			p.mu.Lock()
			p.random[what]++
			p.shims = p.shims || what != "worker"
			p.mu.Unlock()
		}
	}
}

// delay draws an instant of a command's life. The short commands of a person
// are over within the first ones.
func (p *player) delay(command string) time.Duration {
	span := 30 * time.Millisecond
	if command == "run" || command == "resume" {
		span = 900 * time.Millisecond
	}
	return time.Duration(p.rng.Float64() * p.rng.Float64() * float64(span))
}

// cutOff ends the connections of the run to the server after a while.
func (p *player) cutOff(delay time.Duration) func(int, <-chan struct{}) {
	return func(_ int, gone <-chan struct{}) {
		select {
		case <-gone:
			return
		case <-time.After(delay):
		}
		n := drop(p.server, p.name)
		p.log("%d connections are cut after %s", n, delay)
		p.mu.Lock()
		p.cut += n
		p.mu.Unlock()
	}
}

// awaitShim waits until one of the run's shims is there, or its worker is gone.
func (p *player) awaitShim(gone <-chan struct{}) bool {
	for {
		for _, q := range p.ours() {
			if q.cmd == shimCommand {
				return true
			}
		}
		select {
		case <-gone:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// taken are the failpoints that did something, with how often.
func (w *world) taken() (map[string]int, error) {
	entries, err := os.ReadDir(w.path("points"))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".taken"); ok {
			if name, _, hit := strings.Cut(name, "@"); hit {
				out[name]++
			}
		}
	}
	return out, nil
}

// hits are the failpoints that the run came to, with how often.
func (w *world) hits() map[failpoint.Name]int {
	out := map[failpoint.Name]int{}
	for _, n := range failpoint.Names() {
		if info, err := os.Stat(w.path("points/" + string(n))); err == nil && info.Size() > 0 {
			out[n] = int(info.Size())
		}
	}
	return out
}
