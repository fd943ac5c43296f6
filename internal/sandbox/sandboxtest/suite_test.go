//go:build linux

package sandboxtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"belay/internal/sandbox/bwrap"
	"belay/internal/sandbox/landlock"
	"belay/internal/sandbox/none"
	. "belay/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	Main()
	if e := contained(); e != nil {
		backends = append(backends, *e)
	}
	Worker(append(backends, unconfined)...)
	code := m.Run()
	removeImage()
	os.Exit(code)
}

var unconfined = Backend{ID: "none", Open: func(state string) (Opened, error) { return none.New(state) }}

var backends = []Backend{
	{ID: "bwrap", Enclosed: true, Confined: true, Open: func(state string) (Opened, error) { return bwrap.New(state) }},
	{ID: "landlock", Confined: true, Open: func(state string) (Opened, error) { return landlock.New(state, landlock.Options{Namespaces: true}) }},
	{ID: "landlock alone", Confined: true, Open: func(state string) (Opened, error) { return landlock.New(state, landlock.Options{}) }},
}

// gaps are the attempts that are known to get out, by backend. "user" is a gap
// only without control groups, that is, for most ordinary users.
var gaps = map[string]map[string]string{
	"bwrap":    {"many files that fill the disk": "gap", "memory bomb of several processes": "user"},
	"landlock": {"many files that fill the disk": "gap", "memory bomb of several processes": "user"},
	"landlock alone": {"many files that fill the disk": "gap", "memory bomb of several processes": "user", "change file modes outside": "gap",
		"write a git hook": "gap", "write a git hook in a nested repository": "gap", "write git's configuration": "gap",
		"replace git's configuration": "gap", "write the configuration of a nested repository": "gap", "replace the git directory": "gap",
		"write belay.yaml": "gap"},
	"container": {"many files that fill the disk": "gap", "connect to an abstract Unix socket, network granted": "gap"},
}

// columns are the backends of the table, whether or not they are all here.
var columns = []string{"bwrap", "landlock", "landlock alone", "container"}

// groups reports whether this user can make control groups; then those hold
// what resource limits cannot.
func groups() bool { return os.Geteuid() == 0 }

func TestEscapes(t *testing.T) {
	var rows []Row
	t.Run("attempts", func(t *testing.T) { rows = Escapes(t, unconfined, backends) })
	for _, r := range rows {
		t.Logf("%-60s %v", r.Attempt, r.Found)
		for _, b := range backends {
			want := "held"
			if g := gaps[b.ID][r.Attempt]; g == "gap" || g == "user" && !groups() {
				want = "gap"
			}
			switch got := r.Found[b.ID]; {
			case got == "gap" && want == "held":
				t.Errorf("%s: %q gets out", b.ID, r.Attempt)
			case got == "held" && want == "gap":
				t.Errorf("%s: %q is held: docs/security.md calls it a gap", b.ID, r.Attempt)
			}
		}
	}
}

// TestTheTableOfAttemptsIsWhatIsTried keeps docs/security.md true; with
// BELAY_UPDATE set it writes the table.
func TestTheTableOfAttemptsIsWhatIsTried(t *testing.T) {
	var table strings.Builder
	table.WriteString("| attempt |")
	for _, id := range columns {
		table.WriteString(" " + id + " |")
	}
	table.WriteString("\n| --- |" + strings.Repeat(" --- |", len(columns)) + "\n")
	known := map[string]bool{}
	for _, a := range Attempts() {
		known[a] = true
		table.WriteString("| " + a + " |")
		for _, id := range columns {
			word := "held"
			switch gaps[id][a] {
			case "gap":
				word = "**gap**"
			case "user":
				word = "**gap** (ordinary user)"
			}
			table.WriteString(" " + word + " |")
		}
		table.WriteString("\n")
	}
	for id, g := range gaps {
		for a := range g {
			if !known[a] {
				t.Errorf("%s: the gap %q is no attempt", id, a)
			}
		}
	}
	const doc, begin, end = "../../../docs/security.md", "<!-- escapes -->\n", "<!-- /escapes -->"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the place of the table is not marked")
	}
	if os.Getenv("BELAY_UPDATE") != "" {
		if err := os.WriteFile(doc, []byte(head+begin+table.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table.String() {
		t.Error("the table in docs/security.md is not what is tried; run this test with BELAY_UPDATE=1")
	}
}

// TestEscapesAsAnOrdinaryUser runs the suite again without the rights of root:
// there the backends hold by user namespaces and resource limits.
func TestEscapesAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // TestEscapes has just done that
	}
	base, err := os.MkdirTemp("/opt", "belay-sandboxtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	const nobody = 65534
	if err := os.Chown(base, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestEscapes$", "-test.v")
	c.Dir = base
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, EnvBase + "=" + base, "TMPDIR=" + base}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := c.CombinedOutput()
	fmt.Println(string(out))
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryBackendLeavesCommandsWhatTheyMayDo(t *testing.T) {
	for _, b := range append([]Backend{unconfined}, backends...) {
		t.Run(b.ID, func(t *testing.T) {
			Conform(t, b, func() *exec.Cmd {
				c := exec.Command("/proc/self/exe")
				c.Env = []string{WorkerEnv(b)}
				return c
			})
		})
	}
}
