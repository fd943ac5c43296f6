//go:build linux

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belay/internal/sandbox"
)

// Opened is a backend at work.
type Opened interface {
	sandbox.Sandbox
	Close() error
}

// Backend is one candidate of a suite.
type Backend struct {
	// ID tells two grades of one backend apart.
	ID   string
	Open func(state string) (Opened, error)
	// Enclosed says that a command's processes are in a namespace of their own,
	// so that the end of its first one is the end of all, whatever they did.
	Enclosed bool
	// Confined backends give a command a private temporary folder.
	Confined bool
}

// EnvBase names the folder under which the worlds of a test are built; it must
// not lie under /tmp, which sandboxes replace, and is the user's cache folder
// otherwise.
const EnvBase = "BELAY_TEST_BASE"

// secret is what no command may ever print.
const secret = "correct-horse-battery-staple"

// world is a small machine around one command: a home with credentials and a
// workspace in it, belay's state, a folder outside, a process and servers that
// are none of the command's business.
type world struct {
	t                                testing.TB
	base, home, state, outside, repo string
	tool                             string
	foreign                          *exec.Cmd
	toForeign                        io.Writer
	fromForeign                      io.Reader
	tcp, tcp6, unix, abstract        net.Listener
	udp                              *net.UDPConn
	box                              Opened
}

// Base is a fresh folder for worlds.
func Base(t testing.TB) string {
	t.Helper()
	parent := os.Getenv(EnvBase)
	if parent == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		parent = dir
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	base, err := os.MkdirTemp(parent, "belay-sandboxtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	copyExecutable(t, "/proc/"+strconv.Itoa(os.Getpid())+"/exe", filepath.Join(base, tool))
	return base
}

// tool is this very test binary, in the folder of worlds: where it lies is
// hidden from most sandboxes.
const tool = "tool"

// copyExecutable has another process write a program. A descriptor of this one,
// open for writing, could live on for a moment in a process that another test
// starts, and a program that is written to cannot be run.
func copyExecutable(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(path, content string) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(content), 0o600))
}

// newWorld builds a world and opens the backend in it.
func newWorld(t testing.TB, base string, b Backend) *world {
	t.Helper()
	dir, err := os.MkdirTemp(base, "w")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, base: dir, home: filepath.Join(dir, "home"), state: filepath.Join(dir, "state"), outside: filepath.Join(dir, "outside")}
	w.repo = filepath.Join(w.home, "work", "repo")
	w.tool = filepath.Join(w.repo, "tool")
	for _, f := range []string{".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gcloud/application_default_credentials.json",
		".gnupg/private-keys-v1.d/key", ".npmrc", ".bash_history"} {
		w.write(filepath.Join(w.home, f), secret+"\n")
	}
	w.write(filepath.Join(w.home, ".bashrc"), "# mine\n")
	w.write(filepath.Join(w.state, "ledger.db"), secret+"\n")
	w.write(filepath.Join(w.outside, "file"), "untouched\n")
	w.write(filepath.Join(w.repo, "kept"), "kept\n")
	w.write(filepath.Join(w.repo, "belay.yaml"), "rules: []\n")
	for _, git := range []string{".git", "vendor/deep/lib/.git", ".git/modules/sub"} {
		w.write(filepath.Join(w.repo, git, "HEAD"), "ref: refs/heads/main\n")
		w.write(filepath.Join(w.repo, git, "config"), "[core]\n\tbare = false\n")
		w.must(os.MkdirAll(filepath.Join(w.repo, git, "objects"), 0o755))
		w.must(os.MkdirAll(filepath.Join(w.repo, git, "refs"), 0o755))
	}
	w.write(filepath.Join(w.repo, ".git", "hooks", "pre-push"), "#!/bin/sh\n")
	w.must(os.Link(filepath.Join(base, tool), w.tool))
	w.surround()
	if w.box, err = b.Open(w.state); err != nil {
		t.Fatalf("%s cannot be opened here: %v", b.ID, err)
	}
	t.Cleanup(func() {
		if err := w.box.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// surround starts what the command must not reach.
func (w *world) surround() {
	w.foreign = exec.Command("cat")
	w.foreign.Env = []string{"PATH=" + os.Getenv("PATH"), "FOREIGN_SECRET=" + secret}
	w.foreign.Dir = w.outside
	var err error
	w.toForeign, err = w.foreign.StdinPipe()
	w.must(err)
	w.fromForeign, err = w.foreign.StdoutPipe()
	w.must(err)
	w.must(w.foreign.Start())
	w.t.Cleanup(func() { _ = w.foreign.Process.Kill(); _ = w.foreign.Wait() })
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		w.must(err)
		w.t.Cleanup(func() { l.Close() })
		return l
	}
	w.tcp, w.tcp6 = listen("tcp4", "127.0.0.1:0"), listen("tcp6", "[::1]:0")
	w.unix = listen("unix", filepath.Join(w.short(), "s"))
	// Rules name the sockets that are there when they are made: those of one
	// world must not vanish under another's command.
	w.unix.(*net.UnixListener).SetUnlinkOnClose(false)
	w.abstract = listen("unix", "@belay-"+filepath.Base(w.base)+fmt.Sprint(os.Getpid()))
	w.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.must(err)
	w.t.Cleanup(func() { w.udp.Close() })
}

// short is a folder outside with a path that fits into a socket's address.
func (w *world) short() string {
	dir := filepath.Join(w.outside, "sock")
	w.must(os.MkdirAll(dir, 0o755))
	return dir
}

// command is a script in the workspace with the world's names in its
// environment.
func (w *world) command(script string) sandbox.Command {
	return sandbox.Command{Key: "attempt.1", Shell: script, Dir: w.repo, Workspace: w.repo, Network: sandbox.NetworkNone,
		Protected: []string{w.state}, Timeout: 2 * time.Minute, Grace: 200 * time.Millisecond, MaxOutput: 1 << 20,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "OUT=" + w.outside, "STATE=" + w.state, "W=" + w.repo,
			"TOOL=" + w.tool, fmt.Sprintf("FOREIGN=%d", w.foreign.Process.Pid), "TCP=" + w.tcp.Addr().String(), "TCP6=" + w.tcp6.Addr().String(),
			"UDP=" + w.udp.LocalAddr().String(), "UNIX=" + w.unix.Addr().String(), "ABSTRACT=" + w.abstract.Addr().String()}}
}

