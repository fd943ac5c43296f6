package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"belay/client"
	"belay/internal/event"
)

// contract is docs/openapi.json as answers are held against it.
type contract struct {
	t     testing.TB
	paths map[string]map[string]struct {
		Scope     string `json:"x-scope"`
		Responses map[string]struct {
			Content map[string]struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	}
	defs json.RawMessage
}

// strict closes every object: a field that the document does not know is a
// fault of one of the two.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"]; ok && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			strict(e)
		}
	case []any:
		for _, e := range v {
			strict(e)
		}
	}
}

func readContract(t testing.TB) *contract {
	t.Helper()
	b, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	b = bytes.ReplaceAll(b, []byte("#/components/schemas/"), []byte("#/$defs/"))
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	strict(doc.Components.Schemas)
	c := &contract{t: t}
	if c.defs, err = json.Marshal(doc.Components.Schemas); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc.Paths, &c.paths); err != nil {
		t.Fatal(err)
	}
	return c
}

// holds checks a body against what the document says of it.
func (c *contract) holds(t testing.TB, method, path string, status int, body []byte) {
	t.Helper()
	r := c.paths[path][strings.ToLower(method)].Responses[fmt.Sprint(status)]
	content, ok := r.Content["application/json"]
	if !ok {
		t.Errorf("%s %s: %d is not in the document", method, path, status)
		return
	}
	var s jsonschema.Schema
	text := fmt.Sprintf(`{"$defs": %s, "allOf": [%s]}`, c.defs, content.Schema)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	rs, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s %s: %v: %s", method, path, err, body)
		return
	}
	if err := rs.Validate(v); err != nil {
		t.Errorf("%s %s does not answer as documented: %v\n%.2000s", method, path, err, body)
	}
}

