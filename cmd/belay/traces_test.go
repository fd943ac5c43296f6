package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// collector takes OTLP over HTTP in JSON, and nothing that is not written as
// the specification has it.
type collector struct {
	t     testing.TB
	url   string
	mu    sync.Mutex
	spans []sentSpan
	text  strings.Builder
	// refuse are the statuses that the next requests get.
	refuse []int
}

type sentValue struct {
	String *string `json:"stringValue"`
	Int    *string `json:"intValue"`
	Bool   *bool   `json:"boolValue"`
	Array  *struct {
		Values []sentValue `json:"values"`
	} `json:"arrayValue"`
}

type sentAttr struct {
	Key   string    `json:"key"`
	Value sentValue `json:"value"`
}

type sentSpan struct {
	TraceID      string     `json:"traceId"`
	SpanID       string     `json:"spanId"`
	ParentSpanID string     `json:"parentSpanId"`
	Name         string     `json:"name"`
	Kind         int        `json:"kind"`
	Start        string     `json:"startTimeUnixNano"`
	End          string     `json:"endTimeUnixNano"`
	Attributes   []sentAttr `json:"attributes"`
	Events       []struct {
		Time       string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []sentAttr `json:"attributes"`
	} `json:"events"`
	Links []struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	} `json:"links"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

type sentRequest struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes []sentAttr `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []struct {
			Scope struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"scope"`
			Spans     []sentSpan `json:"spans"`
			SchemaURL string     `json:"schemaUrl"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{t: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

var (
	hexID = map[int]*regexp.Regexp{16: regexp.MustCompile(`^[0-9a-f]{16}$`), 32: regexp.MustCompile(`^[0-9a-f]{32}$`)}
	nanos = regexp.MustCompile(`^[0-9]{19}$`)
)

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refuse) > 0 {
		status := c.refuse[0]
		c.refuse = c.refuse[1:]
		w.WriteHeader(status)
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return // its sender was killed
	}
	if r.URL.Path != "/v1/traces" || r.Method != "POST" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Team") != "a b" {
		c.t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
	var q sentRequest
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		c.t.Errorf("no OTLP: %v\n%s", err, b)
	}
	c.text.Write(b)
	for _, rs := range q.ResourceSpans {
		if got := attrsOf(rs.Resource.Attributes); got["service.name"] != "my-belay" || got["deployment.environment.name"] != "test" {
			c.t.Errorf("resource: %v", got)
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.check(s)
			}
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

func (c *collector) check(s sentSpan) {
	if !hexID[32].MatchString(s.TraceID) || !hexID[16].MatchString(s.SpanID) || s.ParentSpanID != "" && !hexID[16].MatchString(s.ParentSpanID) ||
		!nanos.MatchString(s.Start) || !nanos.MatchString(s.End) || s.Start > s.End || s.Kind < 1 || s.Kind > 5 {
		c.t.Errorf("no span: %+v", s)
	}
	for _, e := range s.Events {
		if !nanos.MatchString(e.Time) {
			c.t.Errorf("no event: %+v", e)
		}
	}
	for _, a := range s.Attributes {
		n := 0
		for _, is := range []bool{a.Value.String != nil, a.Value.Int != nil, a.Value.Bool != nil, a.Value.Array != nil} {
			if is {
				n++
			}
		}
		if a.Value.Int != nil {
			if _, err := strconv.ParseInt(*a.Value.Int, 10, 64); err != nil {
				n = 0
			}
		}
		if n != 1 || a.Key == "" {
			c.t.Errorf("%s: no value: %+v", s.Name, a)
		}
	}
}

func attrsOf(as []sentAttr) map[string]string {
	out := map[string]string{}
	for _, a := range as {
		switch v := a.Value; {
		case v.String != nil:
			out[a.Key] = *v.String
		case v.Int != nil:
			out[a.Key] = *v.Int
		}
	}
	return out
}

// got are the spans that have come, each once; two that differ under one id are
// an error.
func (c *collector) got() map[string]sentSpan {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]sentSpan{}
	for _, s := range c.spans {
		if have, ok := out[s.SpanID]; ok && !reflect.DeepEqual(have, s) {
			a, _ := json.Marshal(have)
			b, _ := json.Marshal(s)
			c.t.Errorf("two spans of one id:\n%s\n%s", a, b)
		}
		out[s.SpanID] = s
	}
	return out
}

