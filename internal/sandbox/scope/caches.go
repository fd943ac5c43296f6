package scope

import (
	"os"
	"path/filepath"
	"strings"
)

// cache is a folder that a build tool keeps what it can fetch or build again
// in, and without which each command would start from nothing.
type cache struct {
	// variable, if it is set in the command's environment, names the folder in
	// place of home, with below appended.
	variable, below string
	home            string // relative to the home directory
	// tool, if it is installed, may make the folder: it fails without one.
	tool string
}

// caches is the whole list of what a command may write outside the workspace
// and its private temporary folders. Folders of programs that are found by
// PATH (~/.cargo/bin, ~/go/bin, ~/.local/bin) must never be in it.
var caches = []cache{
	{variable: "GOCACHE", home: ".cache/go-build", tool: "go"},
	{variable: "GOMODCACHE", home: "go/pkg/mod", tool: "go"},
	{variable: "GOPATH", below: "pkg/mod"},
	{home: ".cache/staticcheck"}, {home: ".cache/golangci-lint"},
	{variable: "CARGO_HOME", below: "registry", home: ".cargo/registry"}, {variable: "CARGO_HOME", below: "git", home: ".cargo/git"},
	{variable: "npm_config_cache", home: ".npm"}, {variable: "NPM_CONFIG_CACHE"},
	{variable: "YARN_CACHE_FOLDER", home: ".cache/yarn"}, {home: ".yarn/berry/cache"},
	{home: ".local/share/pnpm/store"}, {home: ".cache/pnpm"}, {home: ".bun/install/cache"}, {variable: "DENO_DIR", home: ".cache/deno"},
	{variable: "COREPACK_HOME", home: ".cache/node/corepack"}, {home: ".cache/node-gyp"},
	{variable: "PIP_CACHE_DIR", home: ".cache/pip"}, {variable: "UV_CACHE_DIR", home: ".cache/uv"}, {home: ".cache/pypoetry"},
	{home: ".cache/pre-commit"}, {home: ".cache/mypy"}, {home: ".cache/ruff"}, {home: ".conda/pkgs"},
	{variable: "GRADLE_USER_HOME", below: "caches", home: ".gradle/caches"}, {variable: "GRADLE_USER_HOME", below: "daemon", home: ".gradle/daemon"},
	{variable: "GRADLE_USER_HOME", below: "native", home: ".gradle/native"}, {home: ".m2/repository"}, {home: ".ivy2/cache"}, {home: ".cache/coursier"},
	{variable: "NUGET_PACKAGES", home: ".nuget/packages"}, {variable: "PUB_CACHE", home: ".pub-cache/hosted"},
	{variable: "COMPOSER_CACHE_DIR", home: ".cache/composer"}, {home: ".bundle/cache"}, {home: ".hex/packages"}, {home: ".cache/rebar3"},
	{variable: "STACK_ROOT", below: "pantry", home: ".stack/pantry"}, {home: ".cabal/packages"},
	{variable: "CCACHE_DIR", home: ".cache/ccache"}, {home: ".ccache"}, {home: ".cache/sccache"}, {home: ".cache/bazel"}, {home: ".cache/zig"},
}

func (s *set) caches(homes, env []string) {
	for _, c := range caches {
		for _, dir := range c.dirs(homes, env) {
			s.cache(dir, homes, c.tool != "" && installed(c.tool, env))
		}
	}
}

func (c cache) dirs(homes, env []string) []string {
	if c.variable != "" {
		if v := lookup(env, c.variable); filepath.IsAbs(v) {
			return []string{filepath.Join(v, c.below)}
		}
	}
	var dirs []string
	for _, h := range homes {
		if c.home != "" {
			dirs = append(dirs, filepath.Join(h, c.home))
		}
	}
	return dirs
}

// cache adds one folder, unless it would open more than a cache: a variable
// that names the home directory itself, or the system's, opens nothing.
func (s *set) cache(dir string, homes []string, mayMake bool) {
	if _, err := os.Lstat(dir); err != nil && !mayMake {
		return
	}
	real, err := filepath.EvalSymlinks(dir)
	if os.IsNotExist(err) && mayMake {
		real, err = dir, nil
	}
	if err != nil || under(real, "/usr", "/etc", "/bin", "/sbin", "/lib", "/boot", "/dev", "/proc", "/sys") {
		return
	}
	for _, h := range homes {
		if Within(h, real) {
			return
		}
	}
	if info, err := os.Lstat(real); err == nil && !info.IsDir() {
		return
	}
	s.add(Rule{Path: real, Kind: Writable, Make: mayMake})
}

func installed(tool string, env []string) bool {
	for dir := range strings.SplitSeq(lookup(env, "PATH"), ":") {
		if info, err := os.Stat(filepath.Join(dir, tool)); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}
