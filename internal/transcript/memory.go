package transcript

import (
	"strings"

	"belay/internal/event"
)

// forgottenWords tell that a person wants something remembered no longer.
func forgottenWords(p event.MemoryForgotten) string {
	what := "everything that earlier goals left"
	if !p.All {
		var ids []string
		for _, id := range p.Items {
			ids = append(ids, line(id))
		}
		what = strings.Join(ids, ", ")
	}
	return "By the user's word this is remembered no longer, and does not hold any more: " + what + "."
}
