package builtin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
)

func TestAPatchTellsWhatStandsThereNowAndNeedsNoNewRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.go": "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"})
	w.ok("read_file", obj{"path": "a.go"})
	r := w.ok("file_patch", obj{"path": "a.go", "old_string": "four\n", "new_string": "4a\n4b\n"})
	w.says(r, "edited a.go: 1 replacement, lines 4 to 5\n", "     3→three\n     4→4a\n     5→4b\n     6→five\n")
	if strings.Contains(r.Output.Head, "→eight") || !strings.Contains(r.Output.Head, "     8→seven") {
		t.Errorf("the snippet is %q", r.Output.Head)
	}
	for _, want := range []string{"--- a/a.go", "+++ b/a.go", "-four", "+4a", "+4b"} {
		if !strings.Contains(r.prepared.Preview, want) {
			t.Errorf("the preview %q lacks %q", r.prepared.Preview, want)
		}
	}
	w.ok("file_patch", obj{"path": "a.go", "old_string": "4b\n", "new_string": ""})
	if got := w.get("a.go"); got != "one\ntwo\nthree\n4a\nfive\nsix\nseven\neight\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestPrepareChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "x\n"})
	w.ok("read_file", obj{"path": "a"})
	tl, c := w.call("file_patch", obj{"path": "a", "old_string": "x", "new_string": "y"})
	p, err := tl.(tool.Preparer).Prepare(t.Context(), w.env, c)
	if err != nil || w.get("a") != "x\n" {
		t.Fatalf("%v, %q", err, w.get("a"))
	}
	want := event.FilePrint{Path: "a", Base: event.RefOf([]byte("x\n"), "").SHA256, Result: event.RefOf([]byte("y\n"), "").SHA256, BaseMode: 0o644, ResultMode: 0o644}
	if len(p.Files) != 1 || p.Files[0] != want {
		t.Errorf("%+v", p.Files)
	}
}

// FIELD D3, C3: what was not read, or has changed since, is not overwritten.
func TestAnEditOfBytesThatTheModelDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "x\n", "dir/a": "x\n"})
	w.refused(fault.NotRead, "write_file", obj{"path": "a", "content": "z"}, "read_file")
	w.refused(fault.NotRead, "file_patch", obj{"path": "a", "old_string": "x", "new_string": "y"}, "read_file")
	w.ok("read_file", obj{"path": "a"})
	// The file of the same name elsewhere is another file.
	w.refused(fault.NotRead, "file_patch", obj{"path": "dir/a", "old_string": "x", "new_string": "y"}, "dir/a")
	w.put("a", "x\nthe user's line\n")
	w.refused(fault.StaleEdit, "write_file", obj{"path": "a", "content": "z"}, "changed", "again")
	w.refused(fault.StaleEdit, "file_patch", obj{"path": "a", "old_string": "x", "new_string": "y"}, "changed", "again")
	if w.get("a") != "x\nthe user's line\n" || w.get("dir/a") != "x\n" {
		t.Error("a refused edit changed a file")
	}
	w.ok("read_file", obj{"path": "a"})
	w.ok("file_patch", obj{"path": "a", "old_string": "x", "new_string": "y"})
}

func TestAnEditIsRefusedWhenTheFileChangesAfterItWasPrepared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "x\n"})
	w.ok("read_file", obj{"path": "a"})
	tl, c := w.call("file_patch", obj{"path": "a", "old_string": "x", "new_string": "y"})
	p, err := tl.(tool.Preparer).Prepare(t.Context(), w.env, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Intent.Files = p.Files
	w.put("a", "x, by the user\n")
	w.ok("read_file", obj{"path": "a"}) // now known, but not what was prepared
	o, r, err := tl.(tool.Runner).Run(t.Context(), w.env, c)
	if err != nil || o != event.Failed || r.Fault.Kind != fault.StaleEdit || w.get("a") != "x, by the user\n" {
		t.Errorf("%s, %+v, %v, %q", o, r.Fault, err, w.get("a"))
	}
}

