package policy

import "strings"

// Readers: programs without any option that writes a file or runs a program,
// so that it does not matter what their unknown words turn out to be; and
// readers with a few such options, whose options are therefore listed.

func init() {
	learn("read", (*call).readsOperands,
		"cat", "head", "tail", "wc", "nl", "od", "hexdump", "hd", "strings", "cut", "comm", "paste", "rev", "tac", "fold",
		"fmt", "expand", "unexpand", "cmp", "diff", "sum", "cksum", "md5sum", "sha1sum", "sha224sum", "sha256sum",
		"sha384sum", "sha512sum", "b2sum", "shasum", "md5", "base32", "zcat", "bzcat", "xzcat", "zstdcat", "column", "join", "pr",
		"shellcheck", "tsort", "numfmt")
	learn("read", func(c *call) {},
		"ls", "dir", "vdir", "stat", "du", "df", "pwd", "basename", "dirname", "realpath", "readlink", "tr", "seq", "sleep", "true", "false",
		"yes", "id", "whoami", "groups", "users", "uname", "arch", "nproc", "tty", "logname", "who", "uptime", "free", "which", "whereis",
		"expr", "factor", "cal", "getconf", "locale", "lscpu", "lsblk", "pgrep", "pidof", "tput", "lsof", "pathchk")
	learn("read", (*call).grep, "grep", "egrep", "fgrep")
	learn("read", (*call).rg, "rg")
	learn("read", (*call).fd, "fd", "fdfind")
	learn("read", (*call).sort, "sort")
	learn("read", (*call).uniq, "uniq")
	learn("read", (*call).shuf, "shuf")
	learn("read", (*call).base64, "base64")
	learn("read", (*call).tree, "tree")
	learn("read", (*call).xxd, "xxd")
	learn("read", (*call).file, "file")
	learn("read", (*call).jq, "jq", "gojq")
	learn("read", (*call).yq, "yq")
	learn("read", (*call).date, "date")
	learn("read", (*call).hostname, "hostname")
	learn("read", (*call).ps, "ps")
	learn("read", (*call).printenv, "printenv")
	learn("read", (*call).pager, "less", "more", "most", "man", "info")
	learn("read", (*call).ag, "ag", "ack")
	learn("read", (*call).bc, "bc")
}

// readsOperands is for programs that read every file they name and have no
// dangerous option.
func (c *call) readsOperands() {
	for _, a := range c.args {
		if a.plain() && a.isFlag() {
			if _, val, ok := strings.Cut(a.val, "="); ok {
				c.reads(known(val))
			}
			continue
		}
		c.reads(a)
	}
}

func (c *call) grep() {
	pattern := true // the first operand is the pattern
	for _, a := range c.args {
		if a.isFlag() && !strings.HasPrefix(a.val, "--") && strings.ContainsAny(a.val[1:], "ef") ||
			strings.HasPrefix(a.val, "--regexp") || strings.HasPrefix(a.val, "--file") {
			pattern = false
		}
	}
	c.readsAfterPattern(pattern)
}

func (c *call) readsAfterPattern(pattern bool) {
	for _, a := range c.args {
		switch {
		case a.plain() && a.isFlag():
			if _, val, ok := strings.Cut(a.val, "="); ok && strings.HasPrefix(a.val, "--file") {
				c.reads(known(val))
			}
		case a.plain() && number(a.val): // an option's number
		case pattern && !a.isFlag():
			pattern = false
		default:
			c.reads(a)
		}
	}
}

var rgRuns = []string{"--pre", "--hostname-bin", "--search-zip", "-z"}

func (c *call) rg() {
	literal := false
	for _, a := range c.args {
		if literal {
			continue
		}
		switch {
		case a.plain() && a.val == "--":
			literal = true
		case a.mayBeFlag():
			c.badWord(a)
		case a.isFlag() && strings.HasPrefix(a.val, "--"):
			name, _, _ := strings.Cut(a.val, "=")
			if contains(rgRuns, name) || !a.static && !strings.Contains(a.val, "=") {
				c.ask(a.val, "option "+name+" of rg runs a program", "leave the option out")
			}
		case a.isFlag() && strings.Contains(a.val, "z") || a.isFlag() && !a.plain():
			// z may stand in a cluster, or in the value of another option.
			c.ask(a.val, "option "+a.val+" of rg may run a program for packed files", "leave -z out")
		}
	}
	c.readsAfterPattern(true)
}

