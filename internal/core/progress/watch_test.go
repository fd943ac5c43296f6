package progress_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/core/progress"
)

// way drives a watch as a goal does: a response, then what it asked for.
type way struct {
	w     progress.Watch
	tree  string
	round int
	// warned and stopped say at which response it came to that.
	warned, stopped int
	signal          progress.Signal
}

func walk(patience int64, steps int, act func(x *way, n int)) *way {
	x := &way{w: progress.Watch{}.Clone(), tree: "t0"}
	x.w.Moved(x.tree, nil, false)
	for n := 1; n <= steps; n++ {
		x.round++
		x.w.Replied(1000)
		act(x, n)
		a := x.w.Look(patience)
		switch {
		case a == nil:
		case a.Stop:
			x.stopped, x.signal = n, a.Signal
			return x
		default:
			if x.warned == 0 {
				x.warned, x.signal = n, a.Signal
			}
			x.w.Warn(a.Signal)
		}
	}
	return x
}

func (x *way) call(tool, args, sight string) {
	x.w.Finished(progress.Done{Tool: tool, Arguments: args, Round: fmt.Sprint("r", x.round), Observation: sight, Acts: tool == "run_command"}, x.tree)
}

func (x *way) fails(tool, args, sight, signature string) {
	x.w.Finished(progress.Done{Tool: tool, Arguments: args, Round: fmt.Sprint("r", x.round), Observation: sight, Error: signature, Acts: tool == "run_command"}, x.tree)
}

// edit leads to a tree; the same name is the same content.
func (x *way) edit(path, tree string) {
	x.w.Finished(progress.Done{Tool: "file_patch", Arguments: path + " to " + tree, Round: fmt.Sprint("r", x.round),
		Observation: "Edited " + path, Edits: true, Acts: true}, x.tree)
	if tree != x.tree {
		x.tree = tree
		x.w.Moved(tree, []string{path}, true)
	}
}

func (x *way) test(result string, passed bool) {
	x.w.Finished(progress.Done{Tool: "run_test", Arguments: "{}", Round: fmt.Sprint("r", x.round), Observation: result, Tests: true, Acts: true}, x.tree)
	x.w.Tested("go test", result, x.tree, passed)
}

// What leads nowhere is warned of, and stopped later, by the signal that names
// it best.
func TestEachSignalHasItsWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act             func(x *way, n int)
		signal          progress.Signal
		warned, stopped int
	}{
		"the same call": {func(x *way, _ int) { x.call("read_file", `{"path":"a"}`, "text of a") }, progress.SameAction, 4, 7},
		"the same call but for a number and a time": {func(x *way, n int) {
			x.call("run_command", fmt.Sprintf(`{"command":"sleep %d; make"}`, n), fmt.Sprintf("nothing to be done (0.%ds) at 12:00:%02d", n, n))
		}, progress.SameAction, 4, 7},
		"a cycle of two": {func(x *way, n int) {
			x.call("read_file", fmt.Sprintf(`"%c"`, 'a'+n%2), fmt.Sprintf("text of %c", 'a'+n%2))
		}, progress.SameAction, 8, 14},
		"a cycle of six": {func(x *way, n int) {
			x.call("read_file", fmt.Sprintf(`"%c"`, 'a'+n%6), fmt.Sprintf("text of %c", 'a'+n%6))
		}, progress.SameAction, 24, 42},
		"to and fro": {func(x *way, n int) { x.edit("f", fmt.Sprint("t", n%2)) }, progress.SameAction, 8, 14},
		"one error in many ways": {func(x *way, n int) {
			x.fails("run_command", fmt.Sprintf("try %c", 'a'+n), fmt.Sprintf("no %c here", 'a'+n), "sig")
		}, progress.RepeatedError, 8, 14},
		"the same is seen whatever is done": {func(x *way, n int) { x.call("search_text", fmt.Sprintf("%c", 'a'+n), "no matches") }, progress.SameObservation, 8, 14},
		"commands that change nothing and tell nothing new": {func(x *way, n int) {
			x.call("run_command", fmt.Sprintf("touch %c", 'a'+n%9), fmt.Sprintf("ok %c", 'a'+n%4))
		}, progress.TreeUnchanged, 0, 0},
		"a plan that is changed and changed": {func(x *way, n int) { x.w.Planned(true) }, progress.PlanStalled, 6, 12},
		"a todo done and taken back": {func(x *way, n int) {
			if n%2 == 0 {
				x.w.Planned(true, "t1")
			} else {
				x.w.Planned(true)
			}
		}, progress.PlanStalled, 0, 0},
		"edits of one file, one failing test": {func(x *way, n int) {
			x.edit("f", fmt.Sprint("tree ", n))
			x.test("1 failed: TestX", false)
			x.w.Planned(true)
		}, progress.PlanStalled, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := walk(1, 400, c.act)
			if x.stopped == 0 || x.warned == 0 || x.warned >= x.stopped || x.signal != c.signal {
				t.Fatalf("warned at %d, stopped at %d by %q, want %q", x.warned, x.stopped, x.signal, c.signal)
			}
			if c.warned > 0 && (x.warned != c.warned || x.stopped != c.stopped) {
				t.Errorf("warned at %d, stopped at %d, want %d and %d", x.warned, x.stopped, c.warned, c.stopped)
			}
			if y := walk(3, 1200, c.act); y.stopped != 0 && y.stopped < x.stopped+1 || y.warned <= x.warned {
				t.Errorf("three times the patience: warned at %d, stopped at %d; once: %d, %d", y.warned, y.stopped, x.warned, x.stopped)
			}
		})
	}
}

