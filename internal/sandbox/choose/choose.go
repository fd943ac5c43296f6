// Package choose finds out which backends hold on this machine, by running
// something in each, and picks one. Its one job is that nobody is told of a
// sandbox that is not there. It knows backends only by the port: which there
// are, and in what order of strength, is its caller's list.
package choose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"belay/internal/sandbox"
)

// Auto is the setting that stands for the strongest backend that holds.
const Auto = "auto"

// Backend is one candidate, or one grade of it.
type Backend struct {
	// Name is the backend's, as settings call it; grades of one backend share
	// it. ID tells them apart.
	Name, ID string
	// Open opens it; an error says that this machine lacks what it needs.
	Open func(state string) (Opened, error)
	// With, if set, makes the backend for what a setting names after a colon
	// ("container:IMAGE"), and Pin resolves that to what the goal keeps.
	With func(what string) func(state string) (Opened, error)
	Pin  func(ctx context.Context, what string) (string, error)
	// Automatic backends are candidates for Auto.
	Automatic bool
	// Confines says that a probe has something to find out. The backend without
	// it is never chosen but by its name.
	Confines bool
}

// Opened is a backend at work.
type Opened interface {
	sandbox.Sandbox
	Close() error
}

// Chooser picks among backends, the strongest first.
type Chooser struct {
	Backends []Backend
	// State is belay's state directory; what a probe found is kept there for as
	// long as the machine and the program stay the same.
	State string
}

// Finding is what is known of one backend.
type Finding struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	// Why says what does not hold, or why it cannot be used.
	Why string `json:"why,omitempty"`
	// Words are the backend's own description.
	Words string `json:"words,omitempty"`
}

// Pick resolves a setting to the name of a backend that holds here. The error
// wraps sandbox.ErrUnavailable and says how to go on.
func (c Chooser) Pick(ctx context.Context, setting string) (string, error) {
	b, err := c.find(ctx, setting)
	return b.Name, err
}

// Open opens the backend that a setting names, in its strongest grade that
// holds here.
func (c Chooser) Open(ctx context.Context, setting string) (Opened, error) {
	b, err := c.find(ctx, setting)
	if err != nil {
		return nil, err
	}
	return b.Open(c.State)
}

func (c Chooser) find(ctx context.Context, setting string) (Backend, error) {
	if setting == "" {
		setting = Auto
	}
	name, what, _ := strings.Cut(setting, ":")
	var known, why []string
	for _, b := range c.Backends {
		known = append(known, b.Name)
		if b.Name != name && (name != Auto || !b.Automatic) {
			continue
		}
		b, err := b.of(ctx, what)
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		if !b.Confines {
			return b, nil
		}
		f, err := c.Look(ctx, b)
		if err != nil {
			return Backend{}, err
		}
		if f.Holds {
			return b, nil
		}
		why = append(why, f.ID+": "+f.Why)
	}
	const remedy = "`belay doctor` shows each backend; `--sandbox none` runs commands unconfined, and the goal's record says so"
	switch {
	case len(why) > 0 && setting == Auto:
		return Backend{}, fmt.Errorf("%w (%s); %s", sandbox.ErrUnavailable, strings.Join(why, "; "), remedy)
	case len(why) > 0:
		return Backend{}, fmt.Errorf("%w: the sandbox %s does not hold on this machine (%s); work on this goal where it does, or start it anew with another --sandbox; %s",
			sandbox.ErrUnavailable, setting, strings.Join(why, "; "), remedy)
	}
	return Backend{}, fmt.Errorf("there is no sandbox %q: choose auto or one of %s", setting, strings.Join(dedupe(known), ", "))
}

// of is the backend for what stands after the colon.
func (b Backend) of(ctx context.Context, what string) (Backend, error) {
	if b.With == nil {
		if what != "" {
			return b, fmt.Errorf("the sandbox %s takes nothing after a colon, and %q stands there", b.Name, what)
		}
		return b, nil
	}
	what, err := b.Pin(ctx, what)
	if err != nil {
		return b, err
	}
	b.Name, b.Open = b.Name+":"+what, b.With(what)
	b.ID = b.Name
	return b, nil
}

