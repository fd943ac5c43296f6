package builtin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	// maxPrograms is how many programs of a command are identified.
	maxPrograms = 8
	// maxHashed is how large a program may be to be hashed, in bytes; a larger
	// one is told apart by size and time.
	maxHashed = 256 << 20
)

// beneath are the programs that a program runs on, and that a test runner is:
// a result belongs to them too.
var beneath = map[string]string{
	"npm": "node", "npx": "node", "yarn": "node", "pnpm": "node", "jest": "node", "vitest": "node", "mocha": "node", "node": "node",
	"cargo": "rustc", "go": "go", "pytest": "python3", "py.test": "python3", "tox": "python3", "unittest": "python3",
}

// shellWords are called like programs and are none that a result depends on.
var shellWords = []string{"cd", "echo", "test", "[", "exit", "export", "set", "true", "false", "env", "exec", "printf", "source", ".", "trap", "timeout", "time", "sh", "bash"}

// programsOf are the programs that a test command runs with: those that it
// calls, and what they and the runner that was seen stand on.
func programsOf(shell, runner string) []string {
	var out []string
	add := func(name string) {
		if name != "" && len(out) < maxPrograms && !slices.Contains(out, name) && !slices.Contains(shellWords, name) {
			out = append(out, name)
		}
	}
	called := scanShell(shell).programs
	for _, name := range called {
		add(name)
	}
	for _, name := range called {
		add(beneath[path.Base(name)])
	}
	for r := range strings.SplitSeq(runner, "+") {
		add(beneath[r])
	}
	return out
}

// identify finds programs as a command with this environment and directory
// would, and says which they are: the real path and the hash of the file. One
// that is not found is left out: the command could not run it either.
func identify(programs, env []string, dir string) map[string]string {
	search := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	var out map[string]string
	for _, name := range programs {
		file := lookUp(name, search, dir)
		if file == "" {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = hashed(file)
	}
	return out
}

func lookUp(name, search, dir string) string {
	places := []string{dir}
	if !strings.Contains(name, "/") {
		places = filepath.SplitList(search)
	}
	for _, p := range places {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(p, name)
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return real
		}
	}
	return ""
}

// seen remembers hashes: programs are large and change rarely.
var seen sync.Map

func hashed(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return file
	}
	stamp := fmt.Sprintf("%s %d bytes of %s", file, info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
	if info.Size() > maxHashed {
		return stamp
	}
	if h, ok := seen.Load(stamp); ok {
		return h.(string)
	}
	f, err := os.Open(file)
	if err != nil {
		return stamp // it may be run without being read
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return stamp
	}
	id := file + " sha256:" + hex.EncodeToString(h.Sum(nil)[:8])
	seen.Store(stamp, id)
	return id
}
