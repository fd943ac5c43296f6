// Package memory is what outlives the goals of a repository: decisions that
// were taken for more than one goal, and how commands ended here. It is a
// projection of the ledger: a fold over the events of all goals of one
// repository, each goal's in their order, the goals in any. Losing it costs a
// rebuild, and a rebuild gives the same.
//
// It must not know stores, clocks, prompts or permission: it says what was
// observed, and nothing that is allowed is ever read off it.
//
// # What is kept
//
//   - A decision is a model's own words. Those with the scope "repository" or a
//     path outlive their goal, until they are revoked.
//   - A command is known by its normal form and its directory. Counted is how it
//     ended, by the supervisor's record alone: exit code, signal, time limit, and
//     the counts of a test runner. A text whose exit code says nothing of the
//     command (a pipe, "|| true") is not counted. What was done between a failure
//     and the next success of the same command is kept as what may have mended it.
//
// Nothing of what a command printed is kept, and nothing of what a file holds:
// neither can plant a memory. Commands that only read are not kept.
//
// # Forgetting
//
// A person's word covers what was recorded up to it. What it covers is skipped
// by every fold, so that no rebuild brings it back; what is observed later is
// news. A fold that has gone past a word it did not know is done afresh.
//
// # Bounds
//
// MaxCommands and MaxDecisions are kept; beyond that, what was seen longest ago
// goes. Exactly up to these bounds the order of the goals makes no difference.
package memory
