package builtin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
)

func TestReadFileShowsNumberedLinesWithTabsAsTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"Makefile": "all:\n\tgo build\n"})
	r := w.ok("read_file", obj{"path": "Makefile"})
	if want := "     1→all:\n     2→\tgo build\n"; r.Output.Head != want {
		t.Errorf("shown as %q, want %q", r.Output.Head, want)
	}
	if len(r.Seen) != 1 || r.Seen[0] != (event.FileSeen{Path: "Makefile", Hash: event.RefOf([]byte("all:\n\tgo build\n"), "").SHA256}) {
		t.Errorf("seen: %+v", r.Seen)
	}
}

func TestReadFileHidesMarksAndEndingsAndNamesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"crlf": "\xef\xbb\xbfa\r\nb\r\n", "tail": "a\nb", "empty": "", "latin": "caf\xe9\n"})
	for p, parts := range map[string][]string{
		"crlf":  {"byte-order mark", "CRLF", "     1→a\n     2→b\n"},
		"tail":  {"no newline at the end", "     2→b\n"},
		"empty": {"the file is empty"},
		"latin": {"iso-8859-1", "     1→café\n"},
	} {
		r := w.ok("read_file", obj{"path": p})
		w.says(r, parts...)
		if strings.ContainsAny(r.Output.Head, "\r\ufeff") || len(r.Seen) != 1 {
			t.Errorf("%s is shown as %q, seen %v", p, r.Output.Head, r.Seen)
		}
	}
}

func TestReadFilePagesThroughLongFiles(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	w := newWorld(t, map[string]string{"long": b.String(), "wide": strings.Repeat("x", 3000) + "é\n" + strings.Repeat("世", 2000), "fat": strings.Repeat(strings.Repeat("y", 1000)+"\n", 200)})
	r := w.ok("read_file", obj{"path": "long"})
	w.says(r, "  2000→line 2000\n", "[lines 1 to 2000 of 5000; go on with offset=2001]")
	if strings.Contains(r.Output.Head, "line 2001\n") {
		t.Error("more than 2000 lines are shown")
	}
	w.says(w.ok("read_file", obj{"path": "long", "offset": 4999}), "  4999→line 4999\n  5000→line 5000\n[lines 4999 to 5000 of 5000]\n")
	w.says(w.ok("read_file", obj{"path": "long", "offset": 10, "limit": 1}), "    10→line 10\n[lines 10 to 10 of 5000; go on with offset=11]\n")
	w.refused(fault.InvalidArguments, "read_file", obj{"path": "long", "offset": 5001}, "5001", "5000 lines")
	r = w.ok("read_file", obj{"path": "wide"})
	w.says(r, "… [1002 more bytes in this line]", "more bytes in this line", "no newline at the end")
	if len(r.Output.Head) > 5000 || strings.Contains(r.Output.Head, "\uFFFD") {
		t.Errorf("a wide file is shown in %d bytes", len(r.Output.Head))
	}
	r = w.ok("read_file", obj{"path": "fat"})
	w.says(r, "go on with offset=")
	if len(r.Output.Head) > 49<<10 {
		t.Errorf("%d bytes are shown", len(r.Output.Head))
	}
}

func TestReadFileRefusesWhatItCanNotShowAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"src/slug.go": "x", "src/other.go": "y", "logo.png": "\x89PNG\r\n\x1a\n\x00\x00", ".git/config": "z"})
	w.refused(fault.InvalidArguments, "read_file", obj{"path": "src"}, "folder", "list_files")
	w.refused(fault.NotFound, "read_file", obj{"path": "slug.go"}, "src/slug.go")
	w.refused(fault.NotFound, "read_file", obj{"path": "src/slugg.go"}, "src/slug.go")
	w.refused(fault.NotFound, "read_file", obj{"path": "quite/else.txt"}, "list_files")
	w.refused(fault.NotText, "read_file", obj{"path": "logo.png"}, "PNG image", "10 bytes")
	w.refused(fault.Protected, "read_file", obj{"path": ".git/config"})
	w.refused(fault.NotFound, "read_file", obj{"path": "artifact:" + strings.Repeat("0", 64)}, "artifact")
	if err := os.Symlink("/etc/passwd", filepath.Join(w.root, "out")); err != nil {
		t.Fatal(err)
	}
	w.refused(fault.Outside, "read_file", obj{"path": "out"})
}

