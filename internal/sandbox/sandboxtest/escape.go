//go:build linux

package sandboxtest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belay/internal/sandbox"
)

// attempt is one way out.
type attempt struct {
	name   string
	script string
	// change shapes the command; it is not applied to the control.
	change func(*sandbox.Command)
	// before prepares the world.
	before func(*world)
	// during acts while the command runs.
	during func(*world)
	// escaped says whether it worked; nil asks the output for ESCAPED.
	escaped func(w *world, out string) bool
	// root says that the control needs root: without it the machine itself
	// holds the attempt.
	root bool
	// maybe says that a machine may lack what the attempt is after; then nothing
	// is shown.
	maybe bool
}

func said(_ *world, out string) bool { return strings.Contains(out, "ESCAPED") }

func leaked(_ *world, out string) bool { return strings.Contains(out, secret) }

func wrote(path ...string) func(*world, string) bool {
	return func(w *world, _ string) bool { return exists(filepath.Join(append([]string{w.outside}, path...)...)) }
}

// changed says whether a file of the repository is another than before.
func changed(path, was string) func(*world, string) bool {
	return func(w *world, _ string) bool { return content(filepath.Join(w.repo, path)) != was }
}

const gitConfig = "[core]\n\tbare = false\n"

func planMode(c *sandbox.Command) { c.ReadOnly = true }

