package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"belay/internal/failpoint"
	"belay/internal/fault"
)

// Intent is what identifies a push from outside: it is recorded before the
// attempt, and each attempt and each look is made with it.
type Intent struct {
	Name   string // goal/op
	Commit string
	// From is the branch's commit before, "" for a branch that is not there.
	From string
	// Date is the commit's, in seconds; 0 where no commit is made because HEAD
	// itself is pushed.
	Date int64
}

const none = "none"

// String is the form in which an intent is recorded.
func (i Intent) String() string {
	from := i.From
	if from == "" {
		from = none
	}
	return fmt.Sprintf("%s commit=%s from=%s date=%d", i.Name, i.Commit, from, i.Date)
}

// ParseIntent reads the recorded form.
func ParseIntent(s string) (Intent, error) {
	f := strings.Split(s, " ")
	if len(f) == 4 {
		commit, a := strings.CutPrefix(f[1], "commit=")
		from, b := strings.CutPrefix(f[2], "from=")
		date, c := strings.CutPrefix(f[3], "date=")
		n, err := strconv.ParseInt(date, 10, 64)
		if a && b && c && err == nil && f[0] != "" && commit != "" {
			if from == none {
				from = ""
			}
			return Intent{Name: f[0], Commit: commit, From: from, Date: n}, nil
		}
	}
	return Intent{}, fmt.Errorf("push: %q is no recorded push", s)
}

// Plan is what a push would do now.
type Plan struct {
	Intent
	Tree, Parent string
	// Preview says it to a person.
	Preview string
}

// online is a run that reaches the remote.
func (s *Session) online(args ...string) call {
	c := call{dir: s.top, gitDir: s.dir, remote: true, args: args}
	ssh := s.config["core.sshcommand"]
	for _, kv := range s.git.online {
		if v, ok := strings.CutPrefix(kv, "GIT_SSH_COMMAND="); ok {
			ssh = v
		}
	}
	if ssh == "" {
		ssh = "ssh"
	}
	// Another program than OpenSSH keeps its own way of never asking.
	if first, _, _ := strings.Cut(ssh, " "); path.Base(first) == "ssh" {
		c.env = []string{"GIT_SSH_COMMAND=" + ssh + " -oBatchMode=yes"}
	}
	return c
}

// said is an error of a run that reached for the remote, without credentials.
func (s *Session) said(err error) string {
	var g *gitError
	if errors.As(err, &g) {
		return strings.ReplaceAll(g.text, s.url, s.URL())
	}
	return err.Error()
}

// unreachable is the fault of a remote that could not be asked: nothing was
// pushed.
func (s *Session) unreachable(err error) error {
	var f *fault.Fault
	switch {
	case errors.As(err, &f), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.TimedOut, fault.Environment, "the remote "+s.Remote+" ("+s.URL()+") did not answer in time; nothing was pushed", "try again later")
	}
	return fault.New(fault.Network, fault.Environment, fmt.Sprintf("the remote %s (%s) cannot be used: %s", s.Remote, s.URL(), s.said(err)),
		"check that it is there and that git can reach it without asking for a password")
}

// refs are what a remote has: commit ids by full name, and its default branch.
type refs struct {
	ids map[string]string
	def string
}

func (s *Session) list(ctx context.Context, patterns ...string) (refs, error) {
	r := refs{ids: map[string]string{}}
	out, err := s.git.run(ctx, s.online(append([]string{"ls-remote", "--symref", "--", s.url}, patterns...)...))
	if err != nil {
		return r, err
	}
	for l := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimRight(l, "\n"), "\t")
		if to, sym := strings.CutPrefix(id, "ref: "); ok && sym {
			if name == "HEAD" {
				r.def = strings.TrimPrefix(to, "refs/heads/")
			}
			continue
		}
		if ok {
			r.ids[name] = id
		}
	}
	return r, nil
}

func (s *Session) ref() string { return "refs/heads/" + s.Branch }

