package prompt

// Prose asks for the words that go with a compaction. It stands in the place of
// the state block, so that all before it comes from the provider's cache.
const Prose = `[belay] The conversation is about to be compacted. belay keeps the facts by itself: the goal, the plan, todos, decisions, criteria, what was done and what failed. Add what they do not show, for yourself, in at most 300 words of plain text. Call no tool.
1. What you have understood of the code, and of the cause.
2. What you were about to do, and why.
3. What you make of what did not work.
Leave out outcomes, test results and approvals: the ledger has them, and it holds where your words differ.`
