package builtin

import (
	"io/fs"
	"path/filepath"
	"strings"

	"belay/internal/tool"
)

// maxHiddenFolders bounds the search for files that a rule hides.
const maxHiddenFolders = 50_000

// hidden are the absolute paths that rules deny commands to read.
func hidden(env tool.Env) []string {
	u := env.Unreadable
	if u == nil || !u.Any() {
		return nil
	}
	var out []string
	for _, p := range u.Outside() {
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			home := ""
			for _, kv := range env.BaseEnv {
				if v, ok := strings.CutPrefix(kv, "HOME="); ok {
					home = v
				}
			}
			p = filepath.Join(home, rest)
		}
		out = append(out, p)
	}
	root, folders := env.Workspace.Root(), 0
	// What cannot be listed cannot be read by a command either.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		switch {
		case err != nil && d != nil && d.IsDir(), relErr != nil:
			return fs.SkipDir
		case err != nil || rel == ".":
			return nil
		case u.Holds(filepath.ToSlash(rel)):
			out = append(out, path)
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			if folders++; folders > maxHiddenFolders {
				return fs.SkipAll
			}
		}
		return nil
	})
	return out
}
