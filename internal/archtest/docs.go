package archtest

import (
	"fmt"
	"regexp"
	"strings"
)

// Row is one row of a table in a document: a claim, and the tests that show it.
type Row struct {
	ID    string
	Cells []string
	Tests []string
	Line  int
}

var (
	rowID = regexp.MustCompile(`^\| *([A-Z]?[0-9]+) *\|`)
	// A test is written as `folder.TestName`, the folder without "internal/".
	namedTest = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)`")
	// Words that look like a test but are not written as one would escape the
	// check.
	looksLikeTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9_]*`)
)

// Rows reads the rows of a document whose first cell is an id.
func Rows(text string) []Row {
	var rows []Row
	for i, line := range strings.Split(text, "\n") {
		m := rowID.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := Row{ID: m[1], Line: i + 1}
		for _, c := range strings.Split(strings.TrimSuffix(strings.TrimSpace(line[len(m[0]):]), "|"), "|") {
			r.Cells = append(r.Cells, strings.TrimSpace(c))
		}
		for _, t := range namedTest.FindAllStringSubmatch(line, -1) {
			r.Tests = append(r.Tests, t[1]+"."+t[2])
		}
		rows = append(rows, r)
	}
	return rows
}

// ClaimedTests checks that each test a document names exists in the source and
// that no name escapes the check by being written otherwise.
func ClaimedTests(doc, text string, exists map[string]bool) []Violation {
	var vs []Violation
	const rule = "a document names only tests that exist"
	for i, line := range strings.Split(text, "\n") {
		place := fmt.Sprintf("%s:%d", doc, i+1)
		for _, t := range namedTest.FindAllStringSubmatch(line, -1) {
			if name := t[1] + "." + t[2]; !exists[name] {
				vs = append(vs, Violation{rule, place, "there is no test " + name,
					"name the test that shows it now, or take the claim back"})
			}
		}
		for _, t := range looksLikeTest.FindAllString(namedTest.ReplaceAllString(line, ""), -1) {
			vs = append(vs, Violation{rule, place, t + " is not written as a test",
				"write it as `folder.TestName`, the folder without internal/"})
		}
	}
	return vs
}

// Coverage checks the table of findings: every id once, and a status that its
// tests bear out.
func Coverage(doc string, rows []Row, ids []string) []Violation {
	var vs []Violation
	const rule = "the table of findings is whole and claims what its tests show"
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.ID]++
		place := fmt.Sprintf("%s:%d", doc, r.Line)
		if len(r.Cells) != 3 || r.Cells[0] == "" {
			vs = append(vs, Violation{rule, place, r.ID + " has not the cells id, symptom, status, tests", "write the row whole"})
			continue
		}
		switch status := r.Cells[1]; {
		case status != "open" && status != "partly" && status != "covered":
			vs = append(vs, Violation{rule, place, r.ID + " has the status " + status, "use open, partly or covered"})
		case status == "open" && len(r.Tests) > 0:
			vs = append(vs, Violation{rule, place, r.ID + " is open but names a test", "say partly or covered"})
		case status != "open" && len(r.Tests) == 0:
			vs = append(vs, Violation{rule, place, r.ID + " is " + status + " but names no test", "name the test that shows it, or say open"})
		}
	}
	for _, id := range ids {
		if seen[id] != 1 {
			vs = append(vs, Violation{rule, doc, fmt.Sprintf("%s has %d rows", id, seen[id]), "give it exactly one row"})
		}
		delete(seen, id)
	}
	for id := range seen {
		vs = append(vs, Violation{rule, doc, id + " is no known finding", "remove the row"})
	}
	return vs
}
