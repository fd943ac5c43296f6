package wire

import (
	"belay/internal/lazyre"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"belay/internal/fault"
)

// Failure is what a provider said when it did not answer: an HTTP status, an
// error object, or an error object inside a stream (Status 0).
type Failure struct {
	Status  int
	Header  http.Header
	Type    string // the provider's error type, if any
	Code    string
	Message string
}

// maxMessage bounds the text of a fault: some servers answer with whole pages.
const maxMessage = 2000

// Classify sorts a failure into a fault: kind, blame, whether another try can
// help, how long to wait, and what to do.
func (t Target) Classify(f Failure) *fault.Fault {
	said := f.Type + " " + f.Code + " " + f.Message
	kind := kindOf(f, said)
	message := strings.TrimSpace(f.Message)
	if message == "" {
		message = strings.TrimSpace(f.Type + " " + f.Code)
	}
	if f.Status != 0 {
		message = fmt.Sprintf("HTTP %d %s: %s", f.Status, http.StatusText(f.Status), message)
	}
	message = t.Scrub(t.Provider + ": " + strings.TrimRight(message, ": "))
	out := fault.New(kind, blameOf(kind, f, said), message, t.action(kind, f, said))
	switch kind {
	case fault.Overloaded, fault.RateLimited, fault.ServerError, fault.Timeout, fault.StreamCut, fault.Network, fault.MalformedReply:
		out.Retryable = true
		out.RetryAfterMS = RetryAfter(f, time.Now())
	}
	if f.Header.Get("X-Should-Retry") == "false" {
		out.Retryable = false
	}
	return out
}

func kindOf(f Failure, said string) fault.Kind {
	// What the provider names outweighs the status: servers use 400, 404, 429
	// and 500 for one and the same thing.
	switch {
	case f.Status == http.StatusRequestEntityTooLarge:
		return fault.ContextOverflow
	case f.Status == http.StatusPaymentRequired || noCredit.MatchString(said):
		return fault.BadCredentials
	case overflow.MatchString(said) && f.Status != http.StatusUnauthorized:
		return fault.ContextOverflow
	case refusal.MatchString(said) && f.Status < 500 && f.Status != http.StatusTooManyRequests && f.Status != http.StatusUnauthorized:
		return fault.Refused
	}
	if k := kindOfType(f, said); k != "" {
		return k
	}
	switch s := f.Status; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return fault.BadCredentials
	case s == http.StatusTooManyRequests:
		return fault.RateLimited
	case s == http.StatusRequestTimeout:
		return fault.Timeout
	case s == http.StatusServiceUnavailable || s == 529:
		return fault.Overloaded
	case s == http.StatusConflict, s == http.StatusTooEarly, s >= 500:
		return fault.ServerError
	case s >= 300:
		if noModel.MatchString(said) {
			return fault.UnknownModel
		}
		return fault.BadRequest
	}
	if noModel.MatchString(said) {
		return fault.UnknownModel
	}
	return fault.ServerError
}

// kindOfType reads the error types and codes that providers document, and the
// numeric codes that stand in for a status inside a stream.
func kindOfType(f Failure, said string) fault.Kind {
	for _, word := range []string{f.Type, f.Code} {
		switch strings.ToLower(word) {
		case "overloaded_error", "overloaded", "server_overloaded", "slow_down":
			return fault.Overloaded
		case "rate_limit_error", "rate_limit_exceeded", "tokens", "requests":
			if f.Status == 0 || f.Status == http.StatusTooManyRequests {
				return fault.RateLimited
			}
		case "timeout_error", "timeout":
			return fault.Timeout
		case "authentication_error", "permission_error", "invalid_api_key":
			return fault.BadCredentials
		case "model_not_found":
			return fault.UnknownModel
		case "not_found_error":
			if strings.Contains(said, "model") {
				return fault.UnknownModel
			}
			return fault.BadRequest
		case "api_error", "server_error", "internal_error", "internalservererror":
			if f.Status == 0 {
				return fault.ServerError
			}
		case "invalid_request_error", "badrequesterror", "bad_request":
			if f.Status == 0 && !noModel.MatchString(said) {
				return fault.BadRequest
			}
		}
		if n, err := strconv.Atoi(word); err == nil && f.Status == 0 && n >= 300 && n < 600 {
			return kindOf(Failure{Status: n}, said)
		}
	}
	return ""
}

