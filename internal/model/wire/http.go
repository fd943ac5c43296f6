package wire

import (
	"belay/internal/lazyre"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"belay/internal/fault"
)

// The limits on silence when a Target names none.
const (
	DefaultFirstByte = 10 * time.Minute
	DefaultIdle      = 5 * time.Minute
)

// maxReply bounds a whole reply: the most that any model writes is far below.
const maxReply = 256 << 20

// Target is where requests go and what its faults tell the user to check.
type Target struct {
	Provider string // "openai", "anthropic"
	BaseURL  string
	// Secret is the key. It is known here only so that texts can be scrubbed
	// of it.
	Secret Secret
	// KeyVar and BaseVar are the environment variables of the key and the
	// base URL.
	KeyVar, BaseVar string
	// FirstByte limits the wait for the first byte of the reply, Idle the
	// silence after it; 0 means the defaults, less than 0 no limit.
	FirstByte, Idle time.Duration
	// HTTP is the client; nil means one that honours the proxy of the
	// environment and reuses connections.
	HTTP *http.Client
}

// Secret is a key that formatting and encoding never show, not even as a field
// of something else: fmt follows no pointer below the first level.
type Secret struct{ key *string }

// NewSecret hides a key.
func NewSecret(key string) Secret { return Secret{&key} }

// Reveal returns the key, "" if there is none.
func (s Secret) Reveal() string {
	if s.key == nil {
		return ""
	}
	return *s.key
}

// String hides the key.
func (Secret) String() string { return "[key]" }

// GoString hides the key from %#v.
func (Secret) GoString() string { return "[key]" }

// MarshalText hides the key from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("[key]"), nil }

var shared = NewHTTPClient()

