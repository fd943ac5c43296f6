package container

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"belay/internal/sandbox"
	"belay/internal/sandbox/scope"
	"belay/internal/sandbox/shim"
)

// Name is how settings call this backend; a colon and the image follow.
const Name = "container"

const describe = "commands run in containers of %s by %s: they see its files, read-only, and of this machine only the workspace, private temporary " +
	"folders and the caches of build tools; git hooks and configuration are read-only; no network unless granted"

var errNoImage = errors.New("no image is named (--image, image in goal.yaml, or $BELAY_IMAGE)")

// Options choose the engine and the image.
type Options struct {
	// Engine is the program with its own options; nil is Podman, or Docker where
	// there is no Podman.
	Engine []string
	// Image is the image's name, with # and its id once it is pinned.
	Image string
}

// engine finds the program.
func (o Options) engine() ([]string, error) {
	candidates := [][]string{{"podman"}, {"docker"}}
	if len(o.Engine) > 0 {
		candidates = [][]string{o.Engine}
	}
	var why []string
	for _, c := range candidates {
		path, err := exec.LookPath(c[0])
		if err == nil {
			return append([]string{path}, c[1:]...), nil
		}
		why = append(why, err.Error())
	}
	return nil, fmt.Errorf("no container engine is installed (%s); $BELAY_CONTAINER names another, with its options", strings.Join(why, "; "))
}

func isDocker(engine []string) bool { return strings.Contains(filepath.Base(engine[0]), "docker") }

// Pin resolves the image's name to what it stands for now. An image that is not
// on this machine is not fetched: to do so is the user's choice.
func Pin(ctx context.Context, o Options) (string, error) {
	name, id, _ := strings.Cut(o.Image, "#")
	if name == "" {
		return "", errNoImage
	}
	engine, err := o.engine()
	if err != nil {
		return "", err
	}
	wanted := name
	if id != "" {
		wanted = id
	}
	c := exec.CommandContext(ctx, engine[0], append(slices.Clone(engine[1:]), "image", "inspect", "--format", "{{.Id}}", wanted)...)
	out, err := c.Output()
	if err != nil {
		said := ""
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			said = ": " + strings.TrimSpace(string(exit.Stderr))
		}
		return "", fmt.Errorf("%s has no image %s (%w%s); fetch or build it first, for example with %s pull %s",
			filepath.Base(engine[0]), wanted, err, said, filepath.Base(engine[0]), name)
	}
	found := strings.TrimPrefix(strings.TrimSpace(string(out)), "sha256:")
	if id != "" && found != id {
		return "", fmt.Errorf("the image %s is now %s, and the goal started with %s", name, found, id)
	}
	return name + "#" + found, nil
}

// New returns the backend with its spool in the state directory. It does not
// look whether it works here: a probe runs something in it.
func New(state string, o Options) (*shim.Sandbox, error) {
	abs, err := filepath.Abs(state)
	if err != nil {
		return nil, fmt.Errorf("container: state directory %q: %w", state, err)
	}
	engine, err := o.engine()
	if err != nil {
		return nil, err
	}
	name, id, pinned := strings.Cut(o.Image, "#")
	if name == "" {
		return nil, errNoImage
	}
	if !pinned {
		id = name
	}
	m := machine{engine: engine, image: id, state: abs, uid: os.Getuid(), gid: os.Getgid(), env: own(os.Environ()), memory: memoryBound(), open: ownLimit(limitFiles), nproc: ownLimit(limitProcesses)}
	return shim.New(state, shim.Options{Name: Name + ":" + o.Image, Describe: fmt.Sprintf(describe, name, filepath.Base(engine[0])), Confine: m.confine})
}

// machine is what confine depends on beside the command.
type machine struct {
	engine   []string
	image    string
	state    string
	uid, gid int
	// env is what the engine itself needs of the caller's environment.
	env []string
	// memory bounds what a command may use that names no limit, in bytes; 0 for
	// no bound.
	memory int64
	// open and nproc are this process's own limits of open files and of the
	// user's processes, "soft:hard", "" for none: engines try to raise them,
	// which not everybody may.
	open, nproc string
}

// ownNames are the variables by which engines find their images, their daemon
// and their run-time folders.
var ownNames = []string{"PATH", "HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "CONTAINERS_CONF",
	"CONTAINERS_CONF_OVERRIDE", "CONTAINERS_STORAGE_CONF", "CONTAINER_HOST", "CONTAINER_CONNECTION", "STORAGE_DRIVER", "STORAGE_OPTS", "DOCKER_HOST", "DOCKER_CONTEXT",
	"DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DBUS_SESSION_BUS_ADDRESS"}

