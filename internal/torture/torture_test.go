package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// sampleKills is how many kills an ordinary test run sees: enough to come to
// every failpoint on each store. The whole is `make torture`.
var sampleKills = map[string]int{onSQLite: 60, onPostgres: 30}

// TestASampleOfTheTorture plays the same runs each time; TORTURE_SEED and
// TORTURE_KILLS choose others. No failpoint is left out: one that no run comes
// to stands where nothing is tortured.
func TestASampleOfTheTorture(t *testing.T) {
	t.Parallel()
	for store, kills := range sampleKills {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c, err := newCampaign(options{store: store, kills: cmp.Or(number("TORTURE_KILLS", 0), kills), seed: uint64(number("TORTURE_SEED", 1)), only: -1,
				jobs: 2, dir: os.Getenv("TORTURE_DIR"), log: testLog{t}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.close)
			r, err := c.play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// The ways of recovery that chance has left out are taken on purpose.
			for i := 0; len(r.missed()) > 0 && i < len(doors); i++ {
				pl := plan{sandbox: "none", moves: 2, points: []string{fmt.Sprintf("%s=kill@1", doors[i])}}
				if err := c.planned(-1-i, pl, rand.New(rand.NewPCG(c.seed, uint64(i)))); err != nil {
					t.Fatal(err)
				}
				r = c.report
			}
			var b strings.Builder
			r.print(&b)
			t.Log(b.String())
			for _, v := range r.violations {
				t.Errorf("seed %d, %s", r.seed, v)
			}
			if missed := r.missed(); len(missed) > 0 {
				t.Errorf("no run came to %v", missed)
			}
		})
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