// attempts is the list. Names are what docs/security.md shows.
var attempts = []attempt{
	{name: "write outside", script: `echo x > $OUT/new`, escaped: wrote("new")},
	{name: "write outside through a symbolic link", script: `ln -s $OUT l; echo x > l/new`, escaped: wrote("new")},
	{name: "write outside through a hard link", script: `ln $OUT/file h && echo x >> h`,
		escaped: func(w *world, _ string) bool { return content(filepath.Join(w.outside, "file")) != "untouched\n" }},
	{name: "write outside through /proc/self/root", script: `echo x > /proc/self/root$OUT/new`, escaped: wrote("new")},
	{name: "write outside through a foreign process's root", script: `echo x > /proc/$FOREIGN/root$OUT/new; echo x > /proc/$FOREIGN/cwd/new`, escaped: wrote("new")},
	{name: "move a file outside", script: `mv kept $OUT/new`, escaped: wrote("new")},
	{name: "delete outside", script: `rm -f $OUT/file`, escaped: func(w *world, _ string) bool { return !exists(filepath.Join(w.outside, "file")) }},
	{name: "change file modes outside", script: `chmod 777 $OUT/file`, escaped: func(w *world, _ string) bool {
		info, err := os.Stat(filepath.Join(w.outside, "file"))
		return err == nil && info.Mode().Perm() == 0o777
	}},
	{name: "write a start-up file of the shell", script: `echo evil >> $HOME/.bashrc`,
		escaped: func(w *world, _ string) bool {
			return strings.Contains(content(filepath.Join(w.home, ".bashrc")), "evil")
		}},
	{name: "read credentials", script: `cat $HOME/.ssh/* $HOME/.aws/* $HOME/.netrc $HOME/.config/gcloud/* $HOME/.npmrc $HOME/.bash_history; find $HOME/.gnupg -type f -exec cat {} +`, escaped: leaked},
	{name: "read credentials through a link", script: `ln -s $HOME/.ssh s; cat s/*; ln $HOME/.netrc n; cat n; cat /proc/self/root$HOME/.netrc`, escaped: leaked},
	{name: "read belay's state", script: `cat $STATE/ledger.db`, escaped: leaked},
	{name: "write belay's state", script: `echo evil > $STATE/ledger.db; echo evil > $STATE/new`,
		escaped: func(w *world, _ string) bool {
			return content(filepath.Join(w.state, "ledger.db")) != secret+"\n" || exists(filepath.Join(w.state, "new"))
		}},
	{name: "read a foreign process's environment", script: `tr '\0' '\n' < /proc/$FOREIGN/environ`, escaped: leaked},
	{name: "read a foreign process's memory", script: `$TOOL attempt peek $FOREIGN`},
	{name: "trace a foreign process", script: `$TOOL attempt ptrace $FOREIGN`},
	{name: "signal a foreign process", script: `kill -9 $FOREIGN`, escaped: func(w *world, _ string) bool { return !w.alive() }},
	{name: "signal a foreign process by descriptor", script: `$TOOL attempt signal $FOREIGN`, escaped: func(w *world, _ string) bool { return !w.alive() }},
	{name: "gain rights by a setuid program", script: `$TOOL attempt setuid $W/suid`, root: true, before: func(w *world) {
		path := filepath.Join(w.repo, "suid")
		copyExecutable(w.t, w.tool, path)
		if os.Geteuid() == 0 {
			w.must(os.Chown(path, 65533, 65533))
			w.must(os.Chmod(path, 0o755|os.ModeSetuid))
			for dir := w.repo; len(dir) >= len(w.base); dir = filepath.Dir(dir) {
				w.must(os.Chmod(dir, 0o755))
			}
		}
	}},
	{name: "connect by TCP", script: `$TOOL attempt dial tcp4 $TCP`, escaped: func(w *world, _ string) bool { return w.reached(w.tcp) }},
	{name: "connect by IPv6", script: `$TOOL attempt dial tcp6 $TCP6`, escaped: func(w *world, _ string) bool { return w.reached(w.tcp6) }},
	{name: "send by UDP (DNS)", script: `$TOOL attempt dial udp4 $UDP`, escaped: func(w *world, _ string) bool { return w.heard() }},
	{name: "connect by TCP with a loopback of its own", script: `$TOOL attempt dial tcp4 $TCP`,
		change: func(c *sandbox.Command) { c.Network = sandbox.NetworkLoopback }, escaped: func(w *world, _ string) bool { return w.reached(w.tcp) }},
	{name: "be connected to from outside", script: `$TOOL attempt serve $W/port || echo none > $W/port`, during: comeIn},
	{name: "connect to a Unix socket outside", script: `$TOOL attempt dial unix $UNIX`, escaped: func(w *world, _ string) bool { return w.reached(w.unix) }},
	{name: "connect to an abstract Unix socket", script: `$TOOL attempt dial unix $ABSTRACT`, escaped: func(w *world, _ string) bool { return w.reached(w.abstract) }},
	{name: "connect to an abstract Unix socket, network granted", script: `$TOOL attempt dial unix $ABSTRACT`,
		change:  func(c *sandbox.Command) { c.Network = sandbox.NetworkFull },
		escaped: func(w *world, _ string) bool { return w.reached(w.abstract) }},
	{name: "talk to the hypervisor (vsock)", script: `$TOOL attempt socket 40 1`, maybe: true},
	{name: "send raw packets", script: `$TOOL attempt socket 17 3`, root: true},
	// Without control groups the limit counts all threads of the user, those of
	// the tests beside this one too: it leaves them room.
	{name: "fork bomb", script: `exec /bin/sh -c 'i=0; while [ $i -lt 900 ]; do sleep 20 & i=$((i+1)); done; echo ESCAPED'`,
		change: func(c *sandbox.Command) { c.MaxProcesses = 400 }},
	{name: "memory bomb", script: `$TOOL attempt memory 700`, change: func(c *sandbox.Command) { c.MaxMemory = 256 << 20 }},
	{name: "memory bomb of several processes", script: `for i in 1 2 3 4 5; do
bash -c 'x=$(head -c 80000000 /dev/zero | tr "\0" a); [ ${#x} = 80000000 ] || exit 1; : > have'$i'
until [ -e have1 -a -e have2 -a -e have3 -a -e have4 -a -e have5 ]; do [ ! -e died ] || exit 1; sleep 0.05; done; echo held ${#x}' & done
for i in 1 2 3 4 5; do wait -n || : > died; done`,
		change:  func(c *sandbox.Command) { c.MaxMemory = 256 << 20 },
		escaped: func(_ *world, out string) bool { return strings.Count(out, "held 80000000") == 5 }},
	{name: "one file that fills the disk", script: `head -c 30000000 /dev/zero > big && echo ESCAPED`, change: func(c *sandbox.Command) { c.MaxFileSize = 10 << 20 }},
	{name: "many files that fill the disk", script: `for i in 1 2 3 4; do head -c 9000000 /dev/zero > big$i || exit; done; echo ESCAPED`,
		change: func(c *sandbox.Command) { c.MaxFileSize = 10 << 20 }},
	{name: "type into a terminal (TIOCSTI)", script: `$TOOL attempt sti`},
	{name: "make namespaces and mounts", script: `$TOOL attempt unshare`},
	{name: "uncover what is hidden", script: `$TOOL attempt umask $HOME/.ssh; cat $HOME/.ssh/*`, escaped: leaked},
	{name: "dangerous kernel calls", script: `$TOOL attempt calls`},
	{name: "read a disk as a whole", script: `$TOOL attempt disk $W/disk`, root: true, maybe: true},
	{name: "write kernel settings", script: `$TOOL attempt open /proc/sys/kernel/core_pattern || $TOOL attempt open /proc/sys/kernel/modprobe`, root: true},
	{name: "write control groups", script: `for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do $TOOL attempt open $f; done`, root: true},
	{name: "write a git hook", script: `echo evil > .git/hooks/pre-commit; echo evil > .git/hooks/pre-push`,
		escaped: func(w *world, _ string) bool {
			return exists(filepath.Join(w.repo, ".git/hooks/pre-commit")) || content(filepath.Join(w.repo, ".git/hooks/pre-push")) != "#!/bin/sh\n"
		}},
	{name: "write a git hook in a nested repository", script: `mkdir -p vendor/deep/lib/.git/hooks; echo evil > vendor/deep/lib/.git/hooks/pre-commit`,
		escaped: func(w *world, _ string) bool {
			return exists(filepath.Join(w.repo, "vendor/deep/lib/.git/hooks/pre-commit"))
		}},
	{name: "write git's configuration", script: `echo evil >> .git/config`, escaped: changed(".git/config", gitConfig)},
	{name: "replace git's configuration", script: `echo evil > c; mv -f c .git/config`, escaped: changed(".git/config", gitConfig)},
	{name: "write the configuration of a nested repository", script: `echo evil >> vendor/deep/lib/.git/config; echo evil >> .git/modules/sub/config`,
		escaped: func(w *world, out string) bool {
			return changed("vendor/deep/lib/.git/config", gitConfig)(w, out) || changed(".git/modules/sub/config", gitConfig)(w, out)
		}},
	{name: "replace the git directory", script: `mv .git old && mkdir .git && echo evil > .git/config`, escaped: changed(".git/config", gitConfig)},
	{name: "point git to another directory", script: `mkdir evil; echo ../evil > .git/commondir; echo x > .git/config.worktree`,
		escaped: func(w *world, _ string) bool {
			return exists(filepath.Join(w.repo, ".git/commondir")) || exists(filepath.Join(w.repo, ".git/config.worktree"))
		}},
	{name: "write belay.yaml", script: `echo evil > belay.yaml; echo evil > b; mv -f b belay.yaml`, escaped: changed("belay.yaml", "rules: []\n")},
	{name: "write the workspace in plan mode", change: planMode, script: `echo evil >> kept; echo x > new; mkdir d; echo evil >> /proc/self/root$W/kept`,
		escaped: func(w *world, _ string) bool {
			return content(filepath.Join(w.repo, "kept")) != "kept\n" || exists(filepath.Join(w.repo, "new")) || exists(filepath.Join(w.repo, "d"))
		}},
	{name: "delete in the workspace in plan mode", change: planMode, script: `rm -rf kept .git`,
		escaped: func(w *world, _ string) bool {
			return !exists(filepath.Join(w.repo, "kept")) || !exists(filepath.Join(w.repo, ".git/HEAD"))
		}},
}

