package policy

import "strings"

// The shell's own commands.

func init() {
	learn("shell", func(c *call) {}, ":", "exit", "return", "break", "continue", "shift", "times", "logout", "type", "disown")
	learn("shell", (*call).echo, "echo")
	learn("shell", (*call).printf, "printf")
	learn("shell", (*call).test, "test", "[")
	learn("shell", (*call).cd, "cd", "pushd")
	learn("shell", func(c *call) { c.w.cwd = []string{"?"}; c.w.then = c.w.cwd }, "popd")
	learn("shell", func(c *call) {}, "dirs")
	learn("shell", (*call).wait, "wait", "jobs")
	learn("shell", (*call).set, "set")
	learn("shell", (*call).read, "read", "mapfile", "readarray", "getopts")
	learn("shell", (*call).unset, "unset")
	learn("shell", (*call).trap, "trap")
	learn("shell", (*call).umask, "umask", "ulimit", "hash")
	learn("shell", func(c *call) {
		c.unclear("", c.name+" changes what later words of the shell mean", "leave it out")
	}, "alias", "unalias", "shopt", "enable", "complete", "compgen", "compopt", "bind", "caller", "fc", "history", "suspend", "fg", "bg", "coproc", "let",
		"declare", "typeset", "local", "export", "readonly")
}

func (c *call) echo() {}

func (c *call) printf() {
	if len(c.args) == 0 {
		return
	}
	format := c.args[0]
	if format.val == "--" && len(c.args) > 1 {
		format = c.args[1]
	} else if format.mayBeFlag() || strings.HasPrefix(format.val, "-v") {
		if !format.plain() || len(c.args) < 2 || !identifier(strings.TrimPrefix(c.args[1].val, "-v")) || !c.args[1].plain() || dangerous(c.args[1].val) {
			c.unclear(format.src, "printf may set a variable that is not known (-v)", "a format in single quotes")
			return
		}
		if len(c.args) > 2 {
			format = c.args[2]
		}
	}
	if format.plain() && !storesCount(format.val) {
		return
	}
	for _, a := range c.args {
		if !a.static || strings.Contains(a.val, "[") && a.val != format.val || format.plain() {
			c.unclear(format.src, "the format of printf may store into a variable (%n), which can run a command", "a format in single quotes")
			return
		}
	}
}

// testOperators stand between operands of test.
var testOperators = words("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ] )")

// test evaluates the subscript of a variable that -v or -R names. A word that
// is not known can be one of them wherever an operand follows it.
func (c *call) test() {
	for i, a := range c.args {
		next, more := arg{}, i+1 < len(c.args)
		if more {
			next = c.args[i+1]
		}
		switch {
		case a.loose && !a.tame:
			c.unclear(a.src, a.src+" may turn out as several words, and -v among them can run a command", "quote it")
		case a.plain() && (a.val == "-v" || a.val == "-R"):
			if more && !(next.plain() && (identifier(next.val) || testOperators[next.val])) {
				c.unclear(next.src, "the subscript of a tested variable can run commands", "a plain name")
			}
		case !a.plain() && (a.val == "" || a.val == "-") && !a.tame && more && !(next.plain() && (testOperators[next.val] || identifier(next.val))):
			c.unclear(a.src, a.src+" may turn out to be -v, which can run a command", "[[ … ]], or write the operator out")
		}
	}
}

// storesCount reports whether a printf format holds %n.
func storesCount(format string) bool {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("0123456789.-+# '*hlLjzt", format[i]) >= 0; i++ {
		}
		if i < len(format) && format[i] == 'n' {
			return true
		}
	}
	return false
}

// cd moves the directory that later commands of the text are judged from.
func (c *call) cd() {
	w := c.w
	move := func(dirs []string) {
		w.then = dirs
		w.cwd = union(w.cwd, dirs)
	}
	var target *arg
	for i := range c.args {
		a := &c.args[i]
		switch {
		case a.plain() && (a.val == "--" || a.val == "-P" || a.val == "-L" || a.val == "-e"):
		case a.plain() && (a.val == "-" || a.val == "" || a.val[0] == '+'), a.plain() && a.isFlag(), a.loose, target != nil:
			move([]string{"?"})
			return
		default:
			target = a
		}
	}
	if target == nil {
		move([]string{"~"})
		return
	}
	if !target.plain() {
		move([]string{"?"})
		return
	}
	var dirs []string
	for _, d := range w.cwd {
		dirs = union(dirs, []string{w.resolve(target.val, d)})
	}
	move(dirs)
}

// wait may set a variable (-p), and jobs may run a command (-x).
func (c *call) wait() {
	for _, a := range c.args {
		if !a.tame && !(a.plain() && (number(a.val) || strings.HasPrefix(a.val, "%") || a.val == "-n" || a.val == "-l" || a.val == "-p" && c.name == "jobs")) {
			c.unclear(a.src, c.name+" may set a variable or run a command with "+a.src, c.name+" alone")
		}
	}
}

func (c *call) set() {
	if len(c.args) == 0 {
		c.ask("", "set alone lists all variables, secrets included", "echo \"$NAME\"")
		return
	}
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a.plain() && a.val == "--":
			return
		case a.mayBeFlag():
			c.unclear(a.src, "what set changes is not known before it runs", "set -- …")
			return
		case a.val == "-o" || a.val == "+o" || strings.HasSuffix(a.val, "o") && a.isFlag() && strings.Trim(a.val[1:], "euxo") == "":
			if i++; i == len(c.args) {
				return
			}
			if !contains([]string{"pipefail", "errexit", "nounset", "xtrace", "noclobber"}, c.args[i].val) {
				c.unclear(c.args[i].val, "shell option "+c.args[i].val+" changes how the rest is read", "leave it out")
			}
		case a.isFlag() && strings.Trim(a.val[1:], "euxC") == "", strings.HasPrefix(a.val, "+") && strings.Trim(a.val[1:], "eux") == "":
		case a.isFlag():
			c.unclear(a.val, "option "+a.val+" of set changes how the rest is read", "leave it out")
		}
	}
}

// read sets variables by name; a name with a subscript is an expression.
func (c *call) read() {
	for _, a := range c.args {
		if c.name != "read" && (strings.HasPrefix(a.val, "-C") || a.mayBeFlag()) {
			c.unclear(a.src, c.name+" may run a command for each line (-C)", "while read -r line")
			continue
		}
		if a.plain() && !a.isFlag() && dangerous(a.val) {
			c.ask(a.val, "sets "+a.val+", which changes what programs run or where they look", "another name")
		}
		if !a.static || a.glob || strings.Contains(a.val, "[") {
			if a.isFlag() {
				continue
			}
			c.unclear(a.src, "a variable whose name is computed, or has a subscript, can run a command", "a plain name")
		}
	}
}

func (c *call) unset() {
	for _, a := range c.args {
		if !a.plain() || strings.Contains(a.val, "[") || dangerous(a.val) || a.val == "-f" {
			c.unclear(a.src, "unsets something that changes how the rest is read", "leave it out")
		}
	}
}

// trap runs its text later; it is judged, and still asks, because when it runs
// is not known.
func (c *call) trap() {
	if len(c.args) > 0 && c.args[0].plain() && !c.args[0].isFlag() {
		c.shell(c.args[0].val, false)
	}
	c.unclear("", "trap runs commands at another time", "run the commands where they are needed")
}

func (c *call) umask() {
	for _, a := range c.args {
		if a.plain() && a.val != "-a" && a.val != "-S" && a.val != "-p" || !a.plain() {
			c.unclear(a.src, c.name+" changes how later commands run", "leave it out")
			return
		}
	}
}
