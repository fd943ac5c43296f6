package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"unicode/utf8"

	"belay/internal/event"
)

var (
	validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	validID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// strict decodes JSON and refuses unknown fields and trailing text.
func strict(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("text after the JSON")
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(raw, &o) == nil && o != nil
}

func objectSchema(raw json.RawMessage) bool {
	var o struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(raw, &o) == nil && o.Type == "object"
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func textParts(text string) []event.Part { return []event.Part{{Kind: event.PartText, Text: text}} }

// quote is JSON of any value that always can be encoded.
func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// split cuts a text into deltas: at random with a seed, else in halves.
func split(s string, rng *rand.Rand, seeded bool) []string {
	var out []string
	for len(s) > 0 {
		n := (len(s) + 1) / 2
		if seeded {
			n = 1 + rng.IntN(min(len(s), 12))
		}
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}
