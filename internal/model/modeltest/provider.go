package modeltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"belay/internal/fault"
	"belay/internal/model"
)

// Request is one request as the provider understood it.
type Request struct {
	// Number counts the requests of this provider from 1.
	Number int
	// Wire is "openai" or "anthropic".
	Wire   string
	Path   string
	Header http.Header
	Body   []byte
	// Neutral is the request translated back. The live state is the tail of
	// its last message. It is incomplete when Invalid is not "".
	Neutral model.Request
	// Model is the name that was asked for.
	Model string
	// Invalid says why the real API would answer 400.
	Invalid string
	stream  bool
	ctx     context.Context // ends when the client goes away
}

// Dialect is how a server speaks the OpenAI wire; the zero value is OpenAI's
// own way.
type Dialect struct {
	WholeCalls   bool // each call in one chunk
	NoIndex      bool // calls carry no index
	ZeroIndex    bool // every call has index 0
	NoID         bool // calls carry no id
	RepeatID     bool // every chunk of a call repeats id and name
	ObjectArgs   bool // arguments are an object (with WholeCalls)
	NoUsage      bool
	InlineUsage  bool // usage in every chunk instead of one of its own
	NoDone       bool
	StopForCalls bool // finish_reason "stop" after calls
	Reasoning    bool // thinking in "reasoning" instead of "reasoning_content"
}

// Answer is what the provider does with one request. The zero value of the
// unreliable parts is a reliable provider.
type Answer struct {
	Response model.Response
	// Fault answers with the status and the error object of the fault's kind.
	Fault *fault.Fault
	// Status, with Header and Body, answers with exactly this.
	Status int
	Header http.Header
	Body   string
	// Whole answers with one JSON object although a stream was asked for.
	Whole bool
	// Seed, if not 0, splits text into random deltas and the stream into
	// random chunks, in the middle of anything.
	Seed uint64
	// CutAfter, if over 0, ends the stream after that many bytes: cleanly, or
	// with a reset of the connection. CutShare does so after this share of it.
	CutAfter int
	CutShare float64
	Reset    bool
	// StallAfter, if over 0, says nothing more after that many bytes, until
	// the client gives up. StallHeaders does not even send headers.
	StallAfter   int
	StallHeaders bool
	// Garbage, if not "", is written as an event before the n-th event
	// (GarbageAt, from 0).
	Garbage   string
	GarbageAt int
	// LineEnd replaces the line ends of the stream.
	LineEnd string
	// ErrorInStream, if not "", ends the stream in an error event of this type.
	ErrorInStream string
	Dialect       Dialect
	// Delay is waited before anything is sent.
	Delay time.Duration
}

// Provider is an HTTP server that speaks POST /v1/chat/completions,
// POST /v1/messages and POST /v1/messages/count_tokens.
type Provider struct {
	server *httptest.Server
	answer func(Request) Answer
	closed chan struct{}
	// Key, if not "", is the key that requests must carry; others get 401.
	Key string
	// MaxBody, if over 0, is the size above which requests get 413.
	MaxBody int

	mu       sync.Mutex
	requests []Request
}

// New starts a provider; Close ends it. A request that the real API would
// refuse is answered with 400 and never reaches answer.
func New(answer func(Request) Answer) *Provider {
	p := &Provider{answer: answer, closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, openAI{}) })
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, messages{}) })
	mux.HandleFunc("POST /v1/messages/count_tokens", p.count)
	p.server = httptest.NewServer(mux)
	return p
}

// Play makes answers of what a model says: usually a script's. Its faults
// become HTTP errors, a fault of kind stream_cut a cut stream.
func Play(m model.Model) func(Request) Answer {
	return func(r Request) Answer {
		resp, err := m.Send(r.ctx, r.Neutral, nil)
		var f *fault.Fault
		switch {
		case err == nil:
			return Answer{Response: resp}
		case errors.As(err, &f) && f.Kind == fault.StreamCut:
			resp.Parts = textParts("half of what was to be said")
			return Answer{Response: resp, CutShare: 0.6}
		case errors.As(err, &f):
			return Answer{Fault: f}
		}
		return Answer{Fault: fault.New(fault.ServerError, fault.Provider, err.Error(), "")}
	}
}

// Sequence answers the n-th request with the n-th answer, and all after the
// last with the last.
func Sequence(answers ...Answer) func(Request) Answer {
	return func(r Request) Answer { return answers[min(r.Number, len(answers))-1] }
}

// OpenAIBase and AnthropicBase are the values for OPENAI_BASE_URL and
// ANTHROPIC_BASE_URL.
func (p *Provider) OpenAIBase() string { return p.server.URL + "/v1" }

// AnthropicBase is the value for ANTHROPIC_BASE_URL.
func (p *Provider) AnthropicBase() string { return p.server.URL }

// Requests are all requests so far, also those that were refused.
func (p *Provider) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.requests...)
}

// Close ends the server and every connection.
func (p *Provider) Close() {
	close(p.closed)
	p.server.CloseClientConnections()
	p.server.Close()
}

// protocol is what differs between the two wires.
type protocol interface {
	name() string
	authorized(h http.Header, key string) bool
	// decode reads and checks a request.
	decode(r *Request) error
	// events is the stream, one element an event, terminal ones included.
	events(r Request, a Answer, rng *rand.Rand) []string
	whole(r Request, a Answer) string
	errorObject(kind fault.Kind, status int, message string) string
	errorEvent(kind string) string
}

