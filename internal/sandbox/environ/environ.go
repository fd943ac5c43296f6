// Package environ decides what a command finds in its environment: the part of
// the caller's that it needs to build and test, and settings that keep
// programs from waiting for a person. It is an allow-list, because a list of
// what is secret is never complete. It must not know any backend or tool.
package environ

import (
	"regexp"
	"slices"
	"strings"
)

// allowed are the variables that commands may see, by group. A name that ends
// in '*' stands for a prefix. Nothing here may hold a credential; a value that
// turns out to hold one (a user and password inside a URL) is left out all the
// same. To pass something else, the user names it in the configuration, and it
// comes in as an extra.
var allowed = []struct {
	why   string
	names []string
}{
	{"who and where", []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "HOSTNAME"}},
	{"language of messages", []string{"LANG", "LANGUAGE", "LC_*"}},
	{"caches and settings of tools", []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}},
	{"proxies and certificates", []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE"}},
	{"Go", []string{"GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOFLAGS", "GOPROXY", "GONOPROXY", "GOPRIVATE",
		"GOSUMDB", "GONOSUMDB", "GOTOOLCHAIN", "GOWORK", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "CGO_ENABLED"}},
	{"C and C++", []string{"CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CGO_CFLAGS", "CGO_LDFLAGS",
		"CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "MAKEFLAGS", "CCACHE_DIR"}},
	{"Rust", []string{"CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUST_BACKTRACE"}},
	{"Python", []string{"PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "PYTHONHOME",
		"PIP_CACHE_DIR", "PIP_INDEX_URL", "UV_CACHE_DIR", "UV_INDEX_URL", "POETRY_HOME", "PIPENV_VENV_IN_PROJECT"}},
	{"JavaScript", []string{"NVM_DIR", "NVM_BIN", "FNM_DIR", "VOLTA_HOME", "NODE_PATH", "NODE_ENV", "NODE_OPTIONS", "PNPM_HOME",
		"COREPACK_HOME", "YARN_CACHE_FOLDER", "npm_config_cache", "npm_config_registry", "NPM_CONFIG_CACHE", "NPM_CONFIG_REGISTRY",
		"BUN_INSTALL", "DENO_DIR"}},
	{"Java and its kin", []string{"JAVA_HOME", "JDK_HOME", "GRADLE_USER_HOME", "MAVEN_HOME", "M2_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT",
		"SDKMAN_DIR", "KOTLIN_HOME", "SCALA_HOME"}},
	{"Ruby, PHP, .NET, Elixir, Haskell, Dart", []string{"GEM_HOME", "GEM_PATH", "RBENV_ROOT", "RBENV_VERSION", "BUNDLE_PATH", "BUNDLE_GEMFILE",
		"COMPOSER_HOME", "COMPOSER_CACHE_DIR", "DOTNET_ROOT", "NUGET_PACKAGES", "MIX_ENV", "MIX_HOME", "HEX_HOME", "STACK_ROOT", "CABAL_DIR",
		"GHCUP_INSTALL_BASE_PREFIX", "PUB_CACHE", "FLUTTER_ROOT"}},
	{"version managers and package managers", []string{"ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "NIX_PATH", "NIX_PROFILES",
		"HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY"}},
}

// quiet keeps programs from waiting for a person or drawing for one. CI is not
// among them on purpose: it changes what tools do (frozen lock files, warnings
// as errors), and a test that passes here must be the test the user runs.
var quiet = []string{
	"TERM=dumb", "NO_COLOR=1", "CLICOLOR=0",
	"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat", "BAT_PAGER=cat", "GH_PAGER=cat", "AWS_PAGER=",
	// `true` succeeds without changing the text: git commit without -m then
	// refuses an empty message instead of waiting for one.
	"EDITOR=true", "VISUAL=true", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_MERGE_AUTOEDIT=no",
	// `false` gives no answer to whoever asks for a password.
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=force", "SUDO_ASKPASS=/bin/false",
	"GIT_SSH_COMMAND=ssh -oBatchMode=yes",
	// A folder that only looks like a bare repository, which any command can
	// make, is none; and no repository's file names a program that `git status`
	// runs. Reading with git raises no question, so it must run nothing.
	"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.bareRepository", "GIT_CONFIG_VALUE_0=explicit",
	"GIT_CONFIG_KEY_1=core.fsmonitor", "GIT_CONFIG_VALUE_1=false",
	"DEBIAN_FRONTEND=noninteractive", "GH_PROMPT_DISABLED=1", "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1",
	"NPM_CONFIG_UPDATE_NOTIFIER=false", "NPM_CONFIG_FUND=false", "COREPACK_ENABLE_DOWNLOAD_PROMPT=0",
	"HOMEBREW_NO_AUTO_UPDATE=1", "NEXT_TELEMETRY_DISABLED=1", "DOTNET_CLI_TELEMETRY_OPTOUT=1",
	// Output of a command that is ended at its deadline is not lost in a
	// buffer.
	"PYTHONUNBUFFERED=1",
	// A test run that leaves bytecode beside the sources changes the tree that
	// it would be evidence for.
	"PYTHONDONTWRITEBYTECODE=1",
}

// fallback is used where the caller has no value.
var fallback = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
	"HOME=/",
}

var (
	// credentialName catches secrets that a prefix in the table would let
	// through.
	credentialName = regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|(^|_)AUTH(_|$))`)
	// credentialValue is a URL with a user or a password in it.
	credentialValue = regexp.MustCompile(`://[^/\s@]+@`)
)

// Environment reduces base (KEY=VALUE, normally os.Environ()) to what commands
// may see, adds the settings against prompts, pagers and editors, then the
// extras, which win and are not reduced: they are the user's word. The result
// is sorted and has each key once; entries without a key are dropped.
func Environment(base []string, extra ...string) []string {
	env := map[string]string{}
	add := func(entries []string, keep func(k, v string) bool) {
		for _, kv := range entries {
			k, v, ok := strings.Cut(kv, "=")
			if ok && k != "" && keep(k, v) {
				env[k] = v
			}
		}
	}
	all := func(string, string) bool { return true }
	add(fallback, all)
	add(base, func(k, v string) bool { return Allowed(k, v) && v != "" })
	add(quiet, all)
	add(extra, all)
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// Allowed reports whether a variable of the caller reaches commands.
func Allowed(name, value string) bool {
	if credentialName.MatchString(name) || credentialValue.MatchString(value) {
		return false
	}
	for _, g := range allowed {
		for _, n := range g.names {
			if prefix, ok := strings.CutSuffix(n, "*"); n == name || ok && strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}
