package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func TestThePageIsServedUnderAStrictPolicy(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		w := get(t, http.MethodGet, strings.TrimPrefix(name, "static"))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != types[path.Ext(name)] || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"} {
		if !strings.Contains(policy, must) {
			t.Errorf("the policy lacks %s", must)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
		t.Errorf("the policy is not strict: %s", policy)
	}
	for target, want := range map[string]int{"/": 200, "/nothing": 404, "/../console.go": 404, "/static/": 404, "/%2e%2e/console.go": 404} {
		if w := get(t, http.MethodGet, target); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
	if w := get(t, http.MethodPost, "/"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", w.Code)
	}
}

// What a file of the page may not hold: a way around text, a script or a style
// in the page itself, an address elsewhere.
var banned = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:|localStorage|document\.cookie|<style|\son[a-z]+="|style="|https?://`)

func TestThePageTakesNothingFromElsewhereAndParsesNoMarkup(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		// The name of a language of pictures, which nobody asks for.
		text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", "")
		for i, line := range strings.Split(text, "\n") {
			if found := banned.FindString(line); found != "" {
				t.Errorf("%s:%d holds %q", name, i+1, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
