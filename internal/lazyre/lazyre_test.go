package lazyre_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/lazyre"
)

// A lazy expression is the expression, also when many use it first at once.
func TestItIsTheExpression(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{`a+`, `(a)(b)?`, `^$`, `(?i)x|y`, `\d{2,3}`}).Draw(t, "expression")
		s := rapid.StringMatching(`[abxY0-9]{0,12}`).Draw(t, "text")
		re, lazy := regexp.MustCompile(text), lazyre.New(text)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { lazy.MatchString(s) })
		}
		wg.Wait()
		if lazy.MatchString(s) != re.MatchString(s) || lazy.FindString(s) != re.FindString(s) ||
			!slices.Equal(lazy.FindStringSubmatch(s), re.FindStringSubmatch(s)) || !slices.Equal(lazy.FindStringIndex(s), re.FindStringIndex(s)) ||
			lazy.ReplaceAllString(s, "<$0>") != re.ReplaceAllString(s, "<$0>") ||
			lazy.ReplaceAllStringFunc(s, strings.ToUpper) != re.ReplaceAllStringFunc(s, strings.ToUpper) ||
			len(lazy.FindAllStringIndex(s, -1)) != len(re.FindAllStringIndex(s, -1)) ||
			len(lazy.FindAllStringSubmatchIndex(s, -1)) != len(re.FindAllStringSubmatchIndex(s, -1)) {
			t.Fatalf("%q on %q", text, s)
		}
	})
}