func dedupe(all []string) []string {
	var out []string
	for _, s := range all {
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}

// All looks at every backend afresh, whatever is kept.
func (c Chooser) All(ctx context.Context) []Finding {
	var out []Finding
	for _, b := range c.Backends {
		f := c.probe(ctx, b)
		out = append(out, f)
		if b.Confines && ctx.Err() == nil {
			c.keep(f)
		}
	}
	return out
}

// Look is what is kept of a backend, or else a probe. Only the end of the
// context is an error.
func (c Chooser) Look(ctx context.Context, b Backend) (Finding, error) {
	if f, ok := c.kept(b.ID); ok {
		return f, nil
	}
	f := c.probe(ctx, b)
	if err := ctx.Err(); err != nil {
		return f, fmt.Errorf("probe the sandbox %s: %w", b.ID, err)
	}
	c.keep(f)
	return f, nil
}

// tries is how often a backend is probed that is there and did not hold. What
// failed may have been the probe: its supervisor was killed, or what it hid was
// removed while it was being hidden. To take that for a finding would choose a
// weaker backend, or none.
const tries = 3

func (c Chooser) probe(ctx context.Context, b Backend) Finding {
	f := Finding{ID: b.ID, Name: b.Name}
	defer c.alone(ctx, b)()
	var err error
	for range tries {
		if err = c.try(ctx, b, &f); err == nil || errors.Is(err, sandbox.ErrUnavailable) || ctx.Err() != nil {
			break
		}
	}
	f.Holds = err == nil
	if err != nil {
		f.Why = err.Error()
	}
	return f
}

// alone notes that a probe is being made, until the result is called. Where no
// other is, what killed ones have left behind goes first: their folders, and
// commands that their supervisors could not end any more.
func (c Chooser) alone(ctx context.Context, b Backend) (done func()) {
	lock, err := os.OpenFile(filepath.Join(c.State, ".probe.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {} // the probe says what is wrong with the directory
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		left, _ := filepath.Glob(filepath.Join(c.State, ".probe-*"))
		for _, dir := range left {
			c.sweep(ctx, b, dir)
		}
	}
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH)
	return func() { _ = lock.Close() }
}

// sweep removes what a killed probe has left. Any backend finds the commands of
// any other.
func (c Chooser) sweep(ctx context.Context, b Backend, dir string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if box, err := b.Open(filepath.Join(dir, "state")); err == nil {
		for _, key := range []string{runsKey, holdsKey, planKey} {
			// A supervisor that is gone is not asked: to look ends what it left.
			if p, err := box.Attach(ctx, key); err == nil && p.Stop(ctx, "its probe was killed") == nil {
				_, _ = p.Wait(ctx)
			}
		}
		_ = box.Close()
	}
	_ = os.RemoveAll(dir)
}

// The keys of the commands that a probe runs.
const (
	runsKey  = "probe.runs.1"
	holdsKey = "probe.holds.1"
	planKey  = "probe.plan.1"
)

// try runs the probe in a state directory of its own beside the real one: what
// holds in one file system need not hold in another.
func (c Chooser) try(ctx context.Context, b Backend, f *Finding) error {
	dir, err := os.MkdirTemp(c.State, ".probe-")
	if err != nil {
		return fmt.Errorf("make a folder for the probe: %w", err)
	}
	defer os.RemoveAll(dir)
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		return fmt.Errorf("make a folder for the probe: %w", err)
	}
	box, err := b.Open(state)
	if err != nil {
		return err
	}
	defer box.Close()
	f.Words = box.Describe()
	if !b.Confines {
		return Runs(ctx, box, dir)
	}
	return Probe(ctx, box, dir)
}

// keptProbe is the file that holds a finding. Key names all that it depends
// on.
type keptProbe struct {
	Key     string  `json:"key"`
	Finding Finding `json:"finding"`
}

// retryAfter is how long a backend that did not hold is not tried again.
const retryAfter = time.Minute

func (c Chooser) file(id string) string {
	if strings.ContainsAny(id, ":/") {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:12])
	}
	return filepath.Join(c.State, "probes", strings.ReplaceAll(id, " ", "-")+".json")
}

func (c Chooser) kept(id string) (Finding, bool) {
	info, err := os.Stat(c.file(id))
	if err != nil {
		return Finding{}, false
	}
	b, err := os.ReadFile(c.file(id))
	var k keptProbe
	if err != nil || json.Unmarshal(b, &k) != nil || k.Key == "" || k.Key != c.key() || k.Finding.ID != id {
		return Finding{}, false
	}
	if !k.Finding.Holds && time.Since(info.ModTime()) > retryAfter {
		return Finding{}, false
	}
	return k.Finding, true
}

// keep is a cache: what cannot be kept is found out again.
func (c Chooser) keep(f Finding) {
	b, err := json.Marshal(keptProbe{Key: c.key(), Finding: f})
	if err != nil || os.MkdirAll(filepath.Dir(c.file(f.ID)), 0o700) != nil {
		return
	}
	tmp := fmt.Sprintf("%s.%d", c.file(f.ID), os.Getpid())
	if os.WriteFile(tmp, b, 0o600) != nil || os.Rename(tmp, c.file(f.ID)) != nil {
		_ = os.Remove(tmp)
	}
}

