package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/event"
)

func TestEveryEntryIsPlausibleAndEveryPriceHasASourceAndADate(t *testing.T) {
	t.Parallel()
	c := Builtin()
	if len(c.Names()) != len(table) {
		t.Errorf("%d names for %d rows: one stands twice", len(c.Names()), len(table))
	}
	for _, key := range c.Names() {
		provider, name, ok := strings.Cut(key, ":")
		e, found := c.Find(provider, name)
		if !ok || !found || provider != "openai" && provider != "anthropic" {
			t.Errorf("%s cannot be found", key)
		}
		if e.Window < 100_000 || e.MaxOutput < 8_000 || e.MaxOutput >= e.Window {
			t.Errorf("%s: window %d, output %d", key, e.Window, e.MaxOutput)
		}
		if e.Price == nil {
			if e.Note == "" {
				t.Errorf("%s: no price and no reason", key)
			}
			continue
		}
		p := e.Price
		if !strings.Contains(p.Source, "2026-") || p.CachedInput <= 0 || p.CachedInput >= p.Input || p.CacheWrite < p.Input || p.Output <= p.Input {
			t.Errorf("%s: %+v", key, p)
		}
	}
}

func TestADatedSnapshotIsItsModel(t *testing.T) {
	t.Parallel()
	c := Builtin()
	for snapshot, name := range map[string]string{"claude-haiku-4-5-20251001": "claude-haiku-4-5", "claude-opus-4-5-20251101": "claude-opus-4-5"} {
		a, ok := c.Find("anthropic", snapshot)
		b, _ := c.Find("anthropic", name)
		if !ok || a.Window != b.Window || a.Price.Input != b.Price.Input {
			t.Errorf("%s: %+v", snapshot, a)
		}
	}
	if _, ok := c.Find("openai", "gpt-5-2026-01-01"); !ok {
		t.Error("a snapshot with dashes is not found")
	}
	for _, unknown := range []string{"gpt-99", "gpt-5-20", "claude-haiku-4-5"} {
		if e, ok := c.Find("openai", unknown); ok || e.Price != nil {
			t.Errorf("%s is known: %+v", unknown, e)
		}
	}
}

func TestACostIsWhatTheListSays(t *testing.T) {
	t.Parallel()
	e, _ := Builtin().Find("anthropic", "claude-haiku-4-5")
	// 1M input of which half is read from the cache and a tenth written to it, 100k output.
	u := event.Usage{Input: 1_000_000, CachedInput: 500_000, CacheWrite: 100_000, Output: 100_000}
	if got, want := e.Price.Cost(u), int64(400_000+50_000+125_000+500_000); got != want {
		t.Errorf("cost %d, want %d", got, want)
	}
}

func TestTheUsersFileWins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(`
"openai:gpt-5": {window: 100000}
"openai:qwen3-coder:30b": {window: 32768, max_output: 4096, price: {input: 0, output: 0}}
"anthropic:claude-opus-5-5": {price: {input: 1, cached_input: 0.5, output: 2}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := c.Find("openai", "gpt-5"); e.Window != 100_000 || e.MaxOutput != 128_000 || e.Price.Input != 1_250_000 {
		t.Errorf("gpt-5: %+v", e)
	}
	if e, ok := c.Find("openai", "qwen3-coder:30b"); !ok || e.Window != 32768 || e.Price == nil || e.Price.Cost(event.Usage{Input: 10, Output: 10}) != 0 {
		t.Errorf("a free local model: %+v", e)
	}
	if e, _ := c.Find("anthropic", "claude-opus-5-5"); e.Price.CachedInput != 500_000 || e.Price.CacheWrite != 1_000_000 || e.Price.Source != path {
		t.Errorf("price: %+v", e.Price)
	}
	if e, _ := Builtin().Find("openai", "gpt-5"); e.Window != 400_000 {
		t.Error("the file changed the built-in table")
	}
	if c, err := LoadFile(filepath.Join(t.TempDir(), "none.yaml")); err != nil || len(c.Names()) != len(table) {
		t.Errorf("no file: %v", err)
	}
}

func TestABrokenFileIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\"openai:x\":\n  windows: 1\n":                        "line 2",
		"gpt-5: {window: 1}":                                   "provider:name",
		"\"openai:x\": {window: -1}":                           "negative",
		"\"openai:x\": {price: {input: 1}}":                    "needs input and output",
		"\"openai:x\": {price: {input: -1, output: 1}}":        "no price",
		"\"openai:x\": {price: {input: .nan, output: 1}}":      "no price",
		"\"openai:x\": {price: {input: 1, output: 1, out: 2}}": "out",
		"[1, 2]": "models.yaml",
	} {
		if _, err := Overlay([]byte(text), "models.yaml"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "models.yaml") {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}