// get reads one address whole.
func (s *served) get(t testing.TB, path string) (int, http.Header, []byte) {
	t.Helper()
	answer, err := s.c.Do(t.Context(), "GET", path, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, b
}

// until follows a goal over HTTP until an event comes.
func (s *served) until(t testing.TB, goal string, typ event.Type) client.Event {
	t.Helper()
	for m, err := range s.c.Follow(t.Context(), goal, "events", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var e client.Event
		if m.Name == "event" {
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
		}
		if e.Type == typ {
			return e
		}
		if e.Type == event.TypeGoalFailed || e.Type == event.TypeGoalHandedOff {
			t.Fatalf("the goal ended otherwise: %s", m.Data)
		}
	}
	t.Fatalf("the stream ended before %s", typ)
	return client.Event{}
}

func TestTheAPIAnswersAsItsDocumentSays(t *testing.T) {
	t.Parallel()
	s := newWorld(t, toy()).serveAPI()
	c := readContract(t)
	goal := s.begin("repair code.txt", "steps:\n"+stepPlan+stepRead+stepFix+stepTest+stepDone)
	asked := s.until(t, goal, event.TypeApprovalRequested)
	snap, err := s.c.Snapshot(t.Context(), goal)
	if err != nil || len(snap.PendingApprovals) != 1 || snap.PendingApprovals[0].Op != asked.Op {
		t.Fatalf("%+v %v", snap.PendingApprovals, err)
	}
	q := snap.PendingApprovals[0]
	_, err = s.c.Approve(t.Context(), goal, client.Answer{Op: q.Op, Intent: "another"})
	if p, ok := err.(*client.Problem); !ok || p.Code != "question_changed" || p.Status != 409 {
		t.Errorf("an answer to another question: %v", err)
	}
	asks := map[string]string{"/v1/memory": "?repo=" + url.QueryEscape(s.repo), "/v1/search": "?q=code"}
	look := func() {
		for path, item := range c.paths {
			op, ok := item["get"]
			if !ok || path == "/v1/openapi.json" || strings.HasSuffix(path, "/stream") {
				continue
			}
			if strings.HasSuffix(path, "suggest") && len(snap.PendingApprovals) == 0 || strings.HasSuffix(path, "/output") && len(snap.PendingApprovals) > 0 {
				continue
			}
			at := strings.NewReplacer("{goal}", goal[:6], "{op}", q.Op, "{sha256}", snap.LatestDiffWhole.SHA256).Replace(path)
			if strings.Contains(path, "{sha256}") {
				continue // below
			}
			status, header, body := s.get(t, at+asks[path])
			if op.Responses["200"].Content["application/json"].Schema != nil {
				c.holds(t, "GET", path, status, body)
			}
			if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") == "" {
				t.Errorf("%s: %v", path, header)
			}
		}
	}
	look()
	answer, err := s.c.Do(t.Context(), "POST", "/v1/goals/"+goal+"/approve", client.Answer{Op: q.Op, Intent: q.Intent.Hash}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	c.holds(t, "POST", "/v1/goals/{goal}/approve", answer.StatusCode, body)
	s.until(t, goal, event.TypeGoalCompleted)
	if snap, err = s.c.Snapshot(t.Context(), goal); err != nil || snap.How != event.Verified {
		t.Fatalf("%+v %v", snap, err)
	}
	look()
	// The same as the command line prints.
	s.id = goal
	if cli := s.snapshot(); cli.Head != snap.Head || cli.Status != snap.Status || len(cli.Timeline) != len(snap.Timeline) {
		t.Errorf("the command line says %+v, the API %+v", cli, snap)
	}
	_, header, report := s.get(t, "/v1/goals/"+goal+"/report")
	if want := s.must(0, "report", goal).out; string(report) != want || !strings.HasPrefix(header.Get("Content-Type"), "text/markdown") {
		t.Errorf("report: %s\nwant %s", report, want)
	}
	_, _, out := s.get(t, "/v1/goals/"+goal+"/operations/op5/output")
	if want := s.must(0, "log", goal, "op5").out; string(out) != want || want == "" {
		t.Errorf("output: %q, want %q", out, want)
	}
	// A rollback is shown before it is done, and done only as it was shown.
	const back = "/v1/goals/{goal}/rollback"
	at := strings.Replace(back, "{goal}", goal, 1)
	if answer, err = s.c.Do(t.Context(), "POST", at, client.Rollback{Target: "cp0"}, nil); err != nil {
		t.Fatal(err)
	}
	body, _ = io.ReadAll(answer.Body)
	answer.Body.Close()
	c.holds(t, "POST", back, answer.StatusCode, body)
	if s.read("code.txt") != "fixed\n" || !strings.Contains(string(body), "+broken") {
		t.Errorf("what would change: %s", body)
	}
	_, err = s.c.Do(t.Context(), "POST", at, client.Rollback{Target: "cp0", From: snap.Revision.Tree, Tree: snap.Revision.Tree}, nil)
	if p, ok := err.(*client.Problem); !ok || p.Code != "question_changed" {
		t.Errorf("a rollback to what was not shown: %v", err)
	}
	_, _, metrics := s.get(t, "/metrics")
	for _, want := range []string{`belay_goals{status="completed"} 1`, `belay_http_problems_total{code="question_changed"} 2`, `# TYPE belay_http_requests_total counter`} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("metrics lack %q:\n%s", want, metrics)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(string(metrics)), "\n") {
		if !regexp.MustCompile(`^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?[0-9]+)$`).MatchString(line) {
			t.Errorf("no line of metrics: %s", line)
		}
	}
}

// A stream that broke with its server goes on where it was: nothing is missed,
// nothing comes twice.
func TestAStreamGoesOnAfterTheServerWasKilled(t *testing.T) {
	t.Parallel()
	s := newWorld(t, toy()).serveAPI()
	goal := s.begin("repair code.txt", repair)
	var seen []uint64
	marks := 0
	read := func(stop event.Type) {
		after := uint64(0)
		if len(seen) > 0 {
			after = seen[len(seen)-1]
		}
		for m, err := range s.c.Follow(t.Context(), goal, "events", after) {
			if err != nil {
				t.Fatal(err)
			}
			if m.Name == "caught_up" {
				var at client.Head
				if err := json.Unmarshal(m.Data, &at); err != nil || len(seen) > 0 && at.Head != seen[len(seen)-1] {
					t.Errorf("caught up at %s after %v", m.Data, seen)
				}
				marks++
				continue
			}
			seen = append(seen, m.ID)
			var e client.Event
			if err := json.Unmarshal(m.Data, &e); err != nil || e.Seq != m.ID {
				t.Fatalf("%v: %s", err, m.Data)
			}
			if e.Type == stop {
				return
			}
		}
	}
	read(event.TypeApprovalRequested)
	s.p.kill()
	s.p.wait()
	s.up()
	if _, err := s.c.Approve(t.Context(), goal, client.Answer{}); err != nil {
		t.Fatal(err)
	}
	read(event.TypeGoalCompleted)
	for i, seq := range seen {
		if seq != uint64(i+1) {
			t.Fatalf("seqs %v", seen)
		}
	}
	if marks != 2 {
		t.Errorf("%d markers of two streams", marks)
	}
}

