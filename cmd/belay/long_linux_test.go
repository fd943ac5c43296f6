package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// longSteps is how long the long run of the tests is; BELAY_LONG_STEPS makes it
// longer (docs/memory.md has the figures of 5,000).
func longSteps(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BELAY_LONG_STEPS")
	if text == "" {
		return 600
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 200 {
		t.Fatalf("BELAY_LONG_STEPS=%s is no number of steps from 200 on", text)
	}
	return n
}

// TestALongRunTakesNoMoreMemoryThanAShortOne: what a worker holds does not grow
// with what a goal has done, over many turns and compactions.
func TestALongRunTakesNoMoreMemoryThanAShortOne(t *testing.T) {
	t.Parallel()
	steps := longSteps(t)
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	for i := range 50 {
		w.put(filepath.Join(w.repo, fmt.Sprintf("f%d.txt", i)), strings.Repeat(fmt.Sprintf("line of file %d\n", i), 20))
	}
	early, late := filepath.Join(w.dir, "early"), filepath.Join(w.dir, "late")
	var b strings.Builder
	b.WriteString("window: 30000\nsteps:\n")
	for i := range steps {
		block := ""
		switch i {
		case 150:
			block = ", block_until_file: " + early
		case steps - 1:
			block = ", block_until_file: " + late
		}
		fmt.Fprintf(&b, "  - {calls: [{tool: read_file, args: {path: f%d.txt, limit: %d}}]%s}\n", i%50, 1+i%20, block)
	}
	p := w.start("run", "read on", "--model", w.script(b.String()), "--plan", "never", "--patience", "100", "--json")
	p.await(`"type":"model_requested".*"request":"r151"`)
	before := peak(t, p)
	w.put(early, "")
	p.await(fmt.Sprintf(`"type":"model_requested".*"request":"r%d"`, steps))
	after := peak(t, p)
	w.put(late, "")
	r := p.wait()
	t.Logf("peak after 151 requests: %d KiB, after %d: %d KiB", before, steps, after)
	if after > before+before/2+24<<10 {
		t.Errorf("the peak grew from %d KiB to %d KiB", before, after)
	}
	if n := strings.Count(r.out, `"type":"context_compacted"`); n < 2 {
		t.Errorf("%d compactions: the run was not long", n)
	}
}

// peak is the most memory that a process has held, in KiB.
func peak(t *testing.T, p *process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the kernel tells no peak")
	return 0
}
