package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"belay/client"
	"belay/internal/service"
	"belay/internal/token"
)

// route is one thing that the API serves: the table's row.
type route struct {
	method, path string
	// scope is what the caller's token must allow; "" serves everybody.
	scope   token.Scope
	summary string
	query   []query
	in, out reflect.Type
	status  int
	// media is the type of an answer that is not JSON.
	media string
	// commands carry an idempotency key.
	command bool
	handle  func(*call) error
}

// query is a parameter after the question mark.
type query struct {
	name, kind, what string // kind: string, integer or array
}

// call is one request on its way.
type call struct {
	*API
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	token token.Token
	key   *service.Key
	route *route
	// goal is the whole id, where the path names a goal.
	goal string
}

// ask is a row that answers with JSON.
func ask[Out any](path string, scope token.Scope, summary string, f func(*call) (Out, error), q ...query) route {
	return route{method: http.MethodGet, path: path, scope: scope, summary: summary, query: q, out: reflect.TypeFor[Out](),
		status: http.StatusOK, handle: func(c *call) error {
			out, err := f(c)
			if err != nil {
				return err
			}
			return c.json(http.StatusOK, out)
		}}
}

// raw is a row that writes its answer itself.
func raw(path string, scope token.Scope, summary, media string, f func(*call) error, q ...query) route {
	return route{method: http.MethodGet, path: path, scope: scope, summary: summary, query: q, media: media, status: http.StatusOK, handle: f}
}

// tell is a row that takes JSON and changes something.
func tell[In, Out any](path string, scope token.Scope, summary string, f func(*call, In) (Out, error)) route {
	return route{method: http.MethodPost, path: path, scope: scope, summary: summary, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		status: http.StatusOK, command: true, handle: func(c *call) error {
			var in In
			if err := c.read(&in); err != nil {
				return err
			}
			out, err := f(c, in)
			if err != nil {
				return err
			}
			if c.key != nil && c.key.Replayed {
				c.w.Header().Set("Idempotency-Replayed", "true")
			}
			return c.json(c.route.status, out)
		}}
}

// read decodes the body: strictly, within its size and its time.
func (c *call) read(in any) error {
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Now().Add(c.Limits.BodyTime))
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.Limits.Body))
	if big := (*http.MaxBytesError)(nil); errors.As(err, &big) {
		return &client.Problem{Title: "The body is too large", Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Detail: fmt.Sprintf("a body may have %d bytes", c.Limits.Body)}
	}
	if err != nil {
		return &client.Problem{Title: "The body did not come", Status: http.StatusRequestTimeout, Code: "slow_body",
			Detail: "the body was cut off, or took longer than " + c.Limits.BodyTime.String(), Retryable: true}
	}
	if len(b) == 0 {
		b = []byte("{}")
	} else if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &client.Problem{Title: "The body is not JSON", Status: http.StatusUnsupportedMediaType, Code: "media_type",
			Detail: "send Content-Type: application/json"}
	}
	d := json.NewDecoder(newReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return bad("the body does not fit: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("the body holds more than one JSON value")
	}
	return nil
}

// bad is a request that is wrong in itself.
func bad(format string, args ...any) error {
	return &client.Problem{Title: "The request is wrong", Status: http.StatusBadRequest, Code: "bad_request", Detail: fmt.Sprintf(format, args...)}
}

func (c *call) json(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(b, '\n')) // a reader that left is no error of ours
	return nil
}

// number reads a parameter that counts.
func (c *call) number(name string, def, most uint64) (uint64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > most {
		return 0, bad("%s is %q, which is no number from 0 to %d", name, text, most)
	}
	return n, nil
}

// serve is the way of every request: guards, token, goal, handler.
func (a *API) serve(r route) http.Handler {
	return a.guarded(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := &call{API: a, w: w, r: req, ctx: req.Context(), route: &r}
		err := c.enter()
		if err == nil {
			err = r.handle(c)
		}
		if err != nil {
			a.problem(w, req, err)
		}
	}))
}

// enter lets the caller in and finds what the path names.
func (c *call) enter() (err error) {
	if c.route.scope == "" {
		return nil
	}
	if c.token, err = c.who(c.r); err != nil {
		return err
	}
	if !c.token.Scope.Allows(c.route.scope) {
		return &client.Problem{Title: "The token does not allow this", Status: http.StatusForbidden, Code: "scope",
			Detail: fmt.Sprintf("it needs the scope %s; the token %q has %s", c.route.scope, c.token.Name, c.token.Scope)}
	}
	if c.route.command {
		if err := c.keyed(); err != nil {
			return err
		}
	}
	if prefix := c.r.PathValue("goal"); prefix != "" {
		c.goal, err = c.Service.Resolve(c.ctx, prefix)
	}
	return err
}

// madeAt is the time in a key that is a UUIDv7, zero for any other.
func madeAt(key string) time.Time {
	if len(key) != 36 || key[8] != '-' || key[13] != '-' || key[14] != '7' {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(key[:8]+key[9:13], 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// keyed takes the idempotency key in.
func (c *call) keyed() error {
	k := c.r.Header.Get("Idempotency-Key")
	if k == "" {
		return nil
	}
	if len(k) > 200 {
		return bad("an Idempotency-Key has at most 200 characters")
	}
	c.key = &service.Key{Name: c.token.ID + "\x00" + k, Since: madeAt(k)}
	c.ctx = service.WithKey(c.ctx, c.key)
	return nil
}
