package local

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"belay/internal/fault"
	"belay/internal/workspace"
)

// tempPrefix marks files that stand in the workspace for the length of an
// Apply. They are no part of a revision and off limits.
const tempPrefix = ".belay-tmp-"

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// target is where a path really leads.
type target struct {
	path string // as given, cleaned
	real string // relative to the root, no link in it
	info fs.FileInfo
	// link is the link that the last component is, "" when it is none.
	link string
}

func (t target) absent() bool { return t.info == nil }

// maxLinks bounds the links on one path, as kernels do.
const maxLinks = 40

// locate cleans a path and follows every link on it by hand. os.Root would
// refuse to leave the root as well; following by hand finds out where the path
// leads, so that a link into .git is seen, an absolute link that stays inside
// works, and an edit goes to the file behind the link.
func (w *Workspace) locate(given string) (target, error) {
	clean, err := workspace.Clean(given)
	if err != nil {
		return target{}, err
	}
	if path.IsAbs(clean) {
		if clean, err = w.relative(clean); err != nil {
			return target{}, err
		}
	}
	t := target{path: clean}
	err = w.follow(&t, strings.Split(clean, "/"))
	return t, err
}

func (w *Workspace) follow(t *target, rest []string) error {
	links := 0
	missing := false
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if t.real == "" {
				return workspace.OutsideFault(t.path)
			}
			t.real, t.info = parent(t.real), nil
			continue
		}
		at := join(t.real, name)
		if isGitName(name) || isTemp(name) || w.owned(at) {
			return fault.New(fault.Protected, fault.Model, "the path "+t.path+" is off limits: git's and belay's own files are not edited or read as files",
				"leave it alone; use git commands for what git keeps")
		}
		if missing {
			t.real = at
			continue
		}
		info, err := w.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing, t.real, t.info = true, at, nil
			continue
		case err != nil:
			return pathFault(t.path, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return fault.New(fault.InvalidArguments, fault.Model, "the path "+t.path+" leads through too many symbolic links", "name the file itself")
			}
			if len(rest) == 0 && t.link == "" {
				t.link = at
			}
			to, err := w.root.Readlink(at)
			if err != nil {
				return pathFault(t.path, err)
			}
			if path.IsAbs(to) {
				if to, err = w.relative(path.Clean(to)); err != nil {
					return workspace.OutsideFault(t.path)
				}
				t.real = ""
			}
			rest = append(strings.Split(to, "/"), rest...)
			continue
		}
		if len(rest) > 0 && !info.IsDir() {
			return fault.New(fault.InvalidArguments, fault.Model, "the path "+t.path+" goes through "+at+", which is a file", "check the path")
		}
		t.real, t.info = at, info
	}
	if !missing && t.info == nil {
		info, err := w.root.Lstat(orDot(t.real))
		if err != nil {
			return pathFault(t.path, err)
		}
		t.info = info
	}
	return nil
}

// relative turns an absolute path below the root, in any spelling of it, into
// a relative one. The comparison is by file identity, as a link to the root, a
// bind mount or another case may spell it.
func (w *Workspace) relative(abs string) (string, error) {
	for _, base := range []string{w.path, w.given} {
		if rel, ok := below(base, abs); ok {
			return rel, nil
		}
	}
	parts := strings.Split(strings.TrimPrefix(abs, "/"), "/")
	for i := range len(parts) + 1 {
		up := "/" + strings.Join(parts[:i], "/")
		fi, err := os.Stat(up)
		if err != nil {
			break
		}
		if os.SameFile(fi, w.info) {
			return orDot(strings.Join(parts[i:], "/")), nil
		}
	}
	// A link from elsewhere to a folder inside the root.
	for i := len(parts); i > 0; i-- {
		real, err := filepath.EvalSymlinks("/" + strings.Join(parts[:i], "/"))
		if err != nil {
			continue
		}
		if rel, ok := below(w.path, path.Join(append([]string{real}, parts[i:]...)...)); ok {
			return rel, nil
		}
		break
	}
	return "", workspace.OutsideFault(abs)
}

func below(base, abs string) (string, bool) {
	if abs == base {
		return ".", true
	}
	return strings.CutPrefix(abs, strings.TrimSuffix(base, "/")+"/")
}

// isGitName reports whether some file system would take the name for ".git":
// without case, with characters that are dropped, with trailing dots or
// blanks, or as its short form.
func isGitName(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":") // a stream of the file, on NTFS
	name = strings.ToLower(strings.TrimRight(name, ". "))
	return name == ".git" || name == "git~1"
}

func pathFault(p string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notFound(p)
	case errors.Is(err, fs.ErrPermission):
		return unreadable(p, err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.New(fault.InvalidArguments, fault.Model, "the path "+p+" is longer than the file system allows", "use a shorter name")
	}
	return fault.New(fault.Storage, fault.Environment, "the path "+p+" cannot be looked at: "+err.Error(), "check it with a command")
}

func notFound(p string) error {
	return fault.New(fault.NotFound, fault.Model, "the file "+p+" does not exist", "list the files, or create it")
}

// regular refuses what is no regular file, without opening it.
func (t target) regular() error {
	switch m := t.info.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		return fault.New(fault.InvalidArguments, fault.Model, "the path "+t.path+" is a directory", "name a file in it, or list it")
	default:
		return fault.New(fault.InvalidArguments, fault.Model, "the path "+t.path+" is no regular file ("+kindOf(m)+")", "leave it alone")
	}
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
