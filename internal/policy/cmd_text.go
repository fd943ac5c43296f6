package policy

import "strings"

// sed and awk are languages: their scripts are read far enough to know that
// they neither write nor run anything.

func init() {
	learn("text", (*call).sed, "sed", "gsed")
	learn("text", (*call).awk, "awk", "gawk", "mawk", "nawk")
	learn("text", (*call).tar, "tar")
	learn("text", (*call).unzip, "unzip", "zipinfo")
	learn("text", (*call).gzip, "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd")
}

var sedOptions = options("n r E s u z l= e= --quiet --silent --regexp-extended --separate --unbuffered --null-data --line-length= --expression= --posix --sandbox --debug --help --version")

func (c *call) sed() {
	p := sedOptions.parse(c.args, false)
	var scripts []arg
	for _, b := range p.bad {
		switch {
		case b.plain() && (strings.HasPrefix(b.val, "--in") || !strings.HasPrefix(b.val, "--") && strings.Contains(b.val, "i")):
			c.ask(b.val, "option "+b.val+" of sed changes files in place", "file_patch, or leave -i out")
			for _, a := range p.operands {
				if a.plain() && !strings.ContainsAny(a.val, " ;{}") && !strings.HasPrefix(a.val, "s/") {
					c.writes(a)
				}
			}
		case b.plain() && (strings.HasPrefix(b.val, "-f") || strings.HasPrefix(b.val, "--file")):
			c.ask(b.val, "sed takes its script from a file, and a script can write and run", "give the script with -e")
		default:
			c.badWord(b)
		}
	}
	for _, o := range p.opts {
		if o.name == "-e" || o.name == "--expression" {
			scripts = append(scripts, o.arg)
		}
	}
	files := p.operands
	if len(scripts) == 0 && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	for _, s := range scripts {
		if !s.plain() {
			c.unclear(s.src, "the sed script is not known before it runs, and a script can write and run", "write the script out in single quotes")
			continue
		}
		if why := sedScript(s.val); why != "" {
			c.ask(s.val, why, "a script without w, r, e and their flags")
		}
	}
	for _, f := range files {
		c.reads(f)
	}
}

// sedScript says what in a script is not plainly harmless, or "". It reads
// addresses, the one-letter commands, and the delimited parts of s and y; what
// it does not understand is not harmless.
func sedScript(s string) string {
	i := 0
	skip := func(set string) {
		for i < len(s) && strings.IndexByte(set, s[i]) >= 0 {
			i++
		}
	}
	// part reads up to an unescaped delimiter.
	part := func(d byte) bool {
		from := i
		for ; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case d:
				i++
				return !openBracket(s[from : i-1])
			case '\n':
				return false
			}
		}
		return false
	}
	for {
		skip(" \t\n;{}")
		if i >= len(s) {
			return ""
		}
		if !sedAddress(s, &i, part) {
			return "the sed script is not understood"
		}
		skip(" \t!")
		if i >= len(s) {
			return "the sed script is not understood"
		}
		cmd := s[i]
		i++
		switch cmd {
		case '{', '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
			continue
		case 'q', 'Q', 'l', 'L':
			skip(" \t0123456789")
		case ':', 'b', 't', 'T':
			skip(" \t")
			for i < len(s) && strings.IndexByte(" \t\n;}", s[i]) < 0 {
				i++
			}
		case '#':
			for i < len(s) && s[i] != '\n' {
				i++
			}
		case 'a', 'i', 'c':
			for i < len(s) && s[i] != '\n' {
				if s[i] == '\\' {
					i++
				}
				i++
			}
		case 's', 'y':
			if why := sedSubstitute(s, &i, cmd, part); why != "" {
				return why
			}
		case 'w', 'W':
			return "the sed script writes a file (" + string(cmd) + ")"
		case 'e':
			return "the sed script runs a command (e)"
		case 'r', 'R':
			return "the sed script reads another file (" + string(cmd) + ")"
		default:
			return "the sed script is not understood at " + s[i-1:]
		}
	}
}

