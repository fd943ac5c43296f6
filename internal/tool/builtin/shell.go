package builtin

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// scan is what shell text says about itself without being run.
type scan struct {
	// words are the literal words that may name files it reads.
	words []string
	// destructive says that it can discard work or rewrite history.
	destructive bool
	// programs are the names of the commands, as they are called.
	programs []string
}

// maxNesting bounds shell text inside of shell text.
const maxNesting = 4

// scanShell reads shell text. What can not be parsed names nothing; policy
// asks about such text anyway.
func scanShell(text string) scan {
	var s scan
	s.text(text, 0)
	return s
}

func (s *scan) text(text string, depth int) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil || depth > maxNesting {
		return
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			s.call(n, depth)
		case *syntax.Redirect:
			if n.Op == syntax.RdrIn && n.Word != nil {
				s.words = append(s.words, literal(n.Word)...)
			}
		}
		return true
	})
}

func (s *scan) call(n *syntax.CallExpr, depth int) {
	var argv []string
	for _, w := range n.Args {
		l := literal(w)
		if l == nil {
			argv = append(argv, "")
			continue
		}
		argv = append(argv, l[0])
	}
	s.words = append(append(s.words, argv...), implied(argv)...)
	if len(argv) > 0 && argv[0] != "" {
		s.programs = append(s.programs, argv[0])
	}
	for _, a := range argv { // --config=file and key=file name files too
		if _, v, ok := strings.Cut(a, "="); ok && v != "" {
			s.words = append(s.words, v)
		}
	}
	for i := range argv {
		if i == 0 || wraps(argv[0]) {
			s.destructive = s.destructive || destroys(argv[i:])
		}
		if i > 0 && (argv[i-1] == "-c" || strings.HasSuffix(argv[i-1], "c") && strings.HasPrefix(argv[i-1], "-") && !strings.HasPrefix(argv[i-1], "--")) && isShell(argv) {
			s.text(argv[i], depth+1)
		}
	}
	if argv0 := first(argv); argv0 == "eval" {
		s.text(strings.Join(argv[1:], " "), depth+1)
	}
}

// taskFiles are the files that say what a program does although no word of the
// command names them.
var taskFiles = map[string][]string{
	"make": {"GNUmakefile", "makefile", "Makefile"}, "gmake": {"GNUmakefile", "makefile", "Makefile"},
	"just": {"justfile", "Justfile", ".justfile"}, "task": {"Taskfile.yml", "Taskfile.yaml"}, "rake": {"Rakefile"},
	"npm": {"package.json"}, "npx": {"package.json"}, "pnpm": {"package.json"}, "yarn": {"package.json"}, "bun": {"package.json"},
	"composer": {"composer.json"}, "cargo": {"Cargo.toml", "build.rs", ".cargo/config.toml"}, "tox": {"tox.ini", "pyproject.toml", "setup.cfg"},
	"nox": {"noxfile.py"}, "pytest": {"conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg"}, "ninja": {"build.ninja"}, "cmake": {"CMakeLists.txt"},
	"mvn": {"pom.xml"}, "gradle": {"build.gradle", "build.gradle.kts"}, "ant": {"build.xml"}, "docker": {"Dockerfile"}, "mage": {"magefile.go"},
}

// implied are the files that a command reads its orders from without naming
// them, and the file of a Python module that it runs.
func implied(argv []string) []string {
	var out []string
	for i, a := range argv {
		files := taskFiles[path.Base(a)]
		if files == nil || i > 0 && !wraps(argv[0]) {
			continue
		}
		dir := ""
		for j := i + 1; j < len(argv); j++ {
			switch flag := argv[j]; {
			case (flag == "-C" || flag == "--directory" || flag == "--prefix") && j+1 < len(argv):
				dir = argv[j+1]
			case strings.HasPrefix(flag, "--directory="), strings.HasPrefix(flag, "--prefix="):
				_, dir, _ = strings.Cut(flag, "=")
			}
		}
		for _, f := range files {
			out = append(out, path.Join(dir, f))
		}
	}
	for i, a := range argv {
		if a == "-m" && i > 0 && i+1 < len(argv) && strings.HasPrefix(path.Base(argv[i-1]), "python") {
			module := strings.ReplaceAll(argv[i+1], ".", "/")
			out = append(out, module+".py", module+"/__main__.py", module+"/__init__.py")
		}
	}
	return out
}

func first(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return path.Base(argv[0])
}

func wraps(name string) bool {
	return slices.Contains([]string{"sudo", "env", "xargs", "nohup", "time", "timeout", "nice", "command", "exec", "find", "doas", "stdbuf", "setsid"}, path.Base(name))
}

func isShell(argv []string) bool {
	return slices.ContainsFunc(argv, func(a string) bool {
		return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, path.Base(a))
	})
}

// literal is a word that has one fixed value, as a slice of one, or nil.
func literal(w *syntax.Word) []string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return nil
				}
				b.WriteString(strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(l.Value))
			}
		default:
			return nil
		}
	}
	return []string{b.String()}
}

// destroys reports whether a simple command can discard work that no edit tool
// made, or rewrite history. It errs on the side of yes; it allows and denies
// nothing.
func destroys(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	has := func(options ...string) bool {
		return slices.ContainsFunc(argv[1:], func(a string) bool { return slices.Contains(options, a) })
	}
	switch path.Base(argv[0]) {
	case "rm", "rmdir", "shred", "unlink", "truncate", "dd", "mkfs":
		return true
	case "find":
		return has("-delete")
	case "rsync":
		return has("--delete", "--remove-source-files")
	case "git":
		return gitDestroys(argv[1:])
	}
	return false
}

func gitDestroys(argv []string) bool {
	// Options of git itself stand in front of its command.
	for len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		n := 1
		if slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree"}, argv[0]) {
			n = 2
		}
		argv = argv[min(n, len(argv)):]
	}
	if len(argv) == 0 {
		return false
	}
	has := func(options ...string) bool {
		return slices.ContainsFunc(argv[1:], func(a string) bool { return slices.Contains(options, a) })
	}
	switch argv[0] {
	case "clean":
		return !has("-n", "--dry-run")
	case "reset":
		return has("--hard", "--merge", "--keep")
	case "checkout":
		// `git checkout name` may be a branch or a file: a file is discarded.
		return !has("-b", "-B", "--orphan") || has("-f", "--force")
	case "restore", "rebase", "filter-branch", "filter-repo", "gc", "prune", "update-ref", "replace":
		return true
	case "switch":
		return has("-f", "--force", "--discard-changes", "-C")
	case "stash":
		return len(argv) == 1 || !slices.Contains([]string{"list", "show"}, argv[1])
	case "branch", "tag":
		return has("-D", "-d", "--delete", "-f", "--force", "-M")
	case "commit":
		return has("--amend")
	case "push":
		return has("-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d") || slices.ContainsFunc(argv[1:], func(a string) bool { return strings.HasPrefix(a, "+") || strings.HasPrefix(a, ":") })
	case "reflog":
		return has("expire", "delete")
	case "worktree":
		return has("remove", "prune")
	case "rm":
		return true
	}
	return false
}
