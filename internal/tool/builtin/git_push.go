package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/tool"
	"belay/internal/tool/args"
	"belay/internal/tool/push"
)

const defaultRemote = "origin"

// pushTime bounds one attempt.
const pushTime = 2 * time.Minute

var gitPushDef = &definition{
	name:   "git_push",
	effect: event.Keyed,
	doc:    "Commit the present files onto HEAD and push that to a branch of a remote. HEAD, index and branches here stay as they are. Never forces.",
	args: args.Object{Ignored: chatter, Fields: []args.Field{
		{Name: "branch", Required: true, Doc: "branch on the remote, made if missing"},
		{Name: "message", Required: true, Aliases: []string{"commit_message", "msg"}},
		{Name: "remote", Default: defaultRemote, Doc: "default origin"},
		{Name: "paths", Type: args.Strings, Aliases: []string{"files"}, Doc: "only these files or folders; default all not ignored"},
		{Name: "allow_default", Type: args.Boolean, Default: false, Doc: "the user asked for a push to the default or checked out branch"},
	}},
}

// gitPush pushes the workspace's content. Which commit, and from which state of
// the branch, is recorded as its key; the remote is asked for that commit.
type gitPush struct{ base }

// remoteName is the name of a configured remote: no address, no option.
var remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`)

// Describe implements tool.Tool.
func (t gitPush) Describe(raw json.RawMessage) (json.RawMessage, event.Access, error) {
	v, err := t.parse(raw)
	if err != nil {
		return nil, event.Access{}, err
	}
	branch := strings.TrimPrefix(strings.TrimSpace(v.String("branch")), "refs/heads/")
	if why := badBranch(branch); why != "" {
		return nil, event.Access{}, args.Invalid(t.def.name, "branch", why)
	}
	v["branch"] = branch
	if r := remoteOf(v); !remoteName.MatchString(r) {
		return nil, event.Access{}, args.Invalid(t.def.name, "remote", "it is no name of a remote; expected the name of one that is configured, like origin")
	}
	if strings.TrimSpace(v.String("message")) == "" {
		return nil, event.Access{}, args.Invalid(t.def.name, "message", "it is blank; expected the commit's message")
	}
	a := event.Access{Remote: "branch " + branch + " of " + remoteOf(v)}
	if paths := v.Strings("paths"); len(paths) > 0 {
		if a.Reads, err = t.cleanAll(paths); err != nil {
			return nil, event.Access{}, err
		}
		// The root among the paths is everything.
		if delete(v, "paths"); len(a.Reads) > 0 {
			v["paths"] = a.Reads
		}
	}
	n, err := v.JSON()
	return n, a, err
}

func remoteOf(v args.Values) string {
	if r := v.String("remote"); r != "" {
		return r
	}
	return defaultRemote
}

// cleanAll cleans paths, sorted and each once; nil when the root is among them.
func (t gitPush) cleanAll(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		if artifactOf(p) != "" {
			return nil, args.Invalid(t.def.name, "paths", "stored output is no file of the workspace; expected files or folders")
		}
		c, err := t.clean(p)
		if err != nil {
			return nil, err
		}
		if c == "." {
			return nil, nil
		}
		out = append(out, c)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// badBranch says why git would not take a name for a branch, or "".
func badBranch(b string) string {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\", r) }
	switch {
	case b == "" || b == "HEAD" || b == "@" || strings.HasPrefix(b, "refs/"):
		return "it is no name of a branch; expected one like fix/login"
	case strings.ContainsFunc(b, bad) || strings.Contains(b, "..") || strings.Contains(b, "@{") || strings.Contains(b, "//"):
		return "git does not take this as a branch's name (no blanks, no ~^:?*[\\, no .., no @{, no //)"
	case strings.HasPrefix(b, "-") || strings.HasPrefix(b, "/") || strings.HasSuffix(b, "/") || strings.HasSuffix(b, "."):
		return "git does not take this as a branch's name (no - or / in front, no / or . at the end)"
	}
	for _, part := range strings.Split(b, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return "git does not take this as a branch's name (no part that begins with . or ends with .lock)"
		}
	}
	return ""
}

// open reads the arguments of one attempt and opens the repository.
func (t gitPush) open(ctx context.Context, env tool.Env, call tool.Call) (*push.Session, error) {
	v, err := t.parse(call.Args)
	if err != nil {
		return nil, err
	}
	scratch := t.config.Scratch
	if scratch == "" {
		scratch = os.TempDir()
	}
	return push.Open(ctx, push.Request{Root: env.Workspace.Root(), Scratch: scratch, Name: call.Goal + "/" + call.Op, Env: env.BaseEnv,
		Remote: remoteOf(v), Branch: v.String("branch"), Message: v.String("message"), Paths: v.Strings("paths"),
		Files: env.Workspace.Files, AllowDefault: v.Bool("allow_default")})
}

// Prepare implements tool.Preparer. What identifies the push is the address,
// the state of the branch and the content; the commit's date is not part of
// what a person approves.
func (t gitPush) Prepare(ctx context.Context, env tool.Env, call tool.Call) (tool.Prepared, error) {
	if err := gate(env); err != nil {
		return tool.Prepared{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	s, err := t.open(ctx, env, call)
	if err != nil {
		return tool.Prepared{}, err
	}
	defer s.Close()
	p, err := s.Plan(ctx, time.Now())
	if err != nil {
		return tool.Prepared{}, err
	}
	return tool.Prepared{Preview: p.Preview, Timeout: pushTime, Key: p.Intent.String(),
		Env: []string{"from=" + p.From, "parent=" + p.Parent, "tree=" + p.Tree, "url=" + s.URL()}}, nil
}

// Run implements tool.Runner. An error that is no fault says that the remote
// may have taken the push.
func (t gitPush) Run(ctx context.Context, env tool.Env, call tool.Call) (event.Outcome, event.Result, error) {
	if err := gate(env); err != nil {
		return failed(ctx, err)
	}
	i, err := push.ParseIntent(call.Intent.Key)
	if err != nil {
		return failed(ctx, err)
	}
	limit := pushTime
	if call.TimeoutMS > 0 {
		limit = min(limit, time.Duration(call.TimeoutMS)*time.Millisecond)
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := t.open(timed, env, call)
	if err != nil {
		return failed(ctx, err)
	}
	defer s.Close()
	sent, err := s.Send(timed, i)
	var f *fault.Fault
	if errors.As(err, &f) {
		return failed(ctx, err)
	}
	if err != nil {
		return "", event.Result{}, err
	}
	return event.Succeeded, pushed(s, i, sent.Words), nil
}

func pushed(s *push.Session, i push.Intent, words string) event.Result {
	text := "pushed commit " + i.Commit + " to branch " + s.Branch + " of " + s.Remote + " (" + s.URL() + ")"
	if words != "" {
		text += "\n" + words
	}
	return event.Result{Output: event.Text{Head: text}, Remote: s.URL() + " refs/heads/" + s.Branch + " " + i.Commit}
}

// Probe implements tool.Prober.
func (t gitPush) Probe(ctx context.Context, env tool.Env, call tool.Call) (tool.Finding, error) {
	i, err := push.ParseIntent(call.Intent.Key)
	if err != nil {
		return tool.Finding{}, err
	}
	timed, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	s, err := t.open(timed, env, call)
	if err != nil {
		return tool.Finding{}, err
	}
	defer s.Close()
	at, err := s.Look(timed, i)
	switch {
	case err != nil:
		return tool.Finding{}, err
	case at.There:
		return tool.Finding{What: tool.FoundFinished, Outcome: event.Succeeded, Result: pushed(s, i, at.Words)}, nil
	case at.AsBefore:
		return tool.Finding{What: tool.FoundNever}, nil
	}
	return tool.Finding{What: tool.FoundUnknown, Detail: at.Words}, nil
}
