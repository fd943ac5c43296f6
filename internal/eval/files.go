package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// copyTree copies files, folders and symbolic links with their modes; what is
// nothing of these is left out. It writes nothing outside of to, whatever links
// stand there.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case rel == ".":
			return nil
		case d.IsDir():
			return root.MkdirAll(rel, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return errors.Join(root.RemoveAll(rel), root.Symlink(link, rel))
		case !info.Mode().IsRegular():
			return nil
		}
		return copyFile(path, root, rel, info.Mode().Perm())
	})
}

// copyFile copies one file to a name below a folder, over what stands there.
func copyFile(from string, root *os.Root, to string, mode fs.FileMode) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := root.RemoveAll(to); err != nil {
		return err
	}
	dst, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Chmod(mode)
}

// copyOut copies one file to a path of the run's own.
func copyOut(from, to string) error {
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer root.Close()
	return copyFile(from, root, filepath.Base(to), 0o600)
}

// putFiles writes files below a folder.
func putFiles(dir string, files map[string]string) error {
	for name, content := range files {
		if err := putFile(dir, name, content, os.O_TRUNC); err != nil {
			return err
		}
	}
	return nil
}

// putFile writes or, with os.O_APPEND, continues one file; it never leaves dir.
func putFile(dir, name, content string, how int) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|how, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.WriteString(f, content)
	return err
}

// readRegular reads a file, and nothing that could keep the reader waiting.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return os.ReadFile(path)
}

// differing lists the paths, sorted, whose bytes, link or executable bit are
// not the same in two trees.
func differing(a, b string) ([]string, error) {
	left, err := entries(a)
	if err != nil {
		return nil, err
	}
	right, err := entries(b)
	if err != nil {
		return nil, err
	}
	var out []string
	for p, l := range left {
		r, there := right[p]
		if same, err := sameEntry(filepath.Join(a, p), l, filepath.Join(b, p), r); err != nil {
			return nil, err
		} else if !there || !same {
			out = append(out, filepath.ToSlash(p))
		}
	}
	for p := range right {
		if _, there := left[p]; !there {
			out = append(out, filepath.ToSlash(p))
		}
	}
	slices.Sort(out)
	return out, nil
}

func entries(dir string) (map[string]fs.FileInfo, error) {
	m := map[string]fs.FileInfo{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		m[rel] = info
		return err
	})
	return m, err
}

func sameEntry(a string, ai fs.FileInfo, b string, bi fs.FileInfo) (bool, error) {
	if ai == nil || bi == nil || ai.Mode() != bi.Mode() || ai.Mode().IsRegular() && ai.Size() != bi.Size() {
		return false, nil
	}
	if ai.Mode()&fs.ModeSymlink != 0 {
		x, err := os.Readlink(a)
		if err != nil {
			return false, err
		}
		y, err := os.Readlink(b)
		return x == y, err
	}
	x, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	y, err := os.ReadFile(b)
	return bytes.Equal(x, y), err
}
