// Package lazyre has regular expressions that are compiled when they are first
// used. The program starts itself anew for every command that it supervises,
// and a package-level MustCompile is paid for at each of these starts: together
// they cost more than the rest of a start.
//
// It must not know what the expressions are for.
package lazyre

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression in the syntax of package regexp.
type Regexp struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

var (
	mu  sync.Mutex
	all []*Regexp
)

// New names an expression, in a package's variable. One that cannot be compiled
// would panic when it is first used: the test of the program compiles All.
func New(text string) *Regexp {
	mu.Lock()
	defer mu.Unlock()
	r := &Regexp{text: text}
	all = append(all, r)
	return r
}

// All are the expressions of the program, as text.
func All() []string {
	mu.Lock()
	defer mu.Unlock()
	var texts []string
	for _, r := range all {
		texts = append(texts, r.text)
	}
	return texts
}

// Compiled is the expression of package regexp.
func (r *Regexp) Compiled() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.text) })
	return r.re
}

// MatchString is that of package regexp, as are the methods below.
func (r *Regexp) MatchString(s string) bool { return r.Compiled().MatchString(s) }

// FindString returns the leftmost match.
func (r *Regexp) FindString(s string) string { return r.Compiled().FindString(s) }

// FindStringSubmatch returns the leftmost match and its submatches.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.Compiled().FindStringSubmatch(s) }

// FindStringIndex returns where the leftmost match is.
func (r *Regexp) FindStringIndex(s string) []int { return r.Compiled().FindStringIndex(s) }

// FindAllStringIndex returns where the matches are.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.Compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatchIndex returns where the matches and submatches are.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.Compiled().FindAllStringSubmatchIndex(s, n)
}

// ReplaceAllString replaces the matches, with $1 for a submatch.
func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.Compiled().ReplaceAllString(s, with)
}

// ReplaceAllStringFunc replaces the matches by what a function makes of them.
func (r *Regexp) ReplaceAllStringFunc(s string, f func(string) string) string {
	return r.Compiled().ReplaceAllStringFunc(s, f)
}