// names are the names of the spans, sorted, with how often each came.
func (c *collector) names() map[string]int {
	out := map[string]int{}
	for _, s := range c.got() {
		out[s.Name]++
	}
	return out
}

// traced is a world that sends its traces to a collector.
func (w *world) traced(url string, more ...string) *world {
	t := *w
	t.env = append(append(slices.Clone(w.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_SERVICE_NAME=my-belay", "OTEL_EXPORTER_OTLP_HEADERS=x-team=a%20b",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"), more...)
	return &t
}

func TestARunIsATrace(t *testing.T) {
	t.Parallel()
	for _, content := range []bool{false, true} {
		t.Run(fmt.Sprint("content ", content), func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			w := newWorld(t, toy())
			wt := w.traced(c.url, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", fmt.Sprint("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=", content))
			wt.must(0, runToy(w.script(repair))...)
			want := map[string]int{"invoke_workflow goal": 1, "invoke_agent belay": 1, "chat " + filepath.Join(w.dir, "model.yaml"): 4, "execute_tool read_file": 1,
				"execute_tool file_patch": 1, "execute_tool run_test": 1, "execute_tool finish": 1, "belay.verification": 1}
			if got := c.names(); !maps.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			ids := c.got()
			for _, s := range ids {
				a := attrsOf(s.Attributes)
				if s.ParentSpanID != "" && ids[s.ParentSpanID].Name == "" {
					t.Errorf("%s has a parent that never came", s.Name)
				}
				if a["gen_ai.conversation.id"] != w.goal() {
					t.Errorf("%s is of %s", s.Name, a["gen_ai.conversation.id"])
				}
				if strings.HasPrefix(s.Name, "chat ") && (a["gen_ai.operation.name"] != "chat" || a["gen_ai.provider.name"] != "script" || a["gen_ai.usage.input_tokens"] == "0") {
					t.Errorf("%s: %v", s.Name, a)
				}
			}
			if got := strings.Contains(c.text.String(), "repair code.txt"); got != content {
				t.Errorf("the goal's text is told: %v", got)
			}
			if got := strings.Contains(c.text.String(), "broken"); got != content {
				t.Errorf("arguments are told: %v", got)
			}
		})
	}
}

// TestATraceGoesOnAfterAKill: what a killed process had not sent, the next one
// sends, in the same trace, and nothing of what was sent is different.
func TestATraceGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, toy())
	wt := w.traced(c.url)
	g := w.gate()
	model := w.script("steps:\n" + stepRead + stepCommand("cat ../gate") + stepFix + stepTest + stepDone)
	p := wt.start(runToy(model)...)
	g.open(p)
	waitFor(t, "the first spans", func() bool { return c.names()["execute_tool read_file"] == 1 })
	p.kill()
	p.wait()
	c.mu.Lock()
	c.refuse = []int{503}
	c.mu.Unlock()
	g.close()
	server := wt.start("serve", "--listen", "off", "--json")
	server.await("listening")
	waitFor(t, "the whole trace", func() bool { return c.names()["invoke_workflow goal"] == 1 })
	_ = server.cmd.Process.Signal(syscall.SIGTERM)
	server.wait()
	names := c.names()
	if names["invoke_agent belay"] != 2 || names["execute_tool run_command"] != 1 || names["execute_tool read_file"] != 1 {
		t.Errorf("%v", names)
	}
	traces := map[string]bool{}
	for _, s := range c.got() {
		traces[s.TraceID] = true
	}
	if len(traces) != 1 {
		t.Errorf("%d traces for one goal", len(traces))
	}
}

// TestNoGoalWaitsForACollector: one that is not there, one that hangs, one that
// refuses, and one that is named wrongly cost a goal nothing.
func TestNoGoalWaitsForACollector(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refusing.Close()
	for name, url := range map[string]string{"away": "http://127.0.0.1:1", "hung": "http://" + hung.Addr().String(), "refusing": refusing.URL, "wrong": "nonsense"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, toy())
			began := time.Now()
			r := w.traced(url).must(0, runToy(w.script(repair))...)
			if name != "hung" && !strings.Contains(r.err, "traces") {
				t.Errorf("nothing is said: %v", r)
			}
			if strings.Contains(r.err, "a b") {
				t.Errorf("a header is told: %v", r)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("it took %s", took)
			}
		})
	}
}
