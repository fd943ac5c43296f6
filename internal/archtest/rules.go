package archtest

import (
	"fmt"
	"strings"
)

// Violation is one place where a rule does not hold.
type Violation struct {
	Rule string
	// Place is a package, a file or a position in one.
	Place string
	What  string
	Do    string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s\n    rule:   %s\n    what:   %s\n    to do:  %s", v.Place, v.Rule, v.What, v.Do)
}

// ours strips the module from an import path of ours.
func ours(imp string) (string, bool) { return strings.CutPrefix(imp, module+"/") }

// edge is one import in production code, with the file it stands in.
type edge struct{ from, to, file string }

// edges lists what a package's production files import of our own packages,
// each once.
func edges(p Package) []edge {
	var es []edge
	seen := map[string]bool{}
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		for _, imp := range f.Imports {
			to, own := ours(imp)
			if own && !seen[to] {
				seen[to] = true
				es = append(es, edge{p.Path, to, f.Path})
			}
		}
	}
	return es
}

// Floors checks that every package has a room and imports only from below.
func Floors(s Source) []Violation {
	var vs []Violation
	used := map[exception]bool{}
	for _, p := range s.Packages {
		from, ok := roomOf(p.Path)
		if !ok {
			vs = append(vs, Violation{
				Rule: "every package has a row in the table of rooms", Place: p.Path,
				What: "the table in internal/archtest/table.go does not know this package",
				Do:   "decide on which floor of DESIGN section 3 it stands and add a row",
			})
			continue
		}
		for _, e := range edges(p) {
			if x, ok := excepted(exceptions, e.from, e.to); ok {
				used[x] = true
				continue
			}
			if v, bad := judgeEdge(from, e); bad {
				vs = append(vs, v)
			}
		}
	}
	for _, x := range exceptions {
		if !used[x] && hasPackage(s, x.from) {
			vs = append(vs, Violation{
				Rule: "the list of exceptions holds only what is true", Place: x.from,
				What: "nothing there imports " + x.to + " any more", Do: "remove the exception from internal/archtest/table.go",
			})
		}
	}
	return vs
}

// judgeEdge holds one import against the floors.
func judgeEdge(from room, e edge) (Violation, bool) {
	v := Violation{Place: e.file}
	to, ok := roomOf(e.to)
	if !ok {
		return v, false // reported at the package itself, if it exists
	}
	v.What = fmt.Sprintf("%s (floor %d) imports %s (floor %d)", e.from, from.floor, e.to, to.floor)
	sharedHelper := to.shared && portOf(from.path) == portOf(to.path)
	switch {
	case to.test && !from.test:
		v.Rule = "test helpers stay out of production code"
		v.Do = "import it from a _test.go file only"
		return v, true
	case from.floor == adapters && to.floor == adapters && !sharedHelper:
		v.Rule = "adapters never import each other"
		v.Do = "go through the port, or move what both need into a helper of that port's tree and mark its row shared"
		return v, true
	case to.floor >= from.floor && !sharedHelper:
		v.Rule = "a package imports only from floors below its own"
		v.Do = "move the decision down, pass a value or an interface in from above, or argue for an exception with its reason"
		return v, true
	case to.floor == adapters && from.floor > adapters && from.floor < mains:
		v.Rule = "only cmd/belay sees the adapters"
		v.Do = "take the port's interface as a parameter and let cmd/belay hand the adapter in"
		return v, true
	case from.floor == faces && to.floor > core && to.floor < service:
		v.Rule = "a face knows the service and its types only"
		v.Do = "add the use case to internal/service"
		return v, true
	}
	return v, false
}

func excepted(list []exception, from, to string) (exception, bool) {
	for _, x := range list {
		if x.from == from && x.to == to {
			return x, true
		}
	}
	return exception{}, false
}

func hasPackage(s Source, path string) bool {
	for _, p := range s.Packages {
		if p.Path == path {
			return true
		}
	}
	return false
}

// Purity checks that the packages that decide can do nothing else.
func Purity(s Source) []Violation {
	var vs []Violation
	for _, p := range s.Packages {
		if r, ok := roomOf(p.Path); !ok || !r.pure {
			continue
		}
		for _, f := range p.Files {
			if !f.Test {
				vs = append(vs, impureFile(p.Path, f)...)
			}
		}
	}
	return vs
}

