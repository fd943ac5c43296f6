package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belay/internal/event"
	"belay/internal/ledger"
	"belay/internal/ledger/ledgertest"
)

// The test binary runs itself as the other processes; these tell it what to do.
const (
	childDir  = "BELAY_LEDGER_TEST_DIR"
	childGoal = "BELAY_LEDGER_TEST_GOAL"
	childEnd  = "BELAY_LEDGER_TEST_END"
)

// child appends to a goal until it is killed or has reached the end it was
// given, and says on stdout how far it has come, each time an append was
// acknowledged.
func child(dir string) {
	goal := os.Getenv(childGoal)
	end, _ := strconv.ParseUint(os.Getenv(childEnd), 10, 64)
	if err := appendTo(dir, goal, end); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func appendTo(dir, goal string, end uint64) error {
	ctx := context.Background()
	l, err := Open(ctx, dir, Options{})
	if err != nil {
		return err
	}
	row, err := l.Goal(ctx, goal)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	for head := row.Head; head < end; {
		a := ledger.Append{Goal: goal, Head: head, Fence: min(head, 1), Row: ledgertest.RowOf(goal), Durable: head%3 == 0}
		for i := range 1 + head%3 {
			text := fmt.Sprintf("event %d", head+i+1)
			if head%7 == 0 {
				text += strings.Repeat(" long", 4000)
			}
			a.Events = append(a.Events, ledgertest.Message(text))
		}
		if head%11 == 0 {
			if _, err := l.PutArtifact(ctx, strings.NewReader(fmt.Sprint("log ", head)), ""); err != nil {
				return err
			}
		}
		if _, err := l.Append(ctx, a); err != nil {
			return err
		}
		head += uint64(len(a.Events))
		fmt.Println(head)
	}
	return l.Close()
}

func startChild(t *testing.T, dir, goal string, end uint64) (*exec.Cmd, io.Reader, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childGoal+"="+goal, childEnd+"="+fmt.Sprint(end))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, &stderr
}

func TestAKilledProcessLosesNothingItWasToldIsAppended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var acked uint64
	for round := range 12 {
		cmd, out, stderr := startChild(t, dir, "g", 1<<60)
		// Some rounds end while the file is being made or recovered, before
		// the first append is acknowledged.
		stop := rand.IntN(60)
		lines := bufio.NewScanner(out)
		for n := 0; n < stop && lines.Scan(); n++ {
			acked = max(acked, mustUint(t, lines.Text()))
		}
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		cmd.Process.Kill()
		for lines.Scan() {
			acked = max(acked, mustUint(t, lines.Text()))
		}
		cmd.Wait()
		if stderr.Len() > 0 {
			t.Fatalf("round %d: %s", round, stderr)
		}
		l := open(t, dir, Options{})
		row, err := l.Goal(context.Background(), "g")
		if err != nil && (acked > 0 || !errors.Is(err, ledger.ErrNotFound)) {
			t.Fatalf("round %d: %v", round, err)
		}
		if row.Head < acked {
			t.Fatalf("round %d: %d events were acknowledged, the ledger has %d", round, acked, row.Head)
		}
		if row.Head > 0 {
			ledgertest.CheckChain(t, l, "g", row.Head)
		}
		if problems, err := l.Check(context.Background()); err != nil || len(problems) > 0 {
			t.Fatalf("round %d: %v, %v", round, problems, err)
		}
		l.Close()
	}
	if acked == 0 {
		t.Error("no child came to append anything")
	}
	t.Logf("%d events acknowledged over the kills", acked)
}

func mustUint(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		// A line that the kill cut short acknowledges nothing whole.
		return 0
	}
	return n
}

func TestManyProcessesShareOneFileAndLoseNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const processes, end = 16, 60
	var wg sync.WaitGroup
	// No process finds the file ready: making it is part of the contest.
	for p := range processes {
		cmd, out, stderr := startChild(t, dir, fmt.Sprintf("g%d", p), end)
		wg.Go(func() {
			io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v\n%s", p, err, stderr)
			}
		})
	}
	t.Cleanup(wg.Wait)
	l := open(t, dir, Options{})
	last := make([]uint64, processes)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for p := range processes {
		wg.Go(func() {
			for item, err := range l.Follow(ctx, fmt.Sprintf("g%d", p), 0) {
				if err != nil || !item.CaughtUp && item.Event.Seq != last[p]+1 {
					t.Errorf("follower of g%d at %d: %+v, %v", p, last[p], item.Event, err)
					return
				}
				if !item.CaughtUp {
					last[p]++
				}
				if last[p] >= end {
					return
				}
			}
		})
	}
	wg.Wait()
	for p := range processes {
		goal := fmt.Sprintf("g%d", p)
		row, err := l.Goal(context.Background(), goal)
		if err != nil || row.Head < end || row.Head > end+2 || last[p] < end {
			t.Errorf("%s: head %d, followed to %d, %v", goal, row.Head, last[p], err)
			continue
		}
		ledgertest.CheckChain(t, l, goal, row.Head)
	}
}

// A process that stops while it holds the write lock keeps the others waiting
// for their time-out, and then they say which file and what to do.
func TestAWriteThatGetsNoLockNamesTheFileAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, Options{})
	b := open(t, dir, Options{BusyTimeout: 50 * time.Millisecond})
	ledgertest.Create(t, a, "g", 1)
	holding, release := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- a.writer.write(context.Background(), false, func(*tx) error {
			close(holding)
			<-release
			return nil
		})
	}()
	<-holding
	next := ledger.Append{Goal: "g", Head: 1, Fence: 1, Events: []event.Event{ledgertest.Message("x")}, Row: ledgertest.RowOf("g")}
	_, err := b.Append(context.Background(), next)
	if err == nil || !strings.Contains(err.Error(), b.Path()) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("append against a held lock: %v", err)
	}
	// A caller that gives up while it waits has appended nothing.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if _, err := b.Append(ctx, next); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("append with an ended context: %v", err)
	}
	// Reading goes on meanwhile.
	ledgertest.CheckChain(t, b, "g", 1)
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := b.Append(context.Background(), next); err != nil {
		t.Error(err)
	}
	ledgertest.CheckChain(t, a, "g", 2)
}
