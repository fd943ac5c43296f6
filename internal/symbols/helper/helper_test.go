package helper_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belay/internal/symbols"
	"belay/internal/symbols/helper"
	"belay/internal/symbols/wire"
)

// The test's own binary plays the program, by the name it is called under.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(name, "fake-") {
		fake(strings.TrimPrefix(name, "fake-"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake is a program that does to each content what the content says.
func fake(kind string) {
	out := bufio.NewWriter(os.Stdout)
	hello := wire.Hello{Protocol: wire.Protocol, Version: "fake1", Languages: []string{symbols.Python}}
	switch kind {
	case "mute":
		time.Sleep(time.Hour)
	case "old":
		hello.Protocol = 0
	case "liar":
		fmt.Fprint(out, "\xff\xff\xff\xffnonsense")
		out.Flush()
		return
	}
	_ = wire.WriteJSON(out, hello)
	in := bufio.NewReader(os.Stdin)
	for {
		out.Flush()
		var req wire.Request
		if wire.ReadJSON(in, &req) != nil {
			return
		}
		content, err := wire.Read(in)
		if err != nil {
			return
		}
		a := wire.Answer{ID: req.ID}
		word, rest, _ := strings.Cut(string(content), " ")
		switch word {
		case "crash":
			fmt.Fprintln(os.Stderr, "stack smashed")
			os.Exit(3)
		case "crash-once": // rest is a file that remembers
			if _, err := os.Stat(rest); err != nil {
				_ = os.WriteFile(rest, nil, 0o600)
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		case "hang":
			time.Sleep(time.Hour)
		case "other":
			a.ID += 7
		case "refuse":
			a.Unreadable = "it is ugly"
		case "env":
			rest = strings.Join(os.Environ(), ",")
		case "pid":
			rest = fmt.Sprint(os.Getpid())
		case "many":
			for range symbols.MaxSymbols + 10 {
				a.File.Symbols = append(a.File.Symbols, symbols.Symbol{Name: "x", Line: 1, End: 1})
			}
		}
		a.File.Language = req.Language
		a.File.Symbols = append(a.File.Symbols, symbols.Symbol{Name: rest, Line: 1, End: 1})
		_ = wire.WriteJSON(out, a)
	}
}

func program(t *testing.T, kind string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fake-"+kind)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func start(t *testing.T, kind string, limit time.Duration) *helper.Parser {
	t.Helper()
	p := helper.New(helper.Config{Path: program(t, kind), FileLimit: limit})
	t.Cleanup(func() { p.Close() })
	return p
}

func parse(t *testing.T, p *helper.Parser, text string) (string, error) {
	t.Helper()
	f, err := p.Parse(context.Background(), symbols.Python, []byte(text))
	if err != nil || len(f.Symbols) == 0 {
		return "", err
	}
	return f.Symbols[len(f.Symbols)-1].Name, nil
}

func TestTheProgramReadsAndGetsNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	p := start(t, "plain", 0)
	if v := p.Version(context.Background(), symbols.Python); v != "fake1" {
		t.Errorf("version %q", v)
	}
	for _, l := range []string{symbols.Go, symbols.Rust, ""} {
		if v := p.Version(context.Background(), l); v != "" {
			t.Errorf("%q is read by %s", l, v)
		}
	}
	if got, err := parse(t, p, "env"); err != nil || strings.Contains(got, "KEY") || !strings.Contains(got, "LC_ALL=C") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := parse(t, p, "say it"); err != nil || got != "it" {
		t.Errorf("%q, %v", got, err)
	}
	if f, err := p.Parse(context.Background(), symbols.Python, []byte("many x")); err != nil || len(f.Symbols) != symbols.MaxSymbols || !f.Cut {
		t.Errorf("%d symbols, %v", len(f.Symbols), err)
	}
	if _, err := p.Parse(context.Background(), symbols.Rust, []byte("x")); !errors.As(err, new(*symbols.NoParser)) {
		t.Errorf("rust: %v", err)
	}
}

func TestAKilledProgramIsStartedAgainAndTheFileReadAfterAll(t *testing.T) {
	t.Parallel()
	p := start(t, "plain", 0)
	if got, err := parse(t, p, "crash-once "+filepath.Join(t.TempDir(), "mark")); err != nil || got == "" {
		t.Errorf("%q, %v", got, err)
	}
	// Killed between two files, by whom ever.
	pid, err := parse(t, p, "pid")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := fmt.Sscan(pid, &n); err != nil || n < 2 {
		t.Fatal(pid, err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again, err := parse(t, p, "pid")
	if err != nil || again == pid {
		t.Errorf("%q after %q, %v", again, pid, err)
	}
}

func TestWhatEndsTheProgramTwiceCannotBeRead(t *testing.T) {
	t.Parallel()
	p := start(t, "plain", 0)
	for text, want := range map[string]string{"crash": "stack smashed", "other": "answered request", "refuse": "it is ugly"} {
		_, err := parse(t, p, text)
		why, ok := symbols.IsUnreadable(err)
		if !ok || !strings.Contains(why, want) {
			t.Errorf("%s: %v", text, err)
		}
		if got, err := parse(t, p, "still there"); err != nil || got != "there" {
			t.Errorf("after %s: %q, %v", text, got, err)
		}
	}
}

func TestAFileThatTakesTooLongCannotBeRead(t *testing.T) {
	t.Parallel()
	p := start(t, "plain", 300*time.Millisecond)
	_, err := parse(t, p, "hang")
	if why, ok := symbols.IsUnreadable(err); !ok || !strings.Contains(why, "longer than 300ms") {
		t.Error(err)
	}
}

func TestAProgramThatEndsTooOftenIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := start(t, "plain", 0)
	var err error
	for range 11 {
		_, err = parse(t, p, "crash")
	}
	if _, ok := symbols.IsUnreadable(err); ok || err == nil || !strings.Contains(err.Error(), "not started again") {
		t.Errorf("%v", err)
	}
	if v := p.Version(context.Background(), symbols.Python); v != "" {
		t.Errorf("still offered: %s", v)
	}
}

func TestAProgramThatIsNoneIsSaidToBe(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"old": "speaks version 0", "liar": "did not say hello"} {
		p := start(t, kind, 0)
		if _, err := p.Check(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
		if v := p.Version(context.Background(), symbols.Python); v != "" {
			t.Errorf("%s is offered: %s", kind, v)
		}
	}
	p := helper.New(helper.Config{})
	if _, err := p.Check(context.Background()); err == nil || !strings.Contains(err.Error(), "not there") {
		t.Errorf("none: %v", err)
	}
	p = helper.New(helper.Config{Path: filepath.Join(t.TempDir(), "absent")})
	if _, err := p.Check(context.Background()); err == nil {
		t.Error("an absent program says hello")
	}
}

func TestAQuestionThatIsTakenBackEndsAtOnceAndCountsForNothing(t *testing.T) {
	t.Parallel()
	p := start(t, "plain", time.Hour)
	for range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		_, err := p.Parse(ctx, symbols.Python, []byte("hang"))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if got, err := parse(t, p, "still there"); err != nil || got != "there" {
		t.Errorf("%q, %v", got, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, p, "x y"); err == nil {
		t.Error("a closed helper reads")
	}
}
