//go:build linux

package choose_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"belay/internal/sandbox"
	"belay/internal/sandbox/bwrap"
	. "belay/internal/sandbox/choose"
	"belay/internal/sandbox/landlock"
	"belay/internal/sandbox/none"
	"belay/internal/sandbox/shim"
)

var (
	unconfined = Backend{Name: "none", ID: "none", Open: func(state string) (Opened, error) { return none.New(state) }}
	bubble     = Backend{Name: "bwrap", ID: "bwrap", Automatic: true, Confines: true, Open: func(state string) (Opened, error) { return bwrap.New(state) }}
	spaces     = Backend{Name: "landlock", ID: "landlock", Automatic: true, Confines: true,
		Open: func(state string) (Opened, error) { return landlock.New(state, landlock.Options{Namespaces: true}) }}
	alone = Backend{Name: "landlock", ID: "landlock alone", Automatic: true, Confines: true,
		Open: func(state string) (Opened, error) { return landlock.New(state, landlock.Options{}) }}
	// liar says that it confines, and does not.
	liar = Backend{Name: "liar", ID: "liar", Automatic: true, Confines: true, Open: func(state string) (Opened, error) { return none.New(state) }}
	// broken confines so well that nothing runs.
	broken = Backend{Name: "broken", ID: "broken", Automatic: true, Confines: true, Open: func(state string) (Opened, error) {
		return shim.New(state, shim.Options{Name: "broken", Confine: func(c sandbox.Command) (shim.Launch, error) {
			return shim.Launch{Argv: []string{"/nonexistent/bwrap"}, Dir: c.Dir}, nil
		}})
	}}
	// missing is not installed.
	missing = Backend{Name: "missing", ID: "missing", Automatic: true, Confines: true, Open: func(string) (Opened, error) { return nil, sandbox.ErrUnavailable }}
)

// stateDir must not lie in /tmp: there the private /tmp would hide what the
// probe looks for.
func stateDir(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "belay-choose-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestTheProbeTellsWhatHoldsFromWhatDoesNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b     Backend
		holds bool
	}{{bubble, true}, {spaces, true}, {alone, true}, {liar, false}, {broken, false}, {missing, false}, {unconfined, true}} {
		t.Run(c.b.ID, func(t *testing.T) {
			t.Parallel()
			for _, state := range []string{stateDir(t), t.TempDir()} {
				f := Chooser{Backends: []Backend{c.b}, State: state}.All(context.Background())
				if f[0].Holds != c.holds || !c.holds && f[0].Why == "" {
					t.Errorf("in %s: %+v", state, f[0])
				}
				left, _ := filepath.Glob(filepath.Join(state, ".probe-*"))
				if len(left) > 0 {
					t.Errorf("the probe leaves %v", left)
				}
			}
		})
	}
}

func TestAutoTakesTheStrongestThatHoldsAndNeverTheUnconfined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		backends []Backend
		setting  string
		want     string // "" for a refusal
	}{
		{"the first that holds", []Backend{bubble, spaces, unconfined}, "auto", "bwrap"},
		{"past one that is missing", []Backend{missing, spaces, unconfined}, "auto", "landlock"},
		{"past one that only claims", []Backend{liar, alone, unconfined}, "auto", "landlock"},
		{"past one where every run dies", []Backend{broken, spaces, unconfined}, "auto", "landlock"},
		{"none holds", []Backend{missing, liar, broken, unconfined}, "auto", ""},
		{"asked for by name and missing", []Backend{missing, spaces, unconfined}, "missing", ""},
		{"asked for by name and not holding", []Backend{bubble, liar, unconfined}, "liar", ""},
		{"the weaker grade of the one asked for", []Backend{bubble, alone, unconfined}, "landlock", "landlock"},
		{"unconfined by its name", []Backend{missing, unconfined}, "none", "none"},
		{"no such backend", []Backend{bubble, unconfined}, "docker", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ch := Chooser{Backends: c.backends, State: stateDir(t)}
			got, err := ch.Pick(context.Background(), c.setting)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Fatalf("%q %v, want %q", got, err, c.want)
			}
			if err != nil && c.setting != "docker" && (!errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "--sandbox none")) {
				t.Errorf("the refusal does not say how to go on: %v", err)
			}
			box, err := ch.Open(context.Background(), c.setting)
			if err == nil {
				defer box.Close()
			}
			if (err != nil) != (c.want == "") || err == nil && box.Name() != c.want {
				t.Errorf("opened %v %v", box, err)
			}
		})
	}
}

