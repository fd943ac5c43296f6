package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/service"
)

// The bundled repository has .txt endings so that no Go tool takes it for a
// part of this module.
//
//go:embed demo/repo demo/script.yaml
var demoFiles embed.FS

const demoGoal = "slug.Title leaves runs of hyphens for titles with several spaces. Make the tests pass."

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use: "demo", Short: "watch a small bug being fixed under the ledger: no key, no network", Args: exactly(0, 0),
		Long: "demo writes a small Go repository with a bug to a temporary directory and lets a scripted\n" +
			"model fix it: it writes before its plan is approved and is refused, patches with an approval,\n" +
			"claims to be done without a test and is refused, tests, and finishes.\n\n" + exitHelp,
		RunE: func(*cobra.Command, []string) error { return a.demo(keep) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep the temporary directory and say where it is")
	return c
}

func (a *app) demo(keep bool) (err error) {
	dir, err := os.MkdirTemp("", "belay-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer func() {
		if keep {
			fmt.Fprintf(a.Stderr, "belay: the demo is in %s (belay --state %s goals)\n", dir, filepath.Join(dir, "state"))
			return
		}
		err = firstError(err, os.RemoveAll(dir))
	}()
	repo := filepath.Join(dir, "slug")
	if err := writeDemo(repo, filepath.Join(dir, "script.yaml")); err != nil {
		return err
	}
	// The demo leaves nothing behind, in no fleet's ledger either.
	a.opts.State, a.opts.DB = filepath.Join(dir, "state"), "sqlite"
	return a.here(func(s *service.Service) error {
		request := service.StartRequest{Repo: repo,
			Spec: event.GoalSpec{Text: demoGoal, Acceptance: []event.Criterion{{ID: "tests", Kind: event.CriterionTest,
				Command: "go test ./...", Text: "the tests pass"}}},
			Settings: event.Settings{Model: "script:" + filepath.Join(dir, "script.yaml"), Plan: event.PlanAuto,
				Approve: event.ApproveAsk, Sandbox: a.Getenv("BELAY_SANDBOX")}}
		started, err := s.Start(a.ctx, request)
		if errors.Is(err, service.ErrNoSandbox) {
			// The demo runs nothing but its own tests; a goal of the user's would
			// be refused here.
			fmt.Fprintf(a.Stderr, "belay: %s\nbelay: the demo goes on without a sandbox\n", oneLine(err.Error()))
			request.Settings.Sandbox = "none"
			started, err = s.Start(a.ctx, request)
		}
		if err != nil {
			return err
		}
		v := newView(a)
		snap, err := s.Attend(a.ctx, started.Goal, service.AttendOptions{OnEvent: v.event, Live: v,
			Ask: func(ctx context.Context, snap core.Snapshot) error { return a.demoApprove(ctx, s, snap) }})
		if err != nil {
			return err
		}
		a.code = exitCode(snap)
		v.end(snap, a.code)
		if a.json {
			return nil
		}
		return a.demoQuestions(s, started.Goal)
	})
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func writeDemo(repo, script string) error {
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return err
	}
	files, err := fs.ReadDir(demoFiles, "demo/repo")
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := demoFiles.ReadFile("demo/repo/" + f.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(repo, strings.TrimSuffix(f.Name(), ".txt")), b, 0o644); err != nil {
			return err
		}
	}
	b, err := demoFiles.ReadFile("demo/script.yaml")
	if err != nil {
		return err
	}
	return os.WriteFile(script, b, 0o644)
}

// demoApprove shows what is asked and grants it, as a person would.
func (a *app) demoApprove(ctx context.Context, s *service.Service, snap core.Snapshot) error {
	if len(snap.PendingApprovals) == 0 {
		return service.ErrNobody
	}
	q := snap.PendingApprovals[0]
	if !a.json {
		text, err := s.Whole(ctx, q.Intent.Preview)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "\n%s %s (%s)\n%s\n%s\n\n", a.paint(yellow, "approve?"), q.Tool, q.Op, a.diff(text),
			a.paint(green, "the demo says yes"))
	}
	return s.Approve(ctx, snap.Goal, service.Answer{Op: q.Op, Intent: q.Intent.Hash})
}

// demoQuestions prints the timeline and answers the five questions of the
// first seed from the ledger alone.
func (a *app) demoQuestions(s *service.Service, goal string) error {
	tl, err := s.Timeline(a.ctx, goal)
	if err != nil {
		return err
	}
	w := a.Stdout
	fmt.Fprintf(w, "\n%s\n", a.paint(bold, "timeline"))
	for _, t := range tl {
		fmt.Fprintf(w, "%5d %s\n", t.Seq, oneLine(t.Name))
	}
	fmt.Fprintf(w, "\n%s\n", a.paint(bold, "five questions, answered from the ledger"))
	lastWrite := uint64(0)
	for _, t := range tl {
		if t.Name == "repo_state_mutated" {
			lastWrite = t.Seq
		}
	}
	for _, q := range []struct {
		question string
		name     string
		after    uint64
	}{
		{"Did it read the file it changed?", "tool_executed: read_file", 0},
		{"Was the failing test seen?", "local_test_completed: exit_code=1", 0},
		{"Was the write approved?", "approval_granted: file_patch", 0},
		{"Did the repository change?", "diff_updated", 0},
		{"Did the test pass after the last write?", "local_test_completed: exit_code=0", lastWrite},
	} {
		answer := a.paint(red, "no")
		for _, t := range tl {
			if t.Name == q.name && t.Seq > q.after {
				answer = fmt.Sprintf("%s  event %d, %s  %s", a.paint(green, "yes"), t.Seq, t.Name, a.paint(dim, oneLine(t.Detail)))
				break
			}
		}
		fmt.Fprintf(w, "  %-42s %s\n", q.question, answer)
	}
	return nil
}