// Refused says why the real API would answer 400 to a request with this body,
// nil if it would not. The wire is "openai" or "anthropic".
func Refused(wire string, body []byte) error {
	r := Request{Wire: wire, Body: body, Header: http.Header{"Anthropic-Version": {"2023-06-01"}}}
	if wire == (openAI{}).name() {
		return openAI{}.decode(&r)
	}
	return messages{}.decode(&r)
}

func (p *Provider) record(w http.ResponseWriter, r *http.Request, proto protocol) (Request, bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Request{}, false
	}
	req := Request{Wire: proto.name(), Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	if err := proto.decode(&req); err != nil {
		req.Invalid = err.Error()
	}
	p.mu.Lock()
	req.Number = len(p.requests) + 1
	p.requests = append(p.requests, req)
	p.mu.Unlock()
	req.ctx = r.Context()
	refuse := func(status int, kind fault.Kind, message string) (Request, bool) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, proto.errorObject(kind, status, message))
		return req, false
	}
	switch {
	case p.Key != "" && !proto.authorized(r.Header, p.Key):
		return refuse(http.StatusUnauthorized, fault.BadCredentials, "Incorrect API key provided")
	case p.MaxBody > 0 && len(body) > p.MaxBody:
		return refuse(http.StatusRequestEntityTooLarge, fault.ContextOverflow, "Request exceeds the maximum size")
	case req.Invalid != "":
		return refuse(http.StatusBadRequest, fault.BadRequest, req.Invalid)
	}
	return req, true
}

func (p *Provider) count(w http.ResponseWriter, r *http.Request) {
	if req, ok := p.record(w, r, messages{counting: true}); ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"input_tokens":%d}`, len(req.Body)/4)
	}
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request, proto protocol) {
	req, ok := p.record(w, r, proto)
	if !ok {
		return
	}
	a := p.answer(req)
	if a.Delay > 0 || a.StallHeaders {
		d := a.Delay
		if a.StallHeaders {
			d = time.Hour
		}
		if !p.sleep(r, d) || a.StallHeaders {
			return
		}
	}
	if a.Fault != nil {
		a.Status = statusOf(a.Fault.Kind)
		a.Body = proto.errorObject(a.Fault.Kind, a.Status, a.Fault.Message)
		if ms := a.Fault.RetryAfterMS; ms > 0 {
			a.Header = http.Header{"Retry-After-Ms": {strconv.FormatInt(ms, 10)}, "Retry-After": {strconv.FormatInt((ms+999)/1000, 10)}}
		}
	}
	for k, v := range a.Header {
		w.Header()[k] = v
	}
	if a.Status != 0 {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body)
		return
	}
	var body []byte
	if a.Whole || !req.stream {
		w.Header().Set("Content-Type", "application/json")
		body = []byte(proto.whole(req, a))
	} else {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		body = streamBytes(req, a, proto)
	}
	p.write(w, r, body, a)
}

func streamBytes(req Request, a Answer, proto protocol) []byte {
	rng := rand.New(rand.NewPCG(a.Seed, 7))
	events := proto.events(req, a, rng)
	if a.ErrorInStream != "" {
		events = append(events[:len(events)/2], proto.errorEvent(a.ErrorInStream))
	}
	var b bytes.Buffer
	for i, e := range events {
		if a.Garbage != "" && i == a.GarbageAt {
			b.WriteString("data: " + a.Garbage + "\n\n")
		}
		b.WriteString(e)
	}
	if a.LineEnd != "" {
		return []byte(strings.ReplaceAll(b.String(), "\n", a.LineEnd))
	}
	return b.Bytes()
}

// write sends the body in chunks and does what the answer wants to go wrong.
func (p *Provider) write(w http.ResponseWriter, r *http.Request, body []byte, a Answer) {
	end, stall := len(body), false
	if a.CutShare > 0 {
		a.CutAfter = max(1, int(float64(len(body))*a.CutShare))
	}
	if a.CutAfter > 0 {
		end = min(end, a.CutAfter)
	}
	if a.StallAfter > 0 && a.StallAfter < end {
		end, stall = a.StallAfter, true
	}
	rng := rand.New(rand.NewPCG(a.Seed, 9))
	flush := http.NewResponseController(w)
	for rest := body[:end]; len(rest) > 0; {
		n := len(rest)
		if a.Seed != 0 {
			n = 1 + rng.IntN(min(n, 64))
		}
		if _, err := w.Write(rest[:n]); err != nil {
			return
		}
		_ = flush.Flush()
		rest = rest[n:]
	}
	_ = flush.Flush()
	if stall {
		p.sleep(r, time.Hour)
		return
	}
	if a.Reset && end < len(body) {
		conn, _, err := flush.Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// sleep waits and reports whether the client is still there.
func (p *Provider) sleep(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-p.closed:
	}
	return false
}

// statusOf is the status that providers use for a kind of fault.
func statusOf(k fault.Kind) int {
	switch k {
	case fault.Overloaded:
		return 529
	case fault.RateLimited:
		return http.StatusTooManyRequests
	case fault.Timeout:
		return http.StatusRequestTimeout
	case fault.ContextOverflow:
		return http.StatusBadRequest
	case fault.BadCredentials:
		return http.StatusUnauthorized
	case fault.BadRequest, fault.Refused:
		return http.StatusBadRequest
	case fault.UnknownModel:
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}
