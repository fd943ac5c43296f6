package local

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// gitDir is where a repository keeps itself.
type gitDir struct {
	top    string // the working tree's top directory
	dir    string // its git directory
	common string // the shared one; differs from dir in a linked worktree
}

func (g gitDir) found() bool { return g.dir != "" }

// gitAt looks for a git directory at top itself: a directory, a symbolic link
// to one, or a file that names one. What is there but leads nowhere (a moved
// submodule, a worktree whose main repository is gone) is no repository.
func gitAt(top string) gitDir {
	p := filepath.Join(top, ".git")
	fi, err := os.Stat(p)
	if err != nil {
		return gitDir{}
	}
	dir := p
	if !fi.IsDir() {
		if fi.Size() > 1<<16 || !fi.Mode().IsRegular() {
			return gitDir{}
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return gitDir{}
		}
		to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
		if !ok {
			return gitDir{}
		}
		dir = to
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(top, dir)
		}
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return gitDir{}
	}
	common := dir
	if b, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
		common = strings.TrimRight(string(b), "\r\n")
		if !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return gitDir{}
	}
	if fi, err := os.Stat(filepath.Join(common, "objects")); err != nil || !fi.IsDir() {
		return gitDir{}
	}
	return gitDir{top: top, dir: dir, common: common}
}

// gitAbove looks at root and then upwards, as git does, and like git stops at
// the border of the file system.
func gitAbove(root string) gitDir {
	var dev uint64
	for dir := root; ; dir = filepath.Dir(dir) {
		fi, err := os.Stat(dir)
		if err != nil {
			return gitDir{}
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			if dir != root && uint64(st.Dev) != dev {
				return gitDir{}
			}
			dev = uint64(st.Dev)
		}
		if g := gitAt(dir); g.found() {
			return g
		}
		if filepath.Dir(dir) == dir {
			return gitDir{}
		}
	}
}

// input is a file outside the watched directories on which the list of files
// depends: an index, a configuration, an exclude file.
type input struct {
	path string
	// identity compares only whether it is the same file, not its times.
	identity bool
	st       stamp // zero when absent
}

func (in input) now() stamp {
	st, err := lstat(in.path)
	if err != nil {
		return stamp{}
	}
	if in.identity {
		return stamp{mode: st.mode, ino: st.ino}
	}
	return st
}

// dotGitInputs are the inputs of a directory that has an entry .git, whether
// or not that leads to a repository now.
func dotGitInputs(top string) []input {
	dot := filepath.Join(top, ".git")
	ins := []input{{path: dot, identity: true}}
	g := gitAt(top)
	if !g.found() {
		return append(ins, input{path: filepath.Join(dot, "HEAD"), identity: true}, input{path: filepath.Join(dot, "objects"), identity: true})
	}
	return append(ins, gitInputs(g)...)
}

func gitInputs(g gitDir) []input {
	return []input{
		{path: filepath.Join(g.dir, "HEAD"), identity: true},
		{path: filepath.Join(g.dir, "index")},
		{path: filepath.Join(g.dir, "config.worktree")},
		{path: filepath.Join(g.common, "config")},
		{path: filepath.Join(g.common, "info", "exclude")},
	}
}

// userInputs are the user's own configuration files, and where git looks for
// the global ignore file when they do not say.
func userInputs() (config []input, ignore string) {
	home, _ := os.UserHomeDir()
	xdg := os.Getenv("XDG_CONFIG_HOME")
	if xdg == "" && home != "" {
		xdg = filepath.Join(home, ".config")
	}
	config = append(config, input{path: "/etc/gitconfig"})
	if home != "" {
		config = append(config, input{path: filepath.Join(home, ".gitconfig")})
	}
	if xdg != "" {
		config = append(config, input{path: filepath.Join(xdg, "git", "config")})
		ignore = filepath.Join(xdg, "git", "ignore")
	}
	return config, ignore
}
