package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/workspace"
)

// synthetic makes a repository of n files of about 4 KB in folders of ten,
// with an ignored folder beside them.
func synthetic(b *testing.B, n, ignored int) string {
	b.Helper()
	root := b.TempDir()
	for i := range n {
		p := filepath.Join(root, fmt.Sprintf("p%02d/q%d", i/100, i/10%10), fmt.Sprintf("f%d.go", i))
		if err := write(p, strings.Repeat(fmt.Sprintf("line of file %d\n", i), 250)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range ignored {
		if err := write(filepath.Join(root, fmt.Sprintf("node_modules/m%d/f%d", i/100, i)), "x"); err != nil {
			b.Fatal(err)
		}
	}
	if err := write(filepath.Join(root, ".gitignore"), "node_modules/\n"); err != nil {
		b.Fatal(err)
	}
	run(b, root, "init", "-q")
	run(b, root, "config", "gc.auto", "0") // nothing in the background
	run(b, root, "add", "-A")
	run(b, root, "commit", "-qm", "all")
	return root
}

// settled observes until nothing is young any more.
func settled(b *testing.B, w *Workspace) {
	b.Helper()
	for {
		observe(b, w)
		racy := w.snap.unsettled
		for _, d := range w.snap.dirs {
			racy = racy || d.racy
			for _, e := range d.files {
				racy = racy || e.racy
			}
		}
		if !racy {
			return
		}
	}
}

// cpu reports the processor time of an operation, git's included: on a busy
// machine it says more than the wall clock.
func cpu(b *testing.B) func() {
	b.Helper()
	used := func() (ns int64) {
		for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
			var u unix.Rusage
			if err := unix.Getrusage(who, &u); err != nil {
				b.Fatal(err)
			}
			ns += u.Utime.Nano() + u.Stime.Nano()
		}
		return ns
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/1e6/float64(b.N), "cpu-ms/op") }
}

var sizes = []struct{ files, ignored int }{{30, 0}, {5000, 2000}}

func BenchmarkObserveUnchanged(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprint(s.files), func(b *testing.B) {
			w := open2(b, synthetic(b, s.files, s.ignored), Options{})
			settled(b, w)
			defer cpu(b)()
			for b.Loop() {
				observe(b, w)
			}
		})
	}
}

func BenchmarkObserveOneChangedFile(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprint(s.files), func(b *testing.B) {
			root := synthetic(b, s.files, s.ignored)
			w := open2(b, root, Options{})
			settled(b, w)
			n := 0
			defer cpu(b)()
			for b.Loop() {
				n++
				if err := os.WriteFile(filepath.Join(root, "p00/q0/f1.go"), fmt.Appendf(nil, "%d %s", n, time.Now()), 0o644); err != nil {
					b.Fatal(err)
				}
				observe(b, w)
			}
		})
	}
}

func BenchmarkObserveOneNewFile(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprint(s.files), func(b *testing.B) {
			root := synthetic(b, s.files, s.ignored)
			w := open2(b, root, Options{})
			settled(b, w)
			n := 0
			defer cpu(b)()
			for b.Loop() {
				n++
				if err := write(filepath.Join(root, fmt.Sprintf("new/%d", n)), fmt.Sprint(n, time.Now())); err != nil {
					b.Fatal(err)
				}
				observe(b, w)
			}
		})
	}
}

func BenchmarkObserveFirst(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprint(s.files), func(b *testing.B) {
			root := synthetic(b, s.files, s.ignored)
			defer cpu(b)()
			for b.Loop() {
				w := open2(b, root, Options{})
				observe(b, w)
				w.Close()
			}
		})
	}
}

func BenchmarkObserveInANewProcess(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprint(s.files), func(b *testing.B) {
			root, state := synthetic(b, s.files, s.ignored), b.TempDir()
			w := open2(b, root, Options{State: state})
			settled(b, w)
			w.Close()
			defer cpu(b)()
			for b.Loop() {
				w := open2(b, root, Options{State: state})
				observe(b, w)
				w.Close()
			}
		})
	}
}

func BenchmarkApplyOneFile(b *testing.B) {
	root := synthetic(b, 30, 0)
	w := open2(b, root, Options{})
	ctx := context.Background()
	f, err := w.Read(ctx, "p00/q0/f1.go")
	if err != nil {
		b.Fatal(err)
	}
	base, n := f.Hash, 0
	defer cpu(b)()
	for b.Loop() {
		n++
		content := fmt.Sprintf("content %d\n", n)
		if err := w.Apply(ctx, []workspace.Edit{{Path: "p00/q0/f1.go", Base: base, Content: []byte(content)}}); err != nil {
			b.Fatal(err)
		}
		base = sum(content)
	}
}

func BenchmarkApplyAndObserve(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprint(s.files), func(b *testing.B) {
			w := open2(b, synthetic(b, s.files, s.ignored), Options{})
			settled(b, w)
			ctx := context.Background()
			f, err := w.Read(ctx, "p00/q0/f1.go")
			if err != nil {
				b.Fatal(err)
			}
			base, n := f.Hash, 0
			defer cpu(b)()
			for b.Loop() {
				n++
				content := fmt.Sprintf("content %d\n", n)
				if err := w.Apply(ctx, []workspace.Edit{{Path: "p00/q0/f1.go", Base: base, Content: []byte(content)}}); err != nil {
					b.Fatal(err)
				}
				base = sum(content)
				observe(b, w)
			}
		})
	}
}

// BenchmarkCheckpoint is what a checkpoint costs beyond an event: to look at the
// workspace after one file changed, and at what is staged, without and with a
// change of that. The larger size has 200,000 ignored files.
func BenchmarkCheckpoint(b *testing.B) {
	for _, s := range []struct{ files, ignored int }{{5000, 2000}, {50_000, 200_000}} {
		root := synthetic(b, s.files, s.ignored)
		for _, staged := range []bool{false, true}[:1+5000/s.files] {
			b.Run(fmt.Sprintf("%d/staged=%t", s.files, staged), func(b *testing.B) {
				w := open2(b, root, Options{})
				settled(b, w)
				n := 0
				defer cpu(b)()
				for b.Loop() {
					n++
					if err := os.WriteFile(filepath.Join(root, "p00/q0/f1.go"), fmt.Appendf(nil, "%d %s", n, time.Now()), 0o644); err != nil {
						b.Fatal(err)
					}
					if staged {
						b.StopTimer()
						run(b, root, "add", "p00/q0/f1.go")
						b.StartTimer()
					}
					observe(b, w)
					if _, err := w.Staged(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
