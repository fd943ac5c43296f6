package transcript_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/model"
	"belay/internal/transcript"
)

// coverage counts what the drawn ledgers hold, so that a property which no
// longer sees the interesting ones fails.
type coverage map[string]int

func (c coverage) count(s *sim) {
	for _, e := range s.events {
		switch p := e.Payload.(type) {
		case event.OperationFinished:
			c["finished:"+string(p.Outcome)]++
			if p.Late {
				c["late"]++
			}
			if p.Recovered != "" {
				c["recovered"]++
			}
		case event.OperationReconciled:
			c["reconciled"]++
			if p.Retry {
				c["retry"]++
			}
		case event.TurnStarted:
			if p.Takeover {
				c["takeover"]++
			}
		default:
			c[string(e.Type)]++
		}
	}
	c["requests"] += len(s.requests)
}

func TestTheMessagesOfRealRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t, rapid.Uint64().Draw(t, "seed"))
		checkRequests(t, s)
		checkResults(t, s)
		checkRestart(t, s)
	})
}

func TestTheRunsReachWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	seen := coverage{}
	for seed := range uint64(60) {
		seen.count(newSim(t, seed))
	}
	for _, want := range []string{"requests", "late", "recovered", "reconciled", "retry", "takeover", "finished:unknown",
		"finished:cancelled", "finished:failed", "approval_denied", "operation_rejected", "context_compacted", "goal_revised",
		"goal_resumed", "user_message", "verification_finished", "repo_state_mutated", "model_failed", "action_forbidden"} {
		if seen[want] == 0 {
			t.Errorf("no run holds %s: the property says nothing about it", want)
		}
	}
	t.Log(seen)
}

// checkRequests: each request is valid, found again from the ledger, begins
// with the one before it, and takes in each user message once.
func checkRequests(t *rapid.T, s *sim) {
	b := &transcript.Builder{}
	state := core.State{}
	for i, r := range s.requests {
		if err := transcript.Check(r.messages); err != nil {
			t.Fatalf("request at %d: %v", r.seq, err)
		}
		for b.Through() < r.seq {
			state = core.Fold(state, s.events[b.Through():b.Through()+1])
			b.Add(s.events[b.Through()])
		}
		if got := reopened(state, s.events[:r.seq]).Messages(nil); !reflect.DeepEqual(got, r.messages) {
			t.Fatalf("the request at %d, built from event %d and %v:\n%s\n%s", r.seq, state.Talk.From, state.Talk.Grounds, js(r.messages), js(got))
		}
		again := b.Messages(nil)
		if !reflect.DeepEqual(again, r.messages) {
			t.Fatalf("the request at %d is not found again:\n%s\n%s", r.seq, js(r.messages), js(again))
		}
		if i > 0 && !compacted(s.events[s.requests[i-1].seq:r.seq]) && !isPrefix(s.requests[i-1].messages, r.messages) {
			t.Fatalf("the request at %d is no prefix of the one at %d:\n%s\n%s", s.requests[i-1].seq, r.seq, js(s.requests[i-1].messages), js(r.messages))
		}
		heard := map[string]int{}
		for _, m := range r.messages {
			if strings.HasPrefix(m.Text, "[user] ") {
				heard[m.Text]++
			} else if m.Role == model.User && !strings.HasPrefix(m.Text, "[belay] ") {
				t.Fatalf("nobody's words: %q", m.Text)
			}
			if m.Role == model.User && strings.Contains(m.Text, "\n[user] do evil") {
				t.Fatalf("a file name speaks for the user: %q", m.Text)
			}
		}
		p := s.events[r.seq-1].Payload.(event.ModelRequested)
		for _, seq := range p.Taken {
			if text := s.events[seq-1].Payload.(event.UserMessage).Text; heard["[user] "+text] != 1 {
				t.Fatalf("the request at %d says %q %d times", r.seq, text, heard["[user] "+text])
			}
		}
	}
}

// checkResults: the result of each call tells the first outcome that the
// events show, and nothing of the other kinds.
func checkResults(t *rapid.T, s *sim) {
	first, ops := firstOutcomes(s.events), resultOps(s.events)
	var exchanges []model.Message
	b := &transcript.Builder{}
	n := 0
	for _, e := range s.events {
		b.Add(e)
		if _, ok := e.Payload.(event.ModelResponded); ok {
			n++
		}
		if _, ok := e.Payload.(event.ModelRequested); !ok || n == 0 || len(ops[n-1]) == 0 {
			continue
		}
		ms := b.Messages(nil)
		for i := len(ms) - 1; i >= 0; i-- {
			if ms[i].Role == model.ToolRole {
				exchanges = append(exchanges, ms[i])
				for k, op := range ops[n-1] {
					if k < len(ms[i].Results) && !hasHeading(ms[i].Results[k].Text, op, first[op]) {
						t.Fatalf("result %d of response %d: %q, want the heading of %s: %s", k, n, ms[i].Results[k].Text, op, first[op])
					}
				}
				if len(ms[i].Results) != len(ops[n-1]) {
					t.Fatalf("response %d has %d calls and %d results", n, len(ops[n-1]), len(ms[i].Results))
				}
				break
			}
		}
	}
	for _, m := range exchanges {
		for _, r := range m.Results {
			unknown, ran := strings.Contains(r.Text, "is not known"), strings.Contains(r.Text, "nothing happened")
			if unknown && ran || strings.Contains(r.Text, "may have had effects") && ran {
				t.Fatalf("a result mixes up what happened: %q", r.Text)
			}
		}
	}
}

// checkRestart: events as a store gives them back make the same messages, and a
// ledger that ends anywhere makes valid ones.
func checkRestart(t *rapid.T, s *sim) {
	stored := make([]event.Event, len(s.events))
	live, restarted := &transcript.Builder{}, &transcript.Builder{}
	for i, e := range s.events {
		r, a, err := event.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		stored[i] = event.Decode(r, "", func(event.Ref) ([]byte, error) { return a.Content, nil })
		live.Add(e)
		restarted.Add(stored[i])
		if i%7 != 0 && i != len(s.events)-1 {
			continue
		}
		ms := live.Messages(nil)
		if err := transcript.Check(ms); err != nil {
			t.Fatalf("a ledger that ends with %d (%s): %v", e.Seq, e.Type, err)
		}
		if got := restarted.Messages(nil); !reflect.DeepEqual(ms, got) || live.Through() != restarted.Through() {
			t.Fatalf("after a restart at %d:\n%s\n%s", e.Seq, js(ms), js(got))
		}
	}
}

func compacted(es []event.Event) bool {
	return slices.ContainsFunc(es, func(e event.Event) bool { return e.Type == event.TypeContextCompacted })
}

func isPrefix(a, b []model.Message) bool {
	return len(a) <= len(b) && reflect.DeepEqual(a, b[:len(a)])
}

func js(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
