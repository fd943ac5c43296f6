package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belay/internal/workspace"
)

// TestMain lets the test binary play another process.
func TestMain(m *testing.M) {
	switch os.Getenv("BELAY_TEST_ROLE") {
	case "holder":
		_, err := Open(context.Background(), os.Getenv("BELAY_TEST_ROOT"), Options{State: os.Getenv("BELAY_TEST_STATE"), Lock: true, Goal: "goal-of-another"})
		fmt.Println("opened", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed
		os.Exit(0)
	case "observer":
		w, err := Open(context.Background(), os.Getenv("BELAY_TEST_ROOT"), Options{State: os.Getenv("BELAY_TEST_STATE")})
		if err == nil {
			_, err = w.Observe(context.Background())
		}
		fmt.Println(kindOfError(err), err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOneGoalAtATimeMutatesADirectory(t *testing.T) {
	t.Parallel()
	top, state := t.TempDir(), t.TempDir()
	put(t, top, map[string]string{"repo/a": "a", "alias": "-> repo"})
	root := filepath.Join(top, "repo")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), "BELAY_TEST_ROLE=holder", "BELAY_TEST_ROOT="+root, "BELAY_TEST_STATE="+state)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "opened <nil>\n" {
		t.Fatalf("%q %v", line, err)
	}
	ctx := context.Background()
	for name, c := range map[string]struct{ root, state string }{"same state": {filepath.Join(top, "alias"), state}, "other state": {root, t.TempDir()}} {
		_, err := Open(ctx, c.root, Options{State: c.state, Lock: true, Goal: "mine"})
		var held *workspace.Held
		if !errors.As(err, &held) || held.Root != root {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "same state" && (held.Goal != "goal-of-another" || held.PID != holder.Process.Pid) {
			t.Errorf("the holder is not named: %+v", held)
		}
	}
	r := open2(t, root, Options{State: state})
	observe(t, r) // looking is free
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // it was killed
	w := open2(t, root, Options{State: state, Lock: true, Goal: "mine"})
	if _, err := Open(ctx, root, Options{State: state, Lock: true}); err == nil {
		t.Error("one process took the directory twice")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w2 := open2(t, root, Options{State: state, Lock: true})
	w2.Close()
}

// A holder that is killed lets go of its two locks one after the other. Who
// comes just then is not told of a belay that does not exist.
func TestALockThatIsJustBeingLetGoIsNoHolder(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	dying, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(dying.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(30*time.Millisecond, func() { dying.Close() })
	w, err := Open(context.Background(), root, Options{State: state, Lock: true, Goal: "next"})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestUnreadableFilesAreNamed(t *testing.T) {
	t.Parallel()
	top, err := os.MkdirTemp("", "belay-unreadable-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	put(t, top, map[string]string{"file/a": "a", "file/secret": "s", "dir/closed/x": "x", "ignored/.gitignore": "closed/\n", "ignored/closed/x": "x", "state/": ""})
	// A copy made by another process: a file that this one has open for writing
	// would be inherited by what the tests beside it start, and be busy.
	exe := filepath.Join(top, "test")
	if out, err := exec.Command("cp", os.Args[0], exe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(exe, 0o755); err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]os.FileMode{"": 0o755, "state": 0o777, "file/secret": 0, "dir/closed": 0, "ignored/closed": 0} {
		if err := os.Chmod(filepath.Join(top, p), mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(filepath.Join(top, "dir/closed"), 0o755)
	defer os.Chmod(filepath.Join(top, "ignored/closed"), 0o755)
	for root, want := range map[string]string{"file": "storage storage: secret cannot be read", "dir": "storage storage: closed cannot be read", "ignored": " <nil>"} {
		cmd := exec.Command(exe)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "BELAY_TEST_ROLE=observer", "BELAY_TEST_ROOT="+filepath.Join(top, root), "BELAY_TEST_STATE="+filepath.Join(top, "state"), "HOME="+top)
		if os.Geteuid() == 0 {
			// The super-user reads everything.
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %s %v, want %s", root, out, err, want)
		}
	}
}
