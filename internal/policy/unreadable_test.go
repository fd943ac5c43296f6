package policy

import (
	"slices"
	"testing"

	"belay/internal/event"
)

func TestWhatRulesDenyToReadIsToldToTheSandbox(t *testing.T) {
	t.Parallel()
	deny := func(tool, path string) event.Rule {
		return event.Rule{Decision: "deny", Tool: tool, Path: path, Layer: "user"}
	}
	u := UnreadableBy(Config{Root: "/work/repo", Rules: []event.Rule{deny("read", ".env"), deny("", "secrets/**"), deny("read_file", "a/*.key"), deny("run_command", "only/x"),
		deny("write", "vendor/**"), deny("write_file", "w"), deny("read", "/work/repo/deep/**"), deny("read", "/srv/keys/**"), deny("read", "~/notes"), deny("read", "/opt/*/x"),
		{Decision: "ask", Tool: "read", Path: "asked", Layer: "user"}, {Decision: "deny", Command: "cat *", Layer: "user"}}})
	if !u.Any() {
		t.Fatal("there are none")
	}
	for path, want := range map[string]bool{".env": true, "sub/.env": true, "secrets": true, "secrets/a/b": true, "a/b.key": true, "only/x": true, "deep": true, "deep/er": true,
		"vendor/x": false, "w": false, "asked": false, "a/b/c.key": false, "main.go": false, ".envrc": false} {
		if got := u.Holds(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if got := u.Outside(); !slices.Equal(got, []string{"/srv/keys", "~/notes"}) {
		t.Errorf("outside: %q", got)
	}
	if UnreadableBy(Config{Rules: []event.Rule{deny("write", "x")}}).Any() {
		t.Error("a rule about writing hides something")
	}
}
