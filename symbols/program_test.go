package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belay/internal/symbols"
	"belay/internal/symbols/gosource"
	"belay/internal/symbols/helper"
	"belay/internal/symbols/index"
	"belay/internal/workspace/local"
)

// The test's own binary is the program when it is called by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "belay-symbols" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program is belay's side of the real program.
func program(t *testing.T) *helper.Parser {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "belay-symbols")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	p := helper.New(helper.Config{Path: path})
	t.Cleanup(func() { p.Close() })
	return p
}

// All of it together: a workspace on disk, the index, and the program as
// another process.
func TestARepositoryOfAllLanguagesIsIndexedByTheProgram(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fixtures, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range fixtures {
		if strings.HasSuffix(f, ".golden") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Base(f), text)
	}
	put("shop.go", []byte("package shop\n\ntype Cart struct{}\n"))
	put("deep.c", []byte(strings.Repeat("{", 100_000)))
	put("binary.py", []byte("x = '\x00'"))
	ws, err := local.Open(t.Context(), root, local.Options{State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	store := index.New(t.TempDir(), symbols.Parsers{gosource.Parser{}, program(t)})
	defer store.Close()
	x := store.Of(ws)
	defer x.Close()
	ctx := context.Background()
	if err := x.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	st, err := x.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Pending != 0 || len(st.Failures) != 1 || st.Failures[0] != "binary.py: it is binary" || len(st.Languages) != len(languages())+1 {
		t.Errorf("%+v", st)
	}
	for _, l := range st.Languages {
		if l.Missing || l.Symbols == 0 {
			t.Errorf("%+v", l)
		}
	}
	found, _, err := x.Find(ctx, symbols.Query{Name: "Cart"})
	if err != nil {
		t.Fatal(err)
	}
	var in []string
	for _, s := range found {
		in = append(in, s.Path)
	}
	if got := strings.Join(in, " "); got != "shop.go shop.h shop.js shop.rb" {
		t.Errorf("Cart is defined in %s", got)
	}
	found, _, err = x.Find(ctx, symbols.Query{Name: "Store.push"})
	if err != nil || len(found) != 1 || found[0].Path != "shop.rs" || found[0].Line != 7 {
		t.Errorf("%+v, %v", found, err)
	}
}
