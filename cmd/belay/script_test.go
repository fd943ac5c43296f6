package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden parts of scripts")

// TestScripts plays testdata/script. Besides testscript's own, there are the
// commands
//
//	exits N belay ARG...   run and want exit code N
//	goal                   set $G to the id of the newest goal
//	plain FILE             write the last standard output to FILE with ids, times and counts masked
//	[server]       whether a server runs, which goes on by itself after an answer
//	lines NAME...          the last standard output has these texts in this order
//	losecaches             delete every cache of the ledger
//	idof NAME TEXT         set $NAME to the first word of the line of the last standard output that has the text
//	replace FILE OLD NEW   put NEW in the place of OLD in FILE
func TestScripts(t *testing.T) {
	t.Parallel()
	p := scripts()
	p.UpdateScripts = *update
	testscript.Run(t, p)
}

// TestScriptsOverAServer plays the same scripts while a server runs on their
// state: its worker does the work, and nothing that is printed is different.
func TestScriptsOverAServer(t *testing.T) {
	t.Parallel()
	p := scripts()
	alone := p.Setup
	p.Condition = func(name string) (bool, error) { return name == "server", nil }
	p.Setup = func(e *testscript.Env) error {
		if err := alone(e); err != nil {
			return err
		}
		var said bytes.Buffer
		c := exec.Command("belay", "serve", "--listen", "off", "--json")
		c.Env, c.Dir, c.Stderr = environment(e.WorkDir), e.WorkDir, &said
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return err
		}
		e.Defer(func() {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		})
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return fmt.Errorf("the server does not listen: %w\n%s", err, said.String())
		}
		return nil
	}
	testscript.Run(t, p)
}

func scripts() testscript.Params {
	return testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for _, kv := range environment(e.WorkDir) {
				k, v, _ := strings.Cut(kv, "=")
				e.Setenv(k, v)
			}
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Condition: func(string) (bool, error) { return false, nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": scriptExits, "goal": scriptGoal, "plain": scriptPlain, "lines": scriptLines,
			"losecaches": scriptLoseCaches, "idof": scriptIDOf, "replace": scriptReplace},
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N program arg...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, err := 0, ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptGoal(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("belay", "goals", "--json"))
	var rows []struct {
		Goal string `json:"goal"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &rows))
	if neg || len(rows) == 0 {
		ts.Fatalf("there is no goal")
	}
	ts.Setenv("G", rows[0].Goal)
}

// masks hide what differs from run to run.
var masks = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "GOAL"},
	{regexp.MustCompile(`\$\d+\.\d+`), "$$N"},
	{regexp.MustCompile(`tree [0-9a-f]{12}`), "tree TREE"},
	{regexp.MustCompile(`\d+ tokens`), "N tokens"},
	{regexp.MustCompile(`\d+ out\b`), "N out"},
	{regexp.MustCompile(`in \d+ ms`), "in N ms"},
	{regexp.MustCompile(`\d+\.\d s of commands`), "N s of commands"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
}

func scriptPlain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: plain FILE")
	}
	text := strings.ReplaceAll(ts.ReadFile("stdout"), ts.Getenv("WORK"), "WORK")
	for _, m := range masks {
		text = m.re.ReplaceAllString(text, m.to)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stdout")
	for _, want := range args {
		i := strings.Index(text, want)
		if i < 0 {
			ts.Fatalf("%q does not come, in its place", want)
		}
		text = text[i+len(want):]
	}
	if neg {
		ts.Fatalf("lines cannot be negated")
	}
}

func scriptLoseCaches(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: losecaches")
	}
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("BELAY_STATE"), "ledger.db"))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec("DELETE FROM caches")
	ts.Check(err)
}

func scriptIDOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: idof NAME TEXT")
	}
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if words := strings.Fields(line); strings.Contains(line, args[1]) && len(words) > 0 {
			ts.Setenv(args[0], words[0])
			return
		}
	}
	ts.Fatalf("no line has %q", args[1])
}

func scriptReplace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not have %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
}
