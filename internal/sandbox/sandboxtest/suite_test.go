//go:build linux

package sandboxtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"belay/internal/sandbox/bwrap"
	"belay/internal/sandbox/landlock"
	"belay/internal/sandbox/none"
	. "belay/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	Main()
	Worker(append(backends, unconfined)...)
	os.Exit(m.Run())
}

var unconfined = Backend{ID: "none", Open: func(state string) (Opened, error) { return none.New(state) }}

var backends = []Backend{
	{ID: "bwrap", Enclosed: true, Open: func(state string) (Opened, error) { return bwrap.New(state) }},
	{ID: "landlock", Open: func(state string) (Opened, error) { return landlock.New(state, landlock.Options{Namespaces: true}) }},
	{ID: "landlock alone", Open: func(state string) (Opened, error) { return landlock.New(state, landlock.Options{}) }},
}

func TestEscapes(t *testing.T) {
	var rows []Row
	t.Run("attempts", func(t *testing.T) { rows = Escapes(t, unconfined, backends) })
	for _, r := range rows {
		t.Logf("%-55s %v", r.Attempt, r.Found)
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
