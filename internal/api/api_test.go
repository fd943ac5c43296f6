package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"belay/client"
	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/memory"
	"belay/internal/model"
	"belay/internal/model/script"
	"belay/internal/service"
	"belay/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is only spent by a test that fails.
const patience = 60 * time.Second

// world is a server on a port of its own, with one token of each scope.
type world struct {
	t       testing.TB
	api     *API
	service *service.Service
	url     string
	http    *http.Client
	tokens  *token.Store
	secret  map[token.Scope]string
	repo    string
	// yielded counts events that were read to be streamed.
	yielded atomic.Int64
	// closed gets a value for each connection that the server has closed.
	closed chan struct{}
}

// counting counts what is read off a followed stream.
type counting struct {
	ledger.Ledger
	n *atomic.Int64
}

func (c counting) Follow(ctx context.Context, goal string, after uint64) iter.Seq2[ledger.Item, error] {
	return func(yield func(ledger.Item, error) bool) {
		for it, err := range c.Ledger.Follow(ctx, goal, after) {
			if c.n.Add(1); !yield(it, err) {
				return
			}
		}
	}
}

func newWorld(t testing.TB, l Limits) *world {
	t.Helper()
	return newWorldOn(t, l, memory.New(memory.Options{}))
}

// newWorldOn is a world on a ledger.
func newWorldOn(t testing.TB, l Limits, store ledger.Ledger) *world {
	t.Helper()
	w := &world{t: t, secret: map[token.Scope]string{}, repo: t.TempDir(), closed: make(chan struct{}, 1000),
		http: &http.Client{Transport: &http.Transport{}}}
	w.service = service.New(service.Config{
		Ledger: store,
		OpenModel: func(context.Context, string) (model.Model, error) {
			return script.New(&script.Script{}, "test"), nil
		},
	})
	dir := t.TempDir()
	w.tokens = token.Open(filepath.Join(dir, "tokens.json"))
	for _, s := range token.Scopes() {
		secret, _, err := w.tokens.New(string(s), s, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.secret[s] = secret
	}
	console := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "console") })
	a, err := New(Config{Service: w.service, Check: w.tokens.Check, Console: console, Limits: l, Model: "script:test"})
	if err != nil {
		t.Fatal(err)
	}
	w.api = a
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + tcp.Addr().String()
	srv := a.server(nil)
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			w.closed <- struct{}{}
		}
	}
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(tcp)
		close(done)
	}()
	t.Cleanup(func() {
		a.Drain()
		_ = srv.Close()
		<-done
		w.http.CloseIdleConnections()
	})
	return w
}

func (w *world) client(s token.Scope) *client.Client {
	return &client.Client{URL: w.url, Token: w.secret[s], HTTP: w.http}
}

// fresh is how many events a goal has that nobody has worked on.
const fresh = 2

// goal starts a goal over HTTP.
func (w *world) goal() string {
	w.t.Helper()
	g, err := w.client(token.Operate).Start(w.t.Context(), client.StartGoal{Text: "do it", Repo: w.repo})
	if err != nil {
		w.t.Fatal(err)
	}
	return g.Goal
}

// send is one request, as raw as it comes.
func (w *world) send(method, path, body string, header ...string) (int, client.Problem) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := w.http.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var p client.Problem
	if answer.StatusCode >= 400 {
		if kind := answer.Header.Get("Content-Type"); kind != "application/problem+json" {
			w.t.Errorf("%s %s: an error of type %s: %s", method, path, kind, b)
		}
		if err := json.Unmarshal(b, &p); err != nil || p.Status != answer.StatusCode || p.Title == "" || p.Code == "" {
			w.t.Errorf("%s %s: no problem details: %v: %s", method, path, err, b)
		}
	}
	return answer.StatusCode, p
}

func (w *world) bearer(s token.Scope) string { return "Bearer " + w.secret[s] }

const jsonType = "application/json"

