package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The comparison with bash itself: whatever is judged allow is run by bash in
// a scratch folder where every program is a stub that logs how it was called
// and prints hostile text. Then three things must hold: each program that ran
// was seen by the judgement, each call that really happened is allowed on its
// own, and no file was written.

const bashPath = "/bin/bash"

// hostile is what the stubs print: text that writes a file as soon as a shell
// evaluates it, in an expression, a word or a command.
const hostile = `a[$(>PWNED)] -o PWNED ; >PWNED $(>PWNED)`

const stub = `#!/bin/bash
printf '%s\0' "${0##*/}" "$@" > "$STUB_LOG/$$.$RANDOM$RANDOM"
case "${0##*/} $1" in
wc*|date*|nproc*|seq*) echo 3 ;;
"git rev-parse"|"git merge-base"|"git branch"|uname*|whoami*|id*) echo abc123 ;;
*) echo '` + hostile + `' ;;
esac
exit 0
`

// real are programs that run other programs; they must really do so.
var real = []string{"env", "xargs", "timeout", "nice", "nohup", "stdbuf", "find", "bash", "sh", "setsid"}

type lab struct{ bin, log, dir string }

func newLab(t testing.TB) lab {
	t.Helper()
	if _, err := os.Stat(bashPath); err != nil {
		t.Skipf("there is no %s to compare with: %v", bashPath, err)
	}
	base := t.TempDir()
	l := lab{filepath.Join(base, "bin"), filepath.Join(base, "log"), filepath.Join(base, "dir")}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(errors.Join(os.Mkdir(l.bin, 0o755), os.Mkdir(l.log, 0o755)))
	for _, name := range real {
		p, err := exec.LookPath(name)
		must(err)
		must(os.Symlink(p, filepath.Join(l.bin, name)))
	}
	for name := range knowledge {
		if !contains(real, name) && identifier(strings.NewReplacer("-", "_", ".", "_", "+", "_").Replace(name)) && name != "." {
			must(os.WriteFile(filepath.Join(l.bin, name), []byte(stub), 0o755))
		}
	}
	must(os.MkdirAll(filepath.Join(l.dir, "internal", "policy"), 0o755))
	must(os.Mkdir(filepath.Join(l.dir, "src"), 0o755))
	for _, f := range []string{"main.go", "go.mod", "file", "f", "a", "b", "-i", "-o", "internal/x.go", "src/a.go"} {
		must(os.WriteFile(filepath.Join(l.dir, f), []byte("a[$(>PWNED)]\n"), 0o644))
	}
	return l
}

