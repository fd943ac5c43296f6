package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// elsewhere is another machine: a state directory, a home and a configuration of
// its own, with the model's script at the same path.
func (w *world) elsewhere(t *testing.T) *world {
	t.Helper()
	o := newWorld(t, nil)
	o.env = append(slices.DeleteFunc(o.env, func(kv string) bool { return strings.HasPrefix(kv, "BELAY_STATE=") }), "BELAY_STATE="+filepath.Join(o.dir, "other-state"))
	return o
}

// half is a goal that has done half of its work and asks a question.
func half(t *testing.T) (w *world, goal string) {
	t.Helper()
	w = newWorld(t, toy())
	big := stepCommand("i=0; while [ $i -lt 3000 ]; do echo a line of a long output $i; i=$((i+1)); done; echo made > made.txt; chmod 755 made.txt")
	w.must(3, runToy(w.script("steps:\n"+stepRead+big+stepCall("ask_user", map[string]any{"question": "Go on?"})+stepRead+stepFix+stepTest+stepDone))...)
	return w, w.goal()
}

// TestAGoalThatIsGivenUpFinishesElsewhere: exported in one state directory,
// imported in another, it finishes there; the first refuses to go on.
func TestAGoalThatIsGivenUpFinishesElsewhere(t *testing.T) {
	t.Parallel()
	w, goal := half(t)
	file := filepath.Join(w.dir, "goal.belay")
	r := w.must(0, "export", goal, file, "--give-up")
	head := strings.Fields(r.out[strings.Index(r.out, "head ")+5:])[0]
	for _, args := range [][]string{{"resume", goal}, {"say", goal, "more"}, {"cancel", goal}, {"rollback", goal, "cp0", "--yes"}} {
		if r := w.belay(args...); r.code == 0 || !strings.Contains(r.err, "was given up to goal.belay") {
			t.Errorf("%v", r)
		}
	}
	w.must(0, "export", goal, filepath.Join(w.dir, "again.belay"), "--give-up") // the file may be lost

	o := w.elsewhere(t)
	repo := filepath.Join(o.dir, "project")
	if r := o.belay("import", file, "--repo", repo, "--head", strings.Repeat("0", 64)); r.code == 0 || !strings.Contains(r.err, "the last event") {
		t.Errorf("%v", r)
	}
	in := o.must(0, "import", file, "--repo", repo, "--head", head)
	if !strings.Contains(in.out, "it counts as its test, and is run without a question: sh check.sh") {
		t.Errorf("%v", in)
	}
	sameTree(t, "the tree", files(t, w.repo), files(t, repo))
	o.id = goal
	if s := o.snapshot(); s.Status != lifecycle.Paused || s.Repo != repo {
		t.Errorf("%s in %s", s.Status, s.Repo)
	}
	o.must(0, "audit", goal)
	if r := o.must(2, "import", file, "--repo", repo); !strings.Contains(r.err, "goes on here") {
		t.Errorf("%v", r)
	}
	// The user's word there: nothing of the exporter's --approve auto came along.
	if s := o.snapshot(); !strings.Contains(o.must(0, "policy", "goal", goal).out, "ask") || s.GoalVersion != 1 {
		t.Errorf("policy: %v", o.must(0, "policy", "goal", goal))
	}
	o.must(0, "policy", "goal", goal, "--approve", "auto")
	o.must(0, "resume", goal)
	if s := o.snapshot(); s.Status != lifecycle.Completed || s.How != event.Verified {
		t.Errorf("it is %s (%s): %s", s.Status, s.How, s.WaitDetail)
	}
	o.must(0, "audit", goal)
	// What was kept as an artifact came along, and so did the states to go back to.
	if out := o.must(0, "log", goal, "op2").out; !strings.Contains(out, "a line of a long output 2999") {
		t.Errorf("op2: %d bytes", len(out))
	}
	o.must(0, "rollback", goal, "cp0", "--yes")
	sameTree(t, "as it was found", maps.Clone(mapOf(toy(), files(t, repo))), files(t, repo))
	if w.belay("resume", goal).code == 0 {
		t.Error("the first goes on")
	}
	// And back again: what is new is added to what is known there.
	back := filepath.Join(o.dir, "back.belay")
	o.must(0, "export", goal, back, "--give-up")
	w.must(0, "import", back, "--repo", filepath.Join(w.dir, "back"))
	w.must(0, "audit", goal)
	if s := w.snapshot(); s.Status != lifecycle.Completed || s.Repo != filepath.Join(w.dir, "back") {
		t.Errorf("it came back %s in %s", s.Status, s.Repo)
	}
	sameTree(t, "the tree that came back", files(t, repo), files(t, filepath.Join(w.dir, "back")))
}

