// Package policy says allow, ask or deny for a proposed operation. It is pure:
// it sees the operation's own words and the rules, and never the disk, the
// environment or a clock. It must not know goals, tools' implementations,
// sandboxes or how a question is answered.
//
// # What it promises
//
// Allow means: the text, run by bash with an honest set of programs, changes
// no file, reaches for no network, runs no program that the text does not
// show, and prints no file or variable that is known by its name to hold
// secrets; or a rule of the user says that it may. It is the first of two
// fences. The sandbox is the second and holds what words cannot show: symbolic
// links, files whose names do not say what they are, programs that are not
// what they are called.
//
// # How shell text is judged
//
// The text is parsed, never matched as a string. Only the syntax nodes that
// shell.go and expr.go name are understood; any other node asks. Each simple
// command is judged by itself, wherever it stands: in lists, pipes,
// substitutions, functions, here-documents, and behind wrappers (env, timeout,
// xargs, find -exec, sh -c, eval), whose own options are read to find where
// the command begins. Redirections are writes.
//
// Words are expanded as far as the text alone allows (word.go): quotes,
// escapes, braces, and variables that the text assigns (scan.go takes every
// assignment of the text as possible, whatever the order, so a loop or a
// branch cannot hide one). The rest is unknown, and matters in three places. In the
// place of a command's name it asks. In the place of a file to write it asks.
// Among the other words it asks when the program has an option that writes or
// runs something and the word may turn out to be that option; for cat, grep
// and their kind, which have none, it does not.
//
// A variable's content counts as code in arithmetic, subscripts and a few
// expansions, because bash evaluates a[$(command)] there; so these must be
// numbers.
//
// A cd is followed, so that `cd .git && echo x > config` is seen for what it
// is. A cd may fail: after `cd x; …` both folders count, after `cd x && …` only the
// new one.
//
// Each program that is known has a function (cmd_*.go) that says what is not
// harmless about a call. For programs with a dangerous option the harmless ones are
// listed, not the dangerous ones: a new release may bring a new one, and long
// options may be abbreviated. What no function knows asks.
//
// # Precedence
//
//  1. Deny wins over everything: a rule's in any layer, or the built-in denial
//     of protected paths (git's own data at any depth, policy files, belay's
//     state) and of the machine's own files. No rule lifts a built-in denial.
//  2. A rule that asks wins over one that allows, in whatever layer they stand:
//     the strictest word counts, so that a repository or a goal can narrow what the
//     user allows in general.
//  3. A rule that allows (user or goal) turns a built-in question into
//     permission, with these limits, because a rule is written for what its
//     author had in mind:
//     an option that turns a reader into a writer must be spelled out in the
//     pattern (`git diff *` does not take in --output);
//     a path outside the workspace, or one that holds secrets, needs a rule on that
//     path;
//     what can destroy work (Verdict.Destructive) and what cannot be judged before it
//     runs always asks.
//  4. A test command of the goal, to the letter and in the root, is allowed: the
//     user gave it. So are runs of some of the same tests by go test, pytest and
//     cargo test, with harmless options: they run no code that the goal's own
//     command would not run.
//  5. Built-in knowledge.
//  6. What nothing names asks.
//
// A rule that denies or asks looks through a program's folder, through git's
// global options and into what is unknown: a word that may be what it denies
// asks. A rule that allows does none of that.
package policy