func TestWhatTheProbeFoundIsKeptForThisBootAndProgramOnly(t *testing.T) {
	t.Parallel()
	opened := 0
	b := spaces
	b.Open = func(state string) (Opened, error) {
		opened++
		return landlock.New(state, landlock.Options{Namespaces: true})
	}
	c := Chooser{Backends: []Backend{b}, State: stateDir(t)}
	for range 3 {
		if name, err := c.Pick(context.Background(), Auto); err != nil || name != "landlock" {
			t.Fatal(name, err)
		}
	}
	if opened != 1 {
		t.Errorf("probed %d times", opened)
	}
	file := filepath.Join(c.State, "probes", "landlock.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{strings.Replace(string(text), `"key":"`, `"key":"0`, 1), "{", ""} {
		if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		before := opened
		if _, err := c.Pick(context.Background(), Auto); err != nil || opened != before+1 {
			t.Errorf("a finding of another boot or program was believed: %.40s (%v)", other, err)
		}
	}
}

func TestACancelledProbeIsNoFinding(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := Chooser{Backends: []Backend{bubble}, State: stateDir(t)}
	if _, err := c.Pick(ctx, Auto); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if name, err := c.Pick(context.Background(), Auto); err != nil || name != "bwrap" {
		t.Errorf("%q %v", name, err)
	}
}

// dying is a backend whose supervisor is killed under the first commands; a
// probe starts two side by side.
type dying struct {
	Opened
	left *atomic.Int32
}

type killed struct{ sandbox.Process }

func (killed) Wait(context.Context) (sandbox.Result, error) {
	return sandbox.Result{}, sandbox.ErrGone
}

func (d dying) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := d.Opened.Start(ctx, c)
	if err == nil && d.left.Add(-1) >= 0 {
		_, err := p.Wait(ctx)
		return killed{p}, err
	}
	return p, err
}

// TestAProbeThatWasKilledIsNoFinding: the strongest backend is not given up, nor
// remembered as one that does not hold, because somebody killed its probe.
func TestAProbeThatWasKilledIsNoFinding(t *testing.T) {
	t.Parallel()
	var left atomic.Int32
	left.Store(2)
	b := bubble
	b.Open = func(state string) (Opened, error) {
		box, err := bwrap.New(state)
		return dying{box, &left}, err
	}
	c := Chooser{Backends: []Backend{b, spaces}, State: stateDir(t)}
	if name, err := c.Pick(context.Background(), Auto); err != nil || name != "bwrap" || left.Load() >= 0 {
		t.Errorf("%q, %d left: %v", name, left.Load(), err)
	}
}

// A backend may take what it works with from the setting, and the goal keeps
// what that meant at its start.
func TestASettingNamesWhatABackendWorksWith(t *testing.T) {
	t.Parallel()
	opened := ""
	image := Backend{Name: "image", ID: "image", Confines: true, Open: func(string) (Opened, error) { return nil, errors.New("names no image") },
		With: func(what string) func(string) (Opened, error) {
			return func(state string) (Opened, error) {
				opened = what
				return landlock.New(state, landlock.Options{})
			}
		},
		Pin: func(_ context.Context, what string) (string, error) {
			if what == "" {
				return "", errors.New("names no image")
			}
			return strings.TrimSuffix(what, "#1") + "#1", nil
		}}
	c := Chooser{State: stateDir(t), Backends: []Backend{image, unconfined}}
	for range 2 { // the second time from what is kept
		if got, err := c.Pick(t.Context(), "image:a/b:c"); err != nil || got != "image:a/b:c#1" {
			t.Fatalf("%q %v", got, err)
		}
	}
	box, err := c.Open(t.Context(), "image:a/b:c#1")
	if err != nil || opened != "a/b:c#1" {
		t.Fatalf("%v: opened with %q", err, opened)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	for setting, want := range map[string]string{"image": "names no image", "none:x": "takes nothing after a colon", "imag:x": "there is no sandbox"} {
		if got, err := c.Pick(t.Context(), setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q %v, want %q", setting, got, err, want)
		}
	}
}

// TestWhatAKilledProbeLeftGoesWithTheNext: its folder, and its command, whose
// supervisor lives on or is gone; but nothing of a probe that is being made.
func TestWhatAKilledProbeLeftGoesWithTheNext(t *testing.T) {
	t.Parallel()
	c := Chooser{Backends: []Backend{bubble}, State: stateDir(t)}
	dir := filepath.Join(c.State, ".probe-killed")
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	box, err := none.New(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	p, err := box.Start(context.Background(), sandbox.Command{Key: "probe.holds.1", Shell: "sleep 600", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if name, err := c.Pick(context.Background(), Auto); err != nil || name != "bwrap" {
		t.Fatalf("%q %v", name, err)
	}
	if res, err := p.Wait(context.Background()); err == nil && res.ExitCode == 0 {
		t.Errorf("the command of the killed probe ended by itself: %+v", res)
	}
	if left, _ := filepath.Glob(filepath.Join(c.State, ".probe-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