// fetch brings the branch as the remote has it into the private git directory.
func (s *Session) fetch(ctx context.Context, tip string) error {
	if ok, err := s.has(ctx, tip); ok || err != nil {
		return err
	}
	_, err := s.git.run(ctx, s.online("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", s.url, "+"+s.ref()+":refs/belay/tip"))
	if err != nil {
		return s.unreachable(err)
	}
	ok, err := s.has(ctx, tip)
	if err == nil && !ok {
		return fault.New(fault.StaleEdit, fault.Environment, "the branch "+s.Branch+" of "+s.Remote+" moves just now", "try again")
	}
	return err
}

// Plan computes what would be pushed now and changes nothing anywhere. Errors
// are faults.
func (s *Session) Plan(ctx context.Context, now time.Time) (Plan, error) {
	r, err := s.list(ctx, "HEAD", s.ref())
	if err != nil {
		return Plan{}, s.unreachable(err)
	}
	if !s.AllowDefault {
		which := ""
		switch s.Branch {
		case r.def:
			which = "the default branch of " + s.Remote
		case s.at:
			which = "the branch that is checked out"
		}
		if which != "" {
			return Plan{}, fault.New(fault.PolicyDenied, fault.Model, s.Branch+" is "+which, "push to a branch of its own; only when the user asked for exactly this, set allow_default")
		}
	}
	p := Plan{Intent: Intent{Name: s.Name, From: r.ids[s.ref()], Date: now.Unix()}}
	if err := s.make(ctx, &p); err != nil {
		return Plan{}, unsent(err)
	}
	switch {
	case p.Commit == "":
		return Plan{}, fault.New(fault.NotFound, fault.Model, "there is nothing to push: no commit and no file", "")
	case p.Commit == p.From:
		return Plan{}, fault.New(fault.AlreadyExists, fault.Model, fmt.Sprintf("the branch %s of %s has exactly this content already (commit %s)", s.Branch, s.Remote, short(p.From)), "there is nothing to push")
	}
	p.Preview, err = s.preview(ctx, p, r)
	return p, unsent(err)
}

// make fills in parent, tree and commit from the state that the branch was
// found in.
func (s *Session) make(ctx context.Context, p *Plan) error {
	parent, err := s.parent(ctx, p.From)
	if err != nil {
		return err
	}
	if err := s.present(ctx); err != nil {
		return err
	}
	p.Parent = parent
	if p.Commit, p.Tree, err = s.commit(ctx, parent, p.Date); p.Commit == parent {
		p.Date = 0
	}
	return err
}

// parent is the commit that the new one stands on: HEAD, or the branch's own
// tip where everything beyond HEAD was pushed by this goal before. Commits of
// others are never built upon: the present content would take back what they
// changed.
func (s *Session) parent(ctx context.Context, tip string) (string, error) {
	if tip == "" || tip == s.head {
		return s.head, nil
	}
	if err := s.fetch(ctx, tip); err != nil {
		return "", err
	}
	if s.head != "" {
		if ok, err := s.within(ctx, tip, s.head); ok || err != nil {
			return s.head, err
		}
	}
	ahead := s.head == ""
	if !ahead {
		var err error
		if ahead, err = s.within(ctx, s.head, tip); err != nil {
			return "", err
		}
	}
	if ahead {
		if mine, err := s.ours(ctx, s.head, tip); mine || err != nil {
			return tip, err
		}
	}
	return "", fault.New(fault.AlreadyExists, fault.Model, fmt.Sprintf("the branch %s of %s has commits that are neither in HEAD nor pushed by this goal (it stands at %s); nothing is ever overwritten", s.Branch, s.Remote, short(tip)),
		"push to a new branch name, or ask the user")
}

func short(id string) string { return id[:min(len(id), 12)] }

const previewLines = 60