// run runs text and returns the calls that the stubs saw.
func (l lab) run(t fataler, text string) [][]string {
	log, err := os.MkdirTemp(l.log, "")
	if err != nil {
		t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bashPath, "-c", text)
	cmd.Dir = l.dir
	cmd.Env = []string{"PATH=" + l.bin, "STUB_LOG=" + log, "HOME=" + l.dir, "x=a[$(>PWNED)]"}
	cmd.WaitDelay = 2 * time.Second
	// What runs in the background holds the pipe: Run waits for it as well.
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // how it ends does not matter; what it did does
	if ctx.Err() != nil {
		t.Fatalf("%q did not end", text)
	}
	logs, err := filepath.Glob(filepath.Join(log, "*"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	var calls [][]string
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("%v", err)
		}
		calls = append(calls, strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"))
	}
	return calls
}

type fataler interface {
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func (l lab) listing(t fataler) string {
	var names []string
	err := filepath.WalkDir(l.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		size := int64(0)
		if info, err := d.Info(); err == nil && !d.IsDir() {
			size = info.Size()
		}
		names = append(names, fmt.Sprintf("%s %d", p, size))
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	sort.Strings(names)
	return strings.Join(names, "\n")
}

// compare holds one allowed text against bash.
func (l lab) compare(t fataler, text string) {
	seen := observed(text)
	before := l.listing(t)
	calls := l.run(t, text)
	if after := l.listing(t); after != before {
		t.Fatalf("%q is allowed, but changed files:\n%s\nwas\n%s", text, after, before)
	}
	for _, call := range calls {
		if !anyMatches(seen, call) {
			t.Errorf("%q is allowed, but ran %q, which the judgement did not see in it", text, call)
		}
		var words []string
		for _, w := range call {
			words = append(words, quote(w))
		}
		if v := Explain(corpusConfig, strings.Join(words, " ")); v.Decision != Allow {
			t.Errorf("%q is allowed, but ran %q, which is judged %s: %s", text, call, v.Decision, v.Reason)
		}
	}
}

func observed(text string) [][]arg {
	var seen [][]arg
	s := &sink{cfg: compile(corpusConfig), tool: "run_command", start: ".", observe: func(words []arg) { seen = append(seen, words) }}
	(&walker{sink: s, cwd: []string{"."}}).text(text, true)
	return seen
}

func anyMatches(seen [][]arg, call []string) bool {
	for _, words := range seen {
		if matches(words, call) {
			return true
		}
	}
	return false
}

// matches reports whether a call is what the expanded words say: a known word
// is itself, an unknown one is one word that begins as said, a pattern or a
// loose word is any number of words.
func matches(words []arg, call []string) bool {
	if len(words) == 0 {
		return len(call) == 0
	}
	w := words[0]
	if w.loose || w.glob {
		for i := range len(call) + 1 {
			if matches(words[1:], call[i:]) {
				return true
			}
		}
		return false
	}
	if w.vanish && matches(words[1:], call) {
		return true
	}
	if len(call) == 0 {
		return false
	}
	ok := strings.HasPrefix(call[0], w.val)
	if w.static {
		base, system := systemProgram(w.val)
		ok = call[0] == w.val || system && call[0] == base || w.val == "~" || strings.HasPrefix(w.val, "~/")
	} else if strings.HasPrefix(w.val, "~/") {
		ok = true
	}
	return ok && (matches(words[1:], call[1:]) || w.repeat && matches(words, call[1:]))
}

// runnable leaves out what names programs by an absolute path: those would not
// be stubs.
func runnable(text string) bool { return !strings.Contains(text, "/bin/") }

func TestBashRunsAllowedTextAsJudged(t *testing.T) {
	l := newLab(t)
	examples, _ := corpus(t)
	n := 0
	for _, e := range examples {
		if e.decision == Allow && runnable(e.command) {
			l.compare(t, e.command)
			n++
		}
	}
	if n < 150 {
		t.Errorf("only %d commands were compared", n)
	}
}

// TestBashRunsMutatedTextAsJudged glues pieces of harmless and hostile commands
// together at random; what comes out allowed is held against bash.
func TestBashRunsMutatedTextAsJudged(t *testing.T) {
	l := newLab(t)
	examples, _ := corpus(t)
	usable := func(text string) bool {
		return runnable(text) && !strings.ContainsAny(text, "~\n") && !strings.Contains(text, "/dev/") && !strings.Contains(text, "..") && !strings.Contains(text, "sleep")
	}
	var pieces, texts []string
	for _, e := range examples {
		if !usable(e.command) {
			continue
		}
		pieces = append(pieces, strings.Fields(e.command)...)
		if e.decision == Allow {
			texts = append(texts, e.command)
		}
	}
	glue := []string{" ", "", "; ", " && ", " | ", "\n", " $(", ") ", "'", "\"", "\\", " #", "{", "}", "`", " <<< ", "$x", "$y ", "*", "=", " & ", "$((", "))", "[[ ", " ]]",
		" 2>&1 ", "()", "!", "$'", "$\"", "<(", "<<x\n", "%", "#", "a[", "]", ",", "\\\n", "-", "@P}", "${", ":", ";;", "\t"}
	compared := 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 6 {
			text := rapid.SampledFrom(texts).Draw(rt, "text")
			for range rapid.IntRange(1, 4).Draw(rt, "n") {
				at := rapid.IntRange(0, len(text)).Draw(rt, "at")
				text = text[:at] + rapid.SampledFrom(glue).Draw(rt, "glue") + rapid.SampledFrom(append(glue, pieces...)).Draw(rt, "piece") + text[at:]
			}
			// Absolute paths could only be reached if the judgement were wrong.
			if !strings.Contains(text, "/bin") && Explain(corpusConfig, text).Decision == Allow {
				compared++
				l.compare(rt, text)
			}
		}
	})
	t.Logf("%d texts came out allowed", compared)
}

// TestBashEvaluatesVariablesAsJudged runs texts whose danger lies in values:
// whatever bash would evaluate there must not be allowed.
func TestBashEvaluatesVariablesAsJudged(t *testing.T) {
	l := newLab(t)
	values := []string{"'a[$(>PWNED)]'", "$(cat f)", "'1'", "\"$x\"", "$((2+1))", "$(wc -l < f)", "main.go", "\"$(head -1 f)\"", "'-o'", "*"}
	uses := []string{"echo $((v))", "echo $((v+1))", "[[ $v -eq 1 ]]", "(( v > 0 ))", "echo ${x:$v}", "echo ${x:v:1}", "echo ${!v}", "echo ${v@P}", "a[$v]=1", "a[v]=1",
		"echo ${a[$v]}", "echo ${a[v]}", "[[ -v $v ]]", "let y=v", "printf -v $v x", "read $v < f", "unset \"$v\"", "test -v $v", "sort $v", "sort \"$v\"", "grep $v f",
		"cat $v", "sed -n 1p $v", "eval $v", "bash -c \"$v\"", "bash -c 'echo $1' _ $v", "$v f", "ls > $v", "for ((i=v; i<2; i++)); do :; done", "declare -i n=$v",
		"export n=$v", "echo $v", "echo \"$v\"", "case $v in 1) ls;; esac", "[ $v -eq 1 ]", "[ \"$v\" = x ]", "printf \"$v\" f", "printf '%s' \"$v\"", "awk -v x=\"$v\" 1 f",
		"find . -name \"$v\"", "git log --author=\"$v\"", "head -n $v f", "echo $((10#$v))", "seq $v", "sleep $v"}
	for _, value := range values {
		for _, use := range uses {
			text := "v=" + value + "; " + use
			if Explain(corpusConfig, text).Decision == Allow {
				l.compare(t, text)
			}
		}
	}
}