// mapOf are the entries of a tree whose names are keys.
func mapOf(keys, tree map[string]string) map[string]string {
	out := map[string]string{}
	for k := range keys {
		out[k] = tree[k]
	}
	return out
}

// TestAnImportThatWasNotGivenUpIsACopy to look at and to fork.
func TestAnImportThatWasNotGivenUpIsACopy(t *testing.T) {
	t.Parallel()
	w, goal := half(t)
	file := filepath.Join(w.dir, "goal.belay")
	w.must(0, "export", goal, file)
	o := w.elsewhere(t)
	if r := o.must(0, "import", file); !strings.Contains(r.out, "a copy") {
		t.Errorf("%v", r)
	}
	o.must(0, "audit", goal)
	o.must(0, "timeline", goal)
	if r := o.belay("resume", goal); r.code == 0 || !strings.Contains(r.err, "a copy of goal") {
		t.Errorf("%v", r)
	}
	w.must(0, "say", goal, "go on")
	w.must(0, "resume", goal)
	if s := w.snapshot(); s.Status != lifecycle.Completed {
		t.Errorf("the original is %s", s.Status)
	}
}

// TestAnExportThatWasChangedIsRefusedWithItsPlace: a byte of each piece, a piece
// too many, one too few, and names that lead elsewhere.
func TestAnExportThatWasChangedIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	w, goal := half(t)
	file := filepath.Join(w.dir, "goal.belay")
	w.must(0, "export", goal, file, "--give-up")
	pieces := unpack(t, file)
	o := w.elsewhere(t)
	try := func(what, says string, changed []piece) {
		t.Helper()
		path := filepath.Join(o.dir, "changed.belay")
		pack(t, path, changed)
		r := o.belay("import", path, "--repo", filepath.Join(o.dir, "project"))
		if r.code == 0 || !strings.Contains(r.err, says) {
			t.Errorf("%s: %v", what, r)
		}
		if out := o.must(0, "goals").out; strings.Contains(out, goal) {
			t.Fatalf("%s: it was taken in", what)
		}
		if list, err := os.ReadDir(filepath.Join(o.dir, "project")); err == nil && len(list) > 0 {
			t.Fatalf("%s: files were laid", what)
		}
	}
	for i, p := range pieces {
		if i == 0 {
			continue
		}
		changed := slices.Clone(pieces)
		b := bytes.Clone(p.content)
		b[len(b)/2] ^= 1
		changed[i].content = b
		says := p.name
		if p.name == "events.jsonl" {
			says = "event "
		}
		try("a byte of "+p.name, says, changed)
	}
	forged := slices.Clone(pieces)
	forged[1].content = bytes.Replace(forged[1].content, []byte(`"actor":"user"`), []byte(`"actor":"usex"`), 1)
	try("another actor", "event 1: the hash chain does not hold", forged)
	try("a piece too few", "the file ends there", pieces[:len(pieces)-1])
	try("a piece too many", "the manifest does not name it", append(slices.Clone(pieces), piece{"more", []byte("x")}))
	for _, name := range []string{"../../escape", "/etc/passwd", "artifacts/../../x"} {
		led := slices.Clone(pieces)
		led[2].name = name
		try("the name "+name, "stands in its place", led)
	}
	var m map[string]any
	if err := json.Unmarshal(pieces[0].content, &m); err != nil {
		t.Fatal(err)
	}
	m["artifacts"].([]any)[0].(map[string]any)["size"] = float64(1 << 50)
	bomb := slices.Clone(pieces)
	bomb[0].content, _ = json.Marshal(m)
	try("a bomb", "more than the", bomb)
	cut, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(o.dir, "cut.belay"), string(cut[:len(cut)-100]))
	if r := o.belay("import", filepath.Join(o.dir, "cut.belay"), "--repo", filepath.Join(o.dir, "project")); r.code == 0 {
		t.Errorf("a cut file: %v", r)
	}
	o.must(0, "import", file, "--repo", filepath.Join(o.dir, "project"))
}

type piece struct {
	name    string
	content []byte
}

