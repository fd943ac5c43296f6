// Package notify tells people outside of belay that a goal waits for them or
// has ended: by a command of theirs, or by a request to a URL.
//
// It must not know workers or the ledger, and decides nothing: what cannot be
// told is said on standard error and holds nothing up.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// Patience is how long a command or a request may take.
const Patience = 15 * time.Second

// Notifier tells. The zero value tells nobody.
type Notifier struct {
	// Command is shell text; it gets the notice as JSON on its standard input
	// and the most important fields in its environment.
	Command string
	// Env is what the command sees besides; no credentials are in it.
	Env []string
	// URL gets the notice as JSON, by POST.
	URL string
	// Redact takes secrets out of what is told.
	Redact func(string) string
	// Problem is told what could not be told.
	Problem func(error)
}

// Notice is what is told, in the snapshot's field names.
type Notice struct {
	Goal        string            `json:"goal"`
	Text        string            `json:"text"` // the first line of the goal
	Repo        string            `json:"repo"`
	Status      lifecycle.Status  `json:"status"`
	WaitReason  event.WaitReason  `json:"wait_reason,omitempty"`
	PauseReason event.PauseReason `json:"pause_reason,omitempty"`
	How         string            `json:"completed_how,omitempty"`
	Detail      string            `json:"detail,omitempty"`
	// Pending are the questions that are open, as "op7 file_patch".
	Pending []string `json:"pending_approvals,omitempty"`
	// Summary says it in one sentence.
	Summary string `json:"summary"`
}

// Calls reports whether a goal at rest needs a person, or has ended: what a
// person did is no news to them, and a goal that waits for its provider goes on
// by itself.
func Calls(s core.Snapshot) bool {
	switch {
	case s.Status.Final():
		return true
	case s.Status == lifecycle.Paused:
		return s.PauseReason != event.PausedByUser
	}
	return s.WaitReason == event.WaitApproval || s.WaitReason == event.WaitUserInput
}

// Of is the notice of a goal at rest.
func Of(s core.Snapshot) Notice {
	first, _, _ := strings.Cut(strings.TrimSpace(s.Text), "\n")
	n := Notice{Goal: s.Goal, Text: first, Repo: s.Repo, Status: s.Status, WaitReason: s.WaitReason, PauseReason: s.PauseReason, How: string(s.How)}
	for _, p := range s.PendingApprovals {
		n.Pending = append(n.Pending, p.Op+" "+p.Tool)
	}
	what := string(s.Status)
	switch {
	case s.Status == lifecycle.Completed:
		what = "completed (" + n.How + ")"
	case s.Fault != nil && s.Status.Final():
		n.Detail = s.Fault.Message
	case s.Status == lifecycle.Paused:
		what, n.Detail = "stopped: "+string(s.PauseReason), s.PauseDetail
	case s.WaitReason == event.WaitApproval:
		what, n.Detail = "waits for an approval: "+strings.Join(n.Pending, ", "), s.WaitDetail
	case s.WaitReason == event.WaitUserInput:
		what, n.Detail = "waits for you", s.WaitDetail
	}
	n.Summary = fmt.Sprintf("belay: goal %s %s: %s", s.Goal, what, first)
	return n
}

// Check reports what is wrong with a notifier before anything depends on it.
func (n Notifier) Check() error {
	if n.URL == "" {
		return nil
	}
	u, err := url.Parse(n.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is no http or https URL", n.URL)
	}
	return nil
}

// Tell tells about a goal at rest, if it is worth telling. It returns after
// Patience at the latest.
func (n Notifier) Tell(ctx context.Context, s core.Snapshot) {
	if n.Command == "" && n.URL == "" || !Calls(s) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	notice := Of(s)
	if n.Redact != nil {
		for _, t := range []*string{&notice.Text, &notice.Detail, &notice.Summary} {
			*t = n.Redact(*t)
		}
	}
	body, err := json.Marshal(notice)
	if err == nil && n.Command != "" {
		err = n.run(ctx, notice, body)
	}
	if body != nil && n.URL != "" { // also when the command failed
		err = errors.Join(err, n.post(ctx, body))
	}
	if err != nil && n.Problem != nil {
		n.Problem(fmt.Errorf("tell about goal %s: %w", s.Goal, err))
	}
}

func (n Notifier) run(ctx context.Context, notice Notice, body []byte) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", n.Command)
	cmd.Env = append(append([]string(nil), n.Env...), "BELAY_GOAL="+notice.Goal, "BELAY_STATUS="+string(notice.Status),
		"BELAY_WAIT_REASON="+string(notice.WaitReason), "BELAY_PAUSE_REASON="+string(notice.PauseReason), "BELAY_SUMMARY="+notice.Summary)
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	cmd.WaitDelay = time.Second // a child that keeps the pipe holds nobody up
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the command %q: %w: %s", n.Command, err, bytes.TrimSpace(out))
	}
	return nil
}

func (n Notifier) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s answered %s: %s", req.URL.Redacted(), resp.Status, bytes.TrimSpace(said))
	}
	return nil
}
