package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/service"
)

// readLines reads the terminal on a goroutine of its own, because a read cannot
// be given up when somebody else answers first.
func (a *app) readLines() <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		sc := bufio.NewScanner(a.Stdin)
		for sc.Scan() {
			select {
			case lines <- sc.Text():
			case <-a.ctx.Done():
				return
			}
		}
	}()
	return lines
}

// prompter asks the person at the terminal.
type prompter struct {
	app     *app
	service service.Door
	lines   <-chan string
}

// ask shows what the goal waits for and sends the answer. It returns when the
// answer is recorded or when somebody else has answered.
func (p *prompter) ask(ctx context.Context, s core.Snapshot) error {
	for {
		p.show(s)
		select {
		case <-ctx.Done():
			if context.Cause(p.app.ctx) == nil {
				fmt.Fprintln(p.app.Stdout, "(answered)")
			}
			return nil
		case line, ok := <-p.lines:
			if !ok {
				return service.ErrNobody
			}
			done, err := p.answer(ctx, s, strings.TrimSpace(line))
			if err != nil {
				fmt.Fprintln(p.app.Stdout, oneLine(err.Error()))
				if now, again := p.service.Snapshot(ctx, s.Goal); again == nil {
					s = now
				}
				continue
			}
			if done {
				return nil
			}
		}
	}
}

func (p *prompter) show(s core.Snapshot) {
	w := p.app.Stdout
	if len(s.PendingApprovals) > 0 {
		q := s.PendingApprovals[0]
		fmt.Fprintf(w, "\n%s %s (%s)\n", p.app.paint(yellow, "approve?"), q.Tool, q.Op)
		for _, why := range q.Why {
			fmt.Fprintf(w, "  %s\n", oneLine(why))
		}
		if q.Intent.Network != "" {
			fmt.Fprintf(w, "  with network: %s\n", oneLine(q.Intent.Network))
		}
		if text, err := p.service.Whole(p.app.ctx, q.Intent.Preview); err == nil {
			// The bar keeps a text's own lines from passing for this question's.
			fmt.Fprintln(w, "  │ "+strings.ReplaceAll(p.app.diff(text), "\n", "\n  │ "))
		}
		fmt.Fprint(w, "[y]es, [a]lways, for this [g]oal, [n]o, n REASON, or a message: ")
		return
	}
	fmt.Fprintf(w, "\n%s %s\n", p.app.paint(yellow, "waits for you:"), block(s.WaitDetail))
	fmt.Fprint(w, "> ")
}

// answer reports whether the line answered what was asked.
func (p *prompter) answer(ctx context.Context, s core.Snapshot, line string) (bool, error) {
	if line == "" {
		return false, nil
	}
	word, rest, _ := strings.Cut(line, " ")
	if len(s.PendingApprovals) > 0 {
		q := s.PendingApprovals[0]
		a := service.Answer{Op: q.Op, Intent: q.Intent.Hash, Reason: strings.TrimSpace(rest)}
		switch strings.ToLower(word) {
		case "y", "yes":
			return len(s.PendingApprovals) == 1, p.service.Approve(ctx, s.Goal, a)
		case "n", "no":
			return len(s.PendingApprovals) == 1, p.service.Deny(ctx, s.Goal, a)
		case "a", "always", "g", "goal":
			if rest != "" {
				break // a sentence that begins with the word
			}
			done, err := p.always(ctx, s.Goal, a, strings.HasPrefix(strings.ToLower(word), "a"))
			return done && len(s.PendingApprovals) == 1, err
		}
		return true, p.service.Say(ctx, s.Goal, line, event.Message)
	}
	if s.ClaimWaits() {
		switch strings.ToLower(word) {
		case "y", "yes":
			return true, p.service.Approve(ctx, s.Goal, service.Answer{})
		case "n", "no":
			return true, p.service.Deny(ctx, s.Goal, service.Answer{Reason: strings.TrimSpace(rest)})
		}
	}
	return true, p.service.Say(ctx, s.Goal, line, event.Message)
}

// always shows the rules that would answer this question for good and, once
// the person has seen them, records them.
func (p *prompter) always(ctx context.Context, goal string, a service.Answer, save bool) (bool, error) {
	w := p.app.Stdout
	rules, err := p.service.Suggest(ctx, goal, a.Op)
	if err != nil {
		return false, err
	}
	if len(rules) == 0 {
		fmt.Fprintln(w, "no rule can allow this beforehand: answer it each time")
		return false, nil
	}
	where := "for this goal only"
	if save {
		where = "in your policy.yaml, and for this goal"
	}
	fmt.Fprintf(w, "%s, this is allowed without a question:\n", where)
	for _, r := range rules {
		fmt.Fprintf(w, "  %s\n", oneLine(ruleFlags(r)))
	}
	fmt.Fprint(w, "save it? [y]es, [n]o: ")
	select {
	case <-ctx.Done():
		return false, nil
	case line, ok := <-p.lines:
		if !ok {
			return false, service.ErrNobody
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, p.service.Always(ctx, goal, a, rules, save)
		}
	}
	return false, nil
}

// diff colours a unified diff.
func (a *app) diff(text string) string {
	text = Safe(strings.TrimRight(text, "\n"))
	if !a.color {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"), strings.HasPrefix(l, "diff "):
			lines[i] = a.paint(bold, l)
		case strings.HasPrefix(l, "+"):
			lines[i] = a.paint(green, l)
		case strings.HasPrefix(l, "-"):
			lines[i] = a.paint(red, l)
		case strings.HasPrefix(l, "@@"):
			lines[i] = a.paint(cyan, l)
		}
	}
	return strings.Join(lines, "\n")
}
