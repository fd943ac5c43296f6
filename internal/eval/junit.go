package eval

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The shape that build servers read. A fail is a failure; infra and time-outs
// are errors, because the case was not judged.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Time    string      `xml:"time,attr"`
	Failure *junitFault `xml:"failure"`
	Error   *junitFault `xml:"error"`
	Out     string      `xml:"system-out,omitempty"`
}

type junitFault struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

// JUnit renders the results as JUnit XML.
func (r Results) JUnit() ([]byte, error) {
	s := junitSuite{Name: "belay eval", Tests: len(r.Runs), Failures: r.Count(Fail), Errors: r.Count(Infra) + r.Count(TimeOut),
		Time: seconds(r.WallMS), Stamp: r.Begun.Format("2006-01-02T15:04:05")}
	for _, run := range r.Runs {
		name := run.Case
		if r.Repeat > 1 {
			name = fmt.Sprintf("%s #%d", run.Case, run.Repeat)
		}
		c := junitCase{Class: "belay.eval", Name: clean(name), Time: seconds(run.WallMS), Out: clean(strings.Join(run.Tail, "\n"))}
		why := clean(strings.Join(run.Why, "\n"))
		f := &junitFault{Type: string(run.Class), Message: clean(first(run.Why)), Text: why}
		switch run.Outcome {
		case Fail:
			c.Failure = f
		case Infra, TimeOut:
			f.Type = string(run.Outcome)
			c.Error = f
		}
		s.Cases = append(s.Cases, c)
	}
	b, err := xml.MarshalIndent(s, "", " ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// clean drops what XML cannot hold and a terminal would act on.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 || c == 0xfffe || c == 0xffff {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
