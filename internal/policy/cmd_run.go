package policy

import "strings"

// Programs that run code of the repository or reach for the network:
// interpreters, build tools, package managers, clients.

func init() {
	learn("interpreter", (*call).interpreter, "python", "python2", "python3", "pypy", "pypy3", "node", "nodejs", "deno", "bun", "ruby", "irb", "perl", "php",
		"lua", "luajit", "tclsh", "Rscript", "R", "julia", "groovy", "scala", "swift", "java", "kotlin", "ghci", "runghc", "runhaskell", "osascript", "expect",
		"erl", "elixir", "iex", "guile", "racket", "clojure", "ts-node", "tsx", "dc", "sqlite3", "m4", "gdb", "lldb", "strace", "ltrace", "perf")
	learn("task", (*call).task, "make", "gmake", "cmake", "ninja", "meson", "bazel", "buck", "just", "task", "rake", "gradle", "gradlew", "mvn", "ant", "sbt",
		"tox", "nox", "invoke", "doit", "mage", "scons", "earthly", "dagger", "pre-commit", "tsc", "eslint", "prettier", "ruff", "black", "mypy", "pylint",
		"flake8", "jest", "vitest", "mocha", "playwright", "cypress", "phpunit", "rspec", "golangci-lint", "staticcheck", "gcc", "g++", "cc", "c++", "clang",
		"clang++", "rustc", "ld", "as", "ar", "javac", "dotnet", "ctest", "autoconf", "automake", "configure", "parallel", "script", "entr", "direnv", "op")
	learn("package", (*call).pack, "npm", "npx", "pnpm", "pnpx", "yarn", "bunx", "corepack", "pip", "pip3", "pipx", "uv", "uvx", "poetry", "pdm", "conda", "mamba",
		"gem", "bundle", "bundler", "composer", "apt", "apt-get", "dpkg", "rpm", "dnf", "yum", "apk", "pacman", "brew", "snap", "flatpak", "nix", "nix-shell",
		"nix-env", "rustup", "nvm", "asdf", "mise", "volta", "opam", "cabal", "stack", "luarocks", "cpan", "cpanm", "easy_install", "hex", "mix")
	learn("cargo", (*call).cargo, "cargo")
	learn("go", (*call).goTool, "go")
	learn("go", (*call).gofmt, "gofmt", "gofumpt", "goimports")
	learn("test", (*call).pytest, "pytest", "py.test")
	learn("network", func(c *call) { c.network(c.name + " reaches for the network") },
		"curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "telnet", "nc", "ncat", "netcat", "socat", "ping", "traceroute", "dig", "nslookup", "host", "whois",
		"nmap", "http", "https", "xh", "aria2c", "gh", "glab", "hub", "aws", "gcloud", "az", "kubectl", "helm", "terraform", "tofu", "ansible", "ansible-playbook",
		"psql", "mysql", "mongo", "mongosh", "redis-cli", "sendmail", "mail", "mutt", "openssl", "gpg", "gpg2", "age", "rclone", "ssh-keygen", "ssh-add", "heroku", "vercel", "netlify", "flyctl", "wrangler")
	learn("container", func(c *call) { c.network(c.name + " starts programs outside of what belay can hold") },
		"docker", "podman", "nerdctl", "buildah", "docker-compose", "podman-compose", "lxc", "vagrant", "qemu", "virsh", "ctr", "crictl", "runc", "bwrap")
	learn("desktop", func(c *call) { c.ask("", c.name+" opens something on the user's desktop", "") },
		"open", "xdg-open", "start", "notify-send", "pbcopy", "pbpaste", "xclip", "xsel", "wl-copy", "wl-paste", "say", "screencapture", "tmux", "screen", "top", "htop")
}

// onlyVersion reports whether a call asks for nothing but the program's
// version.
func (c *call) onlyVersion() bool {
	return len(c.args) == 1 && c.args[0].plain() && contains([]string{"--version", "-V", "-v", "--help"}, c.args[0].val) &&
		(c.args[0].val != "-v" || c.name == "node" || c.name == "npm")
}

func (c *call) interpreter() {
	if c.onlyVersion() || (c.name == "java" || c.name == "php") && len(c.args) == 1 && c.args[0].plain() && c.args[0].val == "-version" {
		return
	}
	for i, a := range c.args {
		if a.plain() && (a.val == "-m" && i+1 < len(c.args)) && c.args[i+1].plain() && c.args[i+1].val == "pytest" && strings.HasPrefix(c.name, "python") && i == 0 {
			c.pytestArgs(c.args[2:])
			return
		}
		if a.isFlag() && strings.IndexAny(a.val, "ce") > 0 && !strings.HasPrefix(a.val, "--") || a.val == "--eval" || a.val == "--print" || a.val == "-r" || a.val == "-p" {
			c.ask(a.val, c.name+" "+a.val+" runs code given on the command line", "a tool of belay, or a rule for this very command")
			return
		}
	}
	c.ask("", c.name+" runs code", c.rule())
}

