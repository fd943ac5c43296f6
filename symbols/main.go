// Command belay-symbols reads symbols off source files for belay: contents come
// in over stdin, what was found goes out over stdout. It opens no file and no
// connection, and needs nothing of its environment.
//
// It is a program of its own for two reasons. Its grammars are C: they need a C
// compiler and more time to build than all of belay. And a parser in C that
// falls over hostile input must not take the worker with it: here it takes only
// itself, and belay starts it again.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"belay/internal/symbols"
	"belay/internal/symbols/wire"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "belay-symbols is a part of belay, which starts it and speaks to it over stdin; it takes no arguments (docs/symbols.md)")
		os.Exit(2)
	}
	limit()
	if err := serve(os.Stdin, os.Stdout, func() { time.AfterFunc(grace, func() { os.Exit(1) }) }); err != nil {
		fmt.Fprintln(os.Stderr, "belay-symbols:", err)
		os.Exit(1)
	}
}

// question is a request with its content, or why there is none.
type question struct {
	req     wire.Request
	content []byte
	err     error
}

// grace is how long an answer may still take once nobody can hear it.
const grace = 5 * time.Second

// serve answers requests until the input ends. The input is read beside the
// parsing, and its end told to over: when belay is killed, a parser that hangs must
// not stay behind.
func serve(in io.Reader, out io.Writer, over func()) error {
	w := bufio.NewWriterSize(out, 1<<16)
	if err := wire.WriteJSON(w, wire.Hello{Protocol: wire.Protocol, Version: version(), Languages: languages()}); err != nil {
		return err
	}
	questions := make(chan question)
	go func() {
		r := bufio.NewReaderSize(in, 1<<16)
		for {
			q := next(r)
			if q.err != nil {
				over()
				questions <- q
				return
			}
			questions <- q
		}
	}()
	for {
		if err := w.Flush(); err != nil {
			return err
		}
		q := <-questions
		if errors.Is(q.err, io.EOF) {
			return nil
		}
		if q.err != nil {
			return q.err
		}
		if err := wire.WriteJSON(w, answer(q.req, q.content)); err != nil {
			return err
		}
	}
}

func next(r io.Reader) (q question) {
	if q.err = wire.ReadJSON(r, &q.req); q.err == nil {
		q.content, q.err = wire.Read(r)
	}
	return q
}

func answer(req wire.Request, content []byte) wire.Answer {
	a := wire.Answer{ID: req.ID}
	f, err := read(req.Language, content, parseLimit)
	if err != nil {
		a.Unreadable = err.Error()
		return a
	}
	a.File = symbols.Tidy(f)
	return a
}