func own(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(ownNames, name) {
			out = append(out, kv)
		}
	}
	return out
}

// theirs are the variables that say where this machine has its tools: the image
// has its own.
var theirs = []string{"PATH", "SHELL", "HOSTNAME", "TMPDIR", "TMP", "TEMP", "GOTMPDIR", "GOROOT", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH",
	"CMAKE_PREFIX_PATH", "JAVA_HOME", "JDK_HOME", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "RUSTUP_HOME",
	"NODE_PATH", "NVM_BIN", "NVM_DIR", "PNPM_HOME", "GEM_HOME", "GEM_PATH", "RBENV_ROOT", "SDKMAN_DIR", "MAVEN_HOME", "M2_HOME", "DOTNET_ROOT", "GIT_SSL_CAINFO",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}

// Where the container finds what belay gives it.
const proofPath = "/belay-started"

// restriction is what the helper is told.
type restriction struct {
	Rules []scope.Rule `json:"rules"`
}

// inside is the container's first process. It keeps one of its children at the
// pipe of the shim, says that the command really starts, and gives what the
// command leaves running the time that the shim would.
const inside = `dir=$1 started=$2
shift 2
cd -- "$dir" || exit 125
command -v -- "$1" >/dev/null 2>&1 || { echo "there is no program \"$1\" in the image (its PATH is $PATH)" >&2; exit 127; }
exec 9>&2 8<&0 0</dev/null 2>/dev/null
(while read -r asked <&8; do until kill -0 -1; do sleep 0.01 || sleep 1; done; kill -TERM -1; kill -CONT -1; done; kill -KILL -1) 9>&- &
exec 8<&-
trap : TERM INT HUP QUIT USR1 USR2 ALRM
echo started > "$started"
"$@" 2>&9 9>&-
code=$?
kill -KILL $!
wait $!
n=0
while kill -0 -1 && [ $n -lt 20 ]; do sleep 0.01 || sleep 1; n=$((n+1)); done
exit $code`

// shell runs the text by bash where the image has it.
const shell = `if [ -x /bin/bash ]; then exec /bin/bash --noprofile --norc -c "$1"; fi
exec /bin/sh -c "$1"`

func (m machine) confine(c sandbox.Command) (shim.Launch, error) {
	if c.Workspace == "" {
		return shim.Launch{}, errors.New("container: a command needs a workspace, for that is what is mounted")
	}
	name := m.containerName(c.Key)
	scratch := shim.Scratch(m.state, c.Key)
	rules, err := scope.Of(c, m.state, scratch)
	if err != nil {
		return shim.Launch{}, err
	}
	l := shim.Launch{Dir: c.Dir, Helper: helper, Proof: "started", Keeper: true}
	var apply []scope.Rule
	apply, l.Absent = scope.Split(rules)
	root, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil {
		return l, fmt.Errorf("container: %w", err)
	}
	apply = visible(apply, root)
	if l.Restrict, err = json.Marshal(restriction{Rules: apply}); err != nil {
		return l, err
	}
	argv := append(slices.Clone(m.engine), "run", "--rm", "--interactive", "--name", name, "--pull", "never", "--log-driver", "none",
		"--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--security-opt", "label=disable",
		"--security-opt", "seccomp="+filepath.Join(scratch, profile), "--entrypoint", "/bin/sh")
	argv = append(argv, m.user()...)
	limits, err := m.limits(c)
	if err != nil {
		return l, err
	}
	argv = append(argv, limits...)
	var env []string
	env, l.Env = m.environment(c.Env)
	argv = append(argv, env...)
	argv = append(argv, mounts(apply, scratch)...)
	argv = append(argv, "--mount", mount(filepath.Join(filepath.Dir(scratch), shim.ProofFile), proofPath, false))
	command := c.Argv
	if len(command) == 0 {
		command = []string{"/bin/sh", "-c", shell, "sh", c.Shell}
	}
	argv = append(argv, m.image, "-c", inside, "belay", c.Dir, proofPath)
	l.Argv = append(argv, command...)
	l.End = append(slices.Clone(m.engine), "rm", "--force")
	if !isDocker(m.engine) {
		l.End = append(l.End, "--ignore", "--time", "0")
	}
	l.End = append(l.End, name)
	return l, nil
}