// The dearest way of all: edits of one file and the same failing test, with
// looks at what was just written in between.
func TestThrashingIsStoppedByItsCost(t *testing.T) {
	t.Parallel()
	x := walk(1, 400, func(x *way, n int) {
		switch n % 3 {
		case 0:
			x.edit("f", fmt.Sprint("tree ", n))
		case 1:
			x.test("1 failed: TestX", false)
		case 2:
			x.call("read_file", `{"path":"f"}`, fmt.Sprintf("version %c%c of f", 'a'+n/26%26, 'a'+n%26))
		}
		x.w.Still = 0 // a plan of its own moves on
	})
	if x.signal != progress.CostRising || x.stopped < 120 {
		t.Errorf("stopped at %d by %q", x.stopped, x.signal)
	}
}

// Honest repetition is no circle.
func TestHonestRepetitionIsNotStopped(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(x *way, n int){
		"polling what changes":          func(x *way, n int) { x.call("run_command", "progress", fmt.Sprintf("%d%% done", n)) },
		"the same edit over many files": func(x *way, n int) { x.edit(fmt.Sprint("file", n), fmt.Sprint("tree", n)) },
		"reading many files":            func(x *way, n int) { x.call("read_file", fmt.Sprintf(`"f%d"`, n), fmt.Sprintf("text of %x", n*7919)) },
		"reading one file piece by piece": func(x *way, n int) {
			x.call("read_file", fmt.Sprintf(`{"offset":%d}`, n), fmt.Sprintf("lines %d and on", n))
		},
		"a passing test after each edit":        func(x *way, n int) { x.edit("f", fmt.Sprint("tree", n)); x.test("5 passed", true) },
		"a test that fails in fewer ways":       func(x *way, n int) { x.edit("f", fmt.Sprint("tree", n)); x.test(fmt.Sprint(500-n, " failed"), false) },
		"an edit, then a test that still fails": func(x *way, n int) { x.edit(fmt.Sprint("f", n/20), fmt.Sprint("tree", n)); x.test("1 failed", false) },
		"a todo done now and then": func(x *way, n int) {
			x.edit("f", fmt.Sprint("tree ", n))
			if n%20 == 0 {
				x.w.Planned(true, fmt.Sprint("todo", n))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x := walk(1, 300, act); x.stopped != 0 || x.warned != 0 {
				t.Errorf("warned at %d, stopped at %d by %q", x.warned, x.stopped, x.signal)
			}
		})
	}
}

