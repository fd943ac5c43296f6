package memory

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"belay/internal/core/evidence"
	"belay/internal/event"
	"belay/internal/policy"
)

// maxCommand is the longest command that is kept, in bytes.
const maxCommand = 240

// normal is a command in its normal form.
type normal struct {
	command string
	// dir is relative to the workspace root, "." for the root itself.
	dir string
	// masked says that the exit code is not, or not only, the command's.
	masked bool
}

// normalise brings shell text into one form for what is the same command: white
// space, comments, a leading cd, the merging of its outputs and a viewer behind
// a pipe make no difference. ok is false for what is not worth keeping: several
// commands in a row, what only reads, and what is too long.
func normalise(text, dir string) (n normal, ok bool) {
	if dir == "" {
		dir = "."
	}
	n.dir = path.Clean(dir)
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) != 1 {
		return n, false
	}
	s := n.strip(file.Stmts[0])
	if s == nil || s.Background || s.Coprocess {
		return n, false
	}
	plain, joined := leaves(s)
	if !plain {
		return n, false
	}
	n.masked = n.masked || s.Negated || joined
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, &syntax.File{Stmts: []*syntax.Stmt{s}}); err != nil {
		return n, false
	}
	n.command = strings.TrimSpace(b.String())
	if n.command == "" || len(n.command) > maxCommand || strings.ContainsAny(n.command, "\n\r") || !clean(n.command) {
		return n, false
	}
	return n, !reads(n.command)
}

// clean reports whether a text has no characters that show as something else.
func clean(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\uFFFD' }) < 0
}

// strip takes off what does not make another command.
func (n *normal) strip(s *syntax.Stmt) *syntax.Stmt {
	if s = n.follow(s); s == nil {
		return nil
	}
	for {
		b, ok := binary(s)
		if !ok || b.Op == syntax.AndStmt { // all of it worked, or something in it failed
			break
		}
		n.masked = true
		if pipe := b.Op == syntax.Pipe || b.Op == syntax.PipeAll; pipe && !views(b.Y) {
			break
		}
		if s = n.follow(b.X); s == nil {
			return nil
		}
	}
	var kept []*syntax.Redirect
	for _, r := range s.Redirs {
		if r.Op == syntax.DplOut && literal(r.Word) == "1" && r.N != nil && r.N.Value == "2" {
			continue // 2>&1
		}
		kept = append(kept, r)
	}
	s.Redirs = kept
	return s
}

// follow takes off the leading cds of a chain; nil when they lead to somewhere
// that is not known.
func (n *normal) follow(s *syntax.Stmt) *syntax.Stmt {
	var chain []*syntax.Stmt
	for {
		b, ok := binary(s)
		if !ok || b.Op != syntax.AndStmt {
			break
		}
		chain = append([]*syntax.Stmt{b.Y}, chain...)
		s = b.X
	}
	chain = append([]*syntax.Stmt{s}, chain...)
	for len(chain) > 1 {
		to := movesTo(chain[0])
		if to == "" {
			break
		}
		if path.IsAbs(to) {
			return nil
		}
		n.dir, chain = path.Join(n.dir, to), chain[1:]
	}
	s = chain[0]
	for _, next := range chain[1:] {
		s = &syntax.Stmt{Cmd: &syntax.BinaryCmd{Op: syntax.AndStmt, X: s, Y: next}}
	}
	return s
}

// binary is a statement that joins two others and does nothing else.
func binary(s *syntax.Stmt) (*syntax.BinaryCmd, bool) {
	b, ok := s.Cmd.(*syntax.BinaryCmd)
	return b, ok && !s.Negated && !s.Background && !s.Coprocess && len(s.Redirs) == 0
}

// leaves reports whether a statement is made of plain calls alone, and whether
// they are joined otherwise than by &&.
func leaves(s *syntax.Stmt) (plain, joined bool) {
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0, false
	case *syntax.BinaryCmd:
		xPlain, x := leaves(c.X)
		yPlain, y := leaves(c.Y)
		return xPlain && yPlain && !s.Background, x || y || c.Op != syntax.AndStmt
	}
	return false, false
}

// movesTo is where a plain "cd DIR" goes, "" for anything else.
func movesTo(s *syntax.Stmt) string {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Redirs) > 0 || s.Negated || len(c.Args) != 2 || literal(c.Args[0]) != "cd" {
		return ""
	}
	return literal(c.Args[1])
}

// views reports whether a statement only shows what comes in.
func views(s *syntax.Stmt) bool {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return false
	}
	switch literal(c.Args[0]) {
	case "tail", "head", "cat", "grep", "tee", "less", "wc", "sort", "uniq", "sed", "awk", "cut":
		return true
	}
	return false
}

// literal is a word without anything that the shell would replace, else "".
func literal(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return ""
				}
				b.WriteString(l.Value)
			}
		default:
			return ""
		}
	}
	return b.String()
}

// reads reports whether policy knows every part of a command as a reader.
func reads(command string) bool {
	v := policy.Judge(policy.Config{}, "run_command", event.Supervised, event.Access{Command: command})
	return v.Decision == policy.Allow && len(v.Writes) == 0 && !v.Network
}

// tests reports whether a command is one of the goal's test commands.
func tests(command string, of []string) bool {
	for _, t := range of {
		if n, ok := normalise(t, ""); ok && evidence.Same(n.command, command) {
			return true
		}
	}
	return false
}
