package testreport

import (
	"encoding/xml"
	"strings"

	"belay/internal/event"
)

// maxJUnit is how much of one JUnit report is kept until it ends.
const maxJUnit = 16 << 20

// junitReader reads JUnit XML that stands in the log as text.
type junitReader struct {
	c    event.TestCounts
	n    names
	seen bool
	text strings.Builder
	root string // the element whose end is awaited, "" outside a report
}

func (j *junitReader) line(s string) {
	for s != "" {
		if j.root == "" {
			i := strings.Index(s, "<testsuite")
			if i < 0 {
				return
			}
			s = s[i:]
			j.root = "testsuite"
			if strings.HasPrefix(s, "<testsuites") {
				j.root = "testsuites"
			}
		}
		end := "</" + j.root + ">"
		i := strings.Index(s, end)
		if i < 0 {
			j.keep(s + "\n")
			return
		}
		j.keep(s[:i+len(end)])
		s = s[i+len(end):]
		// A testsuite may hold testsuites: it ends when as many have ended as
		// have begun.
		if j.root == "testsuite" {
			t := j.text.String()
			if strings.Count(t, "<testsuite ")+strings.Count(t, "<testsuite>")+strings.Count(t, "<testsuite\n") > strings.Count(t, end) {
				continue
			}
		}
		j.report()
	}
}

func (j *junitReader) keep(s string) {
	if room := maxJUnit - j.text.Len(); len(s) > room {
		s = s[:room]
	}
	j.text.WriteString(s)
}

// report counts what has been kept. What breaks off in the middle counts as
// far as it goes.
func (j *junitReader) report() {
	d := xml.NewDecoder(strings.NewReader(j.text.String()))
	d.Strict = false
	j.text.Reset()
	j.root = ""
	var name, result string
	in := false
	for {
		tok, err := d.Token()
		if err != nil {
			return
		}
		switch t := tok.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "testsuite", "testsuites":
				j.seen = true
			case "testcase":
				in, name, result = true, caseName(t), "passed"
			case "failure", "error":
				if in {
					result = "failed"
				}
			case "skipped":
				if in && result == "passed" {
					result = "skipped"
				}
			}
		case xml.EndElement:
			if t.Name.Local != "testcase" || !in {
				continue
			}
			in = false
			switch result {
			case "passed":
				j.c.Passed++
			case "skipped":
				j.c.Skipped++
			case "failed":
				j.c.Failed++
				j.n.add(name)
			}
		}
	}
}

func caseName(t xml.StartElement) string {
	var class, name string
	for _, a := range t.Attr {
		switch a.Name.Local {
		case "classname":
			class = a.Value
		case "name":
			name = a.Value
		}
	}
	if class == "" || class == name {
		return name
	}
	return class + "." + name
}

func (j *junitReader) counts() (event.TestCounts, bool) {
	if j.root != "" {
		j.report()
	}
	j.c.Runner, j.c.Failing = "junit", j.n.list
	return j.c, j.seen
}
