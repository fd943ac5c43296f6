//go:build race

package core_test

import "flag"

// defaultSeeds is smaller under the race detector: the core has no goroutine
// of its own, so what it could find it finds in the first hundreds.
const defaultSeeds = 500

func init() {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}
