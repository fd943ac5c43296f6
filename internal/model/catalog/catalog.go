// Package catalog is data: context windows, output limits and prices of
// well-known models, each with its source and date, and the user's own file on
// top.
//
// It must not know the adapters or ask a network: what it does not know is
// zero, or nil for a price, never a guess. Budgets in money refuse a model of
// unknown price, so a wrong number here would be worse than none.
package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v4"

	"belay/internal/fault"
	"belay/internal/model"
)

// Entry is what is known about one model.
type Entry struct {
	// Window and MaxOutput are in tokens, 0 when unknown.
	Window, MaxOutput int64
	// Price is nil when unknown.
	Price *model.Price
	// Note says what is uncertain or chosen, if anything.
	Note string
}

// Catalog answers for models by "provider:name".
type Catalog struct {
	entries map[string]Entry
}

// Builtin is the table that ships with belay.
func Builtin() *Catalog {
	c := &Catalog{entries: map[string]Entry{}}
	for _, r := range table {
		e := Entry{Window: r.window, MaxOutput: r.output, Note: r.note}
		if r.usd != nil {
			e.Price = &model.Price{Input: micros(r.usd[0]), CachedInput: micros(r.usd[1]), CacheWrite: micros(r.usd[2]),
				Output: micros(r.usd[3]), Source: r.source}
		}
		c.entries[r.name] = e
	}
	return c
}

// snapshot is the date that providers put behind a name for one frozen version.
var snapshot = regexp.MustCompile(`-(20\d{6}|20\d\d-\d\d-\d\d)$`)

// Find looks up a model. A dated snapshot has what is known about its name
// without the date, unless it has an entry of its own.
func (c *Catalog) Find(provider, name string) (Entry, bool) {
	key := provider + ":" + name
	e, ok := c.entries[key]
	if !ok {
		e, ok = c.entries[snapshot.ReplaceAllString(key, "")]
	}
	return e, ok
}

// Names lists every known "provider:name", sorted.
func (c *Catalog) Names() []string {
	out := make([]string, 0, len(c.entries))
	for name := range c.entries {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// fileEntry is one entry of the user's file. Prices are in US dollars per
// million tokens.
type fileEntry struct {
	Window    *int64 `yaml:"window"`
	MaxOutput *int64 `yaml:"max_output"`
	Price     *struct {
		Input       *float64 `yaml:"input"`
		CachedInput *float64 `yaml:"cached_input"`
		CacheWrite  *float64 `yaml:"cache_write"`
		Output      *float64 `yaml:"output"`
	} `yaml:"price"`
}

// LoadFile lays the user's models.yaml over the built-in table. A file that
// does not exist changes nothing.
func LoadFile(path string) (*Catalog, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Builtin(), nil
	}
	if err != nil {
		return nil, bad(path, err)
	}
	return Overlay(b, path)
}

// Overlay lays a file's content over the built-in table:
//
//	"openai:gpt-x":
//	  window: 400000
//	  max_output: 128000
//	  price: {input: 1.25, cached_input: 0.125, output: 10}
//
// What an entry leaves out stays as it is known. A price needs input and
// output; cached input and cache writes cost as much as input when left out.
func Overlay(b []byte, source string) (*Catalog, error) {
	var file map[string]fileEntry
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, bad(source, err)
	}
	c := Builtin()
	for key, f := range file {
		provider, name, ok := strings.Cut(key, ":")
		if !ok || provider == "" || name == "" {
			return nil, bad(source, fmt.Errorf("%q is not provider:name", key))
		}
		e, _ := c.Find(provider, name)
		if f.Window != nil {
			e.Window = *f.Window
		}
		if f.MaxOutput != nil {
			e.MaxOutput = *f.MaxOutput
		}
		if e.Window < 0 || e.MaxOutput < 0 {
			return nil, bad(source, fmt.Errorf("%s: window and max_output cannot be negative", key))
		}
		if f.Price != nil {
			p, err := f.price(source)
			if err != nil {
				return nil, bad(source, fmt.Errorf("%s: %w", key, err))
			}
			e.Price, e.Note = p, ""
		}
		c.entries[key] = e
	}
	return c, nil
}

func (f fileEntry) price(source string) (*model.Price, error) {
	p := f.Price
	if p.Input == nil || p.Output == nil {
		return nil, errors.New("price needs input and output")
	}
	or := func(v *float64) float64 {
		if v == nil {
			return *p.Input
		}
		return *v
	}
	for _, v := range []float64{*p.Input, *p.Output, or(p.CachedInput), or(p.CacheWrite)} {
		if !(v >= 0) || v > 1e6 {
			return nil, fmt.Errorf("%v is no price in US dollars per million tokens", v)
		}
	}
	return &model.Price{Input: micros(*p.Input), CachedInput: micros(or(p.CachedInput)), CacheWrite: micros(or(p.CacheWrite)),
		Output: micros(*p.Output), Source: source}, nil
}

func micros(usd float64) int64 { return int64(math.Round(usd * 1e6)) }

func bad(source string, err error) error {
	return fault.New(fault.BadRequest, fault.User, fmt.Sprintf("%s: %v", source, err),
		"correct the file: each entry is provider:name with window, max_output and price")
}