func blameOf(kind fault.Kind, f Failure, said string) fault.Blame {
	switch kind {
	case fault.BadCredentials, fault.UnknownModel:
		return fault.User
	case fault.BadRequest:
		if f.Status == http.StatusNotFound || f.Status >= 300 && f.Status < 400 || f.Status == http.StatusMethodNotAllowed {
			return fault.User // the base URL is wrong
		}
		return fault.Runtime
	case fault.ContextOverflow:
		return fault.Runtime
	case fault.Refused:
		return fault.Model
	case fault.Network:
		return fault.Environment
	}
	return fault.Provider
}

func (t Target) action(kind fault.Kind, f Failure, said string) string {
	switch kind {
	case fault.BadCredentials:
		if f.Status == http.StatusPaymentRequired || noCredit.MatchString(said) {
			return "add credit to the account that " + t.KeyVar + " belongs to, or use another --model"
		}
		return "check that " + t.KeyVar + " holds a valid key for " + t.host() + " and may use this model"
	case fault.UnknownModel:
		return "name a model that " + t.host() + " serves with --model " + t.Provider + ":NAME"
	case fault.BadRequest:
		if blameOf(kind, f, said) == fault.User {
			return "check " + t.BaseVar + " (now " + t.host() + "): most servers want it to end in /v1"
		}
		return "the provider does not accept this request: another model, or a server that speaks the same protocol, may"
	case fault.ContextOverflow:
		return "compact the conversation, or take out the largest item, and ask again"
	case fault.Refused:
		return "the provider refuses this content: say it differently or use another --model"
	case fault.RateLimited:
		return "wait and ask again; a higher rate limit or another --model avoids it"
	case fault.Overloaded, fault.ServerError:
		return "wait and ask again"
	case fault.Timeout:
		return "ask again; if it stays silent, another --model may answer"
	}
	return "ask again"
}

// ReadFailure reads the body of an HTTP error. The shapes of all the servers
// that speak one of the wires are read alike.
func ReadFailure(resp *http.Response) Failure {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	f := ParseFailure(body)
	f.Status, f.Header = resp.StatusCode, resp.Header
	if f.Status >= 300 && f.Status < 400 {
		f.Message = "the server redirects to " + redirectHost(resp) + "; redirects are not followed, since they would carry the key to another address"
	}
	return f
}

func redirectHost(resp *http.Response) string {
	if u, err := resp.Location(); err == nil {
		return u.Scheme + "://" + u.Host + u.Path
	}
	return "an address that it does not name"
}

// ParseFailure reads an error object: {"error":{type,code,message}},
// {"error":"text"}, {"type":"error","error":{…}}, {"object":"error",message},
// {"detail":…}, or plain text.
func ParseFailure(body []byte) Failure {
	var o struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return Failure{Message: plainText(string(body))}
	}
	var inner struct {
		Message  json.RawMessage `json:"message"`
		Type     json.RawMessage `json:"type"`
		Code     json.RawMessage `json:"code"`
		Metadata struct {
			Raw json.RawMessage `json:"raw"`
		} `json:"metadata"`
	}
	if len(o.Error) > 0 && json.Unmarshal(o.Error, &inner) == nil {
		f := Failure{Type: text(inner.Type), Code: text(inner.Code), Message: text(inner.Message)}
		if raw := text(inner.Metadata.Raw); raw != "" { // what the provider behind a router said
			f.Message += ": " + raw
		}
		return f
	}
	f := Failure{Type: text(o.Type), Code: text(o.Code), Message: text(o.Error)}
	for _, m := range []json.RawMessage{o.Message, o.Detail} {
		if f.Message == "" {
			f.Message = text(m)
		}
	}
	if f.Message == "" {
		f.Message = plainText(string(body))
	}
	return f
}

