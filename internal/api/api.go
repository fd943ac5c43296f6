// Package api is the HTTP face: the use cases of the service as JSON under the
// snapshot's names, event streams that resume by sequence, and the guards that
// a listening program needs. Everything it serves is one row of one table, from
// which the handler, the OpenAPI document and the limits are made.
//
// It decides nothing about a goal, and must not know how a page shows one.
package api

import (
	"context"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"belay/client"
	"belay/internal/service"
	"belay/internal/token"
)

// Config is what the API is made of.
type Config struct {
	Service *service.Service
	// Check finds the token of a secret.
	Check func(secret string) (token.Token, error)
	// Doctor looks at the machine.
	Doctor func(ctx context.Context) []client.Finding
	// Console, if set, serves everything that is not the API's own.
	Console http.Handler
	// Hosts are the names, beyond those of this machine's loopback, under which
	// the server may be called.
	Hosts []string
	// Model and Sandbox are what a goal gets that names none.
	Model, Sandbox string
	Version        client.Version
	// Redact takes secrets out of error texts; nil leaves them.
	Redact func(string) string
	Limits Limits
	// Log is told what nobody else would be.
	Log *log.Logger
}

// Limits bound what callers can cost. Zero values mean the defaults.
type Limits struct {
	// Body is the most bytes of a request's body.
	Body int64
	// Rate and Burst are the requests a second of one token, on average and at
	// once; FailRate and FailBurst those of one address that names no good one.
	Rate, Burst, FailRate, FailBurst float64
	// Streams is how many event streams may be open at a time.
	Streams int64
	// HeaderTime and BodyTime are how long a request's head and its body may
	// take to come, WriteTime how long one write may wait for a reader.
	HeaderTime, BodyTime, WriteTime time.Duration
	// Beat is how often an idle stream says that it is alive, and looks whether
	// its token still holds.
	Beat time.Duration
	// Poll is how often the list of goals is looked at while it is watched.
	Poll time.Duration
}

func (l Limits) orDefaults() Limits {
	set(&l.Body, 1<<20)
	set(&l.Rate, 50)
	set(&l.Burst, 200)
	set(&l.FailRate, 1)
	set(&l.FailBurst, 20)
	set(&l.Streams, 512)
	set(&l.HeaderTime, 10*time.Second)
	set(&l.BodyTime, 15*time.Second)
	set(&l.WriteTime, 20*time.Second)
	set(&l.Beat, 10*time.Second)
	set(&l.Poll, 500*time.Millisecond)
	return l
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// API is the handler.
type API struct {
	Config
	mux      *http.ServeMux
	hosts    map[string]bool
	board    *board
	limiter  *limiter
	metrics  *metrics
	streams  atomic.Int64
	draining atomic.Bool
	document []byte
}

// New makes the handler.
func New(c Config) (*API, error) {
	c.Limits = c.Limits.orDefaults()
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	if c.Log == nil {
		c.Log = log.New(discard{}, "", 0)
	}
	a := &API{Config: c, mux: http.NewServeMux(), hosts: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true},
		limiter: newLimiter(), metrics: newMetrics()}
	for _, h := range c.Hosts {
		a.hosts[strings.ToLower(h)] = true
	}
	a.board = newBoard(c.Service, c.Limits.Poll)
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	a.document = doc
	for _, r := range routes() {
		a.mux.Handle(r.method+" "+r.path, a.serve(r))
	}
	a.mux.Handle("/v1/", a.guarded(http.HandlerFunc(a.noRoute)))
	if c.Console != nil {
		a.mux.Handle("/", a.guarded(c.Console))
	}
	return a, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Drain makes readiness fail and ends every stream, so that a server can stop
// without waiting for its watchers.
func (a *API) Drain() {
	if a.draining.CompareAndSwap(false, true) {
		a.board.stop()
	}
}

func (a *API) noRoute(w http.ResponseWriter, r *http.Request) {
	a.problem(w, r, &client.Problem{Title: "There is nothing under this address", Status: http.StatusNotFound, Code: "no_route",
		Detail: r.Method + " " + r.URL.Path + " is not served; /v1/openapi.json lists what is"})
}
