package scope

import (
	"os"
	"path/filepath"
)

// maxFolders bounds the search for git directories. It goes level by level, so
// that what lies near the root is found in a workspace of any size.
const maxFolders = 20000

// protectedInGit are the entries of a git directory that name programs to run,
// or another directory that does. What is not there cannot be held: the folder
// is made when it is missing, for an empty one means nothing to git; a file
// that is missing must still be so when the command has ended.
var protectedInGit = []struct {
	name string
	dir  bool
}{{"hooks", true}, {"config", false}, {"config.worktree", false}, {"commondir", false}}

// repositories protects every git directory in the workspace, and belay's own
// file there.
func (s *set) repositories(root string) {
	if info, err := os.Lstat(filepath.Join(root, "belay.yaml")); err == nil && info.Mode().IsRegular() {
		s.add(Rule{Path: filepath.Join(root, "belay.yaml"), Kind: ReadOnly, File: true})
	}
	level := []string{root}
	for left := maxFolders; len(level) > 0 && left > 0; {
		var next []string
		for _, dir := range level {
			if left--; left <= 0 {
				return
			}
			entries := list(dir)
			if bare(entries) {
				s.gitDir(dir, 0)
				continue
			}
			for _, e := range entries {
				switch {
				case e.Name() == ".git" && e.IsDir():
					s.gitDir(filepath.Join(dir, ".git"), 0)
				case e.Name() == ".git" && e.Type().IsRegular():
					// It names the directory whose hooks git runs.
					s.add(Rule{Path: filepath.Join(dir, ".git"), Kind: ReadOnly, File: true})
				case e.IsDir():
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
		}
		level = next
	}
}

// bare reports whether a folder is a git directory without the name.
func bare(entries []os.DirEntry) bool {
	have := 0
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "config":
			if e.Type().IsRegular() {
				have++
			}
		case "objects", "refs":
			if e.IsDir() {
				have++
			}
		}
	}
	return have == 4
}

// maxNesting bounds submodules within submodules.
const maxNesting = 8

func (s *set) gitDir(dir string, depth int) {
	s.add(Rule{Path: dir, Kind: Writable})
	for _, p := range protectedInGit {
		path := filepath.Join(dir, p.name)
		info, err := os.Lstat(path)
		switch {
		case err == nil && info.IsDir() == p.dir && info.Mode()&os.ModeSymlink == 0:
			s.add(Rule{Path: path, Kind: ReadOnly, File: !p.dir})
		case err == nil && info.Mode()&os.ModeSymlink != 0:
			s.at(path, ReadOnly)
		case os.IsNotExist(err) && p.name == "hooks":
			s.add(Rule{Path: path, Kind: ReadOnly, Make: true})
		case os.IsNotExist(err):
			s.add(Rule{Path: path, Kind: Absent, File: true})
		}
	}
	if depth == maxNesting {
		return
	}
	s.modules(filepath.Join(dir, "modules"), depth)
	for _, e := range list(filepath.Join(dir, "worktrees")) {
		s.at(filepath.Join(dir, "worktrees", e.Name(), "config.worktree"), ReadOnly)
	}
}

// modules finds the git directories of submodules: their names may hold
// slashes.
func (s *set) modules(dir string, depth int) {
	if depth == maxNesting {
		return
	}
	for _, e := range list(dir) {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(filepath.Join(path, "HEAD")); err == nil {
			s.gitDir(path, depth+1)
		} else {
			s.modules(path, depth+1)
		}
	}
}

// list reads a folder's entries in the order they come; none when it cannot be
// read, for then a command cannot put anything there either.
func list(dir string) []os.DirEntry {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	return entries
}