// text shows a JSON value: a string as it is, anything else as JSON.
func text(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

var (
	markup = lazyre.New(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)
	blanks = lazyre.New(`\s+`)
	inText = lazyre.New(`(?i)(?:try again|retry) (?:in|after) (\d+(?:\.\d+)?) ?(ms|milliseconds?|s|sec|seconds?|m|min|minutes?)\b`)
)

func plainText(s string) string {
	if strings.Contains(s, "<") {
		s = markup.ReplaceAllString(s, " ")
	}
	return strings.TrimSpace(blanks.ReplaceAllString(s, " "))
}

// RetryAfter is the provider's own wish in milliseconds, or 0: the headers
// Retry-After-Ms and Retry-After (seconds or an HTTP date), else the latest
// reset among the provider's exhausted limits, else what the message says.
func RetryAfter(f Failure, now time.Time) int64 {
	h := f.Header
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return clampWait(ms)
	}
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			return clampWait(s * 1000)
		}
		if at, err := http.ParseTime(v); err == nil {
			// The server's own clock, where it tells it, is the one that the
			// date was made with.
			if date, err := http.ParseTime(h.Get("Date")); err == nil {
				now = date
			}
			return clampWait(float64(at.Sub(now).Milliseconds()))
		}
	}
	if f.Status == http.StatusTooManyRequests {
		if ms := resetHeaders(h, now); ms > 0 {
			return ms
		}
	}
	if m := inText.FindStringSubmatch(f.Message); m != nil {
		n, _ := strconv.ParseFloat(m[1], 64)
		switch {
		case strings.HasPrefix(m[2], "ms") || strings.HasPrefix(m[2], "mill"):
		case m[2][0] == 's':
			n *= 1000
		default:
			n *= 60_000
		}
		return clampWait(n)
	}
	return 0
}

// clampWait keeps a wait within a week: a wrong clock or unit must not park a
// goal for ever.
func clampWait(ms float64) int64 {
	const week = 7 * 24 * 3600 * 1000
	if !(ms > 0) {
		return 0
	}
	return int64(min(ms, week))
}

// resetHeaders reads x-ratelimit-{remaining,reset}-* (durations),
// anthropic-ratelimit-*-{remaining,reset} (RFC 3339) and X-RateLimit-Reset
// (Unix time, in milliseconds or seconds).
func resetHeaders(h http.Header, now time.Time) int64 {
	var latest float64
	for key, values := range h {
		key = strings.ToLower(key)
		if !strings.Contains(key, "ratelimit") || !strings.Contains(key, "reset") || len(values) == 0 {
			continue
		}
		if left := h.Get(strings.Replace(key, "reset", "remaining", 1)); left != "" && left != "0" {
			continue
		}
		latest = max(latest, untilReset(values[0], now))
	}
	return clampWait(latest)
}

func untilReset(v string, now time.Time) float64 {
	if d, err := time.ParseDuration(v); err == nil {
		return float64(d.Milliseconds())
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return float64(at.Sub(now).Milliseconds())
	}
	n, err := strconv.ParseFloat(v, 64)
	switch {
	case err != nil:
		return 0
	case n > 1e12:
		return n - float64(now.UnixMilli())
	case n > 1e9:
		return n*1000 - float64(now.UnixMilli())
	}
	return n * 1000
}

// Malformed is the fault for a reply that cannot be read.
func (t Target) Malformed(format string, args ...any) *fault.Fault {
	message := t.Scrub(t.Provider + ": " + fmt.Sprintf(format, args...))
	return fault.New(fault.MalformedReply, fault.Provider, message,
		"ask again; if it stays, check that "+t.BaseVar+" names a server that speaks this protocol").Retry()
}

// Cut is the fault for a stream that ended before its end mark.
func (t Target) Cut(err error) *fault.Fault {
	message := "the stream ended before the response did"
	if err != nil && !errors.Is(err, io.EOF) {
		message += ": " + err.Error()
	}
	return fault.New(fault.StreamCut, fault.Provider, t.Scrub(t.Provider+": "+message), "ask again: nothing of the cut response was used").Retry()
}
