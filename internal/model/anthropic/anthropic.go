package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// Provider is the name of this wire in Info and in the parts it makes.
const Provider = "anthropic"

// The environment variables, the address of Anthropic itself, and the version
// of the protocol.
const (
	KeyVar         = "ANTHROPIC_API_KEY"
	BaseVar        = "ANTHROPIC_BASE_URL"
	DefaultBaseURL = "https://api.anthropic.com"
	Version        = "2023-06-01"
)

// defaultMaxOutput is sent when neither the request nor the catalogue names an
// output limit: the protocol demands one.
const defaultMaxOutput = 8192

// No vocabulary of this provider is public. Its models are reported to need up
// to a third more tokens than OpenAI's for the same text, so the shared
// estimate is raised by that, and what may remain is stated generously.
const (
	estimateRaise = 1.3
	estimateError = 0.25
)

// Config makes a model.
type Config struct {
	// Name is the model's name as the server knows it.
	Name string
	// Key is the API key; may be empty unless BaseURL is Anthropic's own.
	Key string
	// BaseURL is the address that /v1/messages is added to (a final /v1 is not
	// doubled); "" means DefaultBaseURL.
	BaseURL string
	// Window, MaxOutput and Price are what the catalogue knows, zero if it
	// does not.
	Window, MaxOutput int64
	Price             *model.Price
	// Thinking is the protocol's thinking object as it is, e.g.
	// {"type":"adaptive"}; nil leaves the model its own way.
	Thinking json.RawMessage
	// CacheTTL is "" for five minutes or "1h".
	CacheTTL string
	// Beta are names for the anthropic-beta header.
	Beta []string
	// CountEndpoint says that a server other than Anthropic's own counts requests.
	CountEndpoint bool
	// FirstByte and Idle limit silence; 0 means ten and five minutes.
	FirstByte, Idle time.Duration
	// HTTP replaces the shared client.
	HTTP *http.Client
}

// FromEnv fills the key and base URL of a Config from the environment.
func FromEnv(name string, env func(string) string) Config {
	return Config{Name: name, Key: env(KeyVar), BaseURL: env(BaseVar)}
}

// Model is one model behind one address.
type Model struct {
	cfg    Config
	target wire.Target
	own    bool // Anthropic's own server
}

var (
	_ model.Model   = (*Model)(nil)
	_ model.Bodier  = (*Model)(nil)
	_ model.Counter = (*Model)(nil)
)

// New makes a model. It asks no server; its errors are *fault.Fault.
func New(cfg Config) (*Model, error) {
	cfg.Key = strings.TrimSpace(cfg.Key)
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(cfg.BaseURL), "/"), "/v1")
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.Name == "" {
		return nil, fault.New(fault.UnknownModel, fault.User, "anthropic: no model is named", "give one with --model anthropic:NAME")
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.BadRequest, fault.User, "anthropic: "+BaseVar+" is no http or https URL",
			"set it to the address of a server that speaks the Messages protocol, or unset it for Anthropic itself")
	}
	host := strings.ToLower(u.Hostname())
	m := &Model{cfg: cfg, own: host == "api.anthropic.com"}
	if m.own && cfg.Key == "" {
		return nil, fault.New(fault.BadCredentials, fault.User, "anthropic: no API key", "set "+KeyVar+", or "+BaseVar+" for another server")
	}
	m.target = wire.Target{Provider: Provider, BaseURL: cfg.BaseURL, Secret: wire.NewSecret(cfg.Key), KeyVar: KeyVar, BaseVar: BaseVar,
		FirstByte: cfg.FirstByte, Idle: cfg.Idle, HTTP: cfg.HTTP}
	m.cfg.Key = "" // only the target holds it from here on
	return m, nil
}

// Info is what is known about the model without asking.
func (m *Model) Info() model.Info {
	info := model.Info{Provider: Provider, Name: m.cfg.Name, Window: m.cfg.Window, MaxOutput: m.cfg.MaxOutput,
		Price: m.cfg.Price, CountError: estimateError, Counts: m.own || m.cfg.CountEndpoint}
	return info
}

// Count estimates.
func (m *Model) Count(_ context.Context, r model.Request) (int64, error) {
	return int64(float64(wire.Estimate(r))*estimateRaise) + 1, nil
}

// CountExactly asks the server.
func (m *Model) CountExactly(ctx context.Context, r model.Request) (int64, error) {
	body, _, err := m.build(r, true)
	if err != nil {
		return 0, err
	}
	reply, err := m.target.Post(ctx, "/v1/messages/count_tokens", m.header(), body)
	if err != nil {
		return 0, err
	}
	defer reply.Close()
	all, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err
	}
	var n struct {
		Input *int64 `json:"input_tokens"`
	}
	if err := json.Unmarshal(all, &n); err != nil || n.Input == nil {
		return 0, m.target.Malformed("the token count cannot be read: %.200q", all)
	}
	return *n.Input, nil
}

// Body returns the exact bytes of a request. The stable part ends before the
// first cache breakpoint among the messages.
func (m *Model) Body(r model.Request) ([]byte, int, error) { return m.build(r, false) }

func (m *Model) header() http.Header {
	h := http.Header{"Anthropic-Version": {Version}, "Accept": {"text/event-stream, application/json"}}
	if key := m.target.Secret.Reveal(); key != "" {
		h.Set("X-Api-Key", key)
	}
	if len(m.cfg.Beta) > 0 {
		h.Set("Anthropic-Beta", strings.Join(m.cfg.Beta, ","))
	}
	return h
}

// Send sends one request.
func (m *Model) Send(ctx context.Context, r model.Request, onDelta func(model.Delta)) (model.Response, error) {
	body, _, err := m.Body(r)
	if err != nil {
		return model.Response{}, err
	}
	reply, err := m.target.Post(ctx, "/v1/messages", m.header(), body)
	if err != nil {
		return model.Response{}, err
	}
	defer reply.Close()
	c := &collector{target: m.target, own: m.own, onDelta: onDelta}
	if onDelta == nil {
		c.onDelta = func(model.Delta) {}
	}
	if reply.Stream {
		err = c.stream(reply.Body)
	} else {
		err = c.whole(reply.Body)
	}
	if err != nil {
		// What was said before the end is no response, but what it cost is known.
		return model.Response{Model: c.model, Usage: c.usage.port(), UsageKnown: c.usageKnown}, err
	}
	reply.Done()
	return c.response(r.ID)
}

// isStream reports whether a body is a stream that was not announced as one.
func isStream(body []byte) bool {
	t := bytes.TrimLeft(body, "\r\n \xef\xbb\xbf")
	return bytes.HasPrefix(t, []byte("event:")) || bytes.HasPrefix(t, []byte("data:")) || bytes.HasPrefix(t, []byte(":"))
}
