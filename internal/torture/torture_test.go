package main

import (
	"os"
	"strings"
	"testing"
)

// sampleKills is how many kills an ordinary test run sees: about one at each
// failpoint. The whole is `make torture`.
const sampleKills = 100

// TestASampleOfTheTorture plays the same runs each time; TORTURE_SEED and
// TORTURE_KILLS choose others.
func TestASampleOfTheTorture(t *testing.T) {
	t.Parallel()
	c, err := newCampaign(options{kills: number("TORTURE_KILLS", sampleKills), seed: uint64(number("TORTURE_SEED", 1)), only: -1,
		jobs: 2, dir: os.Getenv("TORTURE_DIR"), log: testLog{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	r, err := c.play()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	r.print(&b)
	t.Log(b.String())
	for _, v := range r.violations {
		t.Errorf("seed %d, %s", r.seed, v)
	}
	if len(r.points) < 60 {
		t.Errorf("only %d failpoints killed anybody", len(r.points))
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
