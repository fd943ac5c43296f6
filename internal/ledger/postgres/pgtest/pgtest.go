// Package pgtest runs private PostgreSQL servers for tests from the binaries
// installed on this machine. It must not know the ledger: it starts, kills and
// restarts servers and says how to reach them.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// install is what to do without a server's binaries.
const install = "these tests run a private server: install PostgreSQL 13 or newer (Debian: apt-get install -y postgresql; " +
	"macOS: brew install postgresql) or put the folder of initdb and postgres on PATH"

// patience is how long a server may take to come up or go down.
const patience = 60 * time.Second

// Options adjust a server.
type Options struct {
	// Fsync keeps commits durable; without it a server is faster and loses
	// data with the machine, which tests do not take away.
	Fsync bool
	// Settings are further settings, such as "max_connections=20".
	Settings []string
	// Checksums makes the server notice damaged pages.
	Checksums bool
}

// Server is one private server, reached over a socket in a folder of its own.
type Server struct {
	// Dir holds the socket and the data.
	Dir  string
	opts Options
	bin  string
	cred *syscall.Credential

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// Port is part of the socket's name; every server has a folder of its own.
const Port = 5432

// bindir finds the folder of initdb.
func bindir() (string, error) {
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		if dir := strings.TrimSpace(string(out)); runnable(dir) {
			return dir, nil
		}
	}
	if p, err := exec.LookPath("initdb"); err == nil && runnable(filepath.Dir(p)) {
		return filepath.Dir(p), nil
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	sort.Strings(dirs)
	for i := len(dirs) - 1; i >= 0; i-- {
		if runnable(dirs[i]) {
			return dirs[i], nil
		}
	}
	return "", errors.New("no PostgreSQL binaries found; " + install)
}

func runnable(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// New makes a server and starts it. Remove ends it.
func New(opts Options) (*Server, error) {
	bin, err := bindir()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, bin: bin}
	if os.Geteuid() == 0 {
		// initdb refuses to run as root.
		if s.cred, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	// Not under the test's own temporary folder: a socket's path may have
	// about a hundred bytes, and the server's user must reach it.
	if s.Dir, err = os.MkdirTemp("/tmp", "pgtest-"); err != nil {
		return nil, err
	}
	if s.cred != nil {
		if err := os.Chown(s.Dir, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return nil, err
		}
	}
	args := []string{"-D", s.data(), "-U", "belay", "-E", "UTF8", "--locale=C", "-A", "trust", "-N"}
	if opts.Checksums {
		args = append(args, "-k")
	}
	if out, err := s.command("initdb", args...).CombinedOutput(); err != nil {
		os.RemoveAll(s.Dir)
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.Start(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("as root the server needs another user, and there is no user postgres: %w; %s", err, install)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// Data is the server's data directory.
func (s *Server) Data() string { return s.data() }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Dir
	// A test that is killed takes its server with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	withParent(cmd.SysProcAttr)
	return cmd
}

// Start starts the server, also after Kill or Stop, and returns when it
// answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := []string{"-D", s.data(), "-k", s.Dir, "-p", strconv.Itoa(Port), "-c", "listen_addresses=", "-c", "max_connections=300"}
	if !s.opts.Fsync {
		args = append(args, "-c", "fsync=off")
	}
	for _, v := range s.opts.Settings {
		args = append(args, "-c", v)
	}
	cmd := s.command("postgres", args...)
	logFile, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer logFile.Close()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, s.DSN())
		if err == nil {
			_ = conn.Close(ctx)
			cancel()
			return nil
		}
		cancel()
		select {
		case <-exited:
			text, _ := os.ReadFile(logFile.Name())
			return fmt.Errorf("the server ended at its start: %s", tail(text))
		case <-time.After(5 * time.Millisecond):
			// The server tells nobody that it is ready.
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

func tail(b []byte) string {
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return string(b)
}

// Stop ends the server: syscall.SIGINT closes connections and keeps all data
// in order, SIGQUIT is PostgreSQL's immediate shutdown, SIGKILL lets nobody do
// anything. It returns when no process of it is left.
func (s *Server) Stop(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	group := children(s.cmd.Process.Pid)
	if sig == syscall.SIGKILL {
		// All at once, as when the machine goes: a backend must not outlive
		// the others and finish a commit.
		_ = syscall.Kill(-s.cmd.Process.Pid, sig)
		for _, pid := range group {
			_ = syscall.Kill(pid, sig)
		}
	} else if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		return errors.New("the server does not end")
	}
	for _, pid := range group {
		for deadline := time.Now().Add(patience); alive(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d of the server does not end", pid)
			}
		}
	}
	s.cmd = nil
	return nil
}

// Remove ends the server and deletes its data.
func (s *Server) Remove() {
	_ = s.Stop(syscall.SIGKILL)
	_ = os.RemoveAll(s.Dir)
}

// Standby makes a standby that follows this server under a name, and starts
// it. It has none of the server's further settings: it must not wait for a
// standby of its own once it is the primary.
func (s *Server) Standby(name string) (*Server, error) {
	dir, err := os.MkdirTemp("/tmp", "pgtest-")
	if err != nil {
		return nil, err
	}
	b := &Server{Dir: dir, opts: Options{Fsync: s.opts.Fsync}, bin: s.bin, cred: s.cred}
	if b.cred != nil {
		if err := os.Chown(dir, int(b.cred.Uid), int(b.cred.Gid)); err != nil {
			return nil, err
		}
	}
	conn := fmt.Sprintf("host=%s port=%d user=belay application_name=%s", s.Dir, Port, name)
	if out, err := b.command("pg_basebackup", "-D", b.data(), "-R", "-X", "stream", "-c", "fast", "-N", "-d", conn).CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := b.Start(); err != nil {
		b.Remove()
		return nil, err
	}
	return b, nil
}

// Promote makes a standby a primary.
func (s *Server) Promote() error {
	if out, err := s.command("pg_ctl", "-D", s.data(), "-w", "promote").CombinedOutput(); err != nil {
		return fmt.Errorf("pg_ctl promote: %w: %s", err, out)
	}
	return nil
}

// DSN is the server's address.
func (s *Server) DSN() string { return DSN(s.Dir) }

// Socket is the server's socket.
func (s *Server) Socket() string { return SocketIn(s.Dir) }

// SocketIn is the name that a client expects of a socket in a folder.
func SocketIn(dir string) string { return filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", Port)) }

// DSN is the address of a server or proxy with its socket in a folder.
func DSN(dir string) string {
	q := url.Values{"host": {dir}, "port": {strconv.Itoa(Port)}, "user": {"belay"}, "sslmode": {"disable"}}
	return "postgres:///postgres?" + q.Encode()
}

var (
	shared    *Server
	sharedErr error
	once      sync.Once
	schemas   atomic.Int64
)

// Shared is the one server of a test binary, without durability; Main ends it.
func Shared(t testing.TB) *Server {
	t.Helper()
	once.Do(func() { shared, sharedErr = New(Options{}) })
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	return shared
}

// Start makes a server for one test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s
}

// Main runs a test binary and ends its shared server; call it from TestMain.
func Main(m *testing.M) int {
	defer func() {
		if shared != nil {
			shared.Remove()
		}
	}()
	return m.Run()
}

// Schema is a name that no other test has.
func Schema() string { return fmt.Sprintf("t%d_%d", os.Getpid(), schemas.Add(1)) }

// Listen opens a socket under the name that a client expects in a new folder,
// for a proxy.
func Listen(t testing.TB) (dir string, l net.Listener) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgproxy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err = net.Listen("unix", SocketIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return dir, l
}
