package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"belay/client"
	"belay/internal/token"
)

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

// guarded refuses what must not come this far: a name that is not ours (a page
// that made its own name point here), a request sent by another site's page.
// It sets the headers that every answer has.
func (a *API) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, wait: a.Limits.WriteTime}
		defer func() {
			a.metrics.request(r.Pattern, rec.status)
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler {
					panic(v)
				}
				a.Log.Printf("%s %s: panic: %v", r.Method, r.URL.Path, v)
				if rec.status == 0 {
					a.problem(rec, r, errors.New("belay made an error; nothing recorded is lost"))
				}
			}
		}()
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		if err := a.fromHere(r); err != nil {
			a.problem(rec, r, err)
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// fromHere checks Host and Origin.
func (a *API) fromHere(r *http.Request) error {
	if !a.hosts[hostname(r.Host)] {
		return &client.Problem{Title: "The server is not known by this name", Status: http.StatusMisdirectedRequest, Code: "host",
			Detail: "call it by the name it listens on, or start it with --host NAME"}
	}
	foreign := &client.Problem{Title: "Requests of other sites are refused", Status: http.StatusForbidden, Code: "origin",
		Detail: "the API answers its own console, and programs"}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		// A link or a bookmark may open the console itself.
		if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" || strings.HasPrefix(r.URL.Path, "/v1/") {
			return foreign
		}
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	if !strings.EqualFold(origin, scheme+r.Host) {
		return foreign
	}
	return nil
}

// hostname is a Host header without its port, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

type localKey struct{}

// AsOwner marks connections that only the owner of the state directory can
// make: they need no token, because the owner could read the ledger itself.
func AsOwner(ctx context.Context) context.Context { return context.WithValue(ctx, localKey{}, true) }

// who finds the caller's token. Nothing is accepted that a browser would send
// by itself.
func (a *API) who(r *http.Request) (token.Token, error) {
	if r.Context().Value(localKey{}) != nil {
		return token.Token{ID: "local", Name: "local socket", Scope: token.Operate}, nil
	}
	addr, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		addr = r.RemoteAddr
	}
	none := &client.Problem{Title: "A token is needed", Status: http.StatusUnauthorized, Code: "token",
		Detail: "send Authorization: Bearer TOKEN; belay token new makes one"}
	kind, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(kind, "Bearer") {
		return token.Token{}, a.failed(addr, none)
	}
	t, err := a.Check(strings.TrimSpace(secret))
	if errors.Is(err, token.ErrUnknown) {
		none.Title, none.Detail = "The token is not known", "it is wrong, was revoked, or has expired; belay token list"
		return t, a.failed(addr, none)
	}
	if err != nil {
		return t, err
	}
	if !a.limiter.take("token "+t.ID, a.Limits.Rate, a.Limits.Burst) {
		return t, tooMany()
	}
	return t, nil
}

// failed counts a failure to show a token: whoever fails often is answered
// less and less.
func (a *API) failed(addr string, err error) error {
	if !a.limiter.take("addr "+addr, a.Limits.FailRate, a.Limits.FailBurst) {
		return tooMany()
	}
	return err
}

func tooMany() error {
	return &client.Problem{Title: "Too many requests", Status: http.StatusTooManyRequests, Code: "rate", Retryable: true,
		Detail: "wait a moment; a stream tells of changes without asking"}
}

// limiter is a set of token buckets. It is bounded: when it is full, buckets
// that have long been full again are forgotten.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

const maxBuckets = 4096

func newLimiter() *limiter { return &limiter{buckets: map[string]*bucket{}} }

func (l *limiter) take(who string, rate, burst float64) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[who]
	if b == nil {
		if len(l.buckets) >= maxBuckets {
			l.forget(now)
		}
		b = &bucket{left: burst, at: now}
		l.buckets[who] = b
	}
	b.left = min(burst, b.left+rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (l *limiter) forget(now time.Time) {
	for who, b := range l.buckets {
		if now.Sub(b.at) > time.Minute {
			delete(l.buckets, who)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets) // better lenient for a moment than without bound
	}
}

// recorder remembers the status and gives every write its own deadline: a
// reader that takes nothing in is let go.
type recorder struct {
	http.ResponseWriter
	status int
	wait   time.Duration
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(r.wait))
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what is beneath.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