func (c *call) task() {
	if c.onlyVersion() {
		return
	}
	c.ask("", c.name+" runs what the repository's files tell it to", c.rule())
}

var packReads = map[string]string{
	"npm": "ls list root prefix", "pnpm": "ls list root", "pip": "list show freeze check", "pip3": "list show freeze check", "gem": "list", "rustup": "show",
	"dpkg": "-l -L -s", "apt": "list", "brew": "list",
}

var packOptions = options("a g l L s --all --json --depth= --long --parseable --global --omit= --installed --format=")

func (c *call) pack() {
	if c.onlyVersion() {
		return
	}
	if len(c.args) > 0 && c.args[0].plain() && contains(strings.Fields(packReads[c.name]), c.args[0].val) {
		for _, b := range packOptions.parse(c.args[1:], false).bad {
			c.badWord(b)
		}
		return
	}
	c.ask("", c.name+" fetches packages or runs scripts of the repository", c.rule()).network = true
}

func (c *call) cargo() {
	if c.onlyVersion() {
		return
	}
	sub := ""
	for _, a := range c.args {
		if !strings.HasPrefix(a.val, "+") {
			sub = a.val
			break
		}
	}
	if sub == "test" && c.cfgTests("cargo", "test") && c.args[0].plain() && c.args[0].val == "test" {
		p := options("v q p= --lib --bins --tests --doc --all --workspace --package= --test= --no-fail-fast --release --all-features --features= --no-default-features --quiet --verbose --offline --locked").parse(c.args[1:], false)
		if len(p.bad) == 0 {
			c.note = goalTests
			return
		}
	}
	switch sub {
	case "install", "publish", "add", "update", "fetch", "login", "search", "yank":
		c.ask("", "cargo "+sub+" reaches for the network", c.rule()).network = true
	default:
		c.ask("", "cargo "+sub+" builds or runs code of the repository", c.rule())
	}
}

// cfgTests reports whether one of the goal's test commands begins with these
// words: then a run of some of the same tests runs no code that the goal's own
// test would not run.
func (c *call) cfgTests(words ...string) bool {
	if c.w.start != "." || len(c.w.cwd) != 1 || c.w.zone(c.w.cwd[0]) != inside {
		return false
	}
	for _, t := range c.w.cfg.TestCommands {
		fs := strings.Fields(t)
		if len(fs) >= len(words) && strings.Join(fs[:len(words)], " ") == strings.Join(words, " ") {
			return true
		}
	}
	return false
}

// goalTests is what is noted of a run of some of the goal's own tests.
const goalTests = "a part of the goal's own tests"

var pytestOptions = options("v q x s l k= m= r= --lf --ff --nf --sw --tb= --maxfail= --durations= --no-header --last-failed --failed-first --exitfirst --verbose --quiet --co --collect-only --capture= --strict-markers --showlocals --color=")

func (c *call) pytest() { c.pytestArgs(c.args) }

func (c *call) pytestArgs(args []arg) {
	goal := c.cfgTests("pytest") || c.cfgTests("python", "-m", "pytest") || c.cfgTests("python3", "-m", "pytest")
	p := pytestOptions.parse(args, false)
	if goal && len(p.bad) == 0 {
		for _, a := range p.operands {
			file, _, _ := strings.Cut(a.val, "::")
			if !a.static || c.w.zone(c.w.resolve(file, c.w.cwd[0])) != inside {
				goal = false
			}
		}
		if goal {
			c.note = goalTests
			return
		}
	}
	c.ask("", "pytest runs code of the repository", "a test command of the goal, or a rule `decision: allow, command: pytest *`")
}

// Go's options have one dash or two, and a value after = or as the next word.
var goBools = words("-v -race -short -failfast -json -cover -benchmem -a -n -x -work -trimpath -msan -asan -i -deps -test -find -compiled -m -e -s -u -all -c -cmd -src -short -fullpath -changed")

var goValues = words("-run -skip -bench -benchtime -count -timeout -parallel -cpu -shuffle -tags -covermode -coverpkg -list -p -f -vet -buildvcs -pgo -fuzztime -fuzzminimizetime -reuse")

