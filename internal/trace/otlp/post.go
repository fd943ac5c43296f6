package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// collector calls; it follows no redirect, because the headers may hold a key.
var collector = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// post sends one request. again says that the same may be taken later.
func (x *Exporter) post(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	var encoding string
	if x.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			return false, 0, err
		}
		if err := z.Close(); err != nil {
			return false, 0, err
		}
		body, encoding = b.Bytes(), "gzip"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.URL, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "belay/"+x.Version)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	for k, v := range x.Headers {
		r.Header.Set(k, v)
	}
	answer, err := collector.Do(r)
	if err != nil {
		return true, 0, fmt.Errorf("the collector does not answer, and is tried again: %w", err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		x.partly(b)
		return false, 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if s, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && s > 0 {
			after = min(time.Duration(s)*time.Second, time.Hour)
		}
		return true, after, fmt.Errorf("the collector says %s, and is tried again", answer.Status)
	}
	return false, 0, fmt.Errorf("the collector refuses them with %s, and they are dropped: %.300q", answer.Status, b)
}

// partly says what the collector took only in part.
func (x *Exporter) partly(body []byte) {
	var p struct {
		Partial struct {
			Rejected json.Number `json:"rejectedSpans"`
			Message  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(body, &p) != nil {
		return // an answer in another form is no refusal
	}
	if n, err := p.Partial.Rejected.Int64(); err == nil && n > 0 {
		x.problem("traces", fmt.Errorf("the collector rejected spans: %.300q", p.Partial.Message))
	}
}
