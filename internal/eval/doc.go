// Package eval is the EvalRunner: it plays cases against the built program and
// says what came out. A case is a folder with a repository, a goal, a model or
// a script, what people and the world do meanwhile, and the end that is
// expected. Every run has a state directory, a workspace, a configuration and
// an environment of its own, and is a real process of belay: a kill is kill -9.
//
// A run comes out as pass, fail, infra or time_out, never as two of them. How
// an agent went wrong is read off the ledger alone (Classify).
//
// The package must not know how belay works inside: it reads the events that
// the program prints, sends the commands that anyone could send, and looks at
// the files. It decides nothing about a goal.
package eval
