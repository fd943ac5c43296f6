package policy

import "strings"

// optset is the list of options of a program that are known to be harmless.
// Whatever is not in the list asks: a new release may bring a new option, and
// an abbreviation may stand for a dangerous one.
type optset struct {
	flags string          // short options without a value
	vals  string          // short options with a value
	long  map[string]bool // long options; true when a value may follow as a word
	nums  bool            // -5 is an option
}

// options reads a list: "n" a flag, "l=" one with a value, "#" for -NUMBER,
// "--quiet" a long flag (a value after = is taken as well), "--lines=" a long
// option that takes the next word when no = follows.
func options(list string) *optset {
	o := &optset{long: map[string]bool{}}
	for _, f := range strings.Fields(list) {
		name, val := strings.CutSuffix(f, "=")
		switch {
		case f == "#":
			o.nums = true
		case strings.HasPrefix(name, "--"):
			o.long[name] = val
		case val:
			o.vals += name
		default:
			o.flags += name
		}
	}
	return o
}

// opt is one option that was given; arg is its value, if it has one.
type opt struct {
	name string // "-n" or "--lines"
	arg  arg
	has  bool
	word string // the whole word
}

// parsed is a command line taken apart.
type parsed struct {
	opts     []opt
	operands []arg
	bad      []arg // options not in the list, and words that may turn out to be one
}

func (p parsed) get(names ...string) (opt, bool) {
	for _, o := range p.opts {
		if contains(names, o.name) {
			return o, true
		}
	}
	return opt{}, false
}

// parse takes words apart as getopt does. With stop, the first operand ends
// the options and it and all after it are operands.
func (o *optset) parse(args []arg, stop bool) parsed {
	var p parsed
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a.plain() && a.val == "--":
			p.operands = append(p.operands, args[i+1:]...)
			return p
		case a.isFlag() && !(a.glob && !strings.Contains(a.val, "=")):
			i += o.option(&p, a, args[i+1:])
		case a.mayBeFlag():
			p.bad = append(p.bad, a)
			p.operands = append(p.operands, a)
		case stop:
			p.operands = append(p.operands, args[i:]...)
			return p
		default:
			p.operands = append(p.operands, a)
		}
	}
	return p
}

// option reads one option and returns how many further words it took.
func (o *optset) option(p *parsed, a arg, rest []arg) int {
	if strings.HasPrefix(a.val, "--") {
		return o.longOption(p, a, rest)
	}
	if o.nums && a.plain() && number(a.val[1:]) {
		p.opts = append(p.opts, opt{name: "-#", word: a.val})
		return 0
	}
	for i := 1; i < len(a.val); i++ {
		name := "-" + a.val[i:i+1]
		switch {
		case strings.IndexByte(o.vals, a.val[i]) >= 0:
			if i+1 < len(a.val) || !a.plain() {
				if a.loose {
					p.bad = append(p.bad, a)
				}
				p.opts = append(p.opts, opt{name: name, arg: a.from(i + 1), has: true, word: a.val})
				return 0
			}
			return o.value(p, opt{name: name, word: a.val}, rest)
		case strings.IndexByte(o.flags, a.val[i]) >= 0 && a.val[i] != '-':
			p.opts = append(p.opts, opt{name: name, word: a.val})
		default:
			p.bad = append(p.bad, a)
			return 0
		}
	}
	if !a.plain() {
		p.bad = append(p.bad, a)
	}
	return 0
}

func (o *optset) longOption(p *parsed, a arg, rest []arg) int {
	name, _, eq := strings.Cut(a.val, "=")
	takes, ok := o.long[name]
	switch {
	case !ok || a.loose || !a.plain() && !eq:
		p.bad = append(p.bad, a)
	case eq:
		p.opts = append(p.opts, opt{name: name, arg: a.from(len(name) + 1), has: true, word: a.val})
	case takes:
		return o.value(p, opt{name: name, word: a.val}, rest)
	default:
		p.opts = append(p.opts, opt{name: name, word: a.val})
	}
	return 0
}

// value takes the next word as an option's value.
func (o *optset) value(p *parsed, op opt, rest []arg) int {
	if len(rest) == 0 {
		p.opts = append(p.opts, op)
		return 0
	}
	if rest[0].loose || rest[0].glob || rest[0].vanish {
		p.bad = append(p.bad, rest[0])
	}
	op.arg, op.has = rest[0], true
	p.opts = append(p.opts, op)
	return 1
}

// from is the rest of a word after its first n known bytes.
func (a arg) from(n int) arg {
	a.src = ""
	if a.plain() || a.glob {
		a.val = a.val[min(n, len(a.val)):]
		return a
	}
	a.val = a.val[min(n, len(a.val)):]
	a.frag = a.frag[min(n, len(a.frag)):]
	return a
}

// parse takes the call's words apart and asks about what is not in the list.
func (c *call) parse(o *optset, stop bool) parsed {
	p := o.parse(c.args, stop)
	for _, b := range p.bad {
		c.badWord(b)
	}
	return p
}

// badWord asks about a word that is, or may become, an option that is not
// known to be harmless.
func (c *call) badWord(b arg) {
	if b.plain() {
		c.ask(b.val, "option "+b.val+" of "+c.name+" is not known to be harmless", "leave the option out")
		return
	}
	src := b.src
	if src == "" {
		src = b.val + "…"
	}
	c.unclear(src, src+" may turn out to be an option of "+c.name+", which has options that write or run something",
		"put -- before it, or begin a path with ./")
}
