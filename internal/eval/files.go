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

// copyTree copies files, folders and symbolic links with their modes.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(dst, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return errors.Join(removeIfThere(dst), os.Symlink(link, dst))
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no file, folder or symbolic link", path)
		}
		return copyFile(path, dst, info.Mode().Perm())
	})
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := removeIfThere(to); err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return os.Chmod(to, mode)
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
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%q is outside the repository", name)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|how, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.WriteString(f, content)
	return err
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
