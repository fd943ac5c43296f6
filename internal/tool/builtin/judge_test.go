package builtin

import (
	"strings"
	"testing"
	"time"

	"belay/internal/core/progress"
	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/sandbox"
	"belay/internal/tool/textcap"
)

func TestHowACommandEndedIsJudgedAndSaid(t *testing.T) {
	t.Parallel()
	c := sandbox.Command{Timeout: 3 * time.Second}
	for _, j := range []struct {
		res     sandbox.Result
		outcome event.Outcome
		kind    fault.Kind
		says    []string
	}{
		{sandbox.Result{}, event.Succeeded, "", []string{"exit code 0 after 0.00s"}},
		{sandbox.Result{ExitCode: 2}, event.Failed, fault.ExitStatus, []string{"exit code 2"}},
		{sandbox.Result{Signal: "SIGKILL"}, event.Failed, fault.ExitStatus, []string{"signal SIGKILL"}},
		{sandbox.Result{TimedOut: true, Signal: "SIGTERM"}, event.Failed, fault.TimedOut, []string{"timed out", "limit of 3 s"}},
		{sandbox.Result{Stopped: "cancelled", Signal: "SIGTERM"}, event.Cancelled, fault.Cancelled, []string{"stopped", "cancelled"}},
		{sandbox.Result{SpawnError: "no shell"}, event.Failed, fault.SpawnFailed, []string{"could not be started: no shell"}},
		{sandbox.Result{Dropped: 7}, event.Succeeded, "", []string{"exit code 0", "7 bytes more than are kept"}},
		{sandbox.Result{Dropped: 7, ExitCode: 1}, event.Failed, fault.OutputLimit, []string{"7 bytes more than are kept"}},
		{sandbox.Result{Dropped: 7, Signal: "SIGPIPE"}, event.Failed, fault.OutputLimit, []string{"SIGPIPE"}},
		{sandbox.Result{Survivors: 1}, event.Succeeded, "", []string{"left 1 process running"}},
		{sandbox.Result{Survivors: 2}, event.Succeeded, "", []string{"left 2 processes running"}},
	} {
		o, f := judge(c, j.res)
		if o != j.outcome || (f == nil) != (j.kind == "") || f != nil && f.Kind != j.kind {
			t.Errorf("%+v: %s, %v", j.res, o, f)
		}
		var b strings.Builder
		b.WriteString(inPlainWords(c, j.res))
		command{base{def: runCommandDef}}.notes(&b, j.res, digest{window: textcap.NewWindow(1, 1)})
		for _, s := range j.says {
			if !strings.Contains(b.String(), s) {
				t.Errorf("%+v is told as %q, without %q", j.res, b.String(), s)
			}
		}
	}
}

// TestOnlyTheTimeOfTwoLooksDiffers: a command that is run again and again with
// the same answer is seen to go round in a circle, however long each run took.
func TestOnlyTheTimeOfTwoLooksDiffers(t *testing.T) {
	t.Parallel()
	seen := map[string]time.Duration{}
	for _, d := range []time.Duration{0, 3 * time.Millisecond, 10 * time.Millisecond, 130 * time.Millisecond, time.Second, 1300 * time.Millisecond,
		time.Minute, 62 * time.Second, 61500 * time.Millisecond, time.Hour, 2*time.Hour + 3*time.Second} {
		seen[progress.Blur(inPlainWords(sandbox.Command{}, sandbox.Result{Duration: d}), false)] = d
	}
	if len(seen) != 1 {
		t.Errorf("the same answer is seen as %d: %v", len(seen), seen)
	}
}