// Whatever happens: no stop without a warning before it and a response after
// that; one response, however many calls it makes, warns at most; a word of the
// user begins anew; the cache and copies change nothing.
func TestNothingIsStoppedUnwarned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		var warnedIn map[progress.Signal]int
		x := walk(1, 0, nil)
		warnedIn = map[progress.Signal]int{}
		for n := 1; n <= rapid.IntRange(1, 80).Draw(t, "responses"); n++ {
			x.round++
			x.w.Replied(100)
			for range rapid.IntRange(1, 4).Draw(t, "calls") {
				switch rapid.IntRange(0, 6).Draw(t, "what") {
				case 0:
					x.call("read_file", names.Draw(t, "path"), names.Draw(t, "text"))
				case 1:
					x.fails("run_command", names.Draw(t, "command"), names.Draw(t, "text"), names.Draw(t, "error"))
				case 2:
					x.edit(names.Draw(t, "path"), names.Draw(t, "tree"))
				case 3:
					x.test(names.Draw(t, "result"), rapid.Bool().Draw(t, "passed"))
				case 4:
					x.w.Planned(rapid.Bool().Draw(t, "moved"), rapid.SliceOfN(names, 0, 1).Draw(t, "done")...)
				case 5:
					x.w.Refused(names.Draw(t, "error"), rapid.Bool().Draw(t, "acts"))
				case 6:
					x.call("run_command", names.Draw(t, "command"), names.Draw(t, "text"))
				}
			}
			copied := x.w.Clone()
			copied.Finished(progress.Done{Tool: "only in the copy", Acts: true, Error: "e"}, "elsewhere")
			copied.Afresh()
			raw, err := json.Marshal(x.w)
			if err != nil {
				t.Fatal(err)
			}
			var back progress.Watch
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			a, b := x.w.Look(1), back.Look(1)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%+v, from the cache %+v", a, b)
			}
			switch {
			case a == nil:
			case a.Stop:
				if at, ok := warnedIn[a.Signal]; !ok || at >= n {
					t.Fatalf("%s stops at response %d, warned at %d (%t)", a.Signal, n, at, ok)
				}
				x.w.Afresh()
				warnedIn = map[progress.Signal]int{}
				if a := x.w.Look(1); a != nil {
					t.Fatalf("afresh, and yet %+v", *a)
				}
			default:
				warnedIn[a.Signal] = n
				x.w.Warn(a.Signal)
			}
		}
	})
}

func TestTheWatchIsBounded(t *testing.T) {
	t.Parallel()
	size := func(steps int) int {
		x := walk(1, steps, func(x *way, n int) {
			x.call("read_file", fmt.Sprintf("%x", n*7919), fmt.Sprintf("text of %x", n*104729))
			x.edit(fmt.Sprint("file", n), fmt.Sprint("tree", n))
			x.test(fmt.Sprint(n), false)
		})
		raw, err := json.Marshal(x.w)
		if err != nil {
			t.Fatal(err)
		}
		return len(raw)
	}
	if a, b := size(2000), size(4000); b > a+a/20 || a > 200<<10 {
		t.Errorf("%d bytes after 2,000 responses, %d after 4,000", a, b)
	}
}

func TestBlur(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b    string
		numbers bool
		same    bool
	}{
		{"ok  \tpkg\t0.123s", "ok pkg 1.9s", false, true},
		{"12:01:02 waiting", "23:59:59 waiting", false, true},
		{"2026-01-02T03:04:05Z up", "2026-11-30T00:00:00.5Z up", false, true},
		{"at 0xc000123456", "at 0xc000abcdef", false, true},
		{"took 15ms", "took 1700ms", false, true},
		{"10% done", "20% done", false, false},
		{"30s left", "20s left", false, false},
		{"3 failed", "2 failed", false, false},
		{"a  b\n", "a b", false, true},
		{"v1.2.3", "v1.2.4", false, false},
		{`{"offset":1}`, `{"offset":200}`, true, true},
		{`"sed -n 1,5p f"`, `"sed -n 100,250p f"`, true, true},
		{`"cat a"`, `"cat b"`, true, false},
		{"", " \n", false, true},
	} {
		if got := progress.Blur(c.a, c.numbers) == progress.Blur(c.b, c.numbers); got != c.same {
			t.Errorf("%q and %q: the same %t\n%q\n%q", c.a, c.b, got, progress.Blur(c.a, c.numbers), progress.Blur(c.b, c.numbers))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		once := progress.Blur(text, false)
		if twice := progress.Blur(once, false); twice != once {
			t.Fatalf("%q → %q → %q", text, once, twice)
		}
		progress.Blur(text, true)
	})
}
