package report

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	"slices"
	"strconv"
	"strings"
	"sync"
	texttemplate "text/template"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

//go:embed report.md.tmpl report.html.tmpl
var templates embed.FS

var funcs = map[string]any{
	"ms":     duration,
	"money":  money,
	"short":  short,
	"line":   oneLine,
	"cell":   cell,
	"status": status,
	"counts": counts,
	"tools":  tools,
	"files": func(n int) string {
		if n == 1 {
			return "1 file"
		}
		return strconv.Itoa(n) + " files"
	},
	"more": func(t Tests) string {
		if n, ok := t.More(); ok && n > 0 {
			return strconv.FormatInt(n, 10)
		}
		return ""
	},
	"done": func(t event.TodoStatus) bool { return t == event.TodoCompleted },
}

var (
	// Parsed when they are first used: every command's supervisor is this program
	// too, and would pay for them at its start.
	markdown = sync.OnceValue(func() *texttemplate.Template {
		return texttemplate.Must(texttemplate.New("report.md.tmpl").Funcs(funcs).ParseFS(templates, "report.md.tmpl"))
	})
	html = sync.OnceValue(func() *htmltemplate.Template {
		return htmltemplate.Must(htmltemplate.New("report.html.tmpl").Funcs(funcs).ParseFS(templates, "report.html.tmpl"))
	})
)

// Markdown renders the report for a pull request or a terminal.
func Markdown(r Report) (string, error) {
	var b strings.Builder
	err := markdown().Execute(&b, r)
	return b.String(), err
}

// HTML renders the report as one page without any outside reference.
func HTML(r Report) (string, error) {
	var b strings.Builder
	err := html().Execute(&b, r)
	return b.String(), err
}

// status says in words what the goal came to.
func status(r Report) string {
	switch {
	case r.Status == lifecycle.Completed:
		return "completed: " + strings.ReplaceAll(string(r.How), "_", " ")
	case r.PauseReason != "":
		return string(r.Status) + ": " + strings.ReplaceAll(string(r.PauseReason), "_", " ")
	case r.WaitReason != "":
		return string(r.Status) + ", waits for " + strings.ReplaceAll(string(r.WaitReason), "_", " ")
	}
	return string(r.Status)
}

func duration(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%d.%d s", ms/1000, ms%1000/100)
	case ms < 3_600_000:
		return fmt.Sprintf("%d min %d s", ms/60_000, ms/1000%60)
	}
	return fmt.Sprintf("%d h %d min", ms/3_600_000, ms/60_000%60)
}

func money(micros int64) string { return fmt.Sprintf("$%d.%04d", micros/1_000_000, micros/100%10_000) }

func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

func counts(c event.TestCounts) string {
	if c.Runner == "" {
		return "no test report recognised"
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

// tools names the programs of a run, without their hashes: those are in the
// JSON.
func tools(env map[string]string) string {
	var names []string
	for _, id := range env {
		file, _, _ := strings.Cut(id, " ")
		names = append(names, file)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// oneLine keeps foreign text from breaking out of its line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// cell is oneLine for a Markdown table or list: nothing in it is markup.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "`", "'", "<", "&lt;", "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`).Replace(oneLine(s))
}
