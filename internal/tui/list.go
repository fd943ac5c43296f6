package tui

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"belay/internal/core"
	"belay/internal/ledger"
	"belay/internal/service"
)

// List is all that is shown of all goals. It is a value.
type List struct {
	Width, Height int
	Color         bool
	Now           time.Time
	Goals         []core.Overview
	Problem       string
	at            int
	goal          string // under the cursor, wherever it moves
}

// Took takes in the goals: those that wait for a person first, then those that
// run, then the rest; each by when something last happened.
func (l List) Took(goals []core.Overview) List {
	l.Goals = append([]core.Overview(nil), goals...)
	sort.SliceStable(l.Goals, func(i, j int) bool {
		a, b := rank(l.Goals[i]), rank(l.Goals[j])
		if a != b {
			return a < b
		}
		return l.Goals[i].Updated > l.Goals[j].Updated
	})
	for i, g := range l.Goals {
		if g.Goal == l.goal {
			l.at = i
		}
	}
	return l.move(0)
}

func rank(o core.Overview) int {
	switch {
	case o.WaitReason == "approval" || o.WaitReason == "user_input":
		return 0
	case o.Status == "active" || o.Status == "verifying":
		return 1
	case o.Status == "paused":
		return 2
	}
	return 3
}

func (l List) move(n int) List {
	l.at = max(0, min(l.at+n, len(l.Goals)-1))
	if len(l.Goals) > 0 {
		l.goal = l.Goals[l.at].Goal
	}
	return l
}

// Key takes in a key and returns the goal to open, if any, and whether to leave.
func (l List) Key(key string) (next List, open string, leave bool) {
	switch key {
	case "q", "ctrl+c", "esc":
		return l, "", true
	case "up", "k":
		return l.move(-1), "", false
	case "down", "j":
		return l.move(1), "", false
	case "pgup":
		return l.move(-max(1, l.Height-4)), "", false
	case "pgdown":
		return l.move(max(1, l.Height-4)), "", false
	case "home":
		return l.move(-len(l.Goals)), "", false
	case "end":
		return l.move(len(l.Goals)), "", false
	case "enter":
		return l, l.goal, false
	}
	return l, "", false
}

// Render draws the list: only the rows that are seen.
func (l List) Render() string {
	w, h := max(l.Width, 1), max(l.Height, 1)
	s := Screen{Color: l.Color}
	count := map[int]int{}
	for _, g := range l.Goals {
		count[rank(g)]++
	}
	lines := []string{s.paint(bold, fmt.Sprintf("%d goals: %d wait for you, %d run, %d paused, %d ended", len(l.Goals), count[0], count[1], count[2], count[3])),
		s.paint(dim, fmt.Sprintf("%-8s  %-24s  %6s  %-30s  %s", "goal", "status", "age", "now", "what"))}
	room := max(0, h-len(lines)-1)
	from := max(0, min(l.at-room/2, len(l.Goals)-room))
	for i := from; i < min(len(l.Goals), from+room); i++ {
		row := l.row(l.Goals[i])
		switch {
		case i == l.at:
			row = s.paint(reverse, row)
		case rank(l.Goals[i]) == 0:
			row = s.paint(yellow, row)
		case rank(l.Goals[i]) == 3:
			row = s.paint(dim, row)
		}
		lines = append(lines, row)
	}
	for len(lines) < h-1 {
		lines = append(lines, "")
	}
	foot := s.paint(dim, "[enter] open  [up down] move  [q]uit")
	if l.Problem != "" {
		foot = s.paint(red, line(l.Problem))
	}
	lines = append(lines, foot)
	lines = lines[:min(len(lines), h)]
	for i, t := range lines {
		lines[i] = ansi.Truncate(t, w, "…")
	}
	return strings.Join(lines, "\n")
}

func (l List) row(g core.Overview) string {
	status := g.Status
	switch {
	case g.How != "":
		status += ": " + g.How
	case g.PauseReason != "":
		status += ": " + g.PauseReason
	case g.WaitReason != "":
		status = "waits: " + g.WaitReason
	}
	now := g.Action
	if now == "" && !g.Held && g.Status == "active" && g.WaitReason == "" {
		now = "no worker"
	}
	return fmt.Sprintf("%-8s  %-24s  %6s  %-30s  %s", g.Goal[:min(8, len(g.Goal))], ansi.Truncate(line(status), 24, "…"), age(l.Now.Sub(g.Updated.Std())),
		ansi.Truncate(line(now), 30, "…"), under(g.Parent)+line(g.Title))
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

type listed struct {
	goals []core.Overview
	err   error
}

// all is the program that shows the list.
type all struct {
	ctx     context.Context
	service service.Door
	list    List
	open    string
}

// Top shows all goals, and one of them when it is opened, until the person
// leaves.
func Top(ctx context.Context, s service.Door, in io.Reader, out io.Writer, color bool) error {
	l := List{Width: 80, Height: 24, Color: color, Now: time.Now()}
	for {
		a := &all{ctx: ctx, service: s, list: l}
		if _, err := tea.NewProgram(a, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run(); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		if a.open == "" {
			return nil
		}
		if err := Show(ctx, Options{Service: s, Goal: a.open, In: in, Out: out, Color: color}); err != nil {
			return err
		}
		l = a.list
	}
}

func (a *all) read() tea.Msg {
	goals, err := a.service.Overviews(a.ctx, ledger.Filter{})
	return listed{goals, err}
}

// Init implements tea.Model.
func (a *all) Init() tea.Cmd { return a.read }

// View implements tea.Model.
func (a *all) View() tea.View {
	v := tea.NewView(a.list.Render())
	v.AltScreen = true
	return v
}

// Update implements tea.Model.
func (a *all) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		a.list.Width, a.list.Height = m.Width, m.Height
	case listed:
		a.list.Problem = ""
		if m.err != nil {
			a.list.Problem = m.err.Error()
		} else {
			a.list.Now = time.Now()
			a.list = a.list.Took(m.goals)
		}
		return a, tick()
	case ticked:
		return a, a.read
	case tea.KeyPressMsg:
		next, open, leave := a.list.Key(m.String())
		a.list = next
		if a.open = open; open != "" || leave {
			return a, tea.Quit
		}
	}
	return a, nil
}

// under leads in the title of a goal that another one has started.
func under(parent string) string {
	if parent == "" {
		return ""
	}
	return "└ "
}
