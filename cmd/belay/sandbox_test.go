package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
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

// TestADeniedFileCannotBeReadThroughAProgram (F7): what a rule denies to be read
// is empty for every command, however a program of the workspace comes by the
// name.
func TestADeniedFileCannotBeReadThroughAProgram(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"bwrap", "landlock"} {
		t.Run(sandbox, func(t *testing.T) {
			t.Parallel()
			files := toy()
			files[".env"], files["sub/.env"], files["keys/a/b"], files["other"] = "WORDS-OF-ONE\n", "WORDS-OF-TWO\n", "WORDS-OF-THREE\n", "plain\n"
			files["show.sh"] = "f=.e; f=${f}nv; cat $f sub/$f; cat keys/*/*; cat other; ls -a\n"
			w := confined(t, files)
			w.put(filepath.Join(w.dir, "config", "policy.yaml"), "rules:\n  - {decision: deny, tool: read, path: .env}\n  - {decision: allow, command: sh show.sh}\n")
			w.put(filepath.Join(w.repo, "belay.yaml"), "policy:\n  rules:\n    - {decision: deny, tool: read, path: 'keys/**'}\n")
			before := tree(t, w.repo)
			model := w.script("steps:\n" + stepCommand("f=.env; cat $f") + stepCommand("sh show.sh") + stepRead + stepFix)
			w.must(3, askingRun(model, "--sandbox", sandbox)...)
			r := w.must(0, "events", w.goal())
			if strings.Contains(r.out, "WORDS-OF") {
				t.Errorf("a denied file was read: %v", w.timeline())
			}
			if out := w.must(0, "log", w.goal(), "op2").out; !strings.Contains(out, "plain\n") || !strings.Contains(out, ".env") {
				t.Errorf("the rest could not be read: %q", out)
			}
			sameTree(t, "the repository", before, tree(t, w.repo))
		})
	}
}

// TestPlanModeIsHeldByTheSandbox (F2): while there is no approved plan nothing
// is written, neither by tools, nor by shell text, nor by a program that a rule
// allows; the model is told to plan, and goes on.
func TestPlanModeIsHeldByTheSandbox(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"bwrap", "landlock"} {
		t.Run(sandbox, func(t *testing.T) {
			t.Parallel()
			files := toy()
			files["sneak.sh"] = "echo evil > code.txt; echo evil > new; rm -f check.sh; ls\n"
			w := confined(t, files)
			w.git("init", "-q")
			w.git("add", "-A")
			w.must(0, "policy", "allow", "--command", "sh sneak.sh")
			before := tree(t, w.repo)
			steps := stepRead + stepFix + stepCall("write_file", map[string]any{"path": "new", "content": "x"}) + stepCommand("cat > new <<EOF\nevil\nEOF") +
				stepCommand("git commit -qm x") + stepCommand("sh sneak.sh") +
				stepCall("update_plan", map[string]any{"summary": "repair", "steps": []any{map[string]string{"id": "s", "text": "repair"}}, "scope": []string{"code.txt"}})
			w.must(3, "run", "repair code.txt", "--model", w.script("steps:\n"+steps), "--test", "sh check.sh", "--plan", "always", "--sandbox", sandbox)
			sameTree(t, "the repository in plan mode", before, tree(t, w.repo), ".git/hooks")
			rejected := of[event.OperationRejected](t, w.events())
			if len(rejected) != 4 {
				t.Errorf("%d of 4 are refused: %v", len(rejected), w.timeline())
			}
			for _, r := range rejected {
				if r.Fault.Kind != fault.PlanGate || !strings.Contains(r.Fault.SuggestedAction, "update_plan") {
					t.Errorf("%+v", r.Fault)
				}
			}
			if s := w.snapshot(); len(s.PendingApprovals) != 1 || s.PendingApprovals[0].Tool != "update_plan" {
				t.Errorf("the goal came to rest at %+v", s.PendingApprovals)
			}
		})
	}
}

// TestNothingPlantsHooksOrChangesItsPolicy (F4): not by a tool, not by shell
// text, not by a program that a rule allows; and to skip hooks is asked about.
func TestNothingPlantsHooksOrChangesItsPolicy(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"bwrap", "landlock"} {
		t.Run(sandbox, func(t *testing.T) {
			t.Parallel()
			files := toy()
			files["belay.yaml"] = "policy:\n  rules: []\n"
			files["vendor/sub/.git/HEAD"], files["vendor/sub/.git/config"] = "ref: refs/heads/main\n", "[core]\n"
			w := confined(t, files)
			policy := filepath.Join(w.dir, "config", "policy.yaml")
			w.git("init", "-q")
			w.git("-C", "vendor/sub", "config", "core.bare", "false")
			w.put(filepath.Join(w.repo, "plant.sh"), "for f in vendor/sub/.git/hooks/pre-commit .git/hooks/pre-commit; do mkdir -p ${f%/*}; echo evil > $f; done\n"+
				"echo evil >> .git/config; echo evil >> vendor/sub/.git/config; echo evil >> belay.yaml; echo evil >> "+policy+"; true\n")
			w.must(0, "policy", "allow", "--command", "sh plant.sh")
			w.must(0, "policy", "allow", "--command", "git commit -m *")
			rules := w.policyFile()
			before := tree(t, w.repo)
			write := func(path string) string {
				return stepCall("write_file", map[string]any{"path": path, "content": "evil"})
			}
			steps := write("vendor/sub/.git/hooks/pre-commit") + write(".git/config") + write("belay.yaml") + write(policy) +
				stepCommand("echo evil > vendor/sub/.git/hooks/pre-commit") + stepCommand("echo evil >> "+policy) +
				stepCommand("sh plant.sh") + stepCommand("git commit --no-verify -m x")
			w.must(3, askingRun(w.script("steps:\n"+steps), "--sandbox", sandbox)...)
			sameTree(t, "the repository", before, tree(t, w.repo), ".git/hooks", "vendor/sub/.git/hooks")
			for _, f := range []string{".git/hooks/pre-commit", "vendor/sub/.git/hooks/pre-commit"} {
				if _, err := os.Stat(filepath.Join(w.repo, f)); err == nil {
					t.Errorf("%s was planted", f)
				}
			}
			if w.policyFile() != rules {
				t.Error("the policy was changed")
			}
			if n := len(of[event.OperationRejected](t, w.events())); n != 6 {
				t.Errorf("%d of 6 are refused: %v", n, w.timeline())
			}
			if s := w.snapshot(); len(s.PendingApprovals) != 1 || !strings.Contains(s.PendingApprovals[0].Access.Command, "--no-verify") {
				t.Errorf("a commit that skips hooks is not asked about: %+v", s.PendingApprovals)
			}
		})
	}
}
