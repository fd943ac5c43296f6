package environ

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func lookup(env []string, key string) (string, bool) {
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v, true
		}
	}
	return "", false
}

func TestCredentialsNeverReachCommands(t *testing.T) {
	t.Parallel()
	secret := "s3cr3t"
	for _, name := range []string{
		"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN",
		"GH_TOKEN", "NPM_TOKEN", "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "DATABASE_URL", "PGPASSWORD", "KUBECONFIG",
		"DOCKER_HOST", "CARGO_REGISTRY_TOKEN", "LC_API_TOKEN", "LC_SECRET", "npm_config__authToken", "BASH_ENV", "ENV",
		"LD_PRELOAD", "GIT_DIR", "GIT_INDEX_FILE", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "BELAY_SHIM",
	} {
		for _, kv := range Environment([]string{name + "=" + secret}) {
			if strings.Contains(kv, secret) {
				t.Errorf("%s reaches commands as %s", name, kv)
			}
		}
	}
}

func TestAllowedVariablesPassUnlessTheirValueHoldsALogin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entry string
		want  bool
	}{
		{"GOPROXY=https://proxy.example/go,direct", true},
		{"GOPROXY=https://me:pw@proxy.example/go", false},
		{"HTTPS_PROXY=http://token@proxy.example:3128", false},
		{"http_proxy=http://proxy.example:3128", true},
		{"PIP_INDEX_URL=https://user:pw@index.example/simple", false},
		{"LC_ALL=de_DE.UTF-8", true},
		{"VIRTUAL_ENV=/home/me/venv", true},
		{"CARGO_HOME=/home/me@work/.cargo", true},
		{"SOMETHING_ELSE=1", false},
	} {
		k, v, _ := strings.Cut(c.entry, "=")
		got, ok := lookup(Environment([]string{c.entry}), k)
		if ok != c.want || ok && got != v {
			t.Errorf("%s: present %v as %q, want present %v", c.entry, ok, got, c.want)
		}
	}
}

func TestPromptsPagersAndEditorsAreNeutralWhateverTheCallerHas(t *testing.T) {
	t.Parallel()
	env := Environment([]string{"PAGER=less", "GIT_PAGER=delta", "EDITOR=vim", "TERM=xterm-256color", "CI=1"})
	for _, want := range quiet {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if v, ok := lookup(env, "CI"); ok {
		t.Errorf("CI=%s is set: tools would behave otherwise than for the user", v)
	}
}

func TestExtrasWinAndArePassedAsTheyAre(t *testing.T) {
	t.Parallel()
	env := Environment([]string{"LANG=xx"}, "CI=true", "PAGER=more", "MY_TOKEN=given", "LANG=C")
	for _, want := range []string{"CI=true", "PAGER=more", "MY_TOKEN=given", "LANG=C"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing from %v", want, env)
		}
	}
}

func TestThereIsAlwaysAPathAndALocale(t *testing.T) {
	t.Parallel()
	for _, base := range [][]string{nil, {"PATH=", "LANG="}, {"=x", "PATH"}} {
		env := Environment(base)
		for _, k := range []string{"PATH", "LANG", "HOME"} {
			if v, ok := lookup(env, k); !ok || v == "" {
				t.Errorf("base %v gives no %s", base, k)
			}
		}
	}
}

func TestEveryKeyIsThereOnceAndReducingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom([]string{"PATH", "HOME", "LC_X", "GOFLAGS", "PAGER", "FOO", "X_TOKEN"}), rapid.StringMatching(`[A-Z_]{1,8}`))
		base := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string {
			return name.Draw(t, "name") + "=" + rapid.StringMatching(`[a-z:/@.= ]{0,12}`).Draw(t, "value")
		})).Draw(t, "base")
		once := Environment(base)
		if !slices.IsSorted(once) {
			t.Fatalf("not sorted: %v", once)
		}
		seen := map[string]bool{}
		for _, kv := range once {
			k, _, _ := strings.Cut(kv, "=")
			if seen[k] {
				t.Fatalf("%s twice", k)
			}
			seen[k] = true
		}
		if twice := Environment(once); !slices.Equal(once, twice) {
			t.Fatalf("not stable:\n%v\n%v", once, twice)
		}
	})
}

// Reading with git raises no question, so a repository that a command planted
// must not be able to name a program that it runs.
func TestGitRunsNothingThatAPlantedRepositoryNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := Environment([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir})
	git := func(args ...string) (string, error) {
		c := exec.Command("git", args...)
		c.Dir, c.Env = dir, env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	evil := filepath.Join(dir, "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, make := range [][]string{{"init", "--bare", "bare"}, {"init", "nested"}, {"-C", "nested", "config", "core.fsmonitor", evil},
		{"--git-dir", "bare", "config", "core.fsmonitor", evil}, {"--git-dir", "bare", "config", "core.bare", "false"}, {"--git-dir", "bare", "config", "core.worktree", dir}} {
		if out, err := git(make...); err != nil {
			t.Fatalf("git %v: %v %s", make, err, out)
		}
	}
	if out, err := git("-C", "bare", "status"); err == nil || !strings.Contains(out, "safe.bareRepository") {
		t.Errorf("a planted repository without a name is taken for one: %v %s", err, out)
	}
	if out, err := git("-C", "nested", "status"); err != nil {
		t.Errorf("an ordinary repository cannot be read: %v %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("git ran a program that a repository names")
	}
}
