package wire

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"belay/internal/fault"
)

func target() Target {
	return Target{Provider: "openai", BaseURL: "https://user:pw@api.example.com/v1?k=secret", Secret: NewSecret("sk-live-0123456789"), KeyVar: "OPENAI_API_KEY", BaseVar: "OPENAI_BASE_URL"}
}

func TestRealErrorsGetTheirKind(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/errors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct {
		From    string
		Status  int
		Kind    fault.Kind
		RetryMS int64 `yaml:"retry_ms"`
		Action  string
		Body    string
	}
	if err := yaml.Unmarshal(raw, &corpus); err != nil {
		t.Fatal(err)
	}
	if len(corpus) < 60 {
		t.Fatalf("only %d messages", len(corpus))
	}
	retryable := map[fault.Kind]bool{fault.Overloaded: true, fault.RateLimited: true, fault.ServerError: true, fault.Timeout: true}
	for _, c := range corpus {
		f := ParseFailure([]byte(c.Body))
		if c.Status != 0 {
			f = ReadFailure(&http.Response{StatusCode: c.Status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.Body)), Request: &http.Request{}})
		}
		got := target().Classify(f)
		if got.Kind != c.Kind || got.Retryable != retryable[c.Kind] {
			t.Errorf("%s %d: %s (retryable %v), want %s: %s", c.From, c.Status, got.Kind, got.Retryable, c.Kind, c.Body)
		}
		if got.Blame == "" || got.Message == "" || got.SuggestedAction == "" || !strings.Contains(got.SuggestedAction, c.Action) {
			t.Errorf("%s %d: %+v, want %q in the action", c.From, c.Status, got, c.Action)
		}
		if got.RetryAfterMS != c.RetryMS {
			t.Errorf("%s %d: retry after %d ms, want %d", c.From, c.Status, got.RetryAfterMS, c.RetryMS)
		}
		if strings.Contains(got.Message, "sk-") || strings.Contains(got.Message, "<h") {
			t.Errorf("%s: %s", c.From, got.Message)
		}
	}
}

func TestTheProvidersWishToWaitIsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status int
		header map[string]string
		want   int64
	}{
		"milliseconds":       {529, map[string]string{"Retry-After-Ms": "1500.4", "Retry-After": "9"}, 1500},
		"seconds":            {429, map[string]string{"Retry-After": "20"}, 20_000},
		"fractions":          {429, map[string]string{"Retry-After": "0.5"}, 500},
		"a date":             {503, map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:01:00 GMT"}, 60_000},
		"a date by its own":  {503, map[string]string{"Retry-After": "Mon, 30 Nov 2026 13:00:30 GMT", "Date": "Mon, 30 Nov 2026 13:00:00 GMT"}, 30_000},
		"a date gone by":     {503, map[string]string{"Retry-After": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0},
		"junk":               {429, map[string]string{"Retry-After": "soon"}, 0},
		"negative":           {429, map[string]string{"Retry-After": "-5"}, 0},
		"years":              {429, map[string]string{"Retry-After": "99999999999"}, 7 * 24 * 3600 * 1000},
		"not a number":       {429, map[string]string{"Retry-After": "NaN"}, 0},
		"the exhausted one":  {429, map[string]string{"X-Ratelimit-Reset-Requests": "6m0s", "X-Ratelimit-Remaining-Requests": "10", "X-Ratelimit-Reset-Tokens": "1.2s", "X-Ratelimit-Remaining-Tokens": "0"}, 1200},
		"the later of two":   {429, map[string]string{"X-Ratelimit-Reset-Requests": "120ms", "X-Ratelimit-Reset-Tokens": "3s"}, 3000},
		"anthropic's resets": {429, map[string]string{"Anthropic-Ratelimit-Input-Tokens-Reset": "2026-11-30T12:00:45Z", "Anthropic-Ratelimit-Input-Tokens-Remaining": "0"}, 45_000},
		"unix milliseconds":  {429, map[string]string{"X-Ratelimit-Reset": fmt.Sprint(now.Add(8 * time.Second).UnixMilli())}, 8000},
		"unix seconds":       {429, map[string]string{"X-Ratelimit-Reset": fmt.Sprint(now.Add(8 * time.Second).Unix())}, 8000},
		"resets of a 500":    {500, map[string]string{"X-Ratelimit-Reset-Tokens": "3s"}, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := RetryAfter(Failure{Status: c.status, Header: h}, now); got != c.want {
			t.Errorf("%s: %d ms, want %d", name, got, c.want)
		}
	}
}

func TestTheServerCanSayThatRetryingIsUseless(t *testing.T) {
	t.Parallel()
	f := target().Classify(Failure{Status: 500, Header: http.Header{"X-Should-Retry": {"false"}}, Message: "no"})
	if f.Retryable {
		t.Errorf("%+v", f)
	}
}

func TestNoTextHoldsTheKey(t *testing.T) {
	t.Parallel()
	tg := target()
	for _, s := range []string{"bad key sk-live-0123456789!", "Bearer abcdefgh12345678", "key sk-ant-api03-AAAA_bbbb-cccc", strings.Repeat("x", 10_000)} {
		got := tg.Scrub(s)
		if strings.Contains(got, "0123456789") || strings.Contains(got, "abcdefgh") || strings.Contains(got, "AAAA") || len(got) > maxMessage+4 {
			t.Errorf("%q", got)
		}
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", tg, tg, tg, tg.Secret); strings.Contains(shown, "sk-live") {
		t.Errorf("formatting shows the key: %s", shown)
	}
	if h := tg.host(); strings.Contains(h, "pw") || strings.Contains(h, "secret") || !strings.Contains(h, "api.example.com") {
		t.Errorf("host %q", h)
	}
}