// NewHTTPClient makes a client for model requests: proxy from the environment,
// HTTP/2, connection reuse, no redirects, no transparent compression (which
// would hold a stream back), no limit on the whole exchange.
func NewHTTPClient() *http.Client {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.DisableCompression = true
	tr.ResponseHeaderTimeout = 0
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Reply is a reply that arrives. Body reads end with a *fault.Fault in the
// chain of any error but io.EOF.
type Reply struct {
	Header http.Header
	Body   io.Reader
	// Stream says that the body is a stream of server-sent events.
	Stream bool
	close  func()
	drain  func()
}

// Close ends the exchange. A connection whose reply was not read to its end
// is not used again.
func (r *Reply) Close() { r.close() }

// drainTime and drainBytes bound what Done waits for.
const (
	drainTime  = 20 * time.Millisecond
	drainBytes = 16 << 10
)

// Done reads the little that may follow the end mark of a protocol, so that
// the connection can be used again, and ends the exchange.
func (r *Reply) Done() {
	r.drain()
	r.close()
}

var errSilent = errors.New("silent for too long")

// Post sends one request and returns the reply once the server accepted it.
// Every error has a *fault.Fault in its chain.
func (t Target) Post(ctx context.Context, path string, header http.Header, body []byte) (*Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	guard := &silence{cancel: cancel, first: limit(t.FirstByte, DefaultFirstByte), idle: limit(t.Idle, DefaultIdle)}
	guard.start(guard.first)
	closeAll := func() { guard.stop(); cancel(nil) }

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		closeAll()
		return nil, fault.New(fault.BadRequest, fault.User, fmt.Sprintf("%s: %s is no usable address", t.Provider, t.BaseVar),
			"set "+t.BaseVar+" to an http or https URL")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	client := t.HTTP
	if client == nil {
		client = shared
	}
	resp, err := client.Do(req)
	if err != nil {
		defer closeAll()
		return nil, t.transportError(ctx, err, false)
	}
	closeAll = func() { guard.stop(); cancel(nil); resp.Body.Close() }
	if resp.StatusCode != http.StatusOK {
		defer closeAll()
		f := ReadFailure(resp)
		return nil, t.Classify(f)
	}
	media := strings.ToLower(resp.Header.Get("Content-Type"))
	if strings.Contains(media, "text/html") {
		defer closeAll()
		head, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, t.Malformed("the server answered with a web page: %.200s", plainText(string(head)))
	}
	guarded := &guardedBody{target: t, ctx: ctx, body: resp.Body, guard: guard, left: maxReply}
	drain := func() {
		guard.stop()
		guard.start(drainTime)
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	return &Reply{Header: resp.Header, Body: guarded, close: closeAll, drain: drain,
		Stream: strings.Contains(media, "event-stream")}, nil
}

func limit(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// silence ends an exchange when no byte arrives in time.
type silence struct {
	cancel      context.CancelCauseFunc
	timer       *time.Timer
	first, idle time.Duration
}

func (s *silence) start(d time.Duration) {
	switch {
	case d <= 0:
	case s.timer == nil:
		s.timer = time.AfterFunc(d, func() { s.cancel(errSilent) })
	default:
		s.timer.Reset(d)
	}
}

func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

type guardedBody struct {
	target Target
	ctx    context.Context
	body   io.Reader
	guard  *silence
	began  bool
	left   int64
}

func (g *guardedBody) Read(p []byte) (int, error) {
	n, err := g.body.Read(p)
	if n > 0 {
		g.guard.stop()
		if g.left -= int64(n); g.left < 0 {
			return 0, g.target.Malformed("the reply is longer than %d bytes", maxReply)
		}
		g.began = true
		g.guard.start(g.guard.idle)
	}
	if err != nil && err != io.EOF {
		err = g.target.transportError(g.ctx, err, true)
	}
	return n, err
}

// transportError sorts what went wrong below HTTP. began says that the reply
// had begun.
func (t Target) transportError(ctx context.Context, err error, began bool) error {
	cause := context.Cause(ctx)
	// The URL that net/http puts around its errors may hold secrets.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var f *fault.Fault
	var op *net.OpError
	var netErr net.Error
	var unknownCA x509.UnknownAuthorityError
	var badHost x509.HostnameError
	var badCert *tls.CertificateVerificationError
	switch {
	case errors.Is(cause, errSilent):
		f = fault.New(fault.Timeout, fault.Provider, fmt.Sprintf("%s: %s was silent for too long", t.Provider, t.host()),
			"ask again; if it stays silent, another --model may answer").Retry()
		return f
	case errors.Is(cause, context.DeadlineExceeded):
		f = fault.New(fault.Timeout, fault.Runtime, t.Provider+": the time for this request is over", "ask again with more time").Retry()
		return fmt.Errorf("%w: %w", f, cause)
	case cause != nil:
		f = fault.New(fault.Cancelled, fault.User, t.Provider+": the request was cancelled", "")
		return fmt.Errorf("%w: %w: %w", f, ctx.Err(), cause)
	case errors.As(err, &unknownCA), errors.As(err, &badHost), errors.As(err, &badCert):
		f = fault.New(fault.Network, fault.Environment, t.Scrub(fmt.Sprintf("%s: the certificate of %s is not trusted: %v", t.Provider, t.host(), err)),
			"check "+t.BaseVar+", the system clock and the certificate authorities of this machine")
		return f
	case began:
		return t.Cut(err)
	case errors.As(err, &netErr) && netErr.Timeout():
		f = fault.New(fault.Timeout, fault.Environment, t.Scrub(fmt.Sprintf("%s: no connection to %s in time: %v", t.Provider, t.host(), err)),
			"check the network and "+t.BaseVar).Retry()
		return f
	case errors.As(err, &op) && op.Op == "dial":
		f = fault.New(fault.Network, fault.Environment, t.Scrub(fmt.Sprintf("%s: cannot connect to %s: %v", t.Provider, t.host(), err)),
			"check the network, the proxy settings and "+t.BaseVar+"; for a local server, that it runs").Retry()
		return f
	}
	return fault.New(fault.Network, fault.Environment, t.Scrub(fmt.Sprintf("%s: the connection to %s failed: %v", t.Provider, t.host(), err)),
		"ask again; if it stays, check the network and "+t.BaseVar).Retry()
}

// host names the server without anything secret that the URL may hold.
func (t Target) host() string {
	u, err := url.Parse(t.BaseURL)
	if err != nil || u.Host == "" {
		return "the server"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

var keyLike = lazyre.New(`\b(sk|pk|key|org|gsk|xai)-[A-Za-z0-9_*.-]{8,}|Bearer [A-Za-z0-9_*./+=-]{8,}`)

// Scrub takes the key, and whatever looks like one, out of a text, and bounds
// its length.
func (t Target) Scrub(s string) string {
	if key := t.Secret.Reveal(); len(key) >= 4 {
		s = strings.ReplaceAll(s, key, "[key]")
	}
	s = keyLike.ReplaceAllString(s, "[key]")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
