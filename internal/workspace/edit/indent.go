package edit

import (
	"sort"
	"strings"
)

const blanks = " \t"

// byIndent matches whole lines whose text is the same when leading, trailing
// and repeated blanks are not compared, provided that indentation corresponds:
// one indent of the old text always stands for one indent of the file. Lines
// of the new text that were in the old one stay as the file has them; the
// others get the file's indentation.
func (v view) byIndent(old, new string) (match, []int) {
	wanted := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	if strings.TrimSpace(old) == "" {
		return match{}, nil
	}
	lines := strings.Split(v.shown, "\n")
	bare, squeezed := make([]string, len(wanted)), make([]string, len(lines))
	for i, w := range wanted {
		bare[i] = squeeze(w)
	}
	for i, l := range lines {
		squeezed[i] = squeeze(l)
	}
	var found []int
	for _, i := range runs(squeezed, bare) {
		if indents(wanted, lines[i:]) != nil {
			found = append(found, i)
		}
	}
	at := make([]int, len(found))
	for i, n := range found {
		at[i] = lineStart(lines, n)
	}
	if len(found) != 1 {
		return match{}, at
	}
	here := lines[found[0] : found[0]+len(wanted)]
	region := strings.Join(here, "\n")
	// A newline at the end of old stands for the one behind the region; it is
	// part of the replacement only if new drops it.
	text := new
	if strings.HasSuffix(old, "\n") {
		if t, ok := strings.CutSuffix(new, "\n"); ok {
			text = t
		} else if at[0]+len(region) < len(v.shown) {
			region += "\n"
		}
	}
	var spans []span
	for _, d := range difference(region, reindent(text, wanted, here)) {
		spans = append(spans, span{at[0] + d.start, at[0] + d.end, d.text})
	}
	return match{spans: spans, note: "blanks or indentation differed from the file; the file's own were kept"}, at
}

func lineStart(lines []string, n int) int {
	at := 0
	for _, l := range lines[:n] {
		at += len(l) + 1
	}
	return at
}

func squeeze(line string) string {
	return strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// runs lists where the wanted lines stand one after the other, in time linear
// in the number of lines (Knuth, Morris and Pratt), however often they repeat.
func runs(lines, wanted []string) []int {
	// back[i] is how many lines at the end of wanted[:i+1] are also its
	// beginning.
	back := make([]int, len(wanted))
	for i, n := 1, 0; i < len(wanted); i++ {
		for n > 0 && wanted[i] != wanted[n] {
			n = back[n-1]
		}
		if wanted[i] == wanted[n] {
			n++
		}
		back[i] = n
	}
	var at []int
	n := 0
	for i, l := range lines {
		for n > 0 && l != wanted[n] {
			n = back[n-1]
		}
		if l == wanted[n] {
			n++
		}
		if n == len(wanted) {
			at = append(at, i+1-n)
			n = back[n-1]
		}
	}
	return at
}

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, blanks))] }

// indents maps each indent of the old text to the file's, or returns nil when
// they do not correspond.
func indents(old, file []string) map[string]string {
	m := map[string]string{}
	for i, o := range old {
		if strings.Trim(o, blanks) == "" {
			continue
		}
		from, to := indentOf(o), indentOf(file[i])
		if was, ok := m[from]; ok && was != to {
			return nil
		}
		m[from] = to
	}
	return m
}

// reindent writes new with the file's lines and indentation.
func reindent(new string, old, file []string) string {
	shift := newShift(indents(old, file))
	lines := strings.Split(new, "\n")
	kept := common(old, lines)
	for i, line := range lines {
		switch {
		case kept[i] >= 0:
			lines[i] = file[kept[i]]
		case strings.Trim(line, blanks) != "":
			in := indentOf(line)
			lines[i] = shift.of(in) + line[len(in):]
		}
	}
	return strings.Join(lines, "\n")
}

// maxTable bounds the work of common; past it only equal heads and tails are
// recognised.
const maxTable = 4_000_000

// common aligns the lines of new with those of old (longest common
// subsequence) and returns, for each line of new, its line in old or -1.
func common(old, new []string) []int {
	kept := make([]int, len(new))
	for i := range kept {
		kept[i] = -1
	}
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		kept[head] = head
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		kept[len(new)-1-tail] = len(old) - 1 - tail
		tail++
	}
	a, b := old[head:len(old)-tail], new[head:len(new)-tail]
	if len(a)*len(b) == 0 || len(a)*len(b) > maxTable {
		return kept
	}
	w := len(b) + 1
	table := make([]int32, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i*w+j] = table[(i+1)*w+j+1] + 1
			} else {
				table[i*w+j] = max(table[(i+1)*w+j], table[i*w+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			kept[head+j] = head + i
			i, j = i+1, j+1
		case table[(i+1)*w+j] >= table[i*w+j+1]:
			i++
		default:
			j++
		}
	}
	return kept
}

// shift turns indents of the old text into indents of the file.
type shift struct {
	known map[string]string
	// froms are the keys of known, longest first.
	froms []string
	// unit is how many spaces of the old text stand for one tab of the file,
	// or the other way round when toSpaces is set; 0 when blanks stay.
	unit     int
	toSpaces bool
}

func newShift(known map[string]string) shift {
	s := shift{known: known}
	for from, to := range known {
		s.froms = append(s.froms, from)
		spaces, tabs := from, to
		toSpaces := strings.Contains(from, "\t")
		if toSpaces {
			spaces, tabs = to, from
		}
		if n := strings.Count(tabs, "\t"); n > 0 && n == len(tabs) && spaces != "" &&
			strings.Count(spaces, " ") == len(spaces) && len(spaces)%n == 0 {
			s.unit, s.toSpaces = len(spaces)/n, toSpaces
		}
	}
	sort.Slice(s.froms, func(i, j int) bool { return len(s.froms[i]) > len(s.froms[j]) })
	return s
}

// of translates one indent: the longest known indent that it starts with, and
// the rest in the file's kind of blanks. An indent shallower than all known
// ones loses as many levels as they have in the file.
func (s shift) of(in string) string {
	if to, ok := s.known[in]; ok {
		return to
	}
	for _, from := range s.froms {
		if strings.HasPrefix(in, from) {
			return s.known[from] + s.rest(in[len(from):])
		}
	}
	for i := len(s.froms) - 1; i >= 0; i-- {
		from := s.froms[i]
		if !strings.HasPrefix(from, in) {
			continue
		}
		to, missing := s.known[from], s.rest(from[len(in):])
		if strings.HasSuffix(to, missing) {
			return strings.TrimSuffix(to, missing)
		}
	}
	return s.rest(in)
}

func (s shift) rest(in string) string {
	switch {
	case s.unit == 0:
		return in
	case s.toSpaces:
		return strings.ReplaceAll(in, "\t", strings.Repeat(" ", s.unit))
	}
	return strings.ReplaceAll(in, strings.Repeat(" ", s.unit), "\t")
}
