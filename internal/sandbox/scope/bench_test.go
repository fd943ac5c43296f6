//go:build linux

package scope

import (
	"os"
	"testing"

	"belay/internal/sandbox"
	"belay/internal/sandbox/environ"
)

// BenchmarkOf is what the rules of one command cost in a repository of this
// size.
func BenchmarkOf(b *testing.B) {
	root, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	c := sandbox.Command{Key: "k", Dir: root, Workspace: root, Env: environ.Environment(os.Environ())}
	for b.Loop() {
		if _, err := Of(c, b.TempDir(), "/scratch"); err != nil {
			b.Fatal(err)
		}
	}
}
