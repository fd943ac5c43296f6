package builtin

import (
	"bytes"
	"strings"
)

const (
	maxDiagnosis = 12 // lines that look like the error
	lastLines    = 5  // lines to go by when none does
	maxDiagLine  = 240
)

// telling are words that mark a line as part of a diagnosis, in lower case.
var telling = []string{"error", "fail", "panic", "fatal", "exception", "undefined", "not found", "no such", "denied", "refused",
	"cannot", "can't", "unexpected", "expected", "assert", "traceback", "segmentation", "unresolved", "mismatch", "invalid", "want", "got "}

// diagnostic is a writer that picks from output the lines by which a failure
// can be recognised when it comes again: the first that look like an error, or
// the last of all.
type diagnostic struct {
	first []string
	last  []string
	line  []byte
}

func (d *diagnostic) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			d.keep(p)
			return n, nil
		}
		d.keep(p[:i])
		d.end()
		p = p[i+1:]
	}
}

func (d *diagnostic) keep(p []byte) {
	d.line = append(d.line, p[:min(len(p), maxDiagLine-len(d.line))]...)
}

func (d *diagnostic) end() {
	s := strings.TrimSpace(string(d.line))
	d.line = d.line[:0]
	if s == "" {
		return
	}
	if len(d.first) < maxDiagnosis {
		lower := strings.ToLower(s)
		for _, t := range telling {
			if strings.Contains(lower, t) {
				d.first = append(d.first, s)
				return
			}
		}
	}
	if len(d.last) == lastLines {
		d.last = append(d.last[:0], d.last[1:]...)
	}
	d.last = append(d.last, s)
}

// lines ends the output and returns what was picked.
func (d *diagnostic) lines() []string {
	d.end()
	if len(d.first) > 0 {
		return d.first
	}
	return d.last
}
