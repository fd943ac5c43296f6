// Package embed asks an OpenAI-compatible endpoint for vectors. Nothing here is
// used unless the user has named an embedder; then the texts that are searched are
// sent there.
package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"belay/internal/fault"
	"belay/internal/recall"
)

const (
	// maxReply bounds an answer, timeout the whole exchange.
	maxReply = 64 << 20
	timeout  = 30 * time.Second
	// maxDimensions is more than any model has.
	maxDimensions = 16384
)

// Config names an embedder.
type Config struct {
	// Model is as the endpoint calls it.
	Model string
	// BaseURL is what /embeddings is added to; "" means OpenAI's.
	BaseURL string
	// Key is sent as a bearer token; "" sends none.
	Key string
	// HTTP is the client; nil means one of our own.
	HTTP *http.Client
}

// Embedder is one model at one endpoint.
type Embedder struct {
	c   Config
	url string
}

var _ recall.Embedder = (*Embedder)(nil)

// New checks the configuration; nothing is sent yet.
func New(c Config) (*Embedder, error) {
	if c.BaseURL == "" {
		c.BaseURL = "https://api.openai.com/v1"
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.InvalidArguments, fault.User, fmt.Sprintf("the embedder's address %q is no URL", c.BaseURL), "give it as https://HOST/v1")
	}
	if c.Model == "" {
		return nil, fault.New(fault.InvalidArguments, fault.User, "the embedder has no model", "name it as openai:NAME")
	}
	if c.HTTP == nil {
		tr := http.DefaultTransport.(*http.Transport).Clone()
		c.HTTP = &http.Client{Transport: tr, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Embedder{c: c, url: strings.TrimSuffix(c.BaseURL, "/") + "/embeddings"}, nil
}

// Name implements recall.Embedder: vectors of another address are others too.
func (e *Embedder) Name() string { return e.c.Model + " at " + e.c.BaseURL }

// Embed implements recall.Embedder.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{"model": e.c.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.c.Key)
	}
	resp, err := e.c.HTTP.Do(req)
	if err != nil {
		return nil, e.fault(fault.Network, "cannot be reached: "+e.scrub(err.Error()))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, e.fault(fault.Network, "broke off: "+e.scrub(err.Error()))
	}
	if resp.StatusCode != http.StatusOK {
		return nil, e.fault(fault.Network, fmt.Sprintf("answered %d: %s", resp.StatusCode, e.scrub(recall.Shorten(strings.Join(strings.Fields(string(b)), " "), 300))))
	}
	return e.read(b, len(texts))
}

// read takes the vectors out of an answer, each at the place of its text.
func (e *Embedder) read(b []byte, n int) ([][]float32, error) {
	var reply struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		return nil, e.fault(fault.Network, "answered what is no list of vectors")
	}
	out := make([][]float32, n)
	for _, d := range reply.Data {
		if d.Index < 0 || d.Index >= n || out[d.Index] != nil || len(d.Embedding) == 0 || len(d.Embedding) > maxDimensions {
			return nil, e.fault(fault.Network, "answered with vectors that do not fit the texts")
		}
		for _, f := range d.Embedding {
			if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
				return nil, e.fault(fault.Network, "answered with numbers that are none")
			}
		}
		out[d.Index] = d.Embedding
	}
	for _, v := range out {
		if v == nil {
			return nil, e.fault(fault.Network, fmt.Sprintf("answered with %d vectors for %d texts", len(reply.Data), n))
		}
	}
	return out, nil
}

// scrub takes the key out of a text.
func (e *Embedder) scrub(s string) string {
	if len(e.c.Key) < 4 {
		return s
	}
	return strings.ReplaceAll(s, e.c.Key, "[key]")
}

func (e *Embedder) fault(kind fault.Kind, what string) error {
	return fault.New(kind, fault.Provider, "the embedder "+e.Name()+" "+what, "check --embeddings, BELAY_EMBEDDINGS_URL and BELAY_EMBEDDINGS_KEY, or search without an embedder")
}
