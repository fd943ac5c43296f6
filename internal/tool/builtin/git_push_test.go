package builtin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/builtin"
	"belay/internal/workspace/local"
)

// remoteWorld is a world in a git repository with a bare remote beside it. The
// remote counts what really reached it.
type remoteWorld struct {
	*world
	bare    string
	scratch string
}

func newRemoteWorld(t *testing.T, files map[string]string) *remoteWorld {
	t.Helper()
	w := newWorld(t, files)
	r := &remoteWorld{world: w, bare: filepath.Join(t.TempDir(), "origin.git"), scratch: t.TempDir()}
	// The person's own configuration, read as git does, and nothing of whoever
	// runs the tests.
	home := t.TempDir()
	w.env.BaseEnv = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=dumb"}
	w.reg = builtin.New(builtin.Config{Roots: []string{w.root}, Git: true, Scratch: r.scratch})
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "Ada")
	w.git("config", "user.email", "ada@example.com")
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", "base")
	r.remote("init", "-q", "--bare", "-b", "main", r.bare)
	w.git("remote", "add", "origin", r.bare)
	w.git("push", "-q", "origin", "main")
	// Each update of a branch that the remote takes is one line.
	hook := "#!/bin/sh\ncat >> '" + r.bare + ".log'\n"
	program(t, filepath.Join(r.bare, "hooks", "post-receive"), hook)
	return r
}

// remote runs git in the bare repository.
func (r *remoteWorld) remote(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	if args[0] != "init" {
		cmd.Dir = r.bare
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// updates are the updates of branches that the remote took.
func (r *remoteWorld) updates() []string {
	r.t.Helper()
	b, err := os.ReadFile(r.bare + ".log")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(b)), " ", ">"))
}

