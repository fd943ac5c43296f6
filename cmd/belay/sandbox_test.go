package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/internal/event"
)

// confined is a world whose goals take the default sandbox.
func confined(t *testing.T, files map[string]string) *world {
	w := newWorld(t, files)
	w.env = slices.DeleteFunc(w.env, func(kv string) bool { return strings.HasPrefix(kv, "BELAY_SANDBOX=") })
	return w
}

// withoutBubblewrap is the world's search path with one program missing.
func (w *world) withoutBubblewrap() []string {
	w.t.Helper()
	// Not under /tmp: commands have another one.
	cache, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(cache, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	bin, err := os.MkdirTemp(cache, "belay-bin-")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(bin) })
	env := slices.Clone(w.env)
	i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	for dir := range strings.SplitSeq(strings.TrimPrefix(env[i], "PATH="), ":") {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != "bwrap" {
				_ = os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(bin, e.Name())) // the first one wins
			}
		}
	}
	env[i] = "PATH=" + bin
	return env
}

const stepEscape = `echo inside > made; echo outside > ../made; cat "$HOME/.ssh/id" ../state/ledger.db; true`

func TestCommandsAreConfinedUnlessTheUserSaysOtherwise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags   []string
		escapes bool
		words   string
	}{{nil, false, "bwrap: "}, {[]string{"--sandbox", "landlock"}, false, "landlock: "}, {[]string{"--sandbox", "none"}, true, "none: commands run unconfined"}} {
		t.Run(strings.Join(c.flags, "_"), func(t *testing.T) {
			t.Parallel()
			w := confined(t, toy())
			w.put(filepath.Join(w.dir, "home", ".ssh", "id"), "PRIVATE-ID-OF-THE-USER\n")
			w.must(0, runToy(w.script("steps:\n"+stepCommand(stepEscape)+stepRead+stepFix+stepTest+stepDone), c.flags...)...)
			if got := w.read("made"); got != "inside\n" {
				t.Errorf("the command could not write in the workspace: %q", got)
			}
			if got := w.readAt("made") != ""; got != c.escapes {
				t.Errorf("written outside: %v, want %v", got, c.escapes)
			}
			if got := strings.Contains(w.must(0, "events", w.goal()).out, "PRIVATE-ID"); got != c.escapes {
				t.Errorf("credentials read: %v, want %v", got, c.escapes)
			}
			if s := w.snapshot(); !strings.HasPrefix(s.Sandbox, c.words) {
				t.Errorf("the snapshot says %q, want %q", s.Sandbox, c.words)
			}
			name, _, _ := strings.Cut(c.words, ":")
			if got := of[event.GoalReceived](t, w.events())[0].Settings.Sandbox; got != name {
				t.Errorf("the goal's settings record %q, want %q", got, name)
			}
		})
	}
}

func TestASandboxThatIsMissingIsARefusalAndNothingIsRecorded(t *testing.T) {
	t.Parallel()
	w := confined(t, toy())
	w.env = w.withoutBubblewrap()
	for _, name := range []string{"bwrap", "docker"} {
		r := w.must(2, runToy(w.script(repair), "--sandbox", name)...)
		if !strings.Contains(r.err, name) || name == "bwrap" && !strings.Contains(r.err, "--sandbox none") {
			t.Errorf("the refusal names neither the backend nor how to go on: %v", r)
		}
	}
	if r := w.must(0, "goals", "--json"); strings.Contains(r.out, `"goal"`) {
		t.Errorf("a refused goal is listed: %v", r)
	}
	// What auto falls to is one that holds, and it says which.
	w.must(0, runToy(w.script(repair))...)
	if s := w.snapshot(); !strings.HasPrefix(s.Sandbox, "landlock: ") {
		t.Errorf("without bubblewrap, auto took %q", s.Sandbox)
	}
}

func TestAGoalKeepsItsSandboxOrDoesNotRun(t *testing.T) {
	t.Parallel()
	w := confined(t, toy())
	steps := "steps:\n" + stepCommand("echo ran >> ran") + stepRead + stepFix + stepTest + stepDone
	w.must(3, "run", "repair code.txt", "--model", w.script(steps), "--test", "sh check.sh", "--plan", "never")
	with := w.env
	w.env = w.withoutBubblewrap()
	r := w.belay("resume", w.goal())
	if r.code == 0 || !strings.Contains(r.err, "bwrap does not hold on this machine") {
		t.Errorf("the goal went on without its sandbox, or without saying why not: %v", r)
	}
	if _, err := os.Stat(filepath.Join(w.repo, "ran")); err == nil {
		t.Error("a command ran")
	}
	w.env = with
	r = w.belay("resume", w.goal())
	if r.code != 3 {
		t.Errorf("where its sandbox is, the goal does not go on: %v", r)
	}
}

func TestDoctorRunsSomethingInEverySandbox(t *testing.T) {
	t.Parallel()
	w := confined(t, nil)
	r := w.must(0, "doctor")
	for _, want := range []string{"ok  sandbox      goals are confined by bwrap", "ok  bwrap ", "ok  landlock ", "ok  none "} {
		if !strings.Contains(r.out, want) {
			t.Errorf("doctor does not say %q: %v", want, r)
		}
	}
	w.env = w.withoutBubblewrap()
	r = w.must(0, "doctor")
	for _, want := range []string{"ok  sandbox      goals are confined by landlock", "--  bwrap        does not hold here: ", "not installed"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("doctor does not say %q: %v", want, r)
		}
	}
}
