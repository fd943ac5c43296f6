//go:build linux

package container

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belay/internal/sandbox"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

// workspace is a repository below a home with a cache, outside of /tmp.
func workspace(t *testing.T) (home, repo, state string) {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if home, err = os.MkdirTemp(base, "belay-container-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	repo, state = filepath.Join(home, "work", "a,b \"repo\""), filepath.Join(home, "state")
	for _, d := range []string{filepath.Join(repo, ".git", "hooks"), filepath.Join(home, ".ssh"), filepath.Join(home, ".cargo", "registry"), state} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, ".git", "config"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return home, repo, state
}

// options are an argument list as pairs of an option and its value, up to the
// image.
func options(t *testing.T, argv []string, image string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for i := 0; i < len(argv) && argv[i] != image; i++ {
		if !strings.HasPrefix(argv[i], "--") {
			continue
		}
		if i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "--") {
			out[argv[i]] = append(out[argv[i]], argv[i+1])
			continue
		}
		out[argv[i]] = append(out[argv[i]], "")
	}
	return out
}

// mounted are the mounts by target: "source" or "source ro".
func mounted(t *testing.T, lines []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, l := range lines {
		fields, err := csv.NewReader(strings.NewReader(l)).Read()
		if err != nil {
			t.Fatalf("%q is no line of CSV: %v", l, err)
		}
		var source, target, mode string
		for _, f := range fields {
			switch k, v, _ := strings.Cut(f, "="); k {
			case "source":
				source = v
			case "target":
				target = v
			case "readonly":
				mode = " ro"
			}
		}
		out[target] = source + mode
	}
	return out
}