// run runs a command to its end.
func (w *world) run(c sandbox.Command) (sandbox.Result, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p, err := w.box.Start(ctx, c)
	w.must(err)
	return w.end(ctx, p)
}

func (w *world) end(ctx context.Context, p sandbox.Process) (sandbox.Result, string) {
	w.t.Helper()
	res, err := p.Wait(ctx)
	w.must(err)
	r, err := p.Output()
	w.must(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	w.must(err)
	return res, string(b)
}

// Waits reports whether something waits at a socket, without waiting itself:
// what came before the question is there, however busy the machine.
func Waits(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	ready := false
	_ = raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR {
				ready = err == nil && n > 0
				return
			}
		}
	})
	return ready
}

// reached reports whether anybody has knocked at a server outside. Who did is in
// its queue when the command has ended.
func (w *world) reached(l net.Listener) bool { return Waits(l.(syscall.Conn)) }

func (w *world) heard() bool { return Waits(w.udp) }

// alive reports whether the foreign process still runs: whether it echoes. What
// /proc says of it would lag behind a signal that is on its way; a process that
// has been killed runs no code of its own any more.
func (w *world) alive() bool {
	if _, err := w.toForeign.Write([]byte("?")); err != nil {
		return false
	}
	_, err := w.fromForeign.Read(make([]byte, 1))
	return err == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func content(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Tried reports whether a backend runs a command in the given folder, which it
// makes, at all.
func Tried(box sandbox.Sandbox, repo string) error {
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := box.Start(ctx, sandbox.Command{Key: "tried.1", Shell: "echo ran > ran", Dir: repo, Workspace: repo, Env: []string{"HOME=" + repo}, Timeout: 40 * time.Second})
	if err != nil {
		return err
	}
	res, err := p.Wait(ctx)
	if err == nil && res.SpawnError != "" {
		err = errors.New(res.SpawnError)
	}
	if err == nil && !exists(filepath.Join(repo, "ran")) {
		err = fmt.Errorf("a command did not do what it should: %+v", res)
	}
	return err
}
