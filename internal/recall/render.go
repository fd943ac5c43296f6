package recall

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"belay/internal/event"
)

// Render writes an event so that it can be read: what it is, and everything its
// payload holds, texts of several lines as blocks. Nothing is left out.
func Render(e event.Event) (string, error) {
	raw, err := json.Marshal(e.Payload)
	if err != nil {
		return "", fmt.Errorf("recall: event %d: %w", e.Seq, err)
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("recall: event %d: %w", e.Seq, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", Reference(e.Goal, e.Seq), e.Type, e.Time)
	for _, f := range [][2]string{{"op_id", e.Op}, {"turn_id", e.Turn}, {"actor", string(e.Actor)}, {"id", e.ID}, {"cause", e.Cause}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	render(&b, v, "")
	return b.String(), nil
}

func render(b *strings.Builder, v any, indent string) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			value(b, indent+k+":", v[k], indent)
		}
	case []any:
		for _, x := range v {
			value(b, indent+"-", x, indent)
		}
	default:
		value(b, indent+"value:", v, indent)
	}
}

func value(b *strings.Builder, label string, v any, indent string) {
	switch v := v.(type) {
	case map[string]any, []any:
		b.WriteString(label + "\n")
		render(b, v, indent+"  ")
	case string:
		if !strings.Contains(v, "\n") {
			b.WriteString(label + " " + v + "\n")
			return
		}
		b.WriteString(label + " |\n")
		for line := range strings.Lines(v) {
			b.WriteString(indent + "  " + strings.TrimSuffix(line, "\n") + "\n")
		}
	default:
		fmt.Fprintf(b, "%s %v\n", label, v)
	}
}
