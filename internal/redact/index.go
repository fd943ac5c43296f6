package redact

import "strings"

// set is a set of detectors, by their place; the last bit stands for the known
// values.
type set uint64

const valuesBit = 63

func (s set) has(i int) bool { return s&(1<<i) != 0 }

// index finds, in one pass over a text, which detectors could match: each
// literal is looked up by its first two bytes.
type index struct {
	bucket   [1 << 16]uint8 // of lower-cased pairs; 0 for none
	literals [][]literal
}

type literal struct {
	text string
	fold bool // text is in lower case, and any case fits
	bit  int
}

func newIndex(values []Value) *index {
	x := &index{literals: [][]literal{nil}}
	for i, d := range detectors {
		for _, l := range d.literals {
			x.add(literal{l, d.fold, i})
		}
	}
	for _, v := range values {
		x.add(literal{v.Secret, false, valuesBit})
	}
	return x
}

func lowByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func (x *index) add(l literal) {
	p := uint16(lowByte(l.text[0]))<<8 | uint16(lowByte(l.text[1]))
	if x.bucket[p] == 0 {
		if len(x.literals) == 256 {
			// More secrets than buckets: they share the last one, which is slower
			// and finds the same.
			x.bucket[p] = 255
		} else {
			x.bucket[p] = uint8(len(x.literals))
			x.literals = append(x.literals, nil)
		}
	}
	x.literals[x.bucket[p]] = append(x.literals[x.bucket[p]], l)
}

// scan returns the detectors whose literals a text holds.
func (x *index) scan(s string) set {
	var found set
	if len(s) < 2 {
		return 0
	}
	p := uint16(lowByte(s[0]))
	for i := 1; i < len(s); i++ {
		p = p<<8 | uint16(lowByte(s[i]))
		b := x.bucket[p]
		if b == 0 {
			continue
		}
		rest := s[i-1:]
		for _, l := range x.literals[b] {
			if !found.has(l.bit) && len(rest) >= len(l.text) && (strings.HasPrefix(rest, l.text) || l.fold && strings.EqualFold(rest[:len(l.text)], l.text)) {
				found |= 1 << l.bit
			}
		}
	}
	return found
}

// shapes is the index of the detectors alone.
var shapes = newIndex(nil)

func (r *Redactor) scan(s string) set {
	if r == nil || r.index == nil {
		return shapes.scan(s)
	}
	return r.index.scan(s)
}