func impureFile(pkg string, f File) []Violation {
	var vs []Violation
	const rule = "a pure package decides by values alone"
	for _, imp := range f.Imports {
		to, own := ours(imp)
		if pureAllows(pkg, imp) || pureAllows(pkg, to) {
			continue
		}
		r, known := roomOf(to)
		switch {
		case own && known && !r.pure:
			vs = append(vs, Violation{rule, f.Path, "it imports " + to + ", which is not pure",
				"move the value types it needs to a pure package below, or list the import in pureMay with its reason"})
		case own:
		case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
			vs = append(vs, Violation{rule, f.Path, "it imports the foreign module " + imp,
				"do it in the shell, or list the import in pureMay with the reason why it is a function of its input"})
		case under(imp, forbiddenInPure):
			vs = append(vs, Violation{rule, f.Path, "it imports " + imp,
				"let the shell do it and bring the result in with the input; instants are moment.Time, ids come from event.NewID"})
		}
	}
	for _, pos := range f.Clock {
		vs = append(vs, Violation{rule, pos, "it reads a clock", "take the instant from the input"})
	}
	for _, pos := range f.Go {
		vs = append(vs, Violation{rule, pos, "it starts a goroutine", "return an effect and let the driver run it"})
	}
	return vs
}

func pureAllows(pkg, imp string) bool {
	for _, x := range pureMay {
		if x.from == pkg && under(imp, []string{x.to}) {
			return true
		}
	}
	return false
}

func under(imp string, roots []string) bool {
	for _, r := range roots {
		if imp == r || strings.HasPrefix(imp, r+"/") {
			return true
		}
	}
	return false
}

// Documents checks that every package says its job.
func Documents(s Source) []Violation {
	var vs []Violation
	for _, p := range s.Packages {
		if p.Name == "" {
			continue // a folder of tests only
		}
		begin := "Package " + p.Name + " "
		if p.Name == "main" {
			begin = "Command "
		}
		doc := strings.TrimSpace(strings.ReplaceAll(p.Doc, "\n", " "))
		sentence := strings.Contains(doc, ". ") || strings.HasSuffix(doc, ".")
		if !strings.HasPrefix(doc, begin) || !sentence || len(strings.Fields(doc)) < 6 {
			vs = append(vs, Violation{"every package says its one job in its doc comment", p.Path,
				fmt.Sprintf("no doc comment of at least one full sentence that begins with %q", begin),
				"say what the package does and what it must not know"})
		}
	}
	return vs
}

// Sizes checks that files and functions stay readable at one sitting.
func Sizes(s Source) []Violation {
	var vs []Violation
	over := func(place string, lines, limit int) {
		if _, ok := excepted(oversize, "", place); ok {
			return
		}
		vs = append(vs, Violation{fmt.Sprintf("production files of at most %d lines, functions of at most %d", maxFileLines, maxFuncLines),
			place, fmt.Sprintf("%d lines, %d allowed", lines, limit),
			"split it by what it does; if that makes it worse, argue for a row in oversize"})
	}
	for _, p := range s.Packages {
		for _, f := range p.Files {
			if f.Test || f.Generated {
				continue
			}
			if f.Lines > maxFileLines {
				over(f.Path, f.Lines, maxFileLines)
			}
			for _, fn := range f.Funcs {
				if fn.Lines > maxFuncLines {
					over(f.Path+":"+fn.Name, fn.Lines, maxFuncLines)
				}
			}
		}
	}
	return vs
}

// Weight checks that no module crept into the program that was ruled out.
func Weight(s Source) []Violation {
	var vs []Violation
	for _, d := range s.Deps {
		for _, h := range tooHeavy {
			if strings.HasPrefix(d, h.to) {
				vs = append(vs, Violation{"the first build stays under 150 CPU seconds", d, "a package that was measured to be too heavy: " + h.reason,
					"find what imports it with `go mod why " + d + "` and take it out"})
			}
		}
	}
	return vs
}
