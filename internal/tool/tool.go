// Package tool is the port for the tools that the model sees. A tool declares
// its schema and effect class, reads its own arguments, and executes one
// attempt. Each tool is one file in internal/tool/builtin.
//
// A tool decides nothing about permission, retries or recovery: the core does,
// from the effect class and the values that Describe and Prepare return.
package tool

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"belay/internal/event"
	"belay/internal/recall"
	"belay/internal/redact"
	"belay/internal/sandbox"
	"belay/internal/symbols"
	"belay/internal/workspace"
)

// Spec is what a tool declares.
type Spec struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Effect      event.EffectClass
}

// Tool is one tool. Control tools (plan, todos, decisions, questions, finish)
// have only Spec and Describe; the core answers them.
type Tool interface {
	Spec() Spec
	// Describe checks arguments against the schema and says what they are
	// going to touch, by the arguments alone. It returns the arguments in
	// normalised JSON (sorted keys, defaults left out) and an
	// *fault.Fault of kind invalid_arguments that names the field.
	Describe(args json.RawMessage) (normalised json.RawMessage, a event.Access, err error)
}

// Runner is a tool that executes.
type Runner interface {
	Tool
	// Run executes one attempt. A fault of the action itself is in the Result;
	// an error means that the executor could not even try, or that the outcome
	// is not known (errors.Is context.Canceled, sandbox.ErrGone).
	Run(ctx context.Context, env Env, call Call) (event.Outcome, event.Result, error)
}

// Preparer is a tool with side effects: it computes the exact intent against
// the workspace as it is now, without changing anything. A fault here rejects
// the operation.
type Preparer interface {
	Runner
	Prepare(ctx context.Context, env Env, call Call) (Prepared, error)
}

// Prober can establish what an earlier attempt did, without changing anything.
type Prober interface {
	Preparer
	Probe(ctx context.Context, env Env, call Call) (Finding, error)
}

// Prepared is what an operation would do now.
type Prepared struct {
	// Files are the fingerprints before and after, for verifiable tools.
	Files []event.FilePrint
	// Inputs are the hashes of other files whose content the action depends on
	// (scripts a command names), path and Base set.
	Inputs []event.FilePrint
	// Preview is what a person is shown.
	Preview string
	// Dir (absolute) and Env identify a command together with its text: Env
	// holds only the keys that matter, sorted.
	Dir string
	Env []string
	// Timeout is the limit that the attempt will get.
	Timeout     time.Duration
	Destructive bool
	Key         string
}

// Call is one attempt of one operation.
type Call struct {
	Goal, Op string
	Attempt  int
	Args     json.RawMessage // normalised by Describe
	// Intent is what was prepared and recorded; its Files carry the base
	// hashes that must still hold.
	Intent event.Intent
	// Seen are the contents the model knows: path to hash. Edits are refused
	// for files whose present bytes are others.
	Seen map[string]string
	// TimeoutMS is the limit that the attempt was given, in milliseconds, when
	// the budget left less than the tool would take; 0 means the tool's own.
	TimeoutMS int64
}

// Key names the attempt for the spool.
func (c Call) Key() string { return AttemptKey(c.Goal, c.Op, c.Attempt) }

// Finding is what a probe established.
type Finding struct {
	// What is one of the Found constants.
	What    Found
	Outcome event.Outcome // with FoundFinished
	Result  event.Result  // with FoundFinished
	// Detail says in words what was seen, for FoundUnknown.
	Detail string
}

// Found is the result of a probe.
type Found string

// What a probe can find.
const (
	FoundFinished Found = "finished"       // it ended, and how is known
	FoundNever    Found = "never_happened" // the world is as before
	FoundUnknown  Found = "unknown"        // neither
)

// Env is what tools work with; the executor fills it.
type Env struct {
	Workspace workspace.Workspace
	Sandbox   sandbox.Sandbox
	// Artifacts stores long output; the ledger does.
	Artifacts ArtifactStore
	// Secrets takes out what must not be shown. The executor does so with every
	// result as a whole; a tool does before it shortens a text, because half a
	// secret is not recognised.
	Secrets *redact.Redactor
	// Symbols is what is defined and used in the workspace, nil when that is not
	// kept.
	Symbols symbols.Index
	// ReadOnly says that the plan gate is closed.
	ReadOnly bool
	// BaseEnv is the environment of commands, already reduced to the
	// allow-list.
	BaseEnv []string
	// Protected are absolute paths that commands may not write.
	Protected []string
	// Unreadable are the files that the goal's rules deny commands to read.
	Unreadable Unreadable
	// TestCommand is what run_test runs when the model names none.
	TestCommand string
	// Look probes an operation of the goal whose outcome is unknown. What it
	// finds is certain unless it is FoundUnknown. The error is a *fault.Fault
	// when that operation is not in doubt.
	Look func(ctx context.Context, op string) (Finding, error)
	// Children takes over what child goals of the goal changed.
	Children Merger
	// Recall finds what the goal went through; nil where it cannot be searched.
	Recall Recall
	// Progress, if set, receives output as it appears, for live views only.
	Progress io.Writer
}

// Merger takes the changes of a child goal over into the workspace: the three
// methods are those of a tool that does so.
type Merger interface {
	Prepare(ctx context.Context, call Call) (Prepared, error)
	Run(ctx context.Context, call Call) (event.Outcome, event.Result, error)
	Probe(ctx context.Context, call Call) (Finding, error)
}

// Recall is what a goal may find again: its own events, those of the other goals
// of its repository, and the repository.
type Recall interface {
	// Search leaves the other goals out unless earlier is set.
	Search(ctx context.Context, q recall.Query, earlier bool) (recall.Answer, error)
	// Event is an event as a text, by a reference that a hit came with. The error
	// is a *fault.Fault when there is none for this goal to see.
	Event(ctx context.Context, ref string) (string, error)
}

// Unreadable are files that commands must not read, whatever they are called in
// the command's words.
type Unreadable interface {
	// Any reports whether there are any.
	Any() bool
	// Holds reports whether a path of the workspace, relative to its root, is one,
	// or a folder of them.
	Holds(path string) bool
	// Outside are those elsewhere, absolute or beginning with ~/.
	Outside() []string
}

// Reconciliation is what a certain finding about an operation settles: nil for
// FoundUnknown.
func (f Finding) Reconciliation(op string) *event.Reconciliation {
	switch f.What {
	case FoundNever:
		return &event.Reconciliation{Op: op, Outcome: event.Failed, Reason: "belay looked: it did not happen, the world is as it was before"}
	case FoundFinished:
		r := f.Result
		out := &event.Reconciliation{Op: op, Outcome: event.Succeeded, Reason: "belay looked: it was done",
			Output: r.Output, Fault: r.Fault, Command: r.Command, Test: r.Test, Remote: r.Remote}
		if f.Outcome != event.Succeeded {
			out.Outcome, out.Reason = event.Failed, "belay looked: it ended as "+string(f.Outcome)
		}
		return out
	}
	return nil
}

// ArtifactStore keeps long output by address.
type ArtifactStore interface {
	PutArtifact(ctx context.Context, r io.Reader, media string) (event.Ref, error)
	OpenArtifact(ctx context.Context, sha256 string) (io.ReadCloser, error)
}
