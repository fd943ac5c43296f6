package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The goal that is tortured. Nothing in it compiles or waits for long, so that
// a run takes about a second, and every kind of operation is in it: reads side
// by side, an edit of one file, of several, a new file in new folders,
// commands with effects outside and inside the workspace, one that runs for a
// while, one that a person has to approve, a plan that a person has to
// approve, control tools, a claim that is refused, a test, a
// push, and completion.

// deed is something the goal does to the world that can be counted.
type deed struct {
	name string
	// command is the argument of the run_command that has it.
	command string
	// seen counts it.
	seen func(w *world) int
}

// line counts the lines of files of the world, named by patterns, that hold the
// word.
func line(word string, patterns ...string) func(*world) int {
	return func(w *world) int {
		n := 0
		var b []byte
		for _, pattern := range patterns {
			files, _ := filepath.Glob(filepath.Join(w.dir, pattern)) // the patterns are ours and whole
			for _, f := range files {
				part, _ := os.ReadFile(f) // a file that is not there holds none
				b = append(b, part...)
			}
		}
		for l := range strings.Lines(string(b)) {
			if strings.TrimSpace(l) == word {
				n++
			}
		}
		return n
	}
}

// outside are the files in which didOutside writes. A machine that the goal has
// left keeps what was done there.
var outside = []string{"effects.log", "repo*/out/effects.log"}

var effects = []deed{
	{"line outside", "sh effect.sh outside", line("outside", outside...)},
	{"line inside", "sh effect.sh inside", line("inside", "repo/log.txt")},
	{"long command", "sh effect.sh long", line("long", outside...)},
	{"approved command", "sh deploy.sh", line("deploy", outside...)},
	{"last line", "sh effect.sh last", line("last", outside...)},
	{"push", "", pushes},
}

const (
	remoteDir  = "remote.git"
	pushBranch = "belay/work"
)

// pushes counts the commits that the remote's branch has beyond the start.
func pushes(w *world) int {
	c := exec.Command("git", "--git-dir", w.path(remoteDir), "rev-list", "--count", pushBranch, "--not", "main")
	out, err := c.Output()
	n, nerr := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || nerr != nil {
		return 0 // no such branch
	}
	return n
}

// repository is what the goal finds.
var repository = map[string]string{
	"a.txt":     "alpha one\n",
	"b.txt":     "beta one\n",
	"src/c.txt": "gamma one\n",
	"old/x.txt": "to be removed\n",
	"notes.md":  strings.Repeat("a line that nobody changes\n", 40),
	// Each effect is one write, so that it has happened or has not; what comes
	// before it may be done again. The long
	// command has a child that nobody but its shim, or who finds the shim dead,
	// ends when it cannot do so itself.
	"effect.sh": "did() {\n" + didOutside + "}\n" + `case $1 in
inside) rm -rf old; echo inside >>log.txt ;;
long) did long; sleep 30 & left=$!; i=0
	while [ $i -lt 8 ]; do head -c 60000 /dev/urandom | base64; sleep 0.05; i=$((i+1)); done
	kill $left; wait; echo to stderr >&2 ;;
*) did "$1"; echo "did $1" ;;
esac
`,
	"deploy.sh":  "set -- deploy\n" + didOutside,
	".gitignore": "out/\n",
	"out/.keep":  "",
	"check.sh": `for f in a.txt b.txt src/c.txt new/deep/d.txt; do
	grep -q two $f || { echo "FAILED check.py::test_two - $f"; echo "1 failed in 0.01s"; exit 1; }
done
echo "4 passed in 0.01s"
`,
}

// manyFiles are enough for the first observation to write a pack, and the
// output of the long command, which no compression makes small, is enough for
// an artifact in a file of its own.
const manyFiles = 80

// didOutside notes an effect outside the workspace, or, where the command is
// confined, in a folder that is no part of the revision.
const didOutside = `	{ [ -e ../model.yaml ] && { echo "$1" >>../effects.log; } 2>/dev/null; } || echo "$1" >>out/effects.log
`