// goChecks are the analyzers of go vet, each an option.
var goChecks = words("appends asmdecl assign atomic bools buildtag cgocall composites copylocks defers directive errorsas framepointer hostport " +
	"httpresponse ifaceassert loopclosure lostcancel nilfunc printf shift sigchanyzer slog stdmethods stdversion stringintconv structtag testinggoroutine " +
	"tests timeformat unmarshal unreachable unsafeptr unusedresult waitgroup")

// goRisky are the options that write files or run programs, per subcommand
// those of goBools that do so there.
var goRisky = map[string]string{"test": "-c -i -work -u -n -x", "vet": "-c", "build": "-n -x -work -i", "list": "-u"}

func (c *call) goTool() {
	if len(c.args) == 0 {
		return
	}
	sub := c.args[0]
	if !sub.plain() {
		c.badWord(sub)
		return
	}
	args := c.args[1:]
	switch sub.val {
	case "version", "help":
		for _, a := range args {
			if a.mayBeFlag() {
				c.badWord(a)
			}
		}
	case "doc", "list", "vet":
		c.goFlags(sub.val, args)
	case "env":
		for _, a := range args {
			if a.mayBeFlag() || a.isFlag() && a.val != "-json" && a.val != "-changed" {
				c.ask(a.val, "go env "+a.val+" changes Go's settings", "go env NAME")
			}
		}
	case "test":
		c.goFlags("test", args)
		if c.cfgTests("go", "test") {
			c.note = goalTests
		} else {
			c.ask("", "go test runs code of the repository", "a test command of the goal, or a rule `decision: allow, command: go test *`")
		}
	case "build":
		c.goBuild(args)
	case "mod":
		if len(args) > 0 && args[0].plain() && contains([]string{"graph", "why", "verify"}, args[0].val) {
			c.goFlags("list", args[1:])
			return
		}
		c.ask("", "go mod changes go.mod or fetches modules", c.rule()).network = true
	case "get", "install", "work", "telemetry":
		c.ask("", "go "+sub.val+" fetches modules or changes settings", c.rule()).network = true
	default:
		c.ask("", "go "+sub.val+" runs or changes code of the repository", c.rule())
	}
}

func (c *call) goFlags(sub string, args []arg) {
	risky := words(goRisky[sub])
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a.mayBeFlag() {
			c.badWord(a)
			continue
		}
		if !a.isFlag() {
			continue
		}
		name, val, eq := strings.Cut(a.val, "=")
		if strings.HasPrefix(name, "--") {
			name = name[1:]
		}
		switch {
		case a.loose || !a.plain() && !eq:
			c.badWord(a)
		case goBools[name] && !risky[name]:
		case name == "-mod" && (val == "readonly" || val == "vendor"):
		case goValues[name]:
			if !eq {
				if i++; i < len(args) && args[i].loose {
					c.badWord(args[i])
				}
			}
		case sub == "vet" && goChecks[strings.TrimPrefix(name, "-")]:
		default:
			c.ask(a.val, "option "+a.val+" of go "+sub+" writes a file or runs a program", "leave the option out")
			if (name == "-o" || strings.HasSuffix(name, "profile") || name == "-trace") && a.plain() {
				if !eq && i+1 < len(args) {
					i++
					c.writes(args[i])
				} else if eq {
					c.writes(known(val))
				}
			}
		}
	}
}

// goBuild is harmless when its result goes nowhere. A build of several
// packages writes nothing either, but of a single main package it does, and a
// pattern may stand for one; so that is only taken as read where the goal's
// own tests build and run the same code.
func (c *call) goBuild(args []arg) {
	var rest []arg
	nowhere, pattern := false, false
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a.plain() && a.val == "-o" && i+1 < len(args) && args[i+1].plain() && args[i+1].val == "/dev/null" {
			nowhere = true
			i++
			continue
		}
		if a.plain() && (a.val == "-o=/dev/null" || a.val == "--o=/dev/null") {
			nowhere = true
			continue
		}
		pattern = pattern || strings.Contains(a.val, "...")
		rest = append(rest, a)
	}
	c.goFlags("build", rest)
	if !nowhere && !(pattern && c.cfgTests("go", "test")) {
		c.ask("", "go build may write a binary", "go vet, or go build -o /dev/null")
	}
}

func (c *call) gofmt() {
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a.mayBeFlag():
			c.badWord(a)
		case a.val == "-r" || a.val == "-local":
			i++
		case a.plain() && contains([]string{"-l", "-d", "-s", "-e", "-extra", "-lang"}, a.val):
		case a.isFlag():
			c.ask(a.val, "option "+a.val+" of "+c.name+" writes files", c.name+" -d shows the change")
		}
	}
}
