package embed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"belay/internal/fault"
	"belay/internal/recall/embed"
)

func serve(t *testing.T, h http.HandlerFunc) *embed.Embedder {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	e, err := embed.New(embed.Config{Model: "m", BaseURL: s.URL + "/v1/", Key: "sk-very-secret", HTTP: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestVectorsComeBackInTheOrderOfTheTexts(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model string   `json:"model"`
			Input []string `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer sk-very-secret" || in.Model != "m" || len(in.Input) != 2 {
			t.Errorf("%v %s %+v", err, r.URL.Path, in)
		}
		_, _ = io.WriteString(w, `{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}`)
	})
	vs, err := e.Embed(t.Context(), []string{"a", "b"})
	if err != nil || fmt.Sprint(vs) != "[[1 0] [0 1]]" {
		t.Errorf("%v, %v", vs, err)
	}
}

func TestAnAnswerThatIsNoneIsAFaultWithTheRemedyAndWithoutTheKey(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad key sk-very-secret", http.StatusUnauthorized)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"too few": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[1]}]}`)
		},
		"out of range": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data":[{"index":7,"embedding":[1]}]}`)
		},
		"an empty vector": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[]}]}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
	} {
		_, err := serve(t, h).Embed(t.Context(), []string{"a", "b"})
		var f *fault.Fault
		if !errors.As(err, &f) || !strings.Contains(f.SuggestedAction, "BELAY_EMBEDDINGS_URL") || strings.Contains(err.Error(), "sk-very-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, err := embed.New(embed.Config{Model: "m", BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Embed(t.Context(), []string{"a"}); err == nil {
		t.Error("nobody is there")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := gone.Embed(ctx, []string{"a"}); err == nil {
		t.Error("a cancelled request")
	}
}

func TestAnEmbedderIsRefusedThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []embed.Config{{BaseURL: "http://x"}, {Model: "m", BaseURL: "nowhere"}, {Model: "m", BaseURL: "file:///etc"}} {
		if _, err := embed.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