// openBracket reports whether a bracket expression is still open at the end of
// a regular expression: then the delimiter found belonged to it, for some seds.
func openBracket(re string) bool {
	for i := 0; i < len(re); i++ {
		switch re[i] {
		case '\\':
			i++
			continue
		case '[':
		default:
			continue
		}
		i++
		if i < len(re) && re[i] == '^' {
			i++
		}
		if i < len(re) && re[i] == ']' {
			i++
		}
		for ; ; i++ {
			if i >= len(re) {
				return true
			}
			if re[i] == ']' {
				break
			}
			if re[i] == '[' && i+1 < len(re) && strings.IndexByte(":.=", re[i+1]) >= 0 {
				n := strings.Index(re[i+2:], re[i+1:i+2]+"]")
				if n < 0 {
					return true
				}
				i += n + 3
			}
		}
	}
	return false
}

func sedSubstitute(s string, i *int, cmd byte, part func(byte) bool) string {
	if *i >= len(s) || s[*i] == '\n' || s[*i] == '\\' {
		return "the sed script is not understood"
	}
	d := s[*i]
	*i++
	pattern := part(d)
	if replacement := pattern && part(d); !replacement {
		return "the sed script is not understood"
	}
	for cmd == 's' && *i < len(s) && strings.IndexByte("gpiImM0123456789ew", s[*i]) >= 0 {
		switch s[*i] {
		case 'e':
			return "the sed script runs a command (flag e of s)"
		case 'w':
			return "the sed script writes a file (flag w of s)"
		}
		*i++
	}
	return ""
}

func sedAddress(s string, i *int, part func(byte) bool) bool {
	for n := 0; n < 2; n++ {
		if *i >= len(s) {
			return false
		}
		switch c := s[*i]; {
		case c >= '0' && c <= '9' || n > 0 && (c == '+' || c == '~'):
			for *i < len(s) && strings.IndexByte("0123456789+~", s[*i]) >= 0 {
				*i++
			}
		case c == '$':
			*i++
		case c == '/':
			*i++
			if !part('/') {
				return false
			}
		case c == '\\':
			if *i += 2; *i > len(s) || !part(s[*i-1]) {
				return false
			}
		default:
			return n == 0
		}
		for *i < len(s) && (s[*i] == 'I' || s[*i] == 'M') {
			*i++
		}
		for *i < len(s) && (s[*i] == ' ' || s[*i] == '\t') {
			*i++
		}
		if *i >= len(s) || s[*i] != ',' {
			return true
		}
		*i++
		for *i < len(s) && (s[*i] == ' ' || s[*i] == '\t') {
			*i++
		}
	}
	return true
}

func (c *call) awk() {
	i, script := 0, (*arg)(nil)
	for ; i < len(c.args) && script == nil; i++ {
		a := c.args[i]
		switch {
		case a.mayBeFlag():
			c.badWord(a)
			return
		case a.val == "--":
			if i+1 < len(c.args) {
				i++
				script = &c.args[i]
			}
		case a.val == "-F" || a.val == "-v":
			i++
		case strings.HasPrefix(a.val, "-F") || strings.HasPrefix(a.val, "-v") && a.static:
		case a.val == "--version" || a.val == "-W" || a.val == "--csv":
		case a.isFlag():
			c.ask(a.val, "option "+a.val+" of awk may load a script or a library", "give the script in single quotes")
			return
		default:
			script = &c.args[i]
		}
	}
	if script == nil {
		return
	}
	if !script.plain() {
		c.unclear(script.src, "the awk script is not known before it runs, and a script can write and run", "write the script out in single quotes, values with -v")
		return
	}
	if why := awkScript(script.val); why != "" {
		c.ask(script.val, why, "a script that only prints")
	}
	for _, f := range c.args[min(i, len(c.args)):] {
		if f.isFlag() || f.loose {
			// Options after the script are operands to awk, but not to every awk.
			if f.isFlag() {
				c.badWord(f)
				continue
			}
		}
		c.reads(f)
	}
}

// awkScript says what in a script is not plainly harmless, or "".
func awkScript(s string) string {
	for _, bad := range []struct{ word, why string }{
		{"system", "the awk script may run a command (system)"}, {"getline", "the awk script may read from a command or file (getline)"},
		{"ENVIRON", "the awk script reads the environment, where secrets are"}, {"@", "the awk script loads code or calls a function by a computed name"},
		{"PROCINFO", "the awk script may change how input is read"}, {"/inet", "the awk script may open a network connection"},
	} {
		if strings.Contains(s, bad.word) {
			return bad.why
		}
	}
	code, sure := awkCode(s)
	if !sure {
		code = s
	}
	printing, depth := false, 0
	for i := 0; i < len(code); i++ {
		switch c := code[i]; c {
		case '|':
			if i+1 < len(code) && code[i+1] == '|' {
				i++
				continue
			}
			return "the awk script pipes to or from a command (|)"
		case '(':
			depth++
		case ')':
			depth--
		case ';', '{', '}':
			// A newline does not end a statement in every place.
			printing, depth = false, 0
		case '>':
			if (printing && depth <= 0) || !sure || i+1 < len(code) && code[i+1] == '>' {
				return "the awk script writes a file (>)"
			}
		case 'p':
			if strings.HasPrefix(code[i:], "print") {
				printing, depth = true, 0
			}
		}
	}
	return ""
}

