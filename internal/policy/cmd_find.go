package policy

import "strings"

func init() {
	learn("find", (*call).find, "find", "gfind")
	learn("xargs", (*call).xargs, "xargs")
}

// findTests are the words of find's language that take one word and touch
// nothing; findPlain take none.
var findTests = words("-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer " +
	"-newermt -newerat -newerct -maxdepth -mindepth -perm -user -group -uid -gid -inum -links -samefile -lname -ilname -fstype -regextype -printf -used -D")

var findPlain = words("-print -print0 -ls -prune -quit -empty -readable -writable -executable -true -false -not -a -o -and -or -depth -d -xdev -mount -daystart -follow " +
	"-nouser -nogroup -noleaf -warn -nowarn -ignore_readdir_race -noignore_readdir_race -H -L -P -O0 -O1 -O2 -O3 ( ) ! , -help --help -version --version")

func words(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

func (c *call) find() {
	begun := false // the expression has begun
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a.loose || !begun && a.mayBeFlag():
			c.badWord(a)
			continue
		case !a.isFlag() && !findPlain[a.val]:
			if begun && !a.static {
				c.badWord(a)
			}
			continue // a starting point
		}
		begun = begun || a.val != "-H" && a.val != "-L" && a.val != "-P"
		switch {
		case !a.plain():
			c.badWord(a)
		case findPlain[a.val]:
		case findTests[a.val]:
			i++
			if i < len(c.args) && c.args[i].loose {
				c.badWord(c.args[i])
			}
		case a.val == "-delete":
			c.destroys(a.val, "find deletes what it finds (-delete)", "find without -delete lists it")
		case a.val == "-exec" || a.val == "-execdir" || a.val == "-ok" || a.val == "-okdir":
			i = c.findExec(i)
		case a.val == "-fprint" || a.val == "-fprint0" || a.val == "-fls" || a.val == "-fprintf":
			c.ask(a.val, "find writes a file ("+a.val+")", "-print")
			if i+1 < len(c.args) {
				c.writes(c.args[i+1])
			}
			i++
			if a.val == "-fprintf" {
				i++
			}
		default:
			c.ask(a.val, a.val+" of find is not known to be harmless", "leave it out")
		}
	}
}

// findExec judges the command of -exec and returns the index of its end.
func (c *call) findExec(i int) int {
	flag := c.args[i].val
	var inner []arg
	for i++; i < len(c.args); i++ {
		a := c.args[i]
		if a.plain() && a.val == ";" || a.plain() && a.val == "+" && len(inner) > 0 && inner[len(inner)-1].tame {
			break
		}
		if strings.Contains(a.val, "{}") || strings.Contains(a.frag, "{}") {
			// What find puts in begins with a starting point or with ./, never
			// with a dash.
			before, _, _ := strings.Cut(a.val, "{}")
			a = arg{src: a.src, val: before, frag: before + "\x00", tame: before == ""}
		}
		inner = append(inner, a)
	}
	if i < len(c.args) && c.args[i].val == "+" {
		inner[len(inner)-1].repeat = true
	}
	if flag == "-ok" || flag == "-okdir" {
		c.ask(flag, "find waits for an answer on the terminal ("+flag+")", "-exec")
	}
	if len(inner) > 0 && !inner[0].static {
		c.unclear(flag, "find runs the files that it finds as programs", "name the program")
		return i
	}
	c.run(inner)
	return i
}

var xargsOptions = options("0 r t x o n= P= I= L= s= d= a= E= --null --no-run-if-empty --verbose --exit --max-args= --max-procs= --max-lines= --max-chars= --delimiter= --arg-file= --replace= --show-limits --help --version")

func (c *call) xargs() {
	p := c.parse(xargsOptions, true)
	c.through = true
	marker := ""
	if o, ok := p.get("-I", "--replace"); ok {
		if marker = o.arg.val; !o.arg.plain() || marker == "" {
			c.unclear(o.word, "where xargs puts what it reads is not known", "-I {}")
			return
		}
	}
	if o, ok := p.get("-a", "--arg-file"); ok {
		c.reads(o.arg)
	}
	inner := append([]arg{}, p.operands...)
	if len(inner) == 0 {
		inner = []arg{known("echo")}
	}
	if marker == "" {
		c.run(append(inner, arg{src: "…", loose: true}))
		return
	}
	for i, a := range inner {
		if !strings.Contains(a.val, marker) && !strings.Contains(a.frag, marker) {
			continue
		}
		before, _, _ := strings.Cut(a.val, marker)
		inner[i] = arg{src: a.src, val: before, frag: before + "\x00"}
	}
	c.run(inner)
}
