package core_test

import (
	"flag"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"belay/internal/core/lifecycle"
)

// A failing seed is printed and replays alone:
//
//	go test ./internal/core -run TestSimulation -sim.seed=N -sim.v
var (
	simSeeds = flag.Int("sim.n", defaultSeeds, "how many seeds to simulate")
	simSeed  = flag.Uint64("sim.seed", 0, "replay this one seed")
	simTrace = flag.Bool("sim.v", false, "print the trace of the replayed seed")
)

// thoroughEvery is how many seeds share one that is also held against what
// costs more than it finds: folding twice, stepping twice.
const thoroughEvery = 25

func simulate(seed uint64, trace bool) (*sim, error) {
	s := newSim(seed, trace, knobs{}, invariants...)
	s.thorough = seed%thoroughEvery == 0 || trace
	return s, s.run()
}

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		if _, err := simulate(*simSeed, *simTrace); err != nil {
			t.Fatalf("seed %d: %v", *simSeed, err)
		}
		return
	}
	t.Parallel()
	// The runs make much short-lived garbage and keep nothing.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	var next, completed, cancelled, unknown atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed > uint64(*simSeeds) || t.Failed() {
					return
				}
				s, err := simulate(seed, false)
				if err != nil {
					t.Errorf("seed %d: %v\nreplay: go test ./internal/core -run TestSimulation -sim.seed=%d -sim.v", seed, err, seed)
					return
				}
				switch s.committed.Status {
				case lifecycle.Completed:
					completed.Add(1)
				case lifecycle.Cancelled:
					cancelled.Add(1)
				}
				if s.saw["outcome unknown"] > 0 {
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: %d goals completed, %d cancelled, %d with unknown outcomes", *simSeeds, completed.Load(), cancelled.Load(), unknown.Load())
	if !t.Failed() && *simSeeds >= 1000 && (completed.Load() == 0 || cancelled.Load() == 0 || unknown.Load() == 0) {
		t.Error("the simulation no longer reaches completion, cancellation and unknown outcomes: it tests nothing")
	}
}
