package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"belay/internal/event"
)

// argsHash identifies an action by its tool and normalised arguments, whatever
// the repository's state.
func argsHash(tool string, args json.RawMessage) string {
	var b bytes.Buffer
	b.WriteString(tool)
	b.WriteByte(0)
	if json.Compact(&b, args) != nil {
		b.Write(args)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:12])
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