// containerName is one for an attempt and a state directory.
func (m machine) containerName(key string) string {
	sum := sha256.Sum256([]byte(m.state + "\x00" + key))
	return "belay-" + hex.EncodeToString(sum[:8])
}

// user has the command run as the caller, so that the files it makes are the
// caller's.
func (m machine) user() []string {
	args := []string{"--user", fmt.Sprintf("%d:%d", m.uid, m.gid)}
	switch {
	case m.uid == 0:
		for _, name := range []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"} {
			args = append(args, "--cap-add", name)
		}
	case !isDocker(m.engine):
		args = append(args, "--userns", "keep-id")
	}
	return args
}

// limits are the container's, and its network.
func (m machine) limits(c sandbox.Command) ([]string, error) {
	processes, size := c.MaxProcesses, c.MaxFileSize
	if processes == 0 {
		processes = shim.DefaultProcesses
	}
	if size == 0 {
		size = shim.DefaultFileSize
	}
	args := []string{"--pids-limit", strconv.Itoa(processes), "--ulimit", fmt.Sprintf("fsize=%d:%d", size, size), "--ulimit", "core=0:0"}
	if m.open != "" {
		args = append(args, "--ulimit", "nofile="+m.open)
	}
	if m.nproc != "" {
		args = append(args, "--ulimit", "nproc="+m.nproc)
	}
	if c.MaxCPU > 0 {
		s := int64((c.MaxCPU + 999_999_999) / 1_000_000_000)
		args = append(args, "--ulimit", fmt.Sprintf("cpu=%d:%d", s, s+1))
	}
	memory := c.MaxMemory
	if memory == 0 {
		memory = m.memory
	}
	if memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(memory, 10))
	}
	switch c.Network {
	case "", sandbox.NetworkNone, sandbox.NetworkLoopback:
		// A network of its own has a loopback.
		args = append(args, "--network", "none")
	case sandbox.NetworkFull:
		args = append(args, "--network", "host")
	default:
		return nil, fmt.Errorf("container: network %q is none of none, loopback and full", c.Network)
	}
	return args, nil
}

// environment returns the options that pass the command its environment and
// what the engine is to be started with. Values go by the engine's own
// environment where they can: a command line can be read by everybody.
func (m machine) environment(env []string) (options, engine []string) {
	have := map[string]string{}
	for _, kv := range m.env {
		name, v, _ := strings.Cut(kv, "=")
		have[name] = v
	}
	engine = slices.Clone(m.env)
	for _, kv := range env {
		name, v, _ := strings.Cut(kv, "=")
		if slices.Contains(theirs, name) {
			continue
		}
		switch own, both := have[name]; {
		case both && own != v:
			options = append(options, "--env", kv)
		case both:
			options = append(options, "--env", name)
		default:
			options = append(options, "--env", name)
			engine = append(engine, kv)
		}
	}
	return append(options, "--env", "TMPDIR=/tmp", "--env", shim.EnvAttempt, "--env", shim.EnvAttemptID), engine
}

// visible are the rules that mean something where only what is granted is there
// at all: grants, and what lies within them.
func visible(rules []scope.Rule, root string) []scope.Rule {
	var out []scope.Rule
	for _, r := range rules {
		within := slices.ContainsFunc(out, func(g scope.Rule) bool { return scope.Within(r.Path, g.Path) })
		if r.Kind == scope.Writable || r.Path == root || within {
			out = append(out, r)
		}
	}
	return out
}

// emptyDir and emptyFile lie in the attempt's scratch directory and show in
// place of what is hidden.
const (
	emptyDir  = "empty"
	emptyFile = "nothing"
	profile   = "seccomp.json" // the engine's own would let more through than the other backends do
)

func mounts(rules []scope.Rule, scratch string) []string {
	var out []string
	for i, r := range rules {
		source := r.Source
		if source == "" {
			source = r.Path
		}
		switch {
		case r.Kind == scope.Hidden && r.File:
			source = filepath.Join(scratch, emptyFile)
		case r.Kind == scope.Hidden:
			source = filepath.Join(scratch, emptyDir, strconv.Itoa(i))
		}
		out = append(out, "--mount", mount(source, r.Path, r.Kind != scope.Writable))
	}
	return out
}

// mount is one mount in the engines' words, which are a line of CSV.
func mount(source, target string, readOnly bool) string {
	fields := []string{"type=bind", "source=" + source, "target=" + target}
	if readOnly {
		fields = append(fields, "readonly")
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(fields) // a Builder takes everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
