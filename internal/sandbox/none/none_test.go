//go:build linux

package none

import (
	"context"
	"io"
	"strings"
	"testing"

	"belay/internal/sandbox"
)

func TestItRunsCommandsAndSaysThatTheyAreUnconfined(t *testing.T) {
	t.Parallel()
	var s sandbox.Sandbox
	box, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	s = box
	if s.Name() != "none" || !strings.Contains(s.Describe(), "unconfined") {
		t.Errorf("%s: %s", s.Name(), s.Describe())
	}
	p, err := s.Start(context.Background(), sandbox.Command{Key: "g.o.1", Shell: "echo hello; exit 2", Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Wait(context.Background())
	if err != nil || res.ExitCode != 2 {
		t.Errorf("%+v %v", res, err)
	}
	out, err := p.Output()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if b, err := io.ReadAll(out); err != nil || string(b) != "hello\n" {
		t.Errorf("%q %v", b, err)
	}
}
