// Package testdiff compares the tests of two states of a repository and says
// what was taken from them: deleted, skipped, narrowed or weakened tests, and a
// test command that means something else now.
//
// It is pure: texts in, findings out. It reads marks that test frameworks
// share, line by line, and no language's grammar: what it reports is there to
// be seen, but a test can be weakened in ways that it cannot see. That is why a
// criterion never rests on it alone: the tests as they stood are run as well.
//
// It must not know goals, trees or who changed what, and it decides nothing.
package testdiff

// File is one path in both states. Absent bytes are nil.
type File struct {
	Path          string
	Before, After []byte
}

// The kinds of findings.
const (
	Deleted   = "deleted"   // a test, or a file with tests, is gone
	Skipped   = "skipped"   // a mark that keeps tests from running was added
	Weakened  = "weakened"  // something that a test asserted is not asserted any more
	Redefined = "redefined" // the test command runs something else than before
)

// Finding is one thing that the tests lost.
type Finding struct {
	Kind, Path string
	// Detail quotes what is gone or new, or says what changed.
	Detail string
}

// String says it in one line.
func (f Finding) String() string {
	s := f.Kind + ": " + f.Path
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}
