package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestOnlyASocketOfOnesOwnIsAsked: a command with a goal's text in it goes to no
// file, no link and no socket that somebody else has put in the place.
func TestOnlyASocketOfOnesOwnIsAsked(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "b") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	if !answers(socket) {
		t.Error("one's own is not asked")
	}
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, file, filepath.Join(dir, "nothing")} {
		if answers(path) {
			t.Errorf("%s is asked", path)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chown(socket, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if answers(socket) {
		t.Error("somebody else's is asked")
	}
}

func TestATokenGoesToNoServerInClear(t *testing.T) {
	t.Setenv(envToken, "secret")
	for at, ok := range map[string]bool{"https://belay.example.org:7420": true, "http://127.0.0.1:7420": true, "http://localhost:1": true, "unix:/run/x": true,
		"http://belay.example.org": false, "http://127.0.0.1.evil.example": false, "http://127.evil.example": false, "belay.example.org": false, "ftp://x": false, "": false} {
		if _, _, err := named(at); (err == nil) != ok {
			t.Errorf("%s: %v", at, err)
		}
	}
}
