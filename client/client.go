package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Client calls one server.
type Client struct {
	// URL is http://host:port, without a path.
	URL string
	// Token is the bearer token; a unix socket needs none.
	Token string
	// HTTP is the client to use; nil takes the default one.
	HTTP *http.Client
}

// Unix returns a client that calls over the socket of belay serve.
func Unix(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{URL: "http://localhost", HTTP: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

type keyed struct{}

// WithKey makes the command that is called with the context one that can be
// sent again under the same key without being done again.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyed{}, key)
}

// Do sends one request and returns the answer, whose body the caller closes. An
// error of the server is a *Problem.
func (c *Client) Do(ctx context.Context, method, path string, in any, more http.Header) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range more {
		r.Header[k] = v
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if key, ok := ctx.Value(keyed{}).(string); ok {
		r.Header.Set("Idempotency-Key", key)
	}
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	answer, err := h.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 400 {
		return answer, nil
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	p := &Problem{Status: answer.StatusCode, Title: answer.Status}
	if err := json.Unmarshal(b, p); err != nil {
		p.Detail = strings.TrimSpace(string(b))
	}
	return nil, p
}

// Call sends one request and reads its answer, for what has no method of its own.
func Call[Out any](ctx context.Context, c *Client, method, path string, in any) (out Out, err error) {
	answer, err := c.Do(ctx, method, path, in, nil)
	if err != nil {
		return out, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("the server's answer to %s %s cannot be read: %w", method, path, err)
	}
	return out, nil
}

func goalPath(goal string, more ...string) string {
	p := "/v1/goals/" + url.PathEscape(goal)
	for _, m := range more {
		p += "/" + url.PathEscape(m)
	}
	return p
}

// Message is one server-sent event.
type Message struct {
	Name string
	// ID is the seq, 0 where the event has none.
	ID   uint64
	Data json.RawMessage
}

// Follow streams a goal's events after a seq, view "events" or "timeline",
// until the context or the connection ends; the next call goes on from the last
// ID.
func (c *Client) Follow(ctx context.Context, goal, view string, after uint64) iter.Seq2[Message, error] {
	return c.stream(ctx, goalPath(goal, "stream")+"?view="+url.QueryEscape(view), after)
}

// FollowOutput streams what a running command prints.
func (c *Client) FollowOutput(ctx context.Context, goal, op string) iter.Seq2[Message, error] {
	return c.stream(ctx, goalPath(goal, "operations", op, "stream"), 0)
}

// Watch streams the list of goals.
func (c *Client) Watch(ctx context.Context) iter.Seq2[Message, error] {
	return c.stream(ctx, "/v1/stream", 0)
}

func (c *Client) stream(ctx context.Context, path string, after uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		h := http.Header{"Accept": {"text/event-stream"}}
		if after > 0 {
			h.Set("Last-Event-ID", strconv.FormatUint(after, 10))
		}
		answer, err := c.Do(ctx, http.MethodGet, path, nil, h)
		if err != nil {
			if ctx.Err() == nil {
				yield(Message{}, err)
			}
			return
		}
		defer answer.Body.Close()
		r := bufio.NewReader(answer.Body)
		for {
			m, err := readMessage(r)
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, io.EOF) {
					yield(Message{}, err)
				}
				return
			}
			if m.Name != "" && !yield(m, nil) {
				return
			}
		}
	}
}

// readMessage reads up to an empty line; a comment alone has no name.
func readMessage(r *bufio.Reader) (Message, error) {
	var m Message
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return m, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			return m, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			m.Name = value
		case "id":
			if m.ID, err = strconv.ParseUint(value, 10, 64); err != nil {
				return m, fmt.Errorf("the stream has an id that is no seq: %q", value)
			}
		case "data":
			m.Data = append(m.Data, value...)
		}
	}
}
