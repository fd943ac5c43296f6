//go:build linux

package sandboxtest_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pack writes a tar of files under their own names and of links to them. A
// false name is left out.
func pack(files map[string]bool, links [][2]string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{}
	dir := func(path string) {
		parts := strings.Split(strings.Trim(path, "/"), "/")
		for i := range parts {
			if d := strings.Join(parts[:i+1], "/") + "/"; d != "/" && !made[d] {
				made[d] = true
				must(w.WriteHeader(&tar.Header{Name: d, Typeflag: tar.TypeDir, Mode: 0o755}))
			}
		}
	}
	for _, d := range []string{"/tmp", "/var/tmp", "/etc", "/proc", "/sys", "/dev", "/run"} {
		dir(d)
	}
	names := make([]string, 0, len(files))
	for f, in := range files {
		if in {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	for _, f := range names {
		dir(filepath.Dir(f))
		in, err := os.Open(f) // through links: their targets' content under their names
		must(err)
		info, err := in.Stat()
		must(err)
		must(w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f, "/"), Typeflag: tar.TypeReg, Mode: 0o755, Size: info.Size()}))
		_, err = io.Copy(w, in)
		must(err)
		must(in.Close())
		made[f] = true
	}
	for _, l := range links {
		if made[l[0]] {
			continue
		}
		made[l[0]] = true
		dir(filepath.Dir(l[0]))
		must(w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(l[0], "/"), Typeflag: tar.TypeSymlink, Linkname: l[1], Mode: 0o777}))
	}
	must(w.Close())
	return b.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