func (c *call) fd() {
	o := fdOptions
	p := o.parse(c.args, false)
	for _, b := range p.bad {
		if b.plain() && (strings.HasPrefix(b.val, "-x") || strings.HasPrefix(b.val, "-X") || strings.HasPrefix(b.val, "--exec")) {
			c.ask(b.val, "option "+b.val+" of fd runs a program for what it finds", "fd alone, or find … -exec")
			return
		}
		c.badWord(b)
	}
}

var fdOptions = options("H I u s i g F a l L p 0 1 q h V e= t= d= E= S= j= c= --hidden --no-ignore --unrestricted --case-sensitive --ignore-case --glob " +
	"--fixed-strings --absolute-path --list-details --follow --full-path --print0 --max-results= --max-depth= --min-depth= --extension= --type= " +
	"--exclude= --size= --changed-within= --changed-before= --color= --threads= --version --help --no-ignore-vcs --one-file-system --quiet --strip-cwd-prefix")

var sortOptions = options("b d f g h i M n r R V c C m s u z k= t= S= T= o= --output= --reverse --unique --numeric-sort --human-numeric-sort --version-sort --general-numeric-sort " +
	"--ignore-case --ignore-leading-blanks --dictionary-order --month-sort --random-sort --stable --merge --check --zero-terminated --key= --field-separator= " +
	"--buffer-size= --parallel= --batch-size= --debug --help --version")

func (c *call) sort() {
	p := c.parse(sortOptions, false)
	if o, ok := p.get("-o", "--output"); ok {
		c.ask(o.word, "option "+o.word+" of sort writes a file", "leave -o out and read the output")
		c.writes(o.arg)
	}
	for _, a := range p.operands {
		c.reads(a)
	}
}

var uniqOptions = options("c d D i u z # f= s= w= --count --repeated --unique --ignore-case --zero-terminated --skip-fields= --skip-chars= --check-chars= --all-repeated --group --help --version")

func (c *call) uniq() {
	p := c.parse(uniqOptions, false)
	for i, a := range p.operands {
		switch {
		case i == 1:
			c.ask(a.val, "the second operand of uniq is a file that it writes", "give uniq one operand")
			c.writes(a)
		case a.loose:
			c.unclear(a.src, a.src+" may be several words, and the second operand of uniq is a file that it writes", "quote it")
		default:
			c.reads(a)
		}
	}
}

var shufOptions = options("e r z n= i= --echo --repeat --zero-terminated --head-count= --input-range= --random-source= --help --version")

func (c *call) shuf() {
	for _, a := range c.parse(shufOptions, false).operands {
		c.reads(a)
	}
}

var base64Options = options("d D i w= --decode --ignore-garbage --wrap= --help --version")

func (c *call) base64() {
	for _, a := range c.parse(base64Options, false).operands {
		c.reads(a)
	}
}

var treeOptions = options("a d f i l p s h u g D F q N Q r t c U v C n A S J X x L= P= I= --noreport --dirsfirst --filesfirst --gitignore --prune --sort= --charset= " +
	"--matchdirs --ignore-case --du --si --timefmt= --filelimit= --inodes --device --metafirst --version --help --fromfile --info")

func (c *call) tree() { c.parse(treeOptions, false) }

func (c *call) xxd() {
	// xxd takes its options with one dash and any length: -ps, -len 16.
	var operands []arg
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a.mayBeFlag():
			c.badWord(a)
		case a.isFlag():
			if contains([]string{"-l", "-s", "-c", "-g", "-o", "-len", "-seek", "-cols", "-g", "-groupsize", "-n"}, a.val) {
				i++
			}
		default:
			operands = append(operands, a)
		}
	}
	for i, a := range operands {
		if i == 0 && !a.loose {
			c.reads(a)
			continue
		}
		c.ask(a.val, "the second operand of xxd is a file that it writes", "give xxd one operand")
		c.writes(a)
	}
}

var fileOptions = options("b i L h k p r s 0 N E --brief --mime --mime-type --mime-encoding --dereference --no-dereference --keep-going --raw --special-files --print0 --version --help e= F= f= P= --files-from= --separator= --extension")

