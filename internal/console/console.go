// Package console is the window in a browser: static files that show what the
// API says and send the same commands as anyone. It is plain HTML, CSS and
// JavaScript in the binary; no build, no request to anywhere else.
//
// It decides nothing, and the Go of it knows nothing but its files.
package console

import (
	"embed"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy is what the page may do: run its own files, call its own server, and
// nothing else. No style or script stands in the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// Handler serves the page and its files.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the console is only read", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if name == "" {
			name = "index.html"
		}
		b, err := static.ReadFile("static/" + name)
		kind, known := types[path.Ext(name)]
		if err != nil || !known {
			http.Error(w, "there is nothing under this address; the console is at /", http.StatusNotFound)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()")
		_, _ = w.Write(b)
	})
}
