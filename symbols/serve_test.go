package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"belay/internal/symbols"
	"belay/internal/symbols/wire"
)

func TestTheProgramAnswersInTurnAndEndsWithItsInput(t *testing.T) {
	t.Parallel()
	inR, in := io.Pipe()
	out, outW := io.Pipe()
	over := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- serve(inR, outW, func() { close(over) }) }()
	var hello wire.Hello
	if err := wire.ReadJSON(out, &hello); err != nil {
		t.Fatal(err)
	}
	if hello.Protocol != wire.Protocol || hello.Version == "" || !slices.Contains(hello.Languages, symbols.Python) || slices.Contains(hello.Languages, symbols.Go) {
		t.Errorf("%+v", hello)
	}
	for i, c := range []struct{ language, text, want, refused string }{
		{symbols.Python, "def f(): pass", "f", ""},
		{"cobol", "f", "", "nothing here reads cobol"},
		{symbols.Ruby, "def g; end", "g", ""},
		{symbols.C, "a\x00b", "", "binary"},
	} {
		if err := wire.WriteJSON(in, wire.Request{ID: i, Language: c.language}); err != nil {
			t.Fatal(err)
		}
		if err := wire.Write(in, []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		var a wire.Answer
		if err := wire.ReadJSON(out, &a); err != nil {
			t.Fatal(err)
		}
		if a.ID != i || !strings.Contains(a.Unreadable, c.refused) || (a.Unreadable == "") != (c.refused == "") {
			t.Errorf("%s: %+v", c.language, a)
		}
		if c.want != "" && (len(a.File.Symbols) != 1 || a.File.Symbols[0].Name != c.want) {
			t.Errorf("%s: %+v", c.language, a.File)
		}
	}
	in.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-over
}
