package openai

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// Provider is the name of this wire in Info and in the parts it makes.
const Provider = "openai"

// The environment variables and the address of OpenAI itself.
const (
	KeyVar         = "OPENAI_API_KEY"
	BaseVar        = "OPENAI_BASE_URL"
	DefaultBaseURL = "https://api.openai.com/v1"
)

// Config makes a model. Only Name is needed with a server that wants no key.
type Config struct {
	// Name is the model's name as the server knows it.
	Name string
	// Key is the API key; may be empty unless BaseURL is OpenAI's own.
	Key string
	// BaseURL is the address that /chat/completions is added to; "" means
	// DefaultBaseURL.
	BaseURL string
	// Window, MaxOutput and Price are what the catalogue knows, zero if it
	// does not.
	Window, MaxOutput int64
	Price             *model.Price
	// LimitField is the name of the output limit on the wire; "" means
	// max_completion_tokens for OpenAI and Azure, max_tokens for all others.
	LimitField string
	// NoStreamUsage leaves stream_options out, for servers that refuse it. The
	// usage is then not known.
	NoStreamUsage bool
	// NoReasoningBack keeps reasoning from being sent back.
	NoReasoningBack bool
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
	own    bool // OpenAI's own server
}

var (
	_ model.Model  = (*Model)(nil)
	_ model.Bodier = (*Model)(nil)
)

// New makes a model. It asks no server; its errors are *fault.Fault.
func New(cfg Config) (*Model, error) {
	cfg.Key = strings.TrimSpace(cfg.Key)
	cfg.BaseURL = strings.TrimRight(strings.TrimSpace(cfg.BaseURL), "/")
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.Name == "" {
		return nil, fault.New(fault.UnknownModel, fault.User, "openai: no model is named", "give one with --model openai:NAME")
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.BadRequest, fault.User, "openai: "+BaseVar+" is no http or https URL",
			"set it to something like http://localhost:11434/v1, or unset it for OpenAI itself")
	}
	host := strings.ToLower(u.Hostname())
	m := &Model{cfg: cfg, own: host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com")}
	if m.own && cfg.Key == "" {
		return nil, fault.New(fault.BadCredentials, fault.User, "openai: no API key", "set "+KeyVar+", or "+BaseVar+" for another server")
	}
	if m.cfg.LimitField == "" {
		m.cfg.LimitField = "max_tokens"
		if m.own || strings.HasSuffix(host, ".openai.azure.com") {
			m.cfg.LimitField = "max_completion_tokens"
		}
	}
	m.target = wire.Target{Provider: Provider, BaseURL: cfg.BaseURL, Secret: wire.NewSecret(cfg.Key), KeyVar: KeyVar, BaseVar: BaseVar,
		FirstByte: cfg.FirstByte, Idle: cfg.Idle, HTTP: cfg.HTTP}
	m.cfg.Key = "" // only the target holds it from here on
	return m, nil
}

// Info is what is known about the model without asking.
func (m *Model) Info() model.Info {
	return model.Info{Provider: Provider, Name: m.cfg.Name, Window: m.cfg.Window, MaxOutput: m.cfg.MaxOutput,
		Price: m.cfg.Price, CountError: wire.EstimateError}
}

// Count estimates: this protocol has no way to ask.
func (m *Model) Count(_ context.Context, r model.Request) (int64, error) {
	return wire.Estimate(r), nil
}

// Send sends one request.
func (m *Model) Send(ctx context.Context, r model.Request, onDelta func(model.Delta)) (model.Response, error) {
	body, _, err := m.Body(r)
	if err != nil {
		return model.Response{}, err
	}
	header := http.Header{"Accept": {"text/event-stream, application/json"}}
	if key := m.target.Secret.Reveal(); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	if printable(r.ID) {
		header.Set("X-Client-Request-Id", r.ID)
	}
	reply, err := m.target.Post(ctx, "/chat/completions", header, body)
	if err != nil {
		return model.Response{}, err
	}
	defer reply.Close()
	c := newCollector(m.target, r.ID, onDelta)
	if reply.Stream {
		err = c.stream(reply.Body)
	} else {
		err = c.whole(reply.Body)
	}
	if err != nil {
		// What was said before the end is no response, but what it cost is known.
		return model.Response{Model: c.model, Usage: c.usage, UsageKnown: c.usageKnown}, err
	}
	reply.Done()
	return c.response()
}

// reasoningBack reports whether reasoning of a message goes back.
func (m *Model) reasoningBack(parts []event.Part) bool {
	if m.own || m.cfg.NoReasoningBack {
		return false
	}
	for _, p := range parts {
		if p.Kind == event.PartCall {
			return true
		}
	}
	return false
}

// printable reports whether an id can stand in a header.
func printable(id string) bool {
	for i := 0; i < len(id); i++ {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 200
}