func TestListFilesSummarisesBigFolders(t *testing.T) {
	t.Parallel()
	files := map[string]string{"go.mod": "", "src/a.go": "", "src/a_test.go": "", "src/deep/b.go": ""}
	for i := range 400 {
		files[fmt.Sprintf("assets/%03d.svg", i)] = ""
	}
	w := newWorld(t, files)
	r := w.ok("list_files", obj{})
	if want := "assets/ (400 files)\ngo.mod\nsrc/a.go\nsrc/a_test.go\nsrc/deep/b.go\n[404 files in all]\n"; r.Output.Head != want {
		t.Errorf("listed as %q", r.Output.Head)
	}
	r = w.ok("list_files", obj{"path": "assets"})
	w.says(r, "assets/000.svg\n", "[… 100 more files not shown", "[400 files in all]")
	w.says(w.ok("list_files", obj{"path": "assets", "glob": "01?.svg"}), "assets/010.svg", "assets/019.svg", "[10 files in all]")
	w.says(w.ok("list_files", obj{"glob": "**/*_test.go"}), "src/a_test.go\n[1 file in all]")
	w.says(w.ok("list_files", obj{"glob": "*.{mod,sum}"}), "go.mod\n[1 file in all]")
	w.says(w.ok("list_files", obj{"path": "src", "glob": "deep/*"}), "src/deep/b.go\n[1 file")
	w.says(w.ok("list_files", obj{"path": "src/a.go"}), "src/a.go\n[1 file")
	w.says(w.ok("list_files", obj{"glob": "*.rs"}), "no file fits")
	w.refused(fault.NotFound, "list_files", obj{"path": "scr"}, "src")
}

func TestListFilesOfAnEmptyWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.says(w.ok("list_files", obj{}), "no files")
}

func TestSearchTextFindsLinesLikeRipgrep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{
		"a.go": "package a\n\nfunc Title() {}\n// title\n", "b/b.go": "x\r\nfunc Title2() {}\r\n", "skip.log": "func Title\n",
		".gitignore": "*.log\n", "bin": "func Title\x00", "u16": "\xff\xfef\x00u\x00n\x00c\x00 \x00T\x00i\x00t\x00l\x00e\x00\n\x00",
	})
	w.git("init", "-q")
	r := w.ok("search_text", obj{"pattern": `^func Title\d?`})
	if want := "a.go:3:func Title() {}\nb/b.go:2:func Title2() {}\nu16:1:func Title\n[3 matching lines in 3 files; 4 files searched; 1 binary file skipped]\n"; r.Output.Head != want {
		t.Errorf("found %q", r.Output.Head)
	}
	w.says(w.ok("search_text", obj{"pattern": "TITLE", "ignore_case": true, "path": "a.go"}), "a.go:3:", "a.go:4:", "[2 matching lines in 1 file;")
	w.says(w.ok("search_text", obj{"pattern": "Title", "glob": "!b/**"}), "a.go:3:")
	w.says(w.ok("search_text", obj{"pattern": `\Afunc`, "path": "b"}), "b/b.go:2:")
	w.says(w.ok("search_text", obj{"pattern": `\{\}$`}), "a.go:3:", "b/b.go:2:")
	w.says(w.ok("search_text", obj{"pattern": "nowhere"}), "[0 matching lines")
	w.says(w.ok("search_text", obj{"pattern": "Title", "path": "a.go", "context": 1}), "a.go-2-\na.go:3:func Title() {}\na.go-4-// title\n")
	w.refused(fault.NotFound, "search_text", obj{"pattern": "x", "path": "skip.log"}, "ignored")
}

func TestSearchTextCapsEachFileAndTheWholeAndCounts(t *testing.T) {
	t.Parallel()
	files := map[string]string{"wide": strings.Repeat("x", 5000) + "needle" + strings.Repeat("y", 5000) + "\n"}
	for i := range 300 {
		files[fmt.Sprintf("f%03d", i)] = strings.Repeat("a needle in here\n", 100)
	}
	w := newWorld(t, files)
	r := w.ok("search_text", obj{"pattern": "needle"})
	w.says(r, "f000:40:", "[… 60 more matching lines in f000]", "[30001 matching lines in 301 files; 301 files searched; 200 shown")
	if strings.Contains(r.Output.Head, "f000:41:") || len(r.Output.Head) > 13<<10 {
		t.Errorf("%d bytes: %s", len(r.Output.Head), r.Output.Head[:500])
	}
	r = w.ok("search_text", obj{"pattern": "needle", "path": "wide"})
	w.says(r, "needle", "…")
	if len(r.Output.Head) > 500 {
		t.Errorf("a wide line is shown in %d bytes", len(r.Output.Head))
	}
}

// FIELD P7: two hundred calls of one response side by side.
func TestManySearchesSideBySideFinish(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("f%d", i)] = strings.Repeat("word\n", 1000) + fmt.Sprint("unique", i, "\n")
	}
	w := newWorld(t, files)
	var wg sync.WaitGroup
	for i := range 200 {
		tl, c := w.call("search_text", obj{"pattern": fmt.Sprintf("unique%d$", i%50)})
		wg.Go(func() {
			o, r, err := tl.(tool.Runner).Run(t.Context(), w.env, c)
			if err != nil || o != event.Succeeded || !strings.Contains(r.Output.Head, "[1 matching line in 1 file;") {
				t.Errorf("%s %v: %s", o, err, r.Output.Head)
			}
		})
	}
	wg.Wait()
}

func TestReadToolsStopWhenTheRuntimeDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "x\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, args := range map[string]obj{"read_file": {"path": "a"}, "search_text": {"pattern": "x"}} {
		tl, c := w.call(name, args)
		if o, _, err := tl.(tool.Runner).Run(ctx, w.env, c); err == nil || o != "" {
			t.Errorf("%s: %s, %v", name, o, err)
		}
	}
}