// policyRules allow what a person would have to be asked for too often.
const policyRules = `rules:
  - {tool: file_patch, decision: allow}
  - {tool: write_file, decision: allow}
  - {tool: git_push, decision: allow}
  - {command: "sh effect.sh *", decision: allow}
`

type callOf struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

type stepOf struct {
	When  map[string][]string `json:"when,omitempty"`
	Calls []callOf            `json:"calls"`
}

type args = map[string]any

func calls(cs ...callOf) stepOf { return stepOf{Calls: cs} }

func command(text string) callOf { return callOf{"run_command", args{"command": text}} }

func patch(path string) args {
	return args{"path": path, "old_string": "one", "new_string": "two"}
}

var finish = calls(callOf{"finish", args{"summary": "all is done"}})

// modelScript is what the model does. Its place follows from the history, so it
// goes on after a crash; a request whose history a real provider would refuse
// is refused by it too.
func modelScript() ([]byte, error) {
	steps := []stepOf{
		calls(callOf{"update_plan", args{"summary": "turn one into two", "steps": []string{"look", "edit", "test"}, "scope": []string{"**"}}}),
		calls(callOf{"read_file", args{"path": "a.txt"}}, callOf{"read_file", args{"path": "b.txt"}}, callOf{"read_file", args{"path": "src/c.txt"}},
			callOf{"search_text", args{"pattern": "one"}}, callOf{"list_files", args{}}),
		calls(callOf{"update_todos", args{"todos": []any{args{"id": "1", "content": "edit", "status": "in_progress"}}}},
			callOf{"file_patch", patch("a.txt")}),
		calls(callOf{"write_file", args{"path": "new/deep/d.txt", "content": "delta two\n"}}, command(effects[0].command)),
		finish, // refused: there is no evidence yet
		calls(callOf{"file_patch", args{"edits": []any{patch("b.txt"), patch("src/c.txt")}}}, command(effects[1].command)),
		calls(command(effects[2].command)),
		calls(command(effects[3].command), callOf{"record_decision", args{"decision": "deployed"}}),
		calls(callOf{"read_file", args{"path": "log.txt"}}, command(effects[4].command)),
		calls(callOf{"run_test", args{}}, callOf{"git_push", args{"branch": pushBranch, "message": "One becomes two"}}),
		finish,
		{When: map[string][]string{"last_result_contains": {"claim not accepted"}}, Calls: []callOf{{"run_test", args{}}}},
	}
	return json.Marshal(map[string]any{"steps": steps, "then": finish})
}

// lay writes the repository, with a history of its own, and everything else
// that a run starts from.
func lay(dir string) error {
	script, err := modelScript()
	if err != nil {
		return err
	}
	files := map[string]string{"model.yaml": string(script), "config/policy.yaml": policyRules, "home/.keep": ""}
	for name, content := range repository {
		files["repo/"+name] = content
	}
	for i := range manyFiles {
		files[fmt.Sprintf("repo/many/%d.txt", i)] = fmt.Sprintf("file %d\n", i)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	repo := filepath.Join(dir, "repo")
	for _, a := range [][]string{
		{"init", "-q", "-b", "main", repo}, {"add", "."}, {"-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-q", "-m", "start"},
		{"init", "-q", "-b", "main", "--bare", filepath.Join(dir, remoteDir)},
		{"remote", "add", "origin", filepath.Join(dir, remoteDir)}, {"push", "-q", "origin", "main"},
		{"config", "user.name", "T"}, {"config", "user.email", "t@example.com"},
	} {
		c := exec.Command("git", a...)
		c.Dir = repo
		c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+filepath.Join(dir, "home"))
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if err := c.Run(); err != nil {
			return fmt.Errorf("git %v: %w\n%s", a, err, &out)
		}
	}
	return nil
}

// moved mends what names the directory that a laid world was copied from.
func moved(from, to string) error {
	path := filepath.Join(to, "repo/.git/config")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(b, []byte(from), []byte(to)), 0o644)
}
