package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"belay/internal/event"
)

// argsHash identifies an action by its tool and what its arguments mean,
// whatever the repository's state: an action in doubt must be known again when
// it comes with its keys in another order or with another description.
func argsHash(tool string, args json.RawMessage) string {
	sum := sha256.Sum256(append([]byte(tool+"\x00"), semantic(args)...))
	return hex.EncodeToString(sum[:12])
}

// incidental are argument names that say nothing about what an action does: a
// person who approved the action has approved it whatever they are.
var incidental = []string{"description", "timeout_s", "reason"}

// semantic is the one form of arguments that mean the same.
func semantic(args json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var m map[string]any
	if d.Decode(&m) != nil {
		return args
	}
	for _, k := range incidental {
		delete(m, k)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return args
	}
	return b
}

func hashJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("core: values are always encodable: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return "…" + s[i:]
}

func appendCapped[T any](s []T, v T, limit int) []T {
	s = append(s, v)
	if len(s) > limit {
		s = s[len(s)-limit:]
	}
	return s
}

func containsSeq(s []uint64, v uint64) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// statusWord is the seeds' word for an outcome in latest_tool_result.
func statusWord(o event.Outcome) string {
	if o == event.Succeeded {
		return "executed"
	}
	return string(o)
}
