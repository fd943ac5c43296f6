//go:build linux

package shim

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"belay/internal/sandbox"
)

// BenchmarkTrueCommand is Start to Wait of a trivial command, everything
// durable, as a step pays for it; BenchmarkForkExec is what the operating
// system takes for the command alone. "cold" starts its shim anew each time.
func BenchmarkTrueCommand(b *testing.B) {
	for _, mode := range []string{"reserve", "cold"} {
		b.Run(mode, func(b *testing.B) {
			s := newSandbox(b)
			var took []time.Duration
			one := func(i int) {
				begin := time.Now()
				c := sandbox.Command{Key: fmt.Sprintf("k.%d", i), Argv: []string{"/bin/true"}, Dir: "/"}
				p, err := s.Start(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Wait(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				took = append(took, time.Since(begin))
				_ = s.Forget(context.Background(), c.Key)
				s.refilled.Wait()
				time.Sleep(20 * time.Millisecond) // the model's time; the idle shim gets up
				b.StartTimer()
			}
			one(-1)
			if mode == "cold" {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			for i := range b.N {
				one(i)
			}
			reportMedian(b, took[1:])
		})
	}
}

func BenchmarkForkExec(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	reportMedian(b, took)
}

// reportMedian adds what a mean hides on a busy machine.
func reportMedian(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(took[0].Microseconds())/1000, "ms-min")
}