func unpack(t *testing.T, path string) []piece {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var out []piece
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, piece{h.Name, b})
	}
}

func pack(t *testing.T, path string, pieces []piece) {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(z)
	for _, p := range pieces {
		if err := out.WriteHeader(&tar.Header{Name: p.name, Mode: 0o600, Size: int64(len(p.content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(p.content); err != nil {
			t.Fatal(err)
		}
	}
	if out.Close() != nil || z.Close() != nil || os.WriteFile(path, b.Bytes(), 0o600) != nil {
		t.Fatal("cannot pack")
	}
}

// TestLinesForAnalysisHoldWholeTextsAndNoNames of paths or secrets.
func TestLinesForAnalysisHoldWholeTextsAndNoNames(t *testing.T) {
	t.Parallel()
	w, goal := half(t)
	all, redacted := w.must(0, "export", goal, "-", "--jsonl").out, w.must(0, "export", goal, "-", "--jsonl", "--redact").out
	if !strings.Contains(all, "a line of a long output 2999") || !strings.Contains(all, w.dir) {
		t.Errorf("%d bytes", len(all))
	}
	if strings.Contains(redacted, w.dir) || !strings.Contains(redacted, `"/repo"`) || strings.Count(redacted, "\n") != strings.Count(all, "\n") {
		t.Errorf("redacted: %.600s", redacted)
	}
	for line := range strings.Lines(redacted) {
		var e struct {
			Type string `json:"type"`
			Hash string `json:"hash"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type == "" || len(e.Hash) != 64 {
			t.Fatalf("%v: %s", err, line)
		}
	}
	w.must(2, "export", goal, "-", "--redact")
	w.must(2, "export", goal, "-", "--give-up")
}

// TestAForkBeginsWhereTheOtherStoodAndRunsNothingAgain: its history is the
// other's, its tree that of then, its budget new, and the other is untouched.
func TestAForkBeginsWhereTheOtherStoodAndRunsNothingAgain(t *testing.T) {
	t.Parallel()
	w := isolated(t)
	count := stepCommand("echo once >> ../count; echo c > c.txt")
	w.must(0, runToy(w.script("steps:\n"+stepRead+count+stepFix+stepTest+stepDone))...)
	goal := w.goal()
	var at uint64
	for _, e := range w.events() {
		if e.Type == "repo_state_mutated" && at == 0 {
			at = e.Seq
		}
	}
	before := tree(t, w.repo)
	// The script goes by the conversation: its first two steps are history.
	w.script("steps:\n" + stepDone + stepDone + "  - {expect: {contains: [\"the other way\"]}, calls: [{tool: read_file, args: {path: code.txt}}]}\n" + stepFix + stepTest + stepDone)
	r := w.must(0, "fork", goal, "--at", strconv.FormatUint(at, 10), "the other way")
	id := strings.Fields(r.out)[1]
	if b, err := os.ReadFile(filepath.Join(w.dir, "count")); err != nil || string(b) != "once\n" {
		t.Errorf("it ran again: %q %v", b, err)
	}
	sameTree(t, "the user's directory", before, tree(t, w.repo))
	w.id = id
	s := w.snapshot()
	if s.Status != lifecycle.Completed || s.Worktree == nil || s.Worktree.Of != w.repo || s.Budget.Used.Steps != 4 {
		t.Errorf("%s, %+v, used %+v", s.Status, s.Worktree, s.Budget.Used)
	}
	if b, err := os.ReadFile(filepath.Join(s.Repo, "c.txt")); err != nil || string(b) != "c\n" {
		t.Errorf("the tree of then: %q %v", b, err)
	}
	w.must(0, "audit", id)
	w.must(0, "audit", goal)
	forked := of[event.GoalForked](t, w.events())
	if len(forked) != 1 || forked[0].From != goal || forked[0].At != at {
		t.Errorf("%+v", forked)
	}
	if r := w.must(2, "fork", goal, "--at", "9999"); !strings.Contains(r.err, "has no event") {
		t.Errorf("%v", r)
	}
	if r := w.must(2, "fork", goal, "--at", "1"); !strings.Contains(r.err, "had not looked at its workspace") {
		t.Errorf("%v", r)
	}
	// A fork of the end of a goal that has ended goes on, too.
	w.script("steps:\n" + strings.Repeat(stepDone, 5) + stepRead + stepTest + stepDone)
	w.must(0, "fork", goal, "once more")
}