// A caller that did not hear whether its goal was started sends the same again
// to the server that came after.
func TestAStartIsDoneOnceWhateverHappensToTheServer(t *testing.T) {
	t.Parallel()
	s := newWorld(t, toy()).serveAPI()
	ctx := client.WithKey(t.Context(), "start-1")
	g := client.StartGoal{Text: "repair code.txt", Repo: s.repo, Model: s.script(repair), Plan: event.PlanNever}
	first, err := s.c.Start(ctx, g)
	if err != nil {
		t.Fatal(err)
	}
	s.until(t, first.Goal, event.TypeApprovalRequested)
	deny := client.WithKey(t.Context(), "deny-1")
	if _, err := s.c.Deny(deny, first.Goal, client.Answer{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	s.p.kill()
	s.p.wait()
	s.up()
	again, err := s.c.Start(ctx, g)
	if err != nil || again.Goal != first.Goal {
		t.Errorf("%v %v, want %v", again, err, first)
	}
	if _, err := s.c.Deny(deny, first.Goal, client.Answer{Reason: "no"}); err != nil {
		t.Errorf("the answer, sent again: %v", err)
	}
	if n := len(of[event.ApprovalDenied](t, s.events())); n != 1 {
		t.Errorf("%d denials", n)
	}
}

// What goes beyond watching is refused without the token for it, and a revoked
// token is out while the server runs.
func TestTokensOfTheCommandLineHoldForTheServer(t *testing.T) {
	t.Parallel()
	s := newWorld(t, toy()).serveAPI()
	watch := &client.Client{URL: s.c.URL, Token: s.token("watch")}
	if _, err := watch.Goals(t.Context(), client.Which{}); err != nil {
		t.Fatal(err)
	}
	_, err := watch.Start(t.Context(), client.StartGoal{Text: "x", Repo: s.repo})
	if p, ok := err.(*client.Problem); !ok || p.Code != "scope" {
		t.Errorf("a goal is started by who may watch: %v", err)
	}
	var list []struct{ ID, Name, Scope string }
	if err := json.Unmarshal([]byte(s.must(0, "token", "list", "--json").out), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	if strings.Contains(s.must(0, "token", "list").out, watch.Token) {
		t.Error("the list shows secrets")
	}
	if r := s.must(0, "token", "new", "phone"); !strings.Contains(r.err, "http://"+s.addr+"/#token="+strings.TrimSpace(r.out)) {
		t.Errorf("it does not say where the console is: %v", r)
	}
	s.must(0, "token", "revoke", list[1].ID)
	if _, err := watch.Goals(t.Context(), client.Which{}); err == nil || err.(*client.Problem).Status != 401 {
		t.Errorf("a revoked token: %v", err)
	}
	s.must(2, "token", "revoke", list[1].ID)
	s.must(2, "token", "new", "x", "--scope", "root")
	if r := s.must(2, "serve", "--listen", "0.0.0.0:0"); !strings.Contains(r.err, "--tls-cert") {
		t.Errorf("it does not say what is needed: %v", r)
	}
	if r := s.must(2, "serve", "--listen", s.addr, "--socket", "off"); !strings.Contains(r.err, "choose another port") {
		t.Errorf("a second server: %v", r)
	}
	s.p.cmd.Process.Signal(os.Interrupt)
	if r := s.p.wait(); r.code != 0 || !strings.Contains(r.err, "drained") {
		t.Errorf("a server that is told to stop: %v", r)
	}
}