func (s *Session) preview(ctx context.Context, p Plan, r refs) (string, error) {
	var b strings.Builder
	what := "new branch"
	if p.From != "" {
		what = "update from " + short(p.From)
	}
	fmt.Fprintf(&b, "push to %s (%s)\nbranch %s (%s)\n", s.Remote, s.URL(), s.Branch, what)
	if p.Commit == p.Parent {
		fmt.Fprintf(&b, "commit %s, which exists: nothing differs from it, so no commit is made and the message is not used\n", short(p.Commit))
	} else {
		fmt.Fprintf(&b, "commit %s on %s\n\n%s\n", short(p.Commit), orNone(short(p.Parent)), indent(message(s.Message, s.Name)))
		c := s.inside("diff-tree", "--root", "--no-commit-id", "-r", "--stat=100", "--stat-count="+strconv.Itoa(previewLines),
			"--no-renames", "--no-ext-diff", "--no-textconv", p.Commit)
		stat, err := s.git.line(ctx, c)
		if err != nil {
			return "", err
		}
		b.WriteString(stat + "\n")
	}
	// Commits that the remote may not have yet go along, whoever made them.
	base := p.From
	if base == "" {
		base = r.ids["HEAD"]
	}
	span := []string{p.Commit}
	if base != "" {
		if ok, err := s.has(ctx, base); err != nil || !ok {
			return b.String(), err
		}
		span = append(span, "^"+base)
	}
	c := s.inside(append([]string{"log", "--no-decorate", "--max-count=" + strconv.Itoa(previewLines), "--format=%h %an: %s"}, span...)...)
	commits, err := s.git.line(ctx, c)
	if err == nil && strings.Count(commits, "\n") > 0 {
		fmt.Fprintf(&b, "\nall commits that go along:\n%s\n", indent(commits))
	}
	return b.String(), err
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// Sent is a push that the remote has taken.
type Sent struct {
	// Words are what the remote said.
	Words string
}

// lookTime bounds the look after a push without an answer.
const lookTime = 30 * time.Second

// Send pushes what was planned. A fault says that nothing was pushed; any other
// error that it is not known.
func (s *Session) Send(ctx context.Context, i Intent) (Sent, error) {
	at, err := s.Look(ctx, i)
	switch {
	case err != nil:
		return Sent{}, unsent(err)
	case at.Unreachable:
		return Sent{}, fault.New(fault.Network, fault.Environment, at.Words, "try again later")
	case at.There:
		return Sent{Words: at.Words}, nil
	case !at.AsBefore:
		return Sent{}, fault.New(fault.StaleEdit, fault.Environment, at.Words+"; nothing was pushed", "look at what is there now, then propose the push again or choose another branch")
	}
	p := Plan{Intent: i}
	if err := s.make(ctx, &p); err != nil {
		return Sent{}, unsent(err)
	}
	if p.Commit != i.Commit {
		return Sent{}, fault.New(fault.StaleEdit, fault.Environment, fmt.Sprintf("the workspace or its HEAD has changed since the push was prepared (it would now be %s, not %s); nothing was pushed", short(p.Commit), short(i.Commit)),
			"propose the push again")
	}
	failpoint.Hit(failpoint.PushBuilt)
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		"--force-with-lease=" + s.ref() + ":" + i.From, "--", s.url, i.Commit + ":" + s.ref()}
	// The rehearsal meets everything but the transfer itself: what it fails on
	// has surely not happened.
	rehearsal := append([]string{"push", "--dry-run"}, args[1:]...)
	if out, err := s.pushed(ctx, rehearsal); err != nil {
		if why := refusal(out); why != "" {
			return Sent{}, s.refused(why, "")
		}
		return Sent{}, s.unreachable(err)
	}
	failpoint.Hit(failpoint.PushRehearsed)
	out, err := s.pushed(ctx, args)
	failpoint.Hit(failpoint.PushSent)
	if err == nil {
		return Sent{Words: strings.ReplaceAll(remoteWords(out), s.url, s.URL())}, nil
	}
	if why := refusal(out); why != "" {
		return Sent{}, s.refused(why, s.said(err))
	}
	// No answer: ask the remote, also when the time for the attempt is over.
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	if at, lerr := s.Look(look, i); lerr == nil && at.There {
		return Sent{Words: at.Words}, nil
	}
	return Sent{}, fmt.Errorf("the push to %s of %s (%s) ended without an answer of the remote: %s", s.Branch, s.Remote, s.URL(), s.said(err))
}