func TestANewFileNeedsNoReadAndAWholeFileKeepsItsEndings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"crlf": "\xef\xbb\xbfa\r\nb\r\n"})
	r := w.ok("write_file", obj{"path": "new/deep/x.txt", "content": "hello\n"})
	w.says(r, "created new/deep/x.txt (1 line)")
	if w.get("new/deep/x.txt") != "hello\n" || !strings.Contains(r.prepared.Preview, "/dev/null") {
		t.Errorf("%q, %q", w.get("new/deep/x.txt"), r.prepared.Preview)
	}
	w.ok("write_file", obj{"path": "new/deep/x.txt", "content": "again\n"})
	w.ok("file_patch", obj{"path": "made", "old_string": "", "new_string": "by a patch\n"})
	w.ok("write_file", obj{"path": "empty", "content": ""})
	if w.get("made") != "by a patch\n" || w.get("empty") != "" {
		t.Error("a new file has other content")
	}
	w.ok("read_file", obj{"path": "crlf"})
	w.says(w.ok("write_file", obj{"path": "crlf", "content": "a\nB\nc\n"}), "rewrote crlf (3 lines): lines 2 to 3")
	if got := w.get("crlf"); got != "\xef\xbb\xbfa\r\nB\r\nc\r\n" {
		t.Errorf("the file is %q", got)
	}
	w.refused(fault.InvalidArguments, "write_file", obj{"path": "crlf", "content": "a\nB\nc\n"}, "already")
}

func TestAPatchOverSeveralFilesIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "1\n2\n", "b": "3\n"})
	w.ok("read_file", obj{"path": "a"})
	w.ok("read_file", obj{"path": "b"})
	edits := func(third string) obj {
		return obj{"edits": []obj{{"path": "a", "old_string": "1", "new_string": "one"}, {"path": "b", "old_string": third, "new_string": "three"}, {"path": "a", "old_string": "2", "new_string": "two"}}}
	}
	w.refused(fault.NoMatch, "file_patch", edits("4"), "b:")
	if w.get("a") != "1\n2\n" || w.get("b") != "3\n" {
		t.Fatal("a refused patch changed a file")
	}
	r := w.ok("file_patch", edits("3"))
	w.says(r, "edited a: 2 replacements", "edited b: 1 replacement")
	if w.get("a") != "one\ntwo\n" || w.get("b") != "three\n" || len(r.Files) != 2 || len(r.Seen) != 2 {
		t.Errorf("%q %q %+v", w.get("a"), w.get("b"), r.Result)
	}
}

// FIELD C3, E4, E8.
func TestAPatchFindsExactlyWhatIsMeantOrSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"twice": "x = 1\ny\nx = 1\n", "Makefile": "all:\n\tgo build\n\tgo vet\n", "quotes": "say “hi”\nand “ho”\n"})
	for p := range map[string]int{"twice": 0, "Makefile": 0, "quotes": 0} {
		w.ok("read_file", obj{"path": p})
	}
	w.refused(fault.Ambiguous, "file_patch", obj{"path": "twice", "old_string": "x = 1", "new_string": "x = 2"}, "2", "1", "3")
	w.refused(fault.NoMatch, "file_patch", obj{"path": "twice", "old_string": "z = 1", "new_string": "x"}, "x = 1")
	w.says(w.ok("file_patch", obj{"path": "twice", "old_string": "x = 1", "new_string": "x = 2", "replace_all": true}), "2 replacements, line 1, line 3")
	w.ok("file_patch", obj{"path": "Makefile", "old_string": "    go build\n    go vet", "new_string": "    go build ./...\n    go vet"})
	if got := w.get("Makefile"); got != "all:\n\tgo build ./...\n\tgo vet\n" {
		t.Errorf("the Makefile is %q", got)
	}
	w.ok("file_patch", obj{"path": "quotes", "old_string": "say \"hi\"", "new_string": "say \"hey\""})
	if got := w.get("quotes"); !strings.Contains(got, "and “ho”\n") || !strings.Contains(got, "hey") {
		t.Errorf("the file is %q", got)
	}
}

func TestOffLimitsStaysOffLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "x\n"})
	w.refused(fault.Protected, "write_file", obj{"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"})
	if err := os.Symlink(t.TempDir(), filepath.Join(w.root, "out")); err != nil {
		t.Fatal(err)
	}
	w.refused(fault.Outside, "write_file", obj{"path": "out/x", "content": "y"})
	w.env.ReadOnly = true
	w.refused(fault.PlanGate, "write_file", obj{"path": "b", "content": "y"})
	tl, c := w.call("write_file", obj{"path": "b", "content": "y"})
	if o, r, err := tl.(tool.Runner).Run(t.Context(), w.env, c); err != nil || o != event.Failed || r.Fault.Kind != fault.PlanGate {
		t.Errorf("%s %v %v", o, r.Fault, err)
	}
}

