// Package fault is the structured error of belay: what went wrong, whose it
// is, whether trying again can help, and what to do next. The core counts
// faults by signature and decides on them by kind, so a Fault is a value that
// is stored in events; it never holds a Go error chain.
//
// It must not know providers, tools or the ledger: those translate their own
// errors into a Fault at the edge.
package fault

import (
	"belay/internal/lazyre"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Kind sorts faults by what a caller can do about them.
type Kind string

// Provider kinds.
const (
	Overloaded      Kind = "overloaded"       // the provider sheds load; back off
	RateLimited     Kind = "rate_limited"     // a quota; back off until RetryAfterMS
	Timeout         Kind = "timeout"          // no answer in time
	StreamCut       Kind = "stream_cut"       // the response ended in mid-stream: not a response
	Network         Kind = "network"          // could not reach the host
	ServerError     Kind = "server_error"     // 5xx without a better name
	MalformedReply  Kind = "malformed_reply"  // the reply could not be read
	ContextOverflow Kind = "context_overflow" // the request is larger than the window or the byte limit
	BadCredentials  Kind = "bad_credentials"
	BadRequest      Kind = "bad_request"
	Refused         Kind = "refused" // content refused by the provider
	UnknownModel    Kind = "unknown_model"
	Superseded      Kind = "superseded"  // the reply belongs to an older fence
	Interrupted     Kind = "interrupted" // the process died while it waited
)

// Tool, policy and environment kinds.
const (
	InvalidArguments Kind = "invalid_arguments" // arguments do not fit the schema
	UnknownTool      Kind = "unknown_tool"
	NotRead          Kind = "not_read"   // edit of a file that was not read in this goal
	StaleEdit        Kind = "stale_edit" // the file changed since it was read
	NoMatch          Kind = "no_match"
	Ambiguous        Kind = "ambiguous_match"
	NotFound         Kind = "not_found"
	AlreadyExists    Kind = "already_exists"
	Foreign          Kind = "foreign_content" // what stands there is not the goal's
	Outside          Kind = "outside_workspace"
	Protected        Kind = "protected_path"
	TooLarge         Kind = "too_large"
	NotText          Kind = "not_text"
	ExitStatus       Kind = "exit_status" // a command ended non-zero
	TimedOut         Kind = "timed_out"   // a command was ended at its deadline
	OutputLimit      Kind = "output_limit"
	SpawnFailed      Kind = "spawn_failed"
	SandboxMissing   Kind = "sandbox_unavailable"
	SecretArgument   Kind = "secret_in_arguments" // what may not be recorded cannot run
	PlanGate         Kind = "plan_gate"           // read-only until the plan is approved
	PolicyDenied     Kind = "policy_denied"
	UserDenied       Kind = "user_denied"
	Forbidden        Kind = "action_forbidden" // the same error too often
	InDoubt          Kind = "in_doubt"         // refused until an unknown outcome is reconciled
	Cancelled        Kind = "cancelled"
	BudgetExhausted  Kind = "budget_exhausted"
	Unverified       Kind = "unverified"  // a claim without evidence
	NoProgress       Kind = "no_progress" // the way leads nowhere
	Storage          Kind = "storage"
	Internal         Kind = "internal"
)

// Blame names the party that has to change something.
type Blame string

// The parties.
const (
	Provider    Blame = "provider"
	Model       Blame = "model"
	Tool        Blame = "tool"
	Environment Blame = "environment"
	User        Blame = "user"
	Runtime     Blame = "runtime"
)

// Fault is one structured error.
type Fault struct {
	Kind      Kind   `json:"kind"`
	Retryable bool   `json:"retryable,omitempty"`
	Blame     Blame  `json:"blame,omitempty"`
	Message   string `json:"message"`
	// Signature is the normalised identity of the error: two occurrences of
	// the same problem have the same signature whatever paths, numbers,
	// addresses or times they mention.
	Signature string `json:"signature,omitempty"`
	// SuggestedAction is one sentence for whoever Blame names.
	SuggestedAction string `json:"suggested_action,omitempty"`
	// RetryAfterMS is the provider's own wish in milliseconds; 0 means none.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

// New makes a Fault and computes its signature from the kind and message.
func New(kind Kind, blame Blame, message, suggestedAction string) *Fault {
	return &Fault{Kind: kind, Blame: blame, Message: message,
		Signature: Signature(string(kind) + ": " + message), SuggestedAction: suggestedAction}
}

// Retry returns a copy that says trying again can help.
func (f Fault) Retry() *Fault { f.Retryable = true; return &f }

// Error makes a *Fault usable as a Go error on its way to the edge.
func (f *Fault) Error() string {
	s := string(f.Kind) + ": " + f.Message
	if f.SuggestedAction != "" {
		s += " (" + f.SuggestedAction + ")"
	}
	return s
}

// Told is what happened and what to do about it, for a person.
func (f *Fault) Told() string {
	if f.SuggestedAction == "" {
		return f.Message
	}
	return f.Message + " (" + f.SuggestedAction + ")"
}

// inPath is one character of a path, or what stands for something in it.
const inPath = `(?:<\w+>|[^\s\\/:'"()<>\[\],;=\x60])`

// The order matters: the most specific shapes go first, so that a later rule
// never sees half of an earlier one.
var normalisers = []struct {
	re   *lazyre.Regexp
	with string
	only func(string) bool // of what the expression matches; nil for all
}{
	{lazyre.New(`\x1b\[[0-9;?]*[ -/]*[@-~]`), "", nil},
	{lazyre.New(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?`), "<time>", nil},
	{lazyre.New(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "<time>", nil},
	{lazyre.New(`\b0x[0-9a-fA-F]+\b`), "<addr>", nil},
	{lazyre.New(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`), "<id>", nil},
	{lazyre.New(`\b[0-9a-f]{12,64}\b`), "<hash>", nil},
	{lazyre.New(`[0-9A-Za-z]{16,}`), "<id>", drawn},
	{lazyre.New(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`), "<host>", nil},
	{lazyre.New(`\[[0-9a-fA-F]*:[0-9a-fA-F:.]+(%\w+)?\](:\d+)?`), "<host>", nil},
	// A path begins where its first segment does, absolute or not: the same
	// file is named both ways.
	{lazyre.New(`\b[A-Za-z]:\\[^\s:'"()<>\[\]]+`), "<path>", nil},
	{lazyre.New(`(?:` + inPath + `*/)+` + inPath + `*`), "<path>", nil},
	{lazyre.New(`(?:[\w.@-]+\\)+[\w@-]+\.\w{1,5}\b`), "<path>", nil},
	{lazyre.New(`\b\d+(\.\d+)?(ns|us|µs|ms|s|m|h)\b`), "<dur>", nil},
	{lazyre.New(`\d+`), "<n>", nil},
	{lazyre.New(`\s+`), " ", nil},
}

// drawn reports whether a token looks drawn at random, like the request ids of
// providers: digits and letters alternate, which no name that people give does.
func drawn(token string) bool {
	switches := 0
	for i := 1; i < len(token); i++ {
		if (token[i] <= '9') != (token[i-1] <= '9') {
			switches++
		}
	}
	return switches >= 5
}

// Signature normalises an error text (no paths, numbers, addresses, times) and
// returns a short stable identity for it. Empty text has the empty signature.
func Signature(text string) string {
	n := Normalise(text)
	if n == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(n))
	return hex.EncodeToString(sum[:8])
}

// maxNormalised bounds the work on hostile input; an error's identity is in
// its first lines.
const maxNormalised = 4096

// Normalise returns the text that Signature hashes, for people to read.
func Normalise(text string) string {
	if len(text) > maxNormalised {
		text = text[:maxNormalised]
	}
	for _, n := range normalisers {
		if n.only == nil {
			text = n.re.ReplaceAllString(text, n.with)
			continue
		}
		text = n.re.ReplaceAllStringFunc(text, func(found string) string {
			if n.only(found) {
				return n.with
			}
			return found
		})
	}
	return strings.ToLower(strings.TrimSpace(text))
}