// print is every byte, mode, time and name of the user's .git.
func (r *remoteWorld) print() string {
	r.t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(filepath.Join(r.root, ".git"), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// Of an object that is met again git renews the time, which keeps it from
		// being pruned meanwhile.
		if d.IsDir() || !strings.Contains(p, "/objects/") {
			fmt.Fprintf(h, "%d ", info.ModTime().UnixNano())
		}
		fmt.Fprintf(h, "%s %v\n", p, info.Mode())
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			h.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// started is a push up to the instant at which its start is recorded.
type started struct {
	w    *remoteWorld
	tool tool.Prober
	call tool.Call
	tool.Prepared
}

func (r *remoteWorld) prepare(args obj) started {
	r.t.Helper()
	tl, c := r.call("git_push", args)
	p := tl.(tool.Prober)
	ready, err := p.Prepare(r.t.Context(), r.env, c)
	if err != nil {
		r.t.Fatalf("Prepare: %v", err)
	}
	c.Intent.Key = ready.Key
	return started{w: r, tool: p, call: c, Prepared: ready}
}

func (s started) run() (event.Outcome, event.Result, error) {
	return s.tool.Run(s.w.t.Context(), s.w.env, s.call)
}

func (s started) ok() event.Result {
	s.w.t.Helper()
	o, r, err := s.run()
	if err != nil || o != event.Succeeded {
		s.w.t.Fatalf("%s, %v, %v", o, r.Fault, err)
	}
	return r
}

func (s started) probe() tool.Finding {
	s.w.t.Helper()
	f, err := s.tool.Probe(s.w.t.Context(), s.w.env, s.call)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return f
}

// refusedPrepare is a push that is refused before it starts.
func (r *remoteWorld) refusedPrepare(kind fault.Kind, args obj, says string) {
	r.t.Helper()
	tl, c := r.call("git_push", args)
	_, err := tl.(tool.Prober).Prepare(r.t.Context(), r.env, c)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != kind || !strings.Contains(f.Error(), says) {
		r.t.Errorf("%v: %v, want %s with %q", args, err, kind, says)
	}
}

func TestAPushIsOneCommitOfThePresentFilesAndTouchesNothingOfTheUsers(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n", "gone": "x\n", "dir/b": "2\n", ".gitignore": "*.log\n", "run.sh": "#!/bin/sh\n"})
	w.put("a", "one\n")
	w.put("new", "n\n")
	w.put("debug.log", "secret\n")
	w.put("staged", "staged\n")
	w.git("add", "staged")
	w.git("stash", "list")
	for _, p := range []string{"gone", "dir/b"} {
		if err := os.Remove(filepath.Join(w.root, p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(w.root, "dir")); err != nil {
		t.Fatal(err)
	}
	w.put("dir", "a file now\n")
	if err := os.Chmod(filepath.Join(w.root, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(w.root, "link")); err != nil {
		t.Fatal(err)
	}
	before := w.print()
	s := w.prepare(obj{"branch": "fix/a", "message": "Fix a\n\nBecause it was 1."})
	for _, part := range []string{"new branch", "Fix a", "Belay-Operation: g/" + s.call.Op, "new", w.bare} {
		if !strings.Contains(s.Preview, part) {
			t.Errorf("the preview %q does not say %q", s.Preview, part)
		}
	}
	if strings.Contains(s.Preview, "debug.log") {
		t.Error("an ignored file goes along")
	}
	if s.Destructive || len(w.updates()) != 0 {
		t.Errorf("preparing it was %v, %v", s.Destructive, w.updates())
	}
	r := s.ok()
	w.says(result{Result: r}, "pushed commit "+w.remote("rev-parse", "fix/a"), "fix/a")
	if len(w.updates()) != 1 || !strings.Contains(r.Remote, "refs/heads/fix/a") {
		t.Errorf("%v, %q", w.updates(), r.Remote)
	}
	if w.print() != before {
		t.Error("the user's .git has changed")
	}
	want := ".gitignore a dir link new run.sh staged"
	if got := strings.Join(strings.Fields(w.remote("ls-tree", "-r", "--name-only", "fix/a")), " "); got != want {
		t.Errorf("the commit has %s, want %s", got, want)
	}
	for _, m := range []string{"100755 blob", "120000 blob"} {
		if !strings.Contains(w.remote("ls-tree", "-r", "fix/a"), m) {
			t.Errorf("no %s in the commit", m)
		}
	}
	if got := w.remote("show", "fix/a:link"); got != "/etc/passwd" {
		t.Errorf("the link became %q", got)
	}
	if got := w.remote("log", "-1", "--format=%P %an <%ae> %B", "fix/a"); !strings.HasPrefix(got, w.remote("rev-parse", "main")+" Ada <ada@example.com> Fix a") ||
		!strings.HasSuffix(got, "\n\nBelay-Operation: g/"+s.call.Op) {
		t.Errorf("the commit is %q", got)
	}
	left, err := os.ReadDir(w.scratch)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The worker dies between the push and its record: the next one asks the remote
// and pushes nothing.
func TestAPushThatWasNotRecordedIsFoundAndNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	s.ok()
	// What stands in the workspace now does not matter for what was done.
	w.put("a", "3\n")
	f := s.probe()
	if f.What != tool.FoundFinished || f.Outcome != event.Succeeded || !strings.Contains(f.Result.Output.Head, w.remote("rev-parse", "b")) {
		t.Errorf("%+v", f)
	}
	// And should it be run again all the same, nothing moves.
	s.ok()
	if len(w.updates()) != 1 {
		t.Errorf("the remote took %v", w.updates())
	}
	// Others build on it, or merge and remove it: it was done.
	w.remote("update-ref", "refs/heads/main", "b")
	w.remote("branch", "-D", "b")
	if f := s.probe(); f.What != tool.FoundFinished || !strings.Contains(f.Result.Output.Head, "refs/heads/main") {
		t.Errorf("merged and removed: %+v", f)
	}
	s.ok()
	if w.remote("for-each-ref", "--format=%(refname)") != "refs/heads/main" {
		t.Error("a branch that was merged and removed came back")
	}
}

// The worker dies before the push: it surely never happened, and the second
// attempt, with the same key, makes the same commit.
func TestAPushThatNeverHappenedIsMadeByTheNextAttemptAsTheSameCommit(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	if f := s.probe(); f.What != tool.FoundNever {
		t.Fatalf("%+v", f)
	}
	s.call.Attempt = 2
	s.ok()
	if got := w.remote("rev-parse", "b"); !strings.Contains(s.Key, "commit="+got+" ") {
		t.Errorf("the remote has %s, the key says %s", got, s.Key)
	}
	if len(w.updates()) != 1 {
		t.Errorf("%v", w.updates())
	}
}

func TestAnAttemptOfOtherContentThanPreparedPushesNothing(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	w.put("a", "3\n")
	o, r, err := s.run()
	if err != nil || o != event.Failed || r.Fault.Kind != fault.StaleEdit || len(w.updates()) != 0 {
		t.Errorf("%s, %v, %v, %v", o, r.Fault, err, w.updates())
	}
	// What a person approves is the content: it is another one now.
	again := w.prepare(obj{"branch": "b", "message": "m"})
	if strings.Join(again.Env, " ") == strings.Join(s.Env, " ") {
		t.Error("an approval of the old content would cover the new one")
	}
}

// The person's approval covers what is pushed, not the second at which it was
// computed.
func TestTheSamePushPreparedTwiceIsTheSameIntent(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	again, err := s.tool.Prepare(t.Context(), w.env, s.call)
	if err != nil || strings.Join(again.Env, "\n") != strings.Join(s.Env, "\n") {
		t.Errorf("%v and %v, %v", s.Env, again.Env, err)
	}
}

func TestARemoteThatIsGoneLeavesDoubtAndTakesNothing(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	if err := os.Rename(w.bare, w.bare+".away"); err != nil {
		t.Fatal(err)
	}
	if f := s.probe(); f.What != tool.FoundUnknown || !strings.Contains(f.Detail, "cannot be asked") {
		t.Errorf("%+v", f)
	}
	o, r, err := s.run()
	if err != nil || o != event.Failed || r.Fault.Kind != fault.Network {
		t.Errorf("%s %v %v", o, r.Fault, err)
	}
	w.refusedPrepare(fault.Network, obj{"branch": "c", "message": "m"}, "cannot be used")
	if err := os.Rename(w.bare+".away", w.bare); err != nil {
		t.Fatal(err)
	}
	if f := s.probe(); f.What != tool.FoundNever {
		t.Errorf("the remote is back: %+v", f)
	}
}

// foreign pushes a commit to a branch from another clone.
func (r *remoteWorld) foreign(branch, from, file string) string {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "clone")
	for _, c := range [][]string{{"clone", "-q", r.bare, dir}, {"-C", dir, "checkout", "-q", "-B", branch, from}} {
		if out, err := execute("git", c...); err != nil {
			r.t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte("theirs\n"), 0o644); err != nil {
		r.t.Fatal(err)
	}
	for _, c := range [][]string{{"add", "-A"}, {"-c", "user.name=B", "-c", "user.email=b@x", "commit", "-q", "-m", "theirs"}, {"push", "-q", "origin", branch}} {
		if out, err := execute("git", append([]string{"-C", dir}, c...)...); err != nil {
			r.t.Fatalf("%v: %s", err, out)
		}
	}
	return r.remote("rev-parse", branch)
}

func TestABranchThatSomebodyElseMovedIsNeverMovedBack(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	theirs := w.foreign("b", "origin/main", "theirs")
	o, r, err := s.run()
	if err != nil || o != event.Failed || r.Fault.Kind != fault.StaleEdit || w.remote("rev-parse", "b") != theirs {
		t.Errorf("%s %v %v", o, r.Fault, err)
	}
	if f := s.probe(); f.What != tool.FoundUnknown || !strings.Contains(f.Detail, "somebody else") {
		t.Errorf("%+v", f)
	}
	w.refusedPrepare(fault.AlreadyExists, obj{"branch": "b", "message": "m"}, "nothing is ever overwritten")

	// Somebody builds on what was pushed: it was done, and their work stays.
	s = w.prepare(obj{"branch": "c", "message": "m"})
	s.ok()
	theirs = w.foreign("c", "origin/c", "theirs")
	if f := s.probe(); f.What != tool.FoundFinished || f.Outcome != event.Succeeded {
		t.Errorf("%+v", f)
	}
	w.put("a", "3\n")
	w.refusedPrepare(fault.AlreadyExists, obj{"branch": "c", "message": "m"}, "nor pushed by this goal")
	if w.remote("rev-parse", "c") != theirs {
		t.Error("their commit is gone")
	}
}

// Between the look of an attempt and its push there is a gap, and the remote
// itself closes it: here its own hook moves the branch in that instant.
func TestARaceAtTheRemoteIsLostWithoutHarm(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	hook := "#!/bin/sh\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\ngit update-ref refs/heads/b refs/heads/main\n"
	program(t, filepath.Join(w.bare, "hooks", "pre-receive"), hook)
	o, r, err := s.run()
	if err != nil || o != event.Failed || w.remote("rev-parse", "b") != w.remote("rev-parse", "main") {
		t.Errorf("%s %v %v", o, r.Fault, err)
	}
}

func TestARemoteThatRefusesIsAFailureInItsOwnWords(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	hook := "#!/bin/sh\necho 'no commits on fridays' >&2\nexit 1\n"
	program(t, filepath.Join(w.bare, "hooks", "pre-receive"), hook)
	s := w.prepare(obj{"branch": "b", "message": "m"})
	o, r, err := s.run()
	if err != nil || o != event.Failed || r.Fault.Kind != fault.Refused || !strings.Contains(r.Fault.Message, "fridays") {
		t.Errorf("%s %v %v", o, r.Fault, err)
	}
	if f := s.probe(); f.What != tool.FoundNever {
		t.Errorf("%+v", f)
	}
}

// The remote takes the push and the connection breaks before it says so.
func TestAPushWithoutAnAnswerIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{true, false} {
		w := newRemoteWorld(t, map[string]string{"a": "1\n"})
		w.put("a", "2\n")
		s := w.prepare(obj{"branch": "b", "message": "m"})
		hook := "post-receive"
		if !taken {
			hook = "pre-receive"
		}
		// The hook kills the process that would answer.
		program(t, filepath.Join(w.bare, "hooks", hook), "#!/bin/sh\nkill -9 $PPID\n")
		o, r, err := s.run()
		if taken && (err != nil || o != event.Succeeded) {
			t.Errorf("taken: %s %v %v", o, r.Fault, err)
		}
		var f *fault.Fault
		if !taken && (err == nil || errors.As(err, &f)) {
			t.Errorf("cut off before: %s %v %v; it must be in doubt", o, r.Fault, err)
		}
	}
}

func TestTheDefaultAndTheCheckedOutBranchNeedTheUsersWord(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.git("checkout", "-q", "-b", "mine")
	w.put("a", "2\n")
	w.refusedPrepare(fault.PolicyDenied, obj{"branch": "main", "message": "m"}, "default branch")
	w.refusedPrepare(fault.PolicyDenied, obj{"branch": "mine", "message": "m"}, "checked out")
	w.prepare(obj{"branch": "main", "message": "m", "allow_default": true}).ok()
	if got := w.remote("show", "main:a"); got != "2" {
		t.Errorf("main has %q", got)
	}
}

func TestASecondPushOfTheGoalStandsOnItsFirst(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n", "b": "1\n"})
	w.put("a", "2\n")
	w.prepare(obj{"branch": "x", "message": "first"}).ok()
	first := w.remote("rev-parse", "x")
	w.refusedPrepare(fault.AlreadyExists, obj{"branch": "x", "message": "again"}, "exactly this content")
	w.put("b", "2\n")
	w.prepare(obj{"branch": "x", "message": "second"}).ok()
	if got := w.remote("rev-parse", "x^"); got != first || len(w.updates()) != 2 {
		t.Errorf("it stands on %s, not %s; %v", got, first, w.updates())
	}
}

// What the user or a command committed is pushed as it is.
func TestWhereNothingDiffersFromHEADItIsHEADThatIsPushed(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	w.git("commit", "-q", "-a", "-m", "by hand")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	if !strings.Contains(s.Preview, "no commit is made") {
		t.Errorf("%q", s.Preview)
	}
	s.ok()
	head, err := execute("git", "-C", w.root, "rev-parse", "HEAD")
	if err != nil || w.remote("rev-parse", "b") != strings.TrimSpace(head) {
		t.Errorf("%v", err)
	}
	// The commit is at the remote under another name, and yet this push never
	// happened.
	c := w.prepare(obj{"branch": "c", "message": "m"})
	if f := c.probe(); f.What != tool.FoundNever {
		t.Errorf("%+v", f)
	}
}

func TestPathsLimitWhatIsCommitted(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n", "src/b": "1\n", "src/c": "1\n"})
	for _, p := range []string{"a", "src/b", "src/new", "other"} {
		w.put(p, "2\n")
	}
	if err := os.Remove(filepath.Join(w.root, "src/c")); err != nil {
		t.Fatal(err)
	}
	s := w.prepare(obj{"branch": "b", "message": "m", "paths": []string{"src"}})
	s.ok()
	if got := strings.Join(strings.Fields(w.remote("ls-tree", "-r", "--name-only", "b")), " "); got != "a src/b src/new" {
		t.Errorf("%s", got)
	}
	if w.remote("show", "b:a") != "1" || w.remote("show", "b:src/b") != "2" {
		t.Error("the wrong contents went along")
	}
}

// A repository's filters are programs: none of them runs, and a file that needs
// one is named. Line endings are converted as git does it.
func TestNoProgramOfTheRepositoryRunsAndTheCommitHasItsNormalForm(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"big.bin": "pointer\n", "crlf.txt": "a\r\nb\r\n", ".gitattributes": "*.bin filter=big\n*.txt text eol=crlf\n"})
	mark := filepath.Join(t.TempDir(), "ran")
	evil := "touch '" + mark + "'; cat"
	for _, kv := range [][2]string{{"filter.big.clean", evil}, {"filter.big.smudge", evil}, {"core.fsmonitor", "touch '" + mark + "'"},
		{"core.pager", evil}, {"diff.external", "touch '" + mark + "'"}} {
		w.git("config", kv[0], kv[1])
	}
	for _, h := range []string{"pre-push", "pre-commit", "commit-msg", "reference-transaction", "post-index-change"} {
		p := filepath.Join(w.root, ".git", "hooks", h)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		program(t, p, "#!/bin/sh\ntouch '"+mark+"'\n")
	}
	w.put("crlf.txt", "a\r\nB\r\n")
	before := w.print()
	s := w.prepare(obj{"branch": "b", "message": "m"})
	s.ok()
	if got := w.remote("diff-tree", "--no-commit-id", "--numstat", "-r", "b"); got != "1\t1\tcrlf.txt" {
		t.Errorf("the commit changes %q", got)
	}
	if cmd, err := exec.Command("git", "-C", w.bare, "cat-file", "blob", "b:crlf.txt").Output(); err != nil || !bytes.Equal(cmd, []byte("a\nB\n")) {
		t.Errorf("%q %v", cmd, err)
	}
	w.put("big.bin", "content\n")
	w.refusedPrepare(fault.Protected, obj{"branch": "c", "message": "m"}, "big.bin")
	w.prepare(obj{"branch": "c", "message": "m", "paths": []string{"crlf.txt"}}).ok()
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
	if w.print() != before {
		t.Error("the user's .git has changed")
	}
}

// A change made in the second in which the index was written has the stamp of
// an unchanged file.
func TestAChangeInTheInstantOfTheIndexIsSeen(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	index := filepath.Join(w.root, ".git", "index")
	info, err := os.Stat(index)
	if err != nil {
		t.Fatal(err)
	}
	w.put("a", "2\n") // the same size
	for _, p := range []string{filepath.Join(w.root, "a"), index} {
		if err := os.Chtimes(p, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	w.prepare(obj{"branch": "b", "message": "m"}).ok()
	if got := w.remote("show", "b:a"); got != "2" {
		t.Errorf("the commit has %q", got)
	}
}

// Every layout that a workspace may have.
func TestPushesFromEveryLayout(t *testing.T) {
	t.Parallel()
	for name, lay := range map[string]func(t *testing.T, w *remoteWorld) string{
		"a folder of the repository": func(_ *testing.T, w *remoteWorld) string { return filepath.Join(w.root, "src") },
		"a linked worktree": func(t *testing.T, w *remoteWorld) string {
			dir := filepath.Join(t.TempDir(), "wt")
			w.git("worktree", "add", "-q", "-b", "wt", dir)
			return dir
		},
		"a shallow clone": func(t *testing.T, w *remoteWorld) string {
			w.put("a", "second\n")
			w.git("commit", "-q", "-a", "-m", "second")
			w.git("push", "-q", "origin", "main")
			dir := filepath.Join(t.TempDir(), "shallow")
			w.git("clone", "-q", "--depth=1", "file://"+w.bare, dir)
			return dir
		},
		"before the first commit": func(t *testing.T, w *remoteWorld) string {
			dir := t.TempDir()
			w.git("init", "-q", "-b", "trunk", dir)
			w.git("-C", dir, "remote", "add", "origin", w.bare)
			return dir
		},
		"a split index": func(_ *testing.T, w *remoteWorld) string {
			w.git("update-index", "--split-index")
			return w.root
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRemoteWorld(t, map[string]string{"a": "1\n", "src/b": "1\n"})
			root, err := filepath.EvalSymlinks(lay(t, w))
			if err != nil {
				t.Fatal(err)
			}
			in := openAt(t, w, root)
			in.put("new", "2\n")
			w.put("outside", "not below the root\n")
			s := in.prepare(obj{"branch": "b", "message": "m"})
			s.ok()
			names := " " + strings.Join(strings.Fields(w.remote("ls-tree", "-r", "--name-only", "b")), " ") + " "
			if !strings.Contains(names, "new ") || root != w.root && strings.Contains(names, "outside") {
				t.Errorf("the commit has%s", names)
			}
			if f := s.probe(); f.What != tool.FoundFinished {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestNestedRepositoriesStayOutOfTheCommit(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.git("init", "-q", filepath.Join(w.root, "nested"))
	w.put("nested/file", "x\n")
	w.put("a", "2\n")
	w.prepare(obj{"branch": "b", "message": "m"}).ok()
	if got := w.remote("ls-tree", "-r", "--name-only", "b"); got != "a" {
		t.Errorf("%s", got)
	}
}

func TestRemotesThatCanNotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	mark := filepath.Join(t.TempDir(), "ran")
	w.git("remote", "add", "two", w.bare)
	w.git("remote", "set-url", "--add", "--push", "two", w.bare)
	w.git("remote", "set-url", "--add", "--push", "two", w.bare+"2")
	w.git("remote", "add", "evil", "ext::touch "+mark)
	w.refusedPrepare(fault.NotFound, obj{"branch": "b", "message": "m", "remote": "nowhere"}, "it has")
	w.refusedPrepare(fault.Ambiguous, obj{"branch": "b", "message": "m", "remote": "two"}, "2 addresses")
	w.refusedPrepare(fault.Network, obj{"branch": "b", "message": "m", "remote": "evil"}, "not allowed")
	if _, err := os.Stat(mark); err == nil {
		t.Error("the address of a remote was run as a program")
	}
	// A password in an address reaches neither the model nor the ledger.
	w.git("remote", "add", "secret", "http://user:hunter2@127.0.0.1:1/x.git")
	tl, c := w.call("git_push", obj{"branch": "b", "message": "m", "remote": "secret"})
	_, err := tl.(tool.Prober).Prepare(t.Context(), w.env, c)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
}

func TestAClosedPlanGateClosesThePush(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	w.env.ReadOnly = true
	if o, r, err := s.run(); err != nil || o != event.Failed || r.Fault.Kind != fault.PlanGate || len(w.updates()) != 0 {
		t.Errorf("%s %v %v", o, r.Fault, err)
	}
}

func TestAnInterruptedPushHasNoOutcome(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t, map[string]string{"a": "1\n"})
	w.put("a", "2\n")
	s := w.prepare(obj{"branch": "b", "message": "m"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, _, err := s.tool.Run(ctx, w.env, s.call); !errors.Is(err, context.Canceled) || o != "" {
		t.Errorf("%s, %v", o, err)
	}
}

func TestCheckOperationSaysInPlainWordsWhatIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, c := range []struct {
		name    string
		found   tool.Finding
		says    string
		settles event.Outcome
	}{
		{"it is done", tool.Finding{What: tool.FoundFinished, Outcome: event.Succeeded, Result: event.Result{Output: event.Text{Head: "pushed"}}}, "has ended: succeeded", event.Succeeded},
		{"it ended badly", tool.Finding{What: tool.FoundFinished, Outcome: event.Failed, Result: event.Result{Output: event.Text{Head: "exit code 3"}}}, "exit code 3", event.Failed},
		{"it was stopped", tool.Finding{What: tool.FoundFinished, Outcome: event.Cancelled}, "has ended: cancelled", event.Failed},
		{"it never happened", tool.Finding{What: tool.FoundNever}, "did not happen", event.Failed},
		{"nobody knows", tool.Finding{What: tool.FoundUnknown, Detail: "the remote is away"}, "still in doubt: the remote is away", ""},
	} {
		w.env.Look = func(_ context.Context, op string) (tool.Finding, error) {
			if op != "op7" {
				t.Errorf("it looks at %s", op)
			}
			return c.found, nil
		}
		r := w.ok("check_operation", obj{"op": "op7"})
		w.says(r, c.says)
		if got := r.Reconciles; (got != nil) != (c.settles != "") || got != nil && (got.Outcome != c.settles || got.Op != "op7" || got.Reason == "") {
			t.Errorf("%s: settles %+v", c.name, got)
		}
	}
	w.env.Look = func(context.Context, string) (tool.Finding, error) {
		return tool.Finding{}, fault.New(fault.NotFound, fault.Model, "op7 is not in doubt", "")
	}
	w.refused(fault.NotFound, "check_operation", obj{"op": "op7"}, "not in doubt")
}

// openAt opens another directory as the workspace, with the same remote.
func openAt(t *testing.T, w *remoteWorld, root string) *remoteWorld {
	t.Helper()
	if root == w.root {
		return w
	}
	ws, err := local.Open(t.Context(), root, local.Options{State: t.TempDir(), Goal: "g"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	in := *w.world
	in.root, in.env.Workspace = root, ws
	in.reg = builtin.New(builtin.Config{Roots: []string{root}, Git: true, Scratch: w.scratch})
	return &remoteWorld{world: &in, bare: w.bare, scratch: w.scratch}
}

// program writes a file that is to be run. No process is started meanwhile: it
// would inherit the open file, and what has it open for writing makes it busy.
func program(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
