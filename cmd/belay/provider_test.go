package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model/modeltest"
	"belay/internal/model/script"
)

// provider is an HTTP server that speaks both wires, plays a script, and makes
// what an answer function says go wrong. The real APIs' checks of a history are
// on: a request that they would refuse is a failed test.
type provider struct {
	*modeltest.Provider
	t testing.TB
}

const key = "sk-test-0123456789abcdefghijklmnop"

// serve starts a provider. spoil, if not nil, may change the answer to the
// n-th request; true means that the script's answer is not wanted.
func (w *world) serve(steps string, spoil func(r modeltest.Request) (modeltest.Answer, bool)) *provider {
	w.t.Helper()
	s, err := script.Parse([]byte(steps))
	if err != nil {
		w.t.Fatal(err)
	}
	play := modeltest.Play(script.New(s, "test"))
	p := &provider{t: w.t}
	p.Provider = modeltest.New(func(r modeltest.Request) modeltest.Answer {
		if r.Header.Get("Authorization") != "Bearer "+key && r.Header.Get("X-Api-Key") != key {
			return modeltest.Answer{Fault: fault.New(fault.BadCredentials, fault.User, "wrong key", "")}
		}
		if spoil != nil {
			if a, yes := spoil(r); yes {
				return a
			}
		}
		a := play(r)
		// Text and stream are split at random, in the middle of anything.
		a.Seed = uint64(r.Number)
		return a
	})
	w.t.Cleanup(p.Close)
	w.env = append(w.env, "OPENAI_API_KEY="+key, "ANTHROPIC_API_KEY="+key,
		"OPENAI_BASE_URL="+p.OpenAIBase(), "ANTHROPIC_BASE_URL="+p.AnthropicBase())
	return p
}

// chats are the requests for a reply.
func (p *provider) chats() []modeltest.Request {
	var rs []modeltest.Request
	for _, r := range p.Requests() {
		if !strings.HasSuffix(r.Path, "count_tokens") {
			rs = append(rs, r)
		}
	}
	return rs
}

// valid checks that no request was one that the real API would refuse.
func (p *provider) valid() {
	p.t.Helper()
	for _, r := range p.Requests() {
		if r.Invalid != "" {
			p.t.Errorf("request %d would be answered with 400: %s\n%.2000s", r.Number, r.Invalid, r.Body)
		}
	}
}

var wires = []string{"openai", "anthropic"}

func pythonRepo() map[string]string {
	return map[string]string{
		"mean.py":           "def mean(xs):\n    return sum(xs) / (len(xs) - 1)\n",
		"tests/__init__.py": "",
		"tests/test_mean.py": "import unittest\nfrom mean import mean\n\n\nclass MeanTest(unittest.TestCase):\n" +
			"    def test_mean(self):\n        self.assertEqual(mean([2, 4, 6]), 4)\n\n    def test_one(self):\n        self.assertEqual(mean([3]), 3)\n",
	}
}

// fix is how a model repairs a repository: it looks, sees the test fail, edits,
// claims too early, tests, claims.
func fix(file, old, repaired, failure string) string {
	read := stepCall("read_file", map[string]any{"path": file})
	return "steps:\n" +
		"  - {text: I plan, calls: [{tool: update_plan, args: {steps: [repair it], scope: [" + file + "]}}, {tool: list_files, args: {}}, {tool: read_file, args: {path: " + file + "}}, {tool: search_text, args: {pattern: return}}]}\n" +
		stepTest +
		"  - {expect: {contains: [\"" + failure + "\"]}, calls: [{tool: read_file, args: {path: nowhere.txt}}]}\n" +
		read +
		stepCall("file_patch", map[string]any{"path": file, "old_string": old, "new_string": repaired}) +
		stepDone +
		"  - {expect: {last_result_contains: [not accepted]}, text: So I test, calls: [{tool: run_test, args: {}}]}\n" +
		"  - {text: Now it is shown., calls: [{tool: finish, args: {summary: repaired}}]}\n"
}