func TestAProbeComparesTheWorldWithTheIntent(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a": "1\n", "b": "2\n"}
	patch := obj{"edits": []obj{{"path": "a", "old_string": "1", "new_string": "one"}, {"path": "b", "old_string": "2", "new_string": "two"}, {"path": "c", "old_string": "", "new_string": "new\n"}}}
	for _, c := range []struct {
		name    string
		a, b, c string // "-" leaves the file absent
		want    tool.Found
		detail  string
	}{
		{"all as before", "1\n", "2\n", "-", tool.FoundNever, ""},
		{"all as intended", "one\n", "two\n", "new\n", tool.FoundFinished, ""},
		{"one of each", "one\n", "2\n", "-", tool.FoundUnknown, "a is as the edit leaves it; b is as before the edit; c is as before the edit"},
		{"someone else's content", "one\n", "zwei\n", "new\n", tool.FoundUnknown, "b has other content"},
		{"gone", "one\n", "-", "new\n", tool.FoundUnknown, "b is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files)
			w.ok("read_file", obj{"path": "a"})
			w.ok("read_file", obj{"path": "b"})
			tl, call := w.call("file_patch", patch)
			p, err := tl.(tool.Preparer).Prepare(t.Context(), w.env, call)
			if err != nil {
				t.Fatal(err)
			}
			call.Intent.Files = p.Files
			for name, content := range map[string]string{"a": c.a, "b": c.b, "c": c.c} {
				if content == "-" {
					os.Remove(filepath.Join(w.root, name))
				} else {
					w.put(name, content)
				}
			}
			f, err := tl.(tool.Prober).Probe(t.Context(), w.env, call)
			if err != nil || f.What != c.want || !strings.Contains(f.Detail, c.detail) {
				t.Fatalf("%+v, %v", f, err)
			}
			if f.What == tool.FoundFinished && (f.Outcome != event.Succeeded || len(f.Result.Files) != 3 || len(f.Result.Seen) != 3) {
				t.Errorf("%+v", f)
			}
			if f.What == tool.FoundNever { // and then it can run
				if o, r, err := tl.(tool.Runner).Run(t.Context(), w.env, call); err != nil || o != event.Succeeded {
					t.Errorf("%s %v %v", o, r.Fault, err)
				}
			}
		})
	}
}

// Whatever lines a patch changes, the others keep their bytes.
func TestAPatchKeepsEveryByteThatItDoesNotName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name := fmt.Sprintf("f%d", n)
		ends := []string{"\n", "\r\n"}
		var b strings.Builder
		lines := rapid.IntRange(1, 12).Draw(rt, "lines")
		target := rapid.IntRange(0, lines-1).Draw(rt, "target")
		var before, after string
		for i := range lines {
			if i == target {
				before = b.String()
				b.WriteString("TARGET")
				after = ""
				continue
			}
			piece := rapid.SampledFrom([]string{"x", "\ty ", "é“q”", ""}).Draw(rt, "text") + rapid.SampledFrom(ends).Draw(rt, "end")
			b.WriteString(piece)
			after += piece
		}
		w.put(name, b.String())
		w.ok("read_file", obj{"path": name})
		w.ok("file_patch", obj{"path": name, "old_string": "TARGET", "new_string": "A\nB"})
		got := w.get(name)
		if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) || len(got) < len(before)+len(after)+3 {
			rt.Fatalf("%q becomes %q", b.String(), got)
		}
	})
}

// Two names of one file in one patch would each be edited from the same base,
// and the later write would undo the earlier.
func TestTwoNamesOfOneFileInOnePatchLoseNoEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"f": "1\n2\n"})
	if err := os.Symlink("f", filepath.Join(w.root, "l")); err != nil {
		t.Fatal(err)
	}
	w.ok("read_file", obj{"path": "f"})
	w.ok("read_file", obj{"path": "l"})
	r := w.run("file_patch", obj{"edits": []obj{{"path": "f", "old_string": "1", "new_string": "one"}, {"path": "l", "old_string": "2", "new_string": "two"}}})
	if r.Fault == nil || r.outcome == event.Succeeded || w.get("f") != "1\n2\n" {
		t.Errorf("%s, %v, %q", r.outcome, r.Fault, w.get("f"))
	}
}
