// Package helper reads symbols by the program belay-symbols: a process that is
// started when the first file comes, gets contents over stdin and gives symbols
// over stdout. It must not know what the program does inside.
//
// # Failure handling
//
// The program may crash, hang or talk nonsense over a hostile file: it is ended
// and started again. A content over which that happens twice cannot be read,
// and is not tried again. A program that ends too often is left alone: then its
// languages are not read here any more, which every answer says.
package helper

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"belay/internal/symbols"
	"belay/internal/symbols/wire"
)

// Limits of one helper.
const (
	// startLimit is how long the program may take to say hello.
	startLimit = 20 * time.Second
	// fileLimit is how long it may take over one file.
	fileLimit = 20 * time.Second
	// idleLimit is how long it is kept without a file to read.
	idleLimit = 30 * time.Second
	// maxEnds is how often it may end before it is left alone; a thousand files
	// in a row that are read restore all of them.
	maxEnds = 20
	// niceness lets what the user waits for go first.
	niceness = 5
)

// Config names the program.
type Config struct {
	// Path is the program, "" for none.
	Path string
	// FileLimit is how long one file may take; 0 means 20 seconds.
	FileLimit time.Duration
}

// Parser is a symbols.Parser over one process. It is safe for use by several
// goroutines; they take turns.
type Parser struct {
	path  string
	limit time.Duration

	mu     sync.Mutex
	proc   *process
	hello  *wire.Hello
	why    error // why the program is not used
	ends   int
	good   int
	id     int
	idle   *time.Timer
	closed bool
}

var _ symbols.Parser = (*Parser)(nil)

// New makes a parser; nothing is started yet.
func New(c Config) *Parser {
	p := &Parser{path: c.Path, limit: c.FileLimit}
	if p.limit <= 0 {
		p.limit = fileLimit
	}
	if p.path == "" {
		p.why = errors.New("the program belay-symbols is not there")
	}
	return p
}

// Version implements symbols.Parser. The first call starts the program.
func (p *Parser) Version(ctx context.Context, language string) string {
	if language == symbols.Go || language == "" {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil && p.hello == nil {
		if err := p.start(ctx); err != nil {
			return ""
		}
	}
	if p.why != nil || p.hello == nil || !slices.Contains(p.hello.Languages, language) {
		return ""
	}
	return p.hello.Version
}

// Check starts the program and returns what it reads, or why it is not used.
func (p *Parser) Check(ctx context.Context) (wire.Hello, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil && p.hello == nil {
		if err := p.start(ctx); err != nil {
			return wire.Hello{}, err
		}
	}
	if p.why != nil {
		return wire.Hello{}, p.why
	}
	return *p.hello, nil
}

// Parse implements symbols.Parser.
func (p *Parser) Parse(ctx context.Context, language string, content []byte) (symbols.File, error) {
	if err := symbols.Readable(content); err != nil {
		return symbols.File{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first time may be the program's own fate, the second is the content's.
	for try := 0; ; try++ {
		f, err := p.parse(ctx, language, content)
		var ended *endedError
		if !errors.As(err, &ended) || p.why != nil || ctx.Err() != nil {
			return f, err
		}
		if try == 1 {
			return f, &symbols.Unreadable{Why: ended.Error()}
		}
	}
}

// endedError says how the program ended over a content.
type endedError struct{ how string }

func (e *endedError) Error() string { return e.how }

func (p *Parser) parse(ctx context.Context, language string, content []byte) (symbols.File, error) {
	if p.why != nil {
		return symbols.File{}, p.why
	}
	if p.proc == nil {
		if err := p.start(ctx); err != nil {
			return symbols.File{}, err
		}
	}
	if !slices.Contains(p.hello.Languages, language) {
		return symbols.File{}, &symbols.NoParser{Language: language}
	}
	p.id++
	a, err := p.proc.ask(ctx, wire.Request{ID: p.id, Language: language}, content, p.limit)
	if err != nil {
		p.end(err, ctx.Err() != nil)
		if ctx.Err() != nil {
			return symbols.File{}, ctx.Err()
		}
		return symbols.File{}, err
	}
	if p.good++; p.good%50 == 0 && p.ends > 0 {
		p.ends--
	}
	p.rest()
	if a.Unreadable != "" {
		return symbols.File{}, &symbols.Unreadable{Why: a.Unreadable}
	}
	return symbols.Tidy(a.File), nil
}

// start starts the program and hears its hello.
func (p *Parser) start(ctx context.Context) error {
	if p.closed {
		return errors.New("symbols: the helper is closed")
	}
	proc, hello, err := launch(ctx, p.path)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.why = fmt.Errorf("%s cannot be used: %w", p.path, err)
		return p.why
	}
	p.proc, p.hello = proc, &hello
	p.rest()
	return nil
}

// rest ends the program when nothing comes for a while.
func (p *Parser) rest() {
	if p.idle != nil {
		p.idle.Stop()
	}
	proc := p.proc
	p.idle = time.AfterFunc(idleLimit, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.proc == proc && proc != nil && p.idle != nil && time.Since(proc.used) >= idleLimit {
			proc.kill()
			p.proc = nil
		}
	})
}

// end ends the program after a failure; wanted says that it was our doing.
func (p *Parser) end(why error, wanted bool) {
	p.proc.kill()
	p.proc = nil
	if wanted {
		return
	}
	if p.ends++; p.ends >= maxEnds {
		p.why = fmt.Errorf("%s ended %d times and is not started again in this process, the last time: %w", p.path, p.ends, why)
	}
}

// Close ends the program.
func (p *Parser) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
	if p.proc != nil {
		p.proc.kill()
		p.proc = nil
	}
	return nil
}