// TestABugIsFixedOverBothWires is the acceptance of the whole: a real test
// runner, both wires, each layout of the user's directory, faults on the way.
func TestABugIsFixedOverBothWires(t *testing.T) {
	t.Parallel()
	type repo struct {
		name, test, file, old, repaired, failure string
		files                                    map[string]string
	}
	repos := []repo{
		{"python", "python3 -m unittest discover -s tests -t .", "mean.py", "(len(xs) - 1)", "len(xs)", "test_mean", pythonRepo()},
		{"go", "go test ./...", "sum.go", "a - b", "a + b", "TestSum", goModule()},
	}
	for _, wire := range wires {
		for _, rp := range repos {
			for _, layout := range []string{"dirty git", "no git"} {
				t.Run(wire+" "+rp.name+" "+layout, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, rp.files)
					if layout == "dirty git" {
						w.dirty()
					}
					before := tree(t, w.repo)
					p := w.serve(fix(rp.file, rp.old, rp.repaired, rp.failure), stormy)
					r := w.must(0, "run", "the test fails; repair it", "--model", wire+":test-model", "--test", rp.test, "--approve", "auto")
					p.valid()
					if got := w.read(rp.file); !strings.Contains(got, rp.repaired) || strings.Contains(got, rp.old) {
						t.Errorf("%s is %q: %v", rp.file, got, r)
					}
					// Nothing else: not the user's other files, not a byte of .git.
					sameTree(t, "the repository", before, tree(t, w.repo), rp.file)
					names := w.timeline()
					inOrder(t, names, "local_test_completed: exit_code=1", "repo_state_mutated", "verification_finished: incomplete",
						"local_test_completed: exit_code=0", "agent_loop_stopped: finished")
					failed := of[event.ModelFailed](t, w.events())
					var kinds []fault.Kind
					for _, f := range failed {
						kinds = append(kinds, f.Fault.Kind)
					}
					if fmt.Sprint(kinds) != fmt.Sprint([]fault.Kind{fault.RateLimited, fault.Overloaded, fault.StreamCut}) {
						t.Errorf("the faults on the way were %v", kinds)
					}
					if n := len(p.chats()); n != 8+3 {
						t.Errorf("%d requests, want 8 and 3 that went wrong", n)
					}
					stableBeginning(t, p)
				})
			}
		}
	}
}

// stormy lets the second request run into a rate limit, the fourth into an
// overload, and cuts the sixth in mid-stream.
func stormy(r modeltest.Request) (modeltest.Answer, bool) {
	switch r.Number {
	case 2:
		a := modeltest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}},
			Body: `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`}
		return a, true
	case 4:
		status := 529
		if r.Wire == "openai" {
			status = http.StatusServiceUnavailable
		}
		return modeltest.Answer{Status: status, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}, true
	case 6:
		a := modeltest.Answer{Seed: 6, CutShare: 0.5}
		a.Response.Parts = []event.Part{{Kind: event.PartText, Text: strings.Repeat("half of what was to be said ", 20)}}
		return a, true
	}
	return modeltest.Answer{}, false
}

