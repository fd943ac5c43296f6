package policy

import "strings"

// Wrappers run the command that follows them; that command is judged by
// itself, whatever stands before it.

func init() {
	learn("wrapper", (*call).env, "env")
	learn("wrapper", func(c *call) {
		c.wrap(options("k= s= v --kill-after= --signal= --preserve-status --foreground --verbose"), 1)
	}, "timeout", "gtimeout")
	learn("wrapper", func(c *call) { c.wrap(options("n= # --adjustment="), 0) }, "nice")
	learn("wrapper", func(c *call) { c.wrap(options("c= n= t --class= --classdata= --ignore"), 0) }, "ionice")
	learn("wrapper", func(c *call) { c.wrap(options(""), 0) }, "nohup")
	learn("wrapper", func(c *call) { c.wrap(options("i= o= e= --input= --output= --error="), 0) }, "stdbuf")
	learn("wrapper", func(c *call) { c.wrap(options("w f c --wait --fork --ctty"), 0) }, "setsid")
	learn("wrapper", func(c *call) { c.wrap(options("v p f= --verbose --portability --format="), 0) }, "time")
	learn("wrapper", func(c *call) { c.wrap(options("i d s u m"), 0) }, "caffeinate")
	learn("wrapper", (*call).command, "command")
	learn("wrapper", func(c *call) { c.wrap(options(""), 0) }, "builtin")
	learn("wrapper", func(c *call) { c.wrap(options("c l a="), 0) }, "exec")
	learn("wrapper", func(c *call) { c.wrap(options(""), 0) }, "busybox", "toybox")
	learn("wrapper", (*call).watch, "watch")
	learn("privilege", (*call).sudo, "sudo", "doas", "pkexec", "su", "runuser", "gosu", "setpriv", "chroot", "unshare", "nsenter", "capsh", "sg", "newgrp", "systemd-run", "flatpak-spawn", "machinectl")
	learn("shell", (*call).shells, "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "pwsh")
	learn("shell", (*call).eval, "eval")
	learn("shell", func(c *call) {
		c.ask("", "runs the commands of a file ("+spell(c.args)+")", "run the commands themselves")
	}, "source", ".")
}

// wrap judges what follows a wrapper: after its options and skip operands.
func (c *call) wrap(o *optset, skip int) {
	p := c.parse(o, true)
	if len(p.operands) <= skip {
		c.note = "runs nothing"
		return
	}
	c.through = true
	for _, a := range p.operands[:skip] {
		if a.loose || a.vanish || a.glob {
			c.unclear(a.src, "which command "+c.name+" runs is not known before it runs", "quote "+a.src)
			return
		}
	}
	c.run(p.operands[skip:])
}

var envOptions = options("i v 0 u= C= --ignore-environment --unset= --chdir= --null --debug --block-signal --default-signal --ignore-signal")

func (c *call) env() {
	p := c.parse(envOptions, true)
	c.through = true
	if o, ok := p.get("-C", "--chdir"); ok {
		saved := c.w.cwd
		defer func() { c.w.cwd = saved }()
		c.gitChdir(o.arg)
	}
	rest := p.operands
	for len(rest) > 0 {
		name, _, ok := strings.Cut(rest[0].val, "=")
		if !ok {
			break
		}
		if dangerous(name) {
			c.ask(rest[0].val, "sets "+name+", which changes what programs run or where they look", "run the command without it").kind = KindAssignment
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		c.ask("", "prints the whole environment, secrets included", "printenv NAME")
		return
	}
	if !rest[0].plain() {
		c.unclear(rest[0].src, "whether "+rest[0].src+" is a variable or a command is not known before it runs", "write it out")
		return
	}
	c.run(rest)
}

func (c *call) command() {
	p := c.parse(options("p v V"), true)
	c.through = true
	if _, ok := p.get("-v", "-V"); ok {
		c.through, c.note = false, "looks a name up"
		return
	}
	if len(p.operands) == 0 {
		c.through, c.note = false, "runs nothing"
	}
	c.run(p.operands)
}

func (c *call) watch() {
	p := c.parse(options("n= d t b e g c --interval= --no-title"), true)
	c.ask("", "watch never ends", "run the command once")
	c.shell(spell(p.operands), false)
}

var sudoOptions = options("E H n k K b S s i A u= g= U= p= C= h= r= t= D= R= T= --preserve-env --non-interactive --user= --group= --set-home --login --shell --stdin")

// sudo asks for itself; what it runs is still judged, so that a denial of that
// is not lost.
func (c *call) sudo() {
	c.ask("", c.name+" runs a command with other rights or in another place", "run the command without "+c.name)
	switch c.name {
	case "sudo", "doas", "pkexec", "gosu", "setpriv", "chroot", "unshare", "nsenter", "systemd-run":
		rest := sudoOptions.parse(c.args, true).operands
		for len(rest) > 0 && strings.Contains(rest[0].val, "=") {
			rest = rest[1:]
		}
		if c.name == "chroot" || c.name == "gosu" {
			rest = rest[min(1, len(rest)):]
		}
		c.run(rest)
	case "su", "runuser", "sg", "capsh":
		for i, a := range c.args {
			if (a.val == "-c" || a.val == "--command") && i+1 < len(c.args) && c.args[i+1].plain() {
				c.shell(c.args[i+1].val, false)
			}
		}
	}
}

// shells judges sh -c and its kind by the text they are given.
func (c *call) shells() {
	dialect := c.name == "sh" || c.name == "bash" || c.name == "dash" || c.name == "ash" || c.name == "rbash"
	if !dialect {
		c.ask("", c.name+" reads its text in its own way", "bash -c, or the command itself")
	}
	i, command := 0, false
	for ; i < len(c.args); i++ {
		a := c.args[i]
		if a.mayBeFlag() {
			c.badWord(a)
			return
		}
		if a.val == "--version" || a.val == "--help" {
			return
		}
		if a.val == "-o" || a.val == "+o" || a.val == "-O" || a.val == "+O" {
			i++
			if i < len(c.args) && !contains([]string{"pipefail", "errexit", "nounset", "xtrace", "noglob", "noclobber"}, c.args[i].val) {
				c.ask(c.args[i].val, "shell option "+c.args[i].val+" changes how the text is read", "leave it out")
			}
			continue
		}
		if a.val == "--norc" || a.val == "--noprofile" || a.val == "--posix" {
			continue
		}
		if !a.isFlag() || a.val == "--" {
			break
		}
		letters := a.val[1:]
		if strings.Trim(letters, "ceux") != "" {
			if letters = strings.Trim(letters, "ceux"); strings.Trim(letters, "o") == "" && strings.HasSuffix(a.val, "o") {
				i++ // -euo pipefail
			} else {
				c.ask(a.val, "option "+a.val+" makes "+c.name+" read files of the user, or run otherwise than with -c", c.name+" -c")
			}
		}
		command = command || strings.Contains(a.val, "c")
	}
	rest := c.args[min(i, len(c.args)):]
	switch {
	case !command && len(rest) == 0:
		c.ask("", c.name+" takes its commands from its input", "run the commands themselves")
	case !command:
		c.ask("", c.name+" runs the commands of a file ("+rest[0].src+")", "run the commands themselves, or a rule for this very script")
	case len(rest) == 0:
	case !rest[0].plain():
		c.unclear(rest[0].src, "the text that "+c.name+" -c runs is not known before it runs", "write the text in single quotes, values as further words")
	default:
		c.through = true
		c.shell(rest[0].val, false)
	}
}

func (c *call) eval() {
	var text []string
	for _, a := range c.args {
		if !a.plain() {
			c.unclear(a.src, "the text that eval runs is not known before it runs", "run the command itself")
			return
		}
		text = append(text, a.val)
	}
	c.through = true
	c.shell(strings.Join(text, " "), true)
}