// comeIn knocks at the port that the command has opened, once it has. The kernel
// answers for a port that is listened on, whatever the command is doing, and
// refuses any other: one answer is enough.
func comeIn(w *world) {
	port := ""
	for deadline := time.Now().Add(time.Minute); port == "" && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(filepath.Join(w.repo, "port")); err == nil {
			port = strings.TrimSpace(string(b))
		}
	}
	if port != "none" {
		if c, err := net.DialTimeout("tcp4", "127.0.0.1:"+port, time.Minute); err == nil {
			defer c.Close()
		}
	}
	w.must(os.WriteFile(filepath.Join(w.repo, "port.tried"), nil, 0o600))
}

// Attempts are the names of all attempts, in their order.
func Attempts() []string {
	var names []string
	for _, a := range attempts {
		names = append(names, a.name)
	}
	return names
}

// Row is what the suite found for one attempt: by backend, "held" or "gap".
type Row struct {
	Attempt string
	Found   map[string]string
}

// Escapes runs every attempt against every backend, and as a control without
// one.
func Escapes(t *testing.T, none Backend, backends []Backend) []Row {
	base := Base(t)
	var rows []Row
	for _, a := range attempts {
		row := Row{Attempt: a.name, Found: map[string]string{}}
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if !a.root || os.Geteuid() == 0 {
				if !a.try(t, base, none, true) {
					if a.maybe {
						t.Log("this machine has nothing of the kind")
						return
					}
					t.Errorf("the control does not escape: that a sandbox holds it would mean nothing")
				}
			}
			for _, b := range backends {
				row.Found[b.ID] = "held"
				if a.try(t, base, b, false) {
					row.Found[b.ID] = "gap"
				}
			}
		})
		rows = append(rows, row)
	}
	return rows
}

// try reports whether the attempt got out.
func (a attempt) try(t *testing.T, base string, b Backend, control bool) bool {
	t.Helper()
	w := newWorld(t, base, b)
	if a.before != nil {
		a.before(w)
	}
	c := w.command(a.script)
	if a.change != nil && !control {
		a.change(&c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p, err := w.box.Start(ctx, c)
	if err != nil {
		t.Logf("%s: refused: %v", b.ID, err)
		return false
	}
	if a.during != nil {
		a.during(w)
	}
	res, out := w.end(ctx, p)
	if res.SpawnError != "" {
		t.Errorf("%s: the command did not run, so nothing was shown: %s", b.ID, res.SpawnError)
	}
	if res.TimedOut {
		t.Errorf("%s: the attempt hangs: %s", b.ID, out)
	}
	escaped := a.escaped
	if escaped == nil {
		escaped = said
	}
	got := escaped(w, out)
	if got || testing.Verbose() {
		t.Logf("%s: escaped %v: %+v\n%s", b.ID, got, res, clip(out))
	}
	return got
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}
