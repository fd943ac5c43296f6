package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"belay/internal/event"
)

// process is a belay that works on the goal.
type process struct {
	cmd   *exec.Cmd
	lines chan string // of standard output; closed at its end
}

// launch starts belay. What it prints goes line by line to the channel and, as
// a whole, to said.
func (p *player) launch(args ...string) error {
	cmd := exec.Command(p.r.Belay, args...)
	cmd.Dir, cmd.Env = p.w.dir, p.w.env
	// A pipe of our own: with one of exec's, Wait would close it under the reader.
	out, in, err := os.Pipe()
	if err != nil {
		return infra("start belay: %w", err)
	}
	cmd.Stdout, cmd.Stderr = in, p.said
	err = cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		return infra("start belay: %w", err)
	}
	pr := &process{cmd: cmd, lines: make(chan string, 64)}
	go pr.scan(out)
	p.proc = pr
	fmt.Fprintf(p.log, "$ belay %s\n", strings.Join(args, " "))
	return nil
}

func (pr *process) scan(r io.ReadCloser) {
	defer close(pr.lines)
	defer r.Close()
	b := bufio.NewReaderSize(r, 256<<10)
	for {
		line, err := b.ReadString('\n')
		if line != "" {
			pr.lines <- line
		}
		if err != nil {
			return
		}
	}
}

// kill ends the process as kill -9 does, and nothing else.
func (pr *process) kill() { _ = pr.cmd.Process.Signal(syscall.SIGKILL) }

// wait returns the exit code once standard output has ended; -1 for a signal.
func (pr *process) wait() int {
	err := pr.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return 1
}

// printed is one line of belay run --json.
type printed struct {
	Kind  string          `json:"kind"`
	Event json.RawMessage `json:"event"`
}

// readEvent reads an event as the program prints it.
func readEvent(line []byte) (event.Event, error) {
	var r struct {
		event.Record
		Hash string `json:"hash"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return event.Event{}, fmt.Errorf("read an event: %w", err)
	}
	return event.Decode(r.Record, r.Hash, nil), nil
}

// ask runs a command of belay to its end and returns what it prints.
func (p *player) ask(ctx context.Context, args ...string) (string, int, error) {
	var out, problems strings.Builder
	cmd := exec.CommandContext(ctx, p.r.Belay, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.w.dir, p.w.env, &out, &problems
	err := cmd.Run()
	fmt.Fprintf(p.log, "$ belay %s\n%s", strings.Join(args, " "), problems.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), 0, nil
	case ctx.Err() != nil:
		return out.String(), -1, ctx.Err()
	case errors.As(err, &exit):
		return out.String(), exit.ExitCode(), fmt.Errorf("belay %s: exit %d: %s", strings.Join(args, " "), exit.ExitCode(), strings.TrimSpace(problems.String()))
	}
	return out.String(), -1, infra("run belay: %w", err)
}

// bounded keeps the beginning of what is written, for people to read.
type bounded struct {
	mu   sync.Mutex
	b    strings.Builder
	most int
}

// Write never fails and always takes everything.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := b.most - b.b.Len(); room > 0 {
		b.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