// key names this boot of the machine, its kernel, the user, the programs that
// hold, and this very program. "" means that it cannot be told: nothing is kept
// then.
func (c Chooser) key() string {
	h := sha256.New()
	for _, p := range []string{"/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease"} {
		b, err := os.ReadFile(p)
		if err != nil {
			return ""
		}
		h.Write(b)
	}
	// Its size and times stand for the program's content: to read tens of
	// megabytes at each start would cost more than the probe.
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return ""
	}
	fmt.Fprint(h, os.Geteuid(), self.Size(), self.ModTime().UnixNano(), os.Getenv("PATH"))
	return hex.EncodeToString(h.Sum(nil))
}

// Runs reports whether commands run at all: that one ends with the exit code
// it gave.
func Runs(ctx context.Context, box sandbox.Sandbox, dir string) error {
	_, err := run(ctx, box, sandbox.Command{Key: runsKey, Shell: "exit 7", Dir: dir}, 7)
	return err
}

// Probe runs a command in a sandbox that tries what must work and what must
// not, and says what is wrong. dir is a folder that it may fill.
func Probe(ctx context.Context, box sandbox.Sandbox, dir string) error {
	work, secret := filepath.Join(dir, "work"), filepath.Join(dir, "secret")
	if err := errors.Join(os.Mkdir(work, 0o700), os.Mkdir(secret, 0o700),
		os.WriteFile(filepath.Join(secret, "file"), []byte("SECRET\n"), 0o600)); err != nil {
		return fmt.Errorf("fill the folder of the probe: %w", err)
	}
	c := sandbox.Command{Key: holdsKey, Dir: work, Workspace: work, Network: sandbox.NetworkNone, Protected: []string{secret}, Shell: probeScript,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "OUT=" + dir, "SECRET=" + secret}}
	server, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("listen for a command that should not come: %w", err)
	}
	defer server.Close()
	c.Env = append(c.Env, fmt.Sprintf("PORT=%d", server.Addr().(*net.TCPAddr).Port))
	// Side by side: a new state directory waits for both.
	plan := make(chan error, 1)
	go func() { plan <- planProbe(ctx, box, work, c) }()
	out, err := run(ctx, box, c, 0)
	planned := <-plan
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(work, "inside")); err != nil {
		return errors.New("a command could not write inside the workspace")
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil {
		return errors.New("a command could write outside the workspace")
	}
	for mark, what := range map[string]string{"SECRET": "read what is hidden", "NETWORK": "reach a network"} {
		if strings.Contains(out, mark) {
			return errors.New("a command could " + what)
		}
	}
	if !strings.Contains(out, "TMP") {
		return errors.New("a command has no temporary folder")
	}
	return planned
}

// probeScript tries one thing a line. The last is bash's own; where there is no
// bash, the line fails for that reason, and the escape suite is all that shows
// it.
const probeScript = `echo x > inside
echo x > "$OUT/outside"
cat "$SECRET/file"
echo x > "$TMPDIR/probe" && echo TMP
(exec 3<>/dev/tcp/127.0.0.1/$PORT) && echo NETWORK
exit 0`

func planProbe(ctx context.Context, box sandbox.Sandbox, work string, c sandbox.Command) error {
	c.Key, c.ReadOnly, c.Shell = planKey, true, "echo x > planned; exit 0"
	if _, err := run(ctx, box, c, 0); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(work, "planned")); err == nil {
		return errors.New("a command could write in the workspace in plan mode")
	}
	return nil
}

func run(ctx context.Context, box sandbox.Sandbox, c sandbox.Command, code int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c.Timeout, c.MaxOutput = 10*time.Second, 64<<10
	p, err := box.Start(ctx, c)
	if err != nil {
		return "", fmt.Errorf("a command could not be started: %w", err)
	}
	res, err := p.Wait(ctx)
	if err != nil {
		return "", fmt.Errorf("the end of a command could not be seen: %w", err)
	}
	if res.SpawnError != "" {
		return "", errors.New(res.SpawnError)
	}
	r, err := p.Output()
	if err != nil {
		return "", err
	}
	defer r.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	if res.ExitCode != code {
		return "", fmt.Errorf("a command that exits with %d was reported with %d: %.200s", code, res.ExitCode, out)
	}
	return string(out), nil
}
