package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"belay/client"
	"belay/internal/core"
	"belay/internal/fault"
	"belay/internal/ledger"
	"belay/internal/service"
)

// known are the errors of the service as problems; the first that fits counts.
var known = []struct {
	err    error
	status int
	code   string
	title  string
}{
	{service.ErrNotFound, http.StatusNotFound, "no_goal", "There is no such goal"},
	{service.ErrNoOperation, http.StatusNotFound, "no_operation", "There is no such operation"},
	{ledger.ErrNotFound, http.StatusNotFound, "not_found", "It is not there"},
	{service.ErrAmbiguous, http.StatusBadRequest, "ambiguous_goal", "The prefix fits more than one goal"},
	{service.ErrKeyReused, http.StatusUnprocessableEntity, "key_reused", "The idempotency key stands for another request"},
	{service.ErrBusy, http.StatusConflict, "busy", "A worker holds the goal"},
	{core.ErrNoQuestion, http.StatusConflict, "no_question", "Nothing is pending that this answers"},
	{core.ErrChanged, http.StatusConflict, "question_changed", "The question has changed since it was shown"},
	{core.ErrAmbiguous, http.StatusConflict, "ambiguous_question", "More than one answer is pending"},
	{core.ErrFinal, http.StatusConflict, "ended", "The goal has ended"},
	{core.ErrState, http.StatusConflict, "not_now", "Not possible now"},
	{core.ErrRefused, http.StatusConflict, "refused", "The goal cannot be advanced"},
	{core.ErrInput, http.StatusBadRequest, "bad_request", "The request is wrong"},
	{service.ErrUsage, http.StatusBadRequest, "bad_request", "The request is wrong"},
}

// problemOf translates an error.
func problemOf(err error) *client.Problem {
	var p *client.Problem
	if errors.As(err, &p) {
		return p
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return &client.Problem{Title: k.title, Status: k.status, Code: k.code, Detail: err.Error()}
		}
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		status := http.StatusInternalServerError
		if f.Blame == fault.Environment {
			status = http.StatusServiceUnavailable
		}
		return &client.Problem{Title: "It could not be done here", Status: status, Code: string(f.Kind), Detail: f.Told(), Retryable: f.Retryable}
	}
	return &client.Problem{Title: "An error of belay or of its ledger", Status: http.StatusInternalServerError, Code: "internal", Detail: err.Error()}
}

// problem answers with an error.
func (a *API) problem(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // nobody is there to read it
	}
	p := *problemOf(err)
	p.Type = "about:blank"
	p.Detail = a.Redact(p.Detail)
	if p.Status >= 500 {
		a.Log.Printf("%s %s: %s", r.Method, r.URL.Path, p.Detail)
	}
	a.metrics.problem(p.Code)
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="belay"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	b, merr := json.Marshal(p)
	if merr != nil {
		b = []byte(`{"type":"about:blank","title":"An error","status":500,"code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n'))
}