// awkCode blanks strings, comments and regular expressions out of a script.
// It reports false when a slash could be either a division or a regular
// expression.
func awkCode(s string) (string, bool) {
	b := []byte(s)
	prev := byte(';') // the last byte of code that is no blank
	end := func(i int, d byte) int {
		for j := i + 1; j < len(s); j++ {
			switch s[j] {
			case '\\':
				j++
			case '\n':
				return -1
			case d:
				return j
			}
		}
		return -1
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			j := end(i, '"')
			if j < 0 {
				return "", false
			}
			for k := i; k <= j; k++ {
				b[k] = ' '
			}
			i, prev = j, '"'
		case '#':
			for i < len(s) && s[i] != '\n' {
				b[i] = ' '
				i++
			}
			prev = ';'
		case '/':
			if prev == ')' {
				return "", false
			}
			if keywordBefore(s[:i]) {
				return "", false
			}
			if prev == '"' || prev == ']' || prev == '$' || prev == '_' || prev >= '0' && prev <= '9' || prev >= 'a' && prev <= 'z' || prev >= 'A' && prev <= 'Z' {
				prev = c
				continue
			}
			j := end(i, '/')
			if j < 0 {
				return "", false
			}
			if strings.Contains(s[i:j], "[") {
				// A slash inside a bracket need not be escaped in every awk.
				return "", false
			}
			for k := i; k <= j; k++ {
				b[k] = ' '
			}
			i, prev = j, '"'
		case ' ', '\t':
		default:
			prev = c
		}
	}
	return string(b), true
}

// keywordBefore reports whether code ends in a word after which a slash begins
// a regular expression although a name would make it a division.
func keywordBefore(code string) bool {
	code = strings.TrimRight(code, " \t\n\\")
	at := len(code)
	for at > 0 && (code[at-1] == '_' || code[at-1] >= 'a' && code[at-1] <= 'z') {
		at--
	}
	switch code[at:] {
	case "print", "printf", "return", "in", "case", "else", "do", "delete", "exit", "next", "default", "getline":
		return true
	}
	return false
}

func (c *call) tar() {
	if len(c.args) == 0 {
		return
	}
	mode := c.args[0]
	letters := strings.TrimPrefix(mode.val, "-")
	if !mode.plain() || strings.HasPrefix(mode.val, "--") && mode.val != "--list" || mode.val != "--list" && (!strings.Contains(letters, "t") || strings.Trim(letters, "tvfzjJa") != "") {
		c.ask("", "unpacks or writes an archive, or runs a program for it", "tar -tf lists one")
		return
	}
	for _, a := range c.args[1:] {
		if strings.Contains(a.val, ":") {
			c.ask(a.val, "tar takes a name with a colon for a file on another machine", "./"+a.val)
		}
		if a.isFlag() && !contains([]string{"-v", "-f", "-z", "-j", "-J", "--verbose", "--"}, a.val) || a.mayBeFlag() {
			c.badWord(a)
		}
	}
}

func (c *call) unzip() {
	if c.name == "unzip" && (len(c.args) == 0 || !c.args[0].plain() || c.args[0].val != "-l" && c.args[0].val != "-v" && c.args[0].val != "-t" && c.args[0].val != "-Z1") {
		c.ask("", "unpacks an archive into the working directory", "unzip -l lists it")
	}
}

func (c *call) gzip() {
	for _, a := range c.args {
		if a.plain() && (a.val == "-c" || a.val == "-l" || a.val == "-t" || a.val == "-dc" || a.val == "-cd" || a.val == "--stdout" || a.val == "--list" || a.val == "--test" || a.val == "--version") {
			for _, b := range c.args {
				if b.mayBeFlag() {
					c.badWord(b)
				}
				c.reads(b)
			}
			return
		}
	}
	c.ask("", "replaces the file by its packed or unpacked form", c.name+" -c writes to standard output")
}
