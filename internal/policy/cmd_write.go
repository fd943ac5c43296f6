package policy

import (
	"path"
	"strings"
)

// Programs whose purpose is to change files.

func init() {
	learn("write", (*call).tee, "tee")
	learn("write", (*call).touch, "touch", "mkdir", "mkfifo", "truncate", "split", "csplit", "mktemp")
	learn("write", (*call).copy, "cp", "mv", "ln", "install")
	learn("write", (*call).remove, "rm", "rmdir", "unlink", "shred", "srm", "trash")
	learn("write", (*call).modes, "chmod", "chown", "chgrp", "chattr", "setfacl", "setfattr")
	learn("write", (*call).dd, "dd")
	learn("write", (*call).patch, "patch")
	learn("write", (*call).editor, "vi", "vim", "nvim", "view", "nano", "emacs", "ed", "ex", "pico", "micro", "code", "subl")
	learn("system", (*call).machine, "mkfs", "mount", "umount", "fdisk", "parted", "mkswap", "swapon", "swapoff", "insmod", "modprobe", "rmmod", "reboot", "shutdown",
		"halt", "poweroff", "init", "systemctl", "service", "iptables", "nft", "ip", "ifconfig", "sysctl", "useradd", "userdel", "usermod", "passwd", "chsh",
		"crontab", "at", "batch", "launchctl", "dpkg-reconfigure", "losetup", "mknod", "wipefs", "hdparm", "dmsetup", "cryptsetup")
	learn("process", (*call).process, "kill", "pkill", "killall", "renice", "skill", "fuser")
}

func (c *call) operandsOnly() []arg {
	var out []arg
	literal := false
	for _, a := range c.args {
		switch {
		case literal:
			out = append(out, a)
		case a.plain() && a.val == "--":
			literal = true
		case a.plain() && a.isFlag():
		default:
			out = append(out, a)
		}
	}
	return out
}

func (c *call) tee() {
	for _, a := range c.operandsOnly() {
		c.writes(a)
	}
}

func (c *call) touch() {
	if c.name == "split" || c.name == "csplit" || c.name == "mktemp" || c.name == "truncate" {
		f := c.ask("", c.name+" writes files", c.rule())
		f.destructive = c.name == "truncate"
	}
	for _, a := range c.operandsOnly() {
		if c.name == "mkdir" || c.name == "touch" || c.name == "mkfifo" || c.name == "truncate" {
			c.writes(a)
		}
	}
	if len(c.found) == 0 {
		c.ask("", c.name+" writes files", c.rule())
	}
}

func (c *call) copy() {
	ops := c.operandsOnly()
	target := ""
	for i, a := range c.args {
		if a.val == "-t" || a.val == "--target-directory" {
			if i+1 < len(c.args) {
				target = c.args[i+1].val
			}
		} else if v, ok := strings.CutPrefix(a.val, "--target-directory="); ok {
			target = v
		} else if v, ok := strings.CutPrefix(a.val, "-t"); ok && a.static {
			target = v
		}
	}
	c.ask("", c.name+" changes files", c.rule())
	if len(ops) == 0 {
		return
	}
	sources, dest := ops[:len(ops)-1], ops[len(ops)-1]
	if target != "" {
		sources, dest = ops, known(target)
	}
	c.writes(dest)
	for _, s := range sources {
		if dest.plain() && s.static {
			// The target may be a folder: then this is the file written.
			into := known(path.Join(dest.val, path.Base(s.val)))
			if strings.HasSuffix(s.val, "/.") {
				into = known(path.Join(dest.val, "."))
			}
			if !unknownOrInside(c, into) {
				c.writes(into)
			}
		}
		switch c.name {
		case "mv":
			c.writes(s)
		case "cp", "install":
			c.reads(s)
		case "ln":
			if s.static && c.w.zone(c.w.resolve(s.val, ".")) != inside {
				c.ask(s.val, "makes a link to "+s.val+", which is outside the workspace", "copy the file")
			}
		}
	}
}

// unknownOrInside reports whether a path that may be written, but need not be,
// deserves no word of its own: it lies inside and is not protected, or is not
// known.
func unknownOrInside(c *call, a arg) bool {
	for _, f := range c.w.accesses(a, KindWrite, c.text) {
		if f.decision == Deny || a.static && f.decision == Ask && c.w.zone(f.path) != inside {
			return false
		}
	}
	return true
}

func (c *call) remove() {
	recursive := false
	for _, a := range c.args {
		recursive = recursive || a.isFlag() && (strings.Contains(a.val, "r") || strings.Contains(a.val, "R"))
	}
	f := c.ask("", c.name+" deletes files", "")
	f.destructive = c.name != "rmdir"
	for _, a := range c.operandsOnly() {
		if a.static {
			for _, d := range c.w.cwd {
				p := c.w.resolve(a.val, d)
				if recursive && (p == "/" || p == "~" || p == "/*" || p == "~/*" || p == ".." || c.w.above(p)) {
					c.deny(c.name + " would delete " + a.val + ", which holds more than the workspace")
				}
			}
		}
		c.writes(a)
	}
}

// above reports whether a resolved path is a folder that holds the root.
func (w *walker) above(p string) bool {
	root := strings.TrimSuffix(w.cfg.Root, "/")
	return root != "" && strings.HasPrefix(p, "/") && strings.HasPrefix(root, strings.TrimSuffix(p, "/")+"/")
}

func (c *call) modes() {
	c.ask("", c.name+" changes who may use files", c.rule())
	for i, a := range c.operandsOnly() {
		if i > 0 {
			c.writes(a)
		}
	}
}

func (c *call) dd() {
	wrote := false
	for _, a := range c.args {
		if v, ok := strings.CutPrefix(a.val, "of="); ok {
			wrote = true
			a.val = v
			c.writes(a)
		} else if v, ok := strings.CutPrefix(a.val, "if="); ok {
			a.val = v
			c.reads(a)
		} else if !a.static {
			c.badWord(a)
		}
	}
	if wrote {
		c.destroys("", "dd overwrites a file or device", "")
	}
}

func (c *call) patch() {
	c.ask("", "patch changes files", "file_patch")
}

func (c *call) editor() {
	c.ask("", c.name+" is an editor: it waits for a terminal and writes files", "file_patch or write_file")
}

func (c *call) machine() {
	if c.name == "mkfs" || c.name == "wipefs" || c.name == "fdisk" || c.name == "shutdown" || c.name == "reboot" || c.name == "halt" || c.name == "poweroff" {
		c.deny(c.name + " changes the machine itself")
		return
	}
	c.ask("", c.name+" changes the machine itself", "")
}

func (c *call) process() {
	c.ask("", c.name+" sends signals to processes", c.rule())
}
