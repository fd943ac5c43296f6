package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// pieces is a reader that returns a text in the given pieces, then err.
type pieces struct {
	parts [][]byte
	err   error
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.parts) > 0 && len(p.parts[0]) == 0 {
		p.parts = p.parts[1:]
	}
	if len(p.parts) == 0 {
		return 0, p.err
	}
	n := copy(b, p.parts[0])
	p.parts[0] = p.parts[0][n:]
	return n, nil
}

func readAll(r io.Reader) (out []string, err error) {
	e := NewEvents(r)
	for {
		ev, err := e.Next()
		if err != nil {
			if ev.Data != nil {
				out = append(out, "unfinished "+ev.Type+"="+string(ev.Data))
			}
			return out, err
		}
		out = append(out, ev.Type+"="+string(ev.Data))
	}
}

func TestEventsAreReadWhateverTheLineEnds(t *testing.T) {
	t.Parallel()
	const text = "\ufeff: a comment\nevent: ping\ndata: {}\n\ndata:no blank\ndata\ndata:  two blanks\nid: 7\nretry: 10\n\nevent: lost\n\n\ndata: last\n\n"
	want := []string{"ping={}", "=no blank\n\n two blanks", "=last"}
	for name, end := range map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n"} {
		in := strings.ReplaceAll(text, "\n", end)
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			got, err := readAll(r)
			if err != io.EOF || strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}

func TestAnEventIsGivenOutAtItsBlankLineEvenIfThatEndsInCR(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	go func() { _, _ = w.Write([]byte("data: now\r\r")) }() // and then silence: no LF to wait for
	ev, err := NewEvents(r).Next()
	if err != nil || string(ev.Data) != "now" {
		t.Errorf("%q %v", ev.Data, err)
	}
	_ = r.Close()
}

func TestTheEndInsideAnEventIsTold(t *testing.T) {
	t.Parallel()
	got, err := readAll(strings.NewReader("data: a\n\nevent: x\ndata: [DONE]"))
	if err != io.EOF || strings.Join(got, "|") != "=a|unfinished x=[DONE]" {
		t.Errorf("%q %v", got, err)
	}
	broken := errors.New("reset")
	if _, err := readAll(&pieces{[][]byte{[]byte("data: a\n\ndata: b")}, broken}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestALineOverTheLimitIsAnErrorAndNoMemory(t *testing.T) {
	t.Parallel()
	e := NewEvents(io.MultiReader(strings.NewReader("data: "), endless{}))
	e.max = 1 << 16
	if _, err := e.Next(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("%v", err)
	}
	e = NewEvents(strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 100)))
	e.max = 1 << 16
	if _, err := e.Next(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("many lines: %v", err)
	}
	big := strings.Repeat("y", 3<<20)
	got, err := readAll(strings.NewReader("data: " + big + "\n\n"))
	if err != io.EOF || len(got) != 1 || got[0] != "="+big {
		t.Errorf("a line of 3 MiB: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestChunkBoundariesChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]byte("\r\n\r\n\r\nadet: x\xef\xbb\xbf"))).Draw(t, "text")
		text = append(text, rapid.SampledFrom([]string{"", "data: tail\n\n", "\ndata: a\r\n\r\n", "\n\n"}).Draw(t, "tail")...)
		whole, wholeErr := readAll(bytes.NewReader(text))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var parts [][]byte
		for rest := text; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			parts, rest = append(parts, rest[:n:n]), rest[n:]
		}
		split, splitErr := readAll(&pieces{parts, io.EOF})
		if strings.Join(whole, "|") != strings.Join(split, "|") || wholeErr != splitErr {
			t.Fatalf("%q\nwhole %q %v\nsplit %q %v", text, whole, wholeErr, split, splitErr)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\rdata: b\r\r"), uint64(1))
	f.Add([]byte("\ufeffevent: x\ndata\n\ndata: [DONE]"), uint64(2))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		whole, _ := readAll(bytes.NewReader(text))
		rng := rand.New(rand.NewPCG(seed, 1))
		var parts [][]byte
		for rest := bytes.Clone(text); len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			parts, rest = append(parts, rest[:n:n]), rest[n:]
		}
		split, err := readAll(&pieces{parts, io.EOF})
		if err != io.EOF || strings.Join(whole, "|") != strings.Join(split, "|") {
			t.Fatalf("whole %q, split %q, %v", whole, split, err)
		}
	})
}