// process is one run of the program.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said *tail
	used time.Time
}

func launch(ctx context.Context, path string) (*process, wire.Hello, error) {
	pr := &process{cmd: exec.Command(path), said: &tail{}, used: time.Now()}
	// Contents come over stdin; of this process's environment, with its keys, the
	// program needs nothing.
	pr.cmd.Env, pr.cmd.Dir, pr.cmd.Stderr = []string{"LC_ALL=C"}, "/", pr.said
	pr.cmd.WaitDelay = time.Second
	pr.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := pr.cmd.StdinPipe()
	if err != nil {
		return nil, wire.Hello{}, err
	}
	out, err := pr.cmd.StdoutPipe()
	if err != nil {
		return nil, wire.Hello{}, err
	}
	if err := pr.cmd.Start(); err != nil {
		return nil, wire.Hello{}, err
	}
	pr.in, pr.out = in, bufio.NewReaderSize(out, 1<<16)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, pr.cmd.Process.Pid, niceness) // a courtesy
	var hello wire.Hello
	if err := pr.within(ctx, startLimit, func() error { return wire.ReadJSON(pr.out, &hello) }); err != nil {
		pr.kill()
		return nil, wire.Hello{}, fmt.Errorf("it did not say hello: %w", err)
	}
	if hello.Protocol != wire.Protocol {
		pr.kill()
		return nil, wire.Hello{}, fmt.Errorf("it speaks version %d, this belay %d: build both from the same source (make build symbols)", hello.Protocol, wire.Protocol)
	}
	return pr, hello, nil
}

func (pr *process) ask(ctx context.Context, req wire.Request, content []byte, limit time.Duration) (wire.Answer, error) {
	pr.used = time.Now()
	var a wire.Answer
	err := pr.within(ctx, limit, func() error {
		if err := wire.WriteJSON(pr.in, req); err != nil {
			return err
		}
		if err := wire.Write(pr.in, content); err != nil {
			return err
		}
		if err := wire.ReadJSON(pr.out, &a); err != nil {
			return err
		}
		if a.ID != req.ID {
			return fmt.Errorf("it answered request %d with %d", req.ID, a.ID)
		}
		return nil
	})
	pr.used = time.Now()
	if err == nil || ctx.Err() != nil {
		return a, err
	}
	pr.kill() // only then has it said all that it says
	if said := pr.said.line(); said != "" {
		err = fmt.Errorf("%w (%s)", err, said)
	}
	return a, &endedError{how: "belay-symbols ended over it: " + err.Error()}
}

// within runs f, which ends when the process is killed.
func (pr *process) within(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		_ = pr.cmd.Process.Kill()
		<-done
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("it took longer than %v", limit)
		}
		return ctx.Err()
	}
}

func (pr *process) kill() {
	_ = pr.in.Close()
	_ = pr.cmd.Process.Kill()
	_ = pr.cmd.Wait() // killed by us: how it ended says nothing
}

// tail keeps the first words of what the program complains about.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxTail = 1 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(b[:min(len(b), maxTail-t.b.Len())])
	return len(b), nil
}

func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, _, _ := bytes.Cut(bytes.TrimSpace(t.b.Bytes()), []byte{'\n'})
	return string(first)
}
