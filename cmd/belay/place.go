package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// placeFile holds the name of a state directory, its place. Spool and
// workspaces lie in it, so what an attempt did can be looked at only there: a
// record that is missing in another spool says nothing.
const placeFile = "place"

// place is the content of the file. It names the directory that it was made
// for, so that a copy of the directory is another place: there, commands that
// were started after the copy was made are not on record.
type place struct {
	Name  string `json:"name"`
	Inode uint64 `json:"inode"`
	// Born is the directory's time of birth, where the file system tells it: it
	// cannot be copied.
	Born string `json:"born,omitempty"`
	// Machine is the machine's own id, where it has one.
	Machine string `json:"machine,omitempty"`
}

// placeOf returns the place of a state directory, making it on first use.
func placeOf(state string) (string, error) {
	here, err := identify(state)
	if err != nil {
		return "", fmt.Errorf("identify the state directory: %w", err)
	}
	path := filepath.Join(state, placeFile)
	for range 10 {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the name of the state directory: %w", err)
		}
		var p place
		if err == nil && json.Unmarshal(b, &p) == nil && p.Name != "" {
			here.Name = p.Name
			if p == here {
				return p.Name, nil
			}
		}
		if err := here.write(path, err == nil); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("name the state directory: %w", err)
		}
	}
	return "", fmt.Errorf("%s keeps changing; is the directory shared between machines? Give each one its own", path)
}

// write gives the directory a new name. Of several processes that do it at
// once, one wins, and the others read what it wrote.
func (p place) write(path string, stale bool) error {
	var b [5]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "machine"
	}
	p.Name = host + "-" + hex.EncodeToString(b[:])
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	temp := path + "." + hex.EncodeToString(b[:])
	if err := os.WriteFile(temp, append(text, '\n'), 0o600); err != nil {
		return err
	}
	defer os.Remove(temp)
	if stale {
		return os.Rename(temp, path)
	}
	return os.Link(temp, path) // fails when there is one by now
}