// dirty makes the repository a git checkout in which the user has work of
// their own: staged, unstaged, untracked, ignored, and a stash.
func (w *world) dirty() {
	w.t.Helper()
	w.put(filepath.Join(w.repo, "notes.txt"), "first\n")
	w.put(filepath.Join(w.repo, ".gitignore"), "*.log\n")
	w.git("init", "-q")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "start")
	w.put(filepath.Join(w.repo, "notes.txt"), "stashed\n")
	w.git("stash", "-q")
	w.put(filepath.Join(w.repo, "notes.txt"), "staged\n")
	w.git("add", "notes.txt")
	w.put(filepath.Join(w.repo, "notes.txt"), "staged, then edited\r\n")
	w.put(filepath.Join(w.repo, "untracked.txt"), "mine\n")
	w.put(filepath.Join(w.repo, "run.log"), "ignored\n")
	hook := filepath.Join(w.repo, ".git/hooks/pre-commit")
	w.put(hook, "#!/bin/sh\ntouch ../hook-ran\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// stableBeginning checks that each request begins as the one before, up to the
// state at its end: what a provider has cached is used again.
func stableBeginning(t testing.TB, p *provider) {
	t.Helper()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var last *modeltest.Request
	for _, r := range p.chats() {
		if r.Invalid != "" {
			continue
		}
		if last != nil {
			if last.Neutral.System != r.Neutral.System || text(last.Neutral.Tools) != text(r.Neutral.Tools) {
				t.Errorf("request %d has other instructions or tools", r.Number)
			}
			// The last message holds the state, which is written anew.
			n := len(last.Neutral.Messages) - 1
			if len(r.Neutral.Messages) < n || text(last.Neutral.Messages[:n]) != text(r.Neutral.Messages[:n]) {
				t.Errorf("request %d does not begin as the one before:\n%s\n%s", r.Number, text(last.Neutral.Messages[:n]), text(r.Neutral.Messages))
			}
		}
		last = &r
	}
}

// TestErrorsThatNoRetryMendsStopAtOnce: exactly one request, and a clear word.
func TestErrorsThatNoRetryMendsStopAtOnce(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		for _, c := range []struct {
			status int
			kind   fault.Kind
			body   string
		}{
			{400, fault.BadRequest, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.0: not right"}}`},
			{401, fault.BadCredentials, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`},
			{404, fault.UnknownModel, `{"type":"error","error":{"type":"not_found_error","code":"model_not_found","message":"model: test-model"}}`},
		} {
			t.Run(fmt.Sprint(wire, c.status), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, toy())
				p := w.serve(repair, func(modeltest.Request) (modeltest.Answer, bool) {
					return modeltest.Answer{Status: c.status, Body: c.body}, true
				})
				begun := time.Now()
				r := w.must(5, runToy(wire+":test-model")...)
				if n := len(p.chats()); n != 1 {
					t.Errorf("%d requests: %v", n, r)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("it took %s to say so", took)
				}
				failed := of[event.ModelFailed](t, w.events())
				if len(failed) != 1 || failed[0].Fault.Kind != c.kind {
					t.Errorf("failed: %+v", failed)
				}
				s := w.snapshot()
				if s.HandOff == nil || s.HandOff.Why == "" || s.PauseReason != event.PausedByHandoff {
					t.Errorf("handed off: %+v", s.HandOff)
				}
				if strings.Contains(r.out+r.err, key) {
					t.Error("the key is in what is printed")
				}
				// Once the cause is mended the goal goes on from where it was.
				w2 := w.serve(repair, nil)
				if w.belay("resume", w.goal()).code != 0 {
					t.Error("it does not go on")
				}
				w2.valid()
			})
		}
	}
}

// TestARequestThatIsTooLargeIsMadeSmaller: 413 compacts and asks again; a
// request that can not be made smaller is handed off and not sent for ever.
func TestARequestThatIsTooLargeIsMadeSmaller(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			files := toy()
			files["big.txt"] = strings.Repeat("a line of a file that is long\n", 350)
			w := newWorld(t, files)
			big := stepCall("read_file", map[string]any{"path": "big.txt"})
			const most = 40 << 10
			p := w.serve("steps:\n"+big+big+big+big+big+big+"  - {when: {contains: [compacted]}, calls: [{tool: finish, args: {}}]}\n",
				func(r modeltest.Request) (modeltest.Answer, bool) {
					return modeltest.Answer{Status: http.StatusRequestEntityTooLarge, Body: `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`}, len(r.Body) > most
				})
			r := w.belay(runToy(wire + ":test-model")...)
			if r.code == 0 || r.code == 1 {
				t.Errorf("%v", r)
			}
			p.valid()
			es := w.events()
			if n := len(of[event.ContextCompacted](t, es)); n == 0 {
				t.Errorf("nothing was compacted: %v", r)
			}
			refused, after := 0, 0
			for _, q := range p.chats() {
				switch {
				case len(q.Body) > most:
					refused++
				case refused > 0:
					after++
				}
			}
			if refused == 0 || after == 0 {
				t.Errorf("%d requests were too large, %d smaller ones followed: %v", refused, after, r)
			}
		})
	}
}

// TestNothingIsAskedAfterTheEnd: neither after an accepted claim nor after a
// limit does the provider see another request.
func TestNothingIsAskedAfterTheEnd(t *testing.T) {
	t.Parallel()
	t.Run("completed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, toy())
		p := w.serve(repair, nil)
		w.must(0, runToy("openai:test-model")...)
		w.must(0, "resume", w.goal())
		if n := len(p.chats()); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
	for _, c := range []struct {
		flag, limit string
		most        int
	}{{"--max-steps", "2", 2}, {"--max-tokens", "12000", 3}, {"--max-tokens", "100", 0}} {
		t.Run(c.flag+c.limit, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			p := w.serve(repair, nil)
			begun := time.Now()
			r := w.must(4, runToy("anthropic:test-model", c.flag, c.limit)...)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %s to end", took)
			}
			sent := len(p.chats())
			if sent > c.most {
				t.Errorf("%d requests, at most %d fit: %v", sent, c.most, r)
			}
			s := w.snapshot()
			if s.PauseReason != event.PausedBudget || !strings.Contains(s.PauseDetail, strings.TrimPrefix(c.flag, "--max-")) {
				t.Errorf("paused for %s: %q", s.PauseReason, s.PauseDetail)
			}
			// Resuming without more is refused, or ends in the same way when what
			// is left is too little for a request; with more it goes on.
			if r := w.belay("resume", w.goal()); r.code != 2 && r.code != 4 || !strings.Contains(r.out+r.err, "exhausted") {
				t.Errorf("%v", r)
			}
			if n := len(p.chats()); n != sent {
				t.Errorf("%d requests after the limit", n-sent)
			}
			w.must(0, "resume", w.goal(), c.flag, "900000")
			p.valid()
		})
	}
}

// TestCommandsDoNotSeeTheKeys: the child environment is an allow-list.
func TestCommandsDoNotSeeTheKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	p := w.serve("steps:\n"+stepCommand("env")+stepRead+stepFix+stepTest+stepDone, nil)
	r := w.must(0, runToy("openai:test-model")...)
	for _, q := range p.chats() {
		if strings.Contains(string(q.Body), key) {
			t.Error("the key is in a request's body")
		}
	}
	if log := w.must(0, "log", w.goal(), "op1"); strings.Contains(log.out, key) || !strings.Contains(log.out, "PATH=") {
		t.Errorf("the environment of commands: %v", log)
	}
	if strings.Contains(r.out+w.must(0, "events", w.goal()).out, key) {
		t.Error("the key is in the ledger")
	}
}

// TestHundredsOfCallsAtOnceAreBounded: each of them is answered, and only so
// many are taken.
func TestHundredsOfCallsAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, toy())
	many := "  - {calls: ["
	for i := range 200 {
		many += fmt.Sprintf("{tool: read_file, args: {path: check.sh, limit: %d}}, ", i+1)
	}
	many += "]}\n"
	p := w.serve("steps:\n"+many+stepRead+stepFix+stepTest+stepDone, nil)
	w.must(0, runToy("anthropic:test-model")...)
	p.valid()
	es := w.events()
	if n := len(of[event.OperationProposed](t, es)); n != 200+4 {
		t.Errorf("%d operations", n)
	}
	if n := len(of[event.OperationStarted](t, es)); n > 64+3 {
		t.Errorf("%d were started", n)
	}
}

// TestAWaitForTheProviderIsShownAndCanBeEnded: a goal that waits for a rate
// limit is not frozen.
func TestAWaitForTheProviderIsShownAndCanBeEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		code    int
	}{{"pause", 3}, {"cancel", 7}} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, toy())
			p := w.serve(repair, func(modeltest.Request) (modeltest.Answer, bool) {
				return modeltest.Answer{Status: 429, Header: http.Header{"Retry-After": {"900"}}, Body: `{"error":{"message":"usage limit"}}`}, true
			})
			b := w.start(runToy("openai:test-model")...)
			b.await("goal_waiting: retry_backoff")
			s := w.snapshot()
			if s.WaitReason != event.WaitRetry || s.WaitUntil.Std().Before(time.Now().Add(10*time.Minute)) || !strings.Contains(s.WaitDetail, "usage limit") {
				t.Errorf("waits for %s until %s: %s", s.WaitReason, s.WaitUntil.Std(), s.WaitDetail)
			}
			w.must(0, c.command, w.goal())
			if r := b.wait(); r.code != c.code {
				t.Errorf("want exit %d: %v", c.code, r)
			}
			if n := len(p.chats()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestAnOutageOfHoursIsWaitedForOnRequest: by default a goal is handed off when
// the provider wants hours, and told how to wait; who asks for it, waits, with
// the turn ended and the ticket given back.
func TestAnOutageOfHoursIsWaitedForOnRequest(t *testing.T) {
	t.Parallel()
	hours := func(modeltest.Request) (modeltest.Answer, bool) {
		return modeltest.Answer{Status: 429, Header: http.Header{"Retry-After": {"18000"}}, Body: `{"error":{"message":"usage limit"}}`}, true
	}
	w := newWorld(t, toy())
	w.serve(repair, hours)
	if r := w.must(5, runToy("openai:test-model")...); !strings.Contains(r.out, "--provider-wait") {
		t.Errorf("%v", r)
	}
	w = newWorld(t, toy())
	p := w.serve(repair, hours)
	b := w.start(runToy("openai:test-model", "--provider-wait", "8h")...)
	b.await("agent_loop_stopped: yielded  parked")
	if s := w.snapshot(); s.WaitReason != event.WaitRetry || s.WaitUntil.Std().Before(time.Now().Add(4*time.Hour)) {
		t.Errorf("waits for %s until %s", s.WaitReason, s.WaitUntil.Std())
	}
	w.must(0, "say", w.goal(), "still there?")
	w.must(0, "cancel", w.goal())
	if r := b.wait(); r.code != 7 {
		t.Errorf("%v", r)
	}
	if n := len(p.chats()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