func (c *call) file() { c.parse(fileOptions, false) }

func (c *call) jq() {
	script := true
	for _, a := range c.args {
		switch {
		case a.isFlag():
			if a.val == "-f" || strings.HasPrefix(a.val, "--from-file") {
				script = false
			}
		case script:
			script = false
			if strings.Contains(a.val, "env") || strings.Contains(a.val, "ENV") {
				c.ask(a.val, "the jq program reads the environment, where secrets are", "leave env and $ENV out")
			}
		default:
			c.reads(a)
		}
	}
}

var yqOptions = options("r e P C M j N n o= p= I= --output-format= --input-format= --prettyPrint --colors --no-colors --no-doc --unwrapScalar --exit-status --null-input --indent= --version --help")

func (c *call) yq() {
	p := yqOptions.parse(c.args, false)
	for _, b := range p.bad {
		if b.plain() && (strings.HasPrefix(b.val, "--in") || !strings.HasPrefix(b.val, "--") && strings.Contains(b.val, "i")) {
			c.ask(b.val, "option "+b.val+" of yq writes the file in place", "leave -i out")
			continue
		}
		c.badWord(b)
	}
	for i, a := range p.operands {
		if i > 0 {
			c.reads(a)
		} else if strings.Contains(a.val, "env") || strings.Contains(a.val, "load") || strings.Contains(a.val, "exec") || strings.Contains(a.val, "system") {
			c.ask(a.val, "the yq program reads the environment or other files", "leave env and load out")
		}
	}
}

var dateOptions = options("u R I d= r= f= j n v= --utc --universal --date= --reference= --iso-8601 --rfc-3339= --rfc-email --file= --debug --help --version")

func (c *call) date() {
	for _, a := range c.parse(dateOptions, false).operands {
		if !strings.HasPrefix(a.val, "+") {
			c.ask(a.val, "an operand of date without + sets the clock", "begin a format with +")
		}
	}
}

var hostnameOptions = options("a A d f i I s y V h --short --fqdn --long --ip-address --all-ip-addresses --domain --version --help")

func (c *call) hostname() {
	for _, a := range c.parse(hostnameOptions, false).operands {
		c.ask(a.val, "an operand of hostname sets the machine's name", "hostname alone")
	}
}

func (c *call) ps() {
	for i, a := range c.args {
		switch {
		case !a.static || a.glob:
			c.badWord(a)
		case !strings.HasPrefix(a.val, "-") && strings.Contains(a.val, "e") && (i == 0 || !strings.HasPrefix(c.args[i-1].val, "-")):
			c.ask(a.val, "e without a dash makes ps show the environment of processes, where secrets are", "ps -e, or ps aux")
		}
	}
}

func (c *call) printenv() {
	named := false
	for _, a := range c.args {
		if a.isFlag() {
			continue
		}
		named = true
		if !a.plain() || secretVariable(a.val) {
			c.ask(a.val, "prints a variable that may hold a secret", "")
		}
	}
	if !named {
		c.ask("", "prints the whole environment, secrets included", "printenv NAME")
	}
}

var pagerOptions = options("N S R F X i I s n r E e k= f # --no-init --quit-if-one-screen --RAW-CONTROL-CHARS --LINE-NUMBERS --chop-long-lines")

func (c *call) pager() {
	for _, a := range c.parse(pagerOptions, false).operands {
		if strings.HasPrefix(a.val, "+") || !a.static {
			c.ask(a.val, "a pager runs commands that it is given with +", "cat, head or sed -n")
			continue
		}
		if c.name == "less" || c.name == "more" || c.name == "most" {
			c.reads(a)
		}
	}
}

var agOptions = options("i s S w v l L c n H o a u g= G= A= B= C= m= --ignore= --ignore-case --smart-case --literal --nocolor --color --no-heading --hidden --files-with-matches --count --stats --depth= --version --help Q F --python --go --js")

func (c *call) ag() {
	c.parse(agOptions, false)
	c.readsAfterPattern(true)
}

var bcOptions = options("l q s w i h v --mathlib --quiet --standard --version --help")

func (c *call) bc() {
	for _, a := range c.parse(bcOptions, false).operands {
		c.reads(a)
	}
}