func TestTheCommandLineHoldsWhatIsPromised(t *testing.T) {
	t.Parallel()
	home, repo, state := workspace(t)
	c := sandbox.Command{Key: "g.op1.1", Shell: "echo hi", Dir: repo, Workspace: repo, Protected: []string{state},
		Env: []string{"HOME=" + home, "PATH=/host/bin", "GOROOT=/host/go", "LANG=C", "FROM=engine"}}
	m := machine{engine: []string{"/usr/bin/podman", "--runtime", "runc"}, image: "IMAGE", state: state, uid: 1000, gid: 1001,
		env: []string{"HOME=/home/me", "PATH=/bin", "FROM=engine"}, memory: 1 << 30, open: "10:20", nproc: "30:40"}
	for _, tt := range []struct {
		name   string
		change func(*machine, *sandbox.Command)
		want   map[string][]string
		lack   []string
	}{
		{"by default", func(*machine, *sandbox.Command) {}, map[string][]string{"--network": {"none"}, "--read-only": {""}, "--cap-drop": {"all"}, "--rm": {""}, "--pull": {"never"},
			"--user": {"1000:1001"}, "--userns": {"keep-id"}, "--pids-limit": {"4096"}, "--memory": {"1073741824"}, "--runtime": {"runc"},
			"--ulimit": {"fsize=17179869184:17179869184", "core=0:0", "nofile=10:20", "nproc=30:40"}, "--log-driver": {"none"}}, []string{"--cap-add", "--privileged"}},
		{"as root", func(m *machine, _ *sandbox.Command) { m.uid, m.gid = 0, 0 },
			map[string][]string{"--user": {"0:0"}, "--cap-drop": {"all"}, "--cap-add": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"}}, []string{"--userns"}},
		{"by Docker", func(m *machine, _ *sandbox.Command) { m.engine = []string{"/usr/bin/docker"} }, map[string][]string{"--user": {"1000:1001"}}, []string{"--userns"}},
		{"with its own limits", func(_ *machine, c *sandbox.Command) {
			c.MaxMemory, c.MaxProcesses, c.MaxCPU, c.MaxFileSize = 5, 6, 1500*time.Millisecond, 7
		}, map[string][]string{"--memory": {"5"}, "--pids-limit": {"6"}, "--ulimit": {"fsize=7:7", "core=0:0", "nofile=10:20", "nproc=30:40", "cpu=2:3"}}, nil},
		{"with a loopback", func(_ *machine, c *sandbox.Command) { c.Network = sandbox.NetworkLoopback }, map[string][]string{"--network": {"none"}}, nil},
		{"with the network", func(_ *machine, c *sandbox.Command) { c.Network = sandbox.NetworkFull }, map[string][]string{"--network": {"host"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, c := m, c
			tt.change(&m, &c)
			l, err := m.confine(c)
			if err != nil {
				t.Fatal(err)
			}
			got := options(t, l.Argv, "IMAGE")
			for o, want := range tt.want {
				if !slices.Equal(got[o], want) {
					t.Errorf("%s is %q, want %q", o, got[o], want)
				}
			}
			for _, o := range tt.lack {
				if got[o] != nil {
					t.Errorf("%s is there: %q", o, got[o])
				}
			}
			if s := got["--security-opt"]; !slices.Contains(s, "no-new-privileges") || !strings.HasPrefix(s[len(s)-1], "seccomp=") {
				t.Errorf("security options: %q", s)
			}
			name := got["--name"][0]
			if l.End == nil || l.End[len(l.End)-1] != name || !slices.Contains(l.End, "rm") || !slices.Contains(l.End, "--force") {
				t.Errorf("what ends the container %s: %q", name, l.End)
			}
			if last := l.Argv[len(l.Argv)-1]; last != "echo hi" {
				t.Errorf("the command's text is %q", last)
			}
			env := got["--env"]
			for _, want := range []string{"HOME=" + home, "LANG", "FROM", "TMPDIR=/tmp", shim.EnvAttemptID} {
				if !slices.Contains(env, want) {
					t.Errorf("the environment %q lacks %s", env, want)
				}
			}
			for _, e := range env {
				if strings.HasPrefix(e, "PATH") || strings.HasPrefix(e, "GOROOT") || strings.HasPrefix(e, "LANG=") {
					t.Errorf("%s reaches the container, or a command line", e)
				}
			}
			if !slices.Contains(l.Env, "LANG=C") || !slices.Contains(l.Env, "PATH=/bin") || slices.Contains(l.Env, "PATH=/host/bin") {
				t.Errorf("the engine's environment: %q", l.Env)
			}
		})
	}
	bad := c
	bad.Network = "lan"
	if _, err := m.confine(bad); err == nil {
		t.Error("a network that is none is taken")
	}
	bad.Network, bad.Workspace = "", ""
	if _, err := m.confine(bad); err == nil {
		t.Error("a command without a workspace is taken")
	}
}

func TestOnlyWhatIsGrantedIsThere(t *testing.T) {
	t.Parallel()
	home, repo, state := workspace(t)
	secret := filepath.Join(repo, "secret")
	if err := os.Mkdir(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	c := sandbox.Command{Key: "k.1", Shell: "x", Dir: repo, Workspace: repo, Protected: []string{secret}, Env: []string{"HOME=" + home}}
	m := machine{engine: []string{"/usr/bin/podman"}, image: "IMAGE", state: state}
	scratch := shim.Scratch(state, c.Key)
	look := func() (map[string]string, shim.Launch) {
		l, err := m.confine(c)
		if err != nil {
			t.Fatal(err)
		}
		return mounted(t, options(t, l.Argv, "IMAGE")["--mount"]), l
	}
	got, l := look()
	for target, want := range map[string]string{
		repo:                                   repo,
		filepath.Join(repo, ".git"):            filepath.Join(repo, ".git"),
		filepath.Join(repo, ".git", "hooks"):   filepath.Join(repo, ".git", "hooks") + " ro",
		filepath.Join(repo, ".git", "config"):  filepath.Join(repo, ".git", "config") + " ro",
		filepath.Join(home, ".cargo/registry"): filepath.Join(home, ".cargo/registry"),
		"/tmp":                                 filepath.Join(scratch, "tmp"),
		proofPath:                              filepath.Join(filepath.Dir(scratch), shim.ProofFile),
	} {
		if got[target] != want {
			t.Errorf("%s shows %q, want %q", target, got[target], want)
		}
	}
	if s := got[secret]; !strings.HasPrefix(s, filepath.Join(scratch, emptyDir)) || !strings.HasSuffix(s, " ro") {
		t.Errorf("what is hidden in the workspace shows %q", s)
	}
	for target := range got {
		if scope.Within(target, state) || scope.Within(target, filepath.Join(home, ".ssh")) || target == "/run" || target == "/" || strings.HasPrefix(target, "/etc") {
			t.Errorf("%s is mounted", target)
		}
	}
	if len(l.Absent) == 0 {
		t.Error("nothing is said of what must not come into being")
	}
	c.ReadOnly = true
	got, _ = look()
	for target, source := range got {
		if scope.Within(target, repo) && !strings.HasSuffix(source, " ro") {
			t.Errorf("in plan mode %s can be written", target)
		}
	}
}

// What is granted inside of what is hidden needs a place to be mounted at.
func TestPlacesAreMadeForWhatIsMounted(t *testing.T) {
	t.Parallel()
	scratch, record := filepath.Join(t.TempDir(), "scratch"), t.TempDir()
	rules := []scope.Rule{{Path: "/h", Kind: scope.Hidden}, {Path: "/h/a/b", Kind: scope.Writable}, {Path: "/h/f", Kind: scope.ReadOnly, File: true}}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(restriction{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(&shim.Launch{Restrict: b}, record, scratch); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Join(scratch, emptyDir, "0", "a", "b"), filepath.Join(scratch, emptyDir, "0", "f"), filepath.Join(scratch, emptyFile),
		filepath.Join(record, shim.ProofFile)} {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
	var profileOf struct {
		Default string `json:"defaultAction"`
		Rules   []struct {
			Names []string `json:"names"`
		} `json:"syscalls"`
	}
	text, err := os.ReadFile(filepath.Join(scratch, profile))
	if err == nil {
		err = json.Unmarshal(text, &profileOf)
	}
	if err != nil || profileOf.Default != "SCMP_ACT_ALLOW" || len(profileOf.Rules) < 100 {
		t.Errorf("%v: the profile is %.200s", err, text)
	}
}

// engine is a program that answers as engines do.
func engine(t *testing.T, script string) []string {
	t.Helper()
	return []string{"/bin/sh", "-c", script, "engine"}
}

func TestAnImageIsPinnedAndNeverFetched(t *testing.T) {
	t.Parallel()
	knows := engine(t, `[ "$1 $2" = "image inspect" ] || exit 9
case $5 in x:1|abc) echo sha256:abc;; y) echo def;; *) echo "no such image: $5" >&2; exit 125;; esac`)
	for _, tt := range []struct{ image, want, err string }{
		{"x:1", "x:1#abc", ""}, {"y", "y#def", ""}, {"x:1#abc", "x:1#abc", ""},
		{"z", "", "no such image: z"}, {"x:1#old", "", "no such image: old"}, {"", "", "--image"},
	} {
		got, err := Pin(t.Context(), Options{Engine: knows, Image: tt.image})
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q is %q, %v; want %q, %q", tt.image, got, err, tt.want, tt.err)
		}
	}
	if _, err := Pin(t.Context(), Options{Engine: []string{"no-such-engine"}, Image: "x"}); err == nil || !strings.Contains(err.Error(), "no-such-engine") {
		t.Errorf("an engine that is missing: %v", err)
	}
	if _, err := New(t.TempDir(), Options{Engine: knows}); err == nil {
		t.Error("a backend without an image")
	}
}
