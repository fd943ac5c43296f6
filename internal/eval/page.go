package eval

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed page.html.tmpl
var pageText string

// page is parsed when it is first used: every start of the program would pay
// for it otherwise.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"wall":  wall,
		"clean": clean,
		"line":  func(s string) string { return clean(strings.Join(strings.Fields(s), " ")) },
		"money": func(micros int64) string { return fmt.Sprintf("$%d.%04d", micros/1_000_000, micros/100%10_000) },
		"says":  func(c Class) string { return Classes[c] },
		"last": func(lines []string) string {
			if len(lines) == 0 {
				return ""
			}
			return lines[len(lines)-1]
		},
		"words": func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
	}).Parse(pageText))
})

// row is one class in the table by outcome and class.
type row struct {
	Class  Class
	Counts []int
}

// Page renders the results as one page that asks nothing from anywhere.
func (r Results) Page() ([]byte, error) {
	by := map[Class][]int{}
	for _, run := range r.Runs {
		if by[run.Class] == nil {
			by[run.Class] = make([]int, len(Outcomes))
		}
		by[run.Class][slices.Index(Outcomes, run.Outcome)]++
	}
	var rows []row
	for _, c := range slices.Sorted(maps.Keys(by)) {
		rows = append(rows, row{c, by[c]})
	}
	var all []int
	for _, o := range Outcomes {
		all = append(all, r.Count(o))
	}
	// What went wrong stands first.
	runs := slices.Clone(r.Runs)
	rank := map[Outcome]int{Fail: 0, TimeOut: 1, Infra: 2, Pass: 3}
	slices.SortStableFunc(runs, func(a, b Result) int { return rank[a.Outcome] - rank[b.Outcome] })
	var b bytes.Buffer
	err := page().Execute(&b, map[string]any{"R": r, "Runs": runs, "Rows": rows, "Outcomes": Outcomes, "All": all, "Total": r.total(), "Many": r.Repeat > 1})
	return b.Bytes(), err
}