func TestNobodyIsLetInWithoutATokenThatAllowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{FailBurst: 1e6, Burst: 1e6})
	goal := w.goal()
	for _, r := range routes() {
		path := strings.NewReplacer("{goal}", goal, "{op}", "op1", "{sha256}", strings.Repeat("0", 64), "{id}", "x").Replace(r.path)
		if r.scope == "" {
			if status, p := w.send(r.method, path, ""); status != 200 {
				t.Errorf("%s %s is for everybody: %d %v", r.method, path, status, p)
			}
			continue
		}
		for _, header := range [][]string{nil, {"Authorization", "Bearer belay_wrong"}, {"Authorization", "Basic " + w.secret[token.Operate]},
			{"Authorization", w.secret[token.Operate]}, {"Cookie", "token=" + w.secret[token.Operate]}} {
			if status, _ := w.send(r.method, path, "", header...); status != http.StatusUnauthorized {
				t.Errorf("%s %s with %v: %d, want 401", r.method, path, header, status)
			}
		}
		if status, _ := w.send(r.method, path+"?token="+w.secret[token.Operate], ""); status != http.StatusUnauthorized {
			t.Errorf("%s %s takes a token from the address: %d", r.method, path, status)
		}
		for _, s := range token.Scopes() {
			if s.Allows(r.scope) {
				continue
			}
			if status, p := w.send(r.method, path, "{}", "Authorization", w.bearer(s), "Content-Type", jsonType); status != http.StatusForbidden || p.Code != "scope" {
				t.Errorf("%s %s with scope %s: %d %v, want 403", r.method, path, s, status, p)
			}
		}
	}
	if es, err := w.service.Events(t.Context(), goal, 0); err != nil || len(es) != fresh {
		t.Errorf("%d events, one of a refused request: %v", len(es), err)
	}
}

func TestAChangeNeedsMoreThanWatching(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		// Judging a command or a policy file records nothing, whatever the method.
		judges := r.path == "/v1/policy/explain" || r.path == "/v1/policy/check"
		if r.method != http.MethodGet && r.scope == token.Watch && !judges {
			t.Errorf("%s %s can be called by who may only watch", r.method, r.path)
		}
	}
}

func TestForeignNamesAndPagesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(w.url, "http://"))
	auth := []string{"Authorization", w.bearer(token.Operate)}
	for _, c := range []struct {
		name   string
		path   string
		header []string
		status int
		code   string
	}{
		{"its own name", "/v1/goals", []string{"Host", "localhost:" + port}, 200, ""},
		{"its own address in IPv6", "/v1/goals", []string{"Host", "[::1]:" + port}, 200, ""},
		{"a name that was made to point here", "/v1/goals", []string{"Host", "evil.example:" + port}, 421, "host"},
		{"a name that begins like ours", "/v1/goals", []string{"Host", "localhost.evil.example"}, 421, "host"},
		{"a rebound name asks for the page", "/", []string{"Host", "evil.example"}, 421, "host"},
		{"a rebound name asks for health", "/healthz", []string{"Host", "evil.example"}, 421, "host"},
		{"its own page", "/v1/goals", []string{"Origin", w.url, "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"another site's page", "/v1/goals", []string{"Origin", "https://evil.example"}, 403, "origin"},
		{"a page without an origin", "/v1/goals", []string{"Origin", "null"}, 403, "origin"},
		{"a page on another port of this machine", "/v1/goals", []string{"Origin", "http://127.0.0.1:1"}, 403, "origin"},
		{"another site by its fetch", "/v1/goals", []string{"Sec-Fetch-Site", "cross-site"}, 403, "origin"},
		{"another site navigates into the API", "/v1/openapi.json", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403, "origin"},
		{"a link opens the console", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200, ""},
		{"a page embeds the console's files", "/app.js", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403, "origin"},
	} {
		status, p := w.send("GET", c.path, "", append(c.header, auth...)...)
		if status != c.status || p.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, p.Code, c.status, c.code)
		}
	}
	// A preflight of another site gets no leave.
	r, err := http.NewRequest(http.MethodOptions, w.url+"/v1/goals", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	answer, err := w.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode < 400 || answer.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight is answered %d with %v", answer.StatusCode, answer.Header)
	}
}

func TestBodiesAreBoundedAndRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Body: 1000})
	goal := w.goal()
	auth := []string{"Authorization", w.bearer(token.Operate)}
	for _, c := range []struct {
		name, body, kind string
		status           int
		code             string
	}{
		{"too large", `{"text":"` + strings.Repeat("x", 1000) + `"}`, jsonType, 413, "too_large"},
		{"a form", `text=x`, "application/x-www-form-urlencoded", 415, "media_type"},
		{"plain text, as a form of another site can send it", `{"text":"x"}`, "text/plain", 415, "media_type"},
		{"no type", `{"text":"x"}`, "", 415, "media_type"},
		{"no JSON", `{"text":`, jsonType, 400, "bad_request"},
		{"an unknown field", `{"text":"x","shout":true}`, jsonType, 400, "bad_request"},
		{"two values", `{"text":"x"}{}`, jsonType, 400, "bad_request"},
		{"a wrong mode", `{"text":"x","mode":"loud"}`, jsonType, 400, "bad_request"},
		{"nothing said", `{}`, jsonType, 400, "bad_request"},
	} {
		status, p := w.send("POST", "/v1/goals/"+goal+"/say", c.body, append([]string{"Content-Type", c.kind}, auth...)...)
		if status != c.status || p.Code != c.code {
			t.Errorf("%s: %d %s (%s), want %d %s", c.name, status, p.Code, p.Detail, c.status, c.code)
		}
	}
	if es, _ := w.service.Events(t.Context(), goal, 0); len(es) != fresh {
		t.Errorf("%d events: something of it was recorded", len(es))
	}
	for _, c := range []struct {
		path   string
		status int
		code   string
	}{
		{"/v1/goals/ffff", 404, "no_goal"}, {"/v1/nothing", 404, "no_route"}, {"/v1/goals/" + goal + "/operations/op9", 404, "no_operation"},
		{"/v1/artifacts/" + strings.Repeat("0", 64), 404, "not_found"}, {"/v1/artifacts/..%2f..%2fetc%2fpasswd", 400, "bad_request"},
		{"/v1/goals/" + goal + "/timeline?limit=x", 400, "bad_request"}, {"/v1/goals/" + goal + "/timeline?limit=999999", 400, "bad_request"},
		{"/v1/goals/" + goal + "/stream?view=all", 400, "bad_request"}, {"/v1/goals/" + goal + "/report?format=pdf", 400, "bad_request"},
	} {
		if status, p := w.send("GET", c.path, "", auth...); status != c.status || p.Code != c.code {
			t.Errorf("%s: %d %s (%s), want %d %s", c.path, status, p.Code, p.Detail, c.status, c.code)
		}
	}
}

func TestSlowCallersAreLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{HeaderTime: 50 * time.Millisecond, BodyTime: 50 * time.Millisecond})
	goal := w.goal()
	// A head that never ends.
	c := w.dial()
	fmt.Fprintf(c, "GET /v1/goals HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	if b, err := io.ReadAll(c); err != nil && !errors.Is(err, io.EOF) || strings.Contains(string(b), "200 OK") {
		t.Errorf("a head that does not end: %q %v", b, err)
	}
	// A body that never ends.
	c = w.dial()
	fmt.Fprintf(c, "POST /v1/goals/%s/say HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", goal, w.bearer(token.Operate))
	if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "408 Request Timeout") {
		t.Errorf("a body that does not end: %q %v", b, err)
	}
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// fill appends n events of some size to a goal.
func (w *world) fill(goal string, n, size int) {
	w.t.Helper()
	head := uint64(fresh)
	row, err := w.service.Ledger.Goal(w.t.Context(), goal)
	if err != nil {
		w.t.Fatal(err)
	}
	for head < uint64(n) {
		var es []event.Event
		for range min(500, n) {
			p := event.ProgressAlarm{Signal: "test", Detail: strings.Repeat("x", size)}
			es = append(es, event.Event{Goal: goal, ID: event.NewID(1, [16]byte{}, int(head)+len(es)), Type: p.EventType(), Version: event.CurrentVersion(p.EventType()),
				Actor: event.ActorRuntime, Fence: row.Fence, Payload: p})
		}
		if es, err = w.service.Ledger.Append(w.t.Context(), ledger.Append{Goal: goal, Head: head, Fence: row.Fence, Events: es, Row: row}); err != nil {
			w.t.Fatal(err)
		}
		head = es[len(es)-1].Seq
	}
}

func TestAStalledReaderIsDroppedAndHoldsNoMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{WriteTime: 200 * time.Millisecond})
	goal := w.goal()
	const events, size = 10_000, 4 << 10
	w.fill(goal, events, size)
	w.http.CloseIdleConnections()
	<-w.closed // the one that started the goal
	w.service.Ledger = counting{w.service.Ledger, &w.yielded}
	c := w.dial()
	fmt.Fprintf(c, "GET /v1/goals/%s/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n\r\n", goal, w.bearer(token.Watch))
	select {
	case <-w.closed:
	case <-time.After(patience):
		t.Fatal("a reader that takes nothing in is never let go")
	}
	if n := w.yielded.Load(); n == 0 || n > events*3/4 {
		t.Errorf("%d of %d events were read for a reader that took none", n, events)
	}
	if n := w.api.streams.Load(); n != 0 {
		t.Errorf("%d streams are still counted", n)
	}
	// What was lost on the way is read again by seq.
	seen := uint64(0)
	for m, err := range w.client(token.Watch).Follow(t.Context(), goal, "events", events-10) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Name == "caught_up" {
			break
		}
		if seen = m.ID; seen <= events-10 {
			t.Fatalf("seq %d was sent again", seen)
		}
	}
	if head, _ := w.service.Ledger.Goal(t.Context(), goal); seen != head.Head {
		t.Errorf("resumed up to %d, want %d", seen, head.Head)
	}
}

func TestWhoAsksTooOftenIsToldToWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Rate: 0.001, Burst: 3, FailRate: 0.001, FailBurst: 2})
	for i, want := range []int{200, 200, 200, 429} {
		if status, p := w.send("GET", "/v1/self", "", "Authorization", w.bearer(token.Watch)); status != want {
			t.Errorf("request %d: %d %v, want %d", i, status, p, want)
		}
	}
	// Each token has its own.
	if status, _ := w.send("GET", "/v1/self", "", "Authorization", w.bearer(token.Answer)); status != 200 {
		t.Errorf("another token is held back too: %d", status)
	}
	for i, want := range []int{401, 401, 429} {
		if status, p := w.send("GET", "/v1/self", "", "Authorization", "Bearer guess"); status != want {
			t.Errorf("guess %d: %d %v, want %d", i, status, p, want)
		}
	}
}

func TestStreamsAreBoundedAndEndWithTheirToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Streams: 1, Beat: 10 * time.Millisecond})
	goal := w.goal()
	secret, made, err := w.tokens.New("short", token.Watch, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &client.Client{URL: w.url, Token: secret, HTTP: w.http}
	n := 0
	for m, err := range c.Follow(t.Context(), goal, "events", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; m.Name != "caught_up" {
			continue
		}
		for _, err := range w.client(token.Watch).Watch(t.Context()) {
			if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Code != "streams" {
				t.Errorf("a second stream: %v", err)
			}
		}
		if err := w.tokens.Revoke(made.ID); err != nil {
			t.Fatal(err)
		}
		// The loop ends because the server ends the stream.
	}
	if n != fresh+1 {
		t.Errorf("%d messages, want the events and the marker", n)
	}
	if _, err := c.Snapshot(t.Context(), goal); err == nil {
		t.Error("a revoked token is let in")
	}
}

func TestTheListOfGoalsIsWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Poll: 5 * time.Millisecond})
	first := w.goal()
	caughtUp := false
	second := ""
	for m, err := range w.client(token.Watch).Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Name == "caught_up" {
			caughtUp = true
			second = w.goal()
			if _, err := w.client(token.Operate).Tell(t.Context(), first, "pause", client.Pause{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var o core.Overview
		if err := json.Unmarshal(m.Data, &o); err != nil {
			t.Fatal(err)
		}
		if !caughtUp {
			if o.Goal != first || o.Status != "active" || o.Action != "ready for a worker" {
				t.Errorf("at first: %+v", o)
			}
			continue
		}
		if o.Goal == second {
			second = ""
		}
		if o.Goal == first && o.Status == "paused" {
			first = ""
		}
		if first == "" && second == "" {
			return
		}
	}
	t.Error("the stream ended")
}

func TestACommandIsDoneOncePerKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	c := w.client(token.Operate)
	ctx := client.WithKey(t.Context(), "key-1")
	want := time.UnixMilli(0x01a22d2bb94c)
	for key, at := range map[string]time.Time{"01a22d2b-b94c-7c1a-9211-7b4774584c79": want, "01a22d2b-b94c-4c1a-9211-7b4774584c79": {}, "key-1": {}, "zzzzzzzz-zzzz-7zzz-zzzz-zzzzzzzzzzzz": {}} {
		if got := madeAt(key); !got.Equal(at) {
			t.Errorf("%s was made at %s, want %s", key, got, at)
		}
	}
	start := client.StartGoal{Text: "do it", Repo: w.repo}
	a, err := c.Start(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Start(ctx, start)
	if err != nil || a.Goal != b.Goal {
		t.Errorf("the second start: %v %v, want %v", b, err, a)
	}
	start.Text = "do something else"
	if _, err := c.Start(ctx, start); err == nil || err.(*client.Problem).Code != "key_reused" {
		t.Errorf("another goal under the same key: %v", err)
	}
	for range 3 {
		if _, err := c.Tell(ctx, a.Goal, "say", client.Say{Text: "hello"}); err != nil {
			t.Fatal(err)
		}
	}
	// Another text under the key is another message, and so is the same text
	// under another key or of another token.
	if _, err := c.Tell(ctx, a.Goal, "say", client.Say{Text: "good-bye"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client(token.Answer).Tell(ctx, a.Goal, "say", client.Say{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	var said []string
	es, err := c.Events(t.Context(), a.Goal, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if e.Type == event.TypeUserMessage {
			var m event.UserMessage
			if err := json.Unmarshal(e.Payload, &m); err != nil {
				t.Fatal(err)
			}
			said = append(said, m.Text)
		}
	}
	if got := strings.Join(said, ", "); got != "hello, good-bye, hello" {
		t.Errorf("said: %s", got)
	}
	// A command that is not possible any more is still answered under its key.
	if _, err := c.Tell(ctx, a.Goal, "pause", client.Pause{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tell(ctx, a.Goal, "pause", client.Pause{}); err != nil {
		t.Errorf("sent again: %v", err)
	}
	if _, err := c.Tell(t.Context(), a.Goal, "pause", client.Pause{}); err == nil || err.(*client.Problem).Code != "not_now" {
		t.Errorf("a second pause: %v", err)
	}
}

func TestArtifactsAreServedInRanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	content := bytes.Repeat([]byte("0123456789<script>"), 10_000)
	ref, err := w.service.Ledger.PutArtifact(t.Context(), bytes.NewReader(content), "text/html")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ask          string
		from, to     int
		status       int
		contentRange string
	}{
		{"", 0, len(content), 200, ""},
		{"bytes=0-9", 0, 10, 206, "bytes 0-9/180000"},
		{"bytes=100000-100009", 100000, 100010, 206, "bytes 100000-100009/180000"},
		{"bytes=-18", len(content) - 18, len(content), 206, "bytes 179982-179999/180000"},
		{"bytes=179990-", 179990, len(content), 206, "bytes 179990-179999/180000"},
		{"bytes=999999-", 0, -1, 416, "bytes */180000"},
	} {
		r, err := http.NewRequest("GET", w.url+"/v1/artifacts/"+ref.SHA256, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", w.bearer(token.Watch))
		if c.ask != "" {
			r.Header.Set("Range", c.ask)
		}
		answer, err := w.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || answer.Header.Get("Content-Range") != c.contentRange {
			t.Errorf("%q: %d %q %v", c.ask, answer.StatusCode, answer.Header.Get("Content-Range"), err)
		}
		if c.to >= 0 && !bytes.Equal(b, content[c.from:c.to]) {
			t.Errorf("%q: %d bytes, want %d", c.ask, len(b), c.to-c.from)
		}
		if h := answer.Header; c.status < 300 && (h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("a browser could run it: %v", h)
		}
	}
}

func TestWhereItListens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	dir, err := os.MkdirTemp("", "belay") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0", "7420"} {
		if err := w.api.Serve(t.Context(), Listen{Addr: addr}, func([]string) { t.Errorf("it listens on %s", addr) }); !errors.Is(err, ErrListen) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := w.api.Serve(t.Context(), Listen{Addr: "127.0.0.1:0", Cert: "x"}, func([]string) { t.Error("it listens without a key") }); !errors.Is(err, ErrListen) {
		t.Errorf("a certificate without a key: %v", err)
	}
	socket := filepath.Join(dir, "s")
	if err := os.WriteFile(socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Serve(t.Context(), Listen{Socket: socket}, func([]string) { t.Error("it listens in place of a file") }); !errors.Is(err, ErrListen) {
		t.Errorf("a file where the socket should be: %v", err)
	}
	if b, _ := os.ReadFile(socket); string(b) != "mine" {
		t.Error("the file is gone")
	}
	os.Remove(socket)
	// One that a killed server left behind is replaced.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	urls := make(chan []string, 1)
	go func() {
		served <- w.api.Serve(ctx, Listen{Socket: socket}, func(u []string) { urls <- u })
	}()
	select {
	case err := <-served:
		t.Fatal(err)
	case <-urls:
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	c := client.Unix(socket)
	if _, err := c.Start(t.Context(), client.StartGoal{Text: "by socket", Repo: w.repo}); err != nil {
		t.Errorf("the owner needs a token: %v", err)
	}
	if err := w.api.Serve(ctx, Listen{Socket: socket}, func([]string) { t.Error("two servers on one socket") }); !errors.Is(err, ErrListen) {
		t.Errorf("a second server: %v", err)
	}
	c.HTTP.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
