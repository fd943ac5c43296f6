//go:build linux

package shim

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestACommandThatFillsItsGroupDoesNotEndItsShim: the shim is in the control
// group that bounds the command's processes. A Go program that cannot make a
// thread dies, and with it what it knows of the command.
func TestACommandThatFillsItsGroupDoesNotEndItsShim(t *testing.T) {
	if os.Geteuid() != 0 || len(groupsOf(groupPrefix+"x")) == 0 {
		t.Skip("this user can make no control groups, so no shim is in one")
	}
	t.Parallel()
	s, err := New(t.TempDir(), Options{Name: "bounded", Bounded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 12 {
		// dash gives up at the first fork that fails; bash would try for seconds.
		c := shell(fmt.Sprintf("full.%d", i), `exec /bin/sh -c 'i=0; while [ $i -lt 300 ]; do sleep 20 & i=$((i+1)); done'`)
		c.MaxProcesses, c.Grace, c.Timeout = 100, 200*time.Millisecond, time.Minute
		p, err := s.Start(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		// How the command fares does not matter: that somebody can tell does.
		if res, err := p.Wait(context.Background()); err != nil || res.SpawnError != "" {
			t.Fatalf("round %d: %+v %v", i, res, err)
		}
	}
}