func (s *Session) pushed(ctx context.Context, args []string) (string, error) {
	c := s.online(args...)
	c.merged = true
	out, err := s.git.run(ctx, c)
	return string(out), err
}

// refusal reads git's machine-readable report for an update that was surely not
// made, by git itself or by the remote.
func refusal(out string) string {
	for l := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(l, "\n"), "\t", 3)
		if len(f) == 3 && f[0] == "!" && (strings.HasPrefix(f[2], "[rejected]") || strings.HasPrefix(f[2], "[remote rejected]")) {
			return f[2]
		}
	}
	return ""
}

// remoteWords are the lines that the remote itself said.
func remoteWords(out string) string {
	var keep []string
	for l := range strings.Lines(words(out)) {
		if strings.HasPrefix(l, "remote:") {
			keep = append(keep, strings.TrimSpace(l))
		}
	}
	return strings.Join(keep, "\n")
}

func (s *Session) refused(why, more string) error {
	if more != "" {
		why += ": " + more
	}
	if strings.Contains(why, "stale info") {
		return fault.New(fault.StaleEdit, fault.Environment, fmt.Sprintf("the branch %s of %s was moved by somebody else meanwhile; nothing was pushed", s.Branch, s.Remote),
			"look at what is there now, then propose the push again or choose another branch")
	}
	return fault.New(fault.Refused, fault.Environment, fmt.Sprintf("the push to %s of %s was refused, nothing was pushed: %s", s.Branch, s.Remote, why), "mend what is named, or ask the user")
}

// Sight is what a look found. None of the first three is set when it cannot be
// told.
type Sight struct {
	There       bool // the remote has the commit
	AsBefore    bool // the branch is as it was before the push
	Unreachable bool
	Words       string
}

// Look establishes whether the remote has what was to be pushed. It changes
// nothing there.
func (s *Session) Look(ctx context.Context, i Intent) (Sight, error) {
	r, err := s.list(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return Sight{}, ctx.Err()
		}
		return Sight{Unreachable: true, Words: fmt.Sprintf("the remote %s (%s) cannot be asked: %s", s.Remote, s.URL(), s.said(err))}, nil
	}
	tip, name := r.ids[s.ref()], s.Branch+" of "+s.Remote
	switch {
	case tip == i.Commit:
		return Sight{There: true, Words: fmt.Sprintf("the branch %s stands at commit %s", name, short(tip))}, nil
	case tip == i.From:
		// A branch that was merged and removed: the operation's own commit is
		// there all the same.
		for _, ref := range slices.Sorted(maps.Keys(r.ids)) {
			if id := r.ids[ref]; id == i.Commit && ref != "HEAD" && i.From == "" && i.Date != 0 {
				return Sight{There: true, Words: fmt.Sprintf("%s has commit %s as %s; the branch %s is gone again", s.Remote, short(id), ref, s.Branch)}, nil
			}
		}
		state := "is not there"
		if tip != "" {
			state = "stands at " + short(tip)
		}
		return Sight{AsBefore: true, Words: fmt.Sprintf("the branch %s %s, as before", name, state)}, nil
	case tip == "":
		return Sight{Words: fmt.Sprintf("the branch %s, which stood at %s, is gone", name, short(i.From))}, nil
	}
	if err := s.fetch(ctx, tip); err != nil {
		return Sight{}, err
	}
	mine, err := s.has(ctx, i.Commit)
	if err == nil && mine {
		mine, err = s.within(ctx, i.Commit, tip)
	}
	if err != nil {
		return Sight{}, err
	}
	if mine {
		return Sight{There: true, Words: fmt.Sprintf("the branch %s has moved on to %s, which contains commit %s", name, short(tip), short(i.Commit))}, nil
	}
	return Sight{Words: fmt.Sprintf("the branch %s stands at %s, which somebody else put there and which does not contain commit %s", name, short(tip), short(i.Commit))}, nil
}
