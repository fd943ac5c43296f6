// Package script is a model that plays a YAML file: the model of the demo, of
// end-to-end tests and of anyone who wants a run that is the same every time.
//
// It must not know goals, the ledger or the other adapters: like any model it
// sees one request and gives one response.
//
// # A file
//
//	name: fix the title          # optional, for messages
//	window: 200000               # optional
//	max_output: 8000             # optional
//	price: {input: 0, output: 0} # optional, US dollars per million tokens; without it the price is unknown
//	steps:
//	  - text: I will look first.
//	    calls:
//	      - {tool: read_file, args: {path: slug.go}}
//	  - expect:
//	      contains: ["slug.go", "/func Title\\(/"]
//	      not_contains: ["permission denied"]
//	      last_result_contains: ["func Title"]
//	      tool_names: [read_file, file_patch]
//	    fail: {kind: overloaded, retry_after_ms: 200, times: 2}
//	    text: Done.
//	then: The script has ended.   # text or a step; what every later request gets
//
// A step has any of
//
//	name                for messages
//	expect              what must hold for the request, else the step is a fault of kind
//	                    bad_request that shows what is missing
//	when                the same conditions, but they choose: see below
//	fail                {kind or status, message, retry_after_ms, times}: the first times
//	                    attempts (1 if not given, all with -1) fail, later ones play the step
//	cut: true           the first attempt is cut in mid-stream, with its usage told
//	delay_ms            wait before replying
//	block_until_file    wait until this file exists
//	thinking, text      what is said
//	calls               [{tool, args, raw, id}]; raw is the argument text as it is, for junk
//	stop                the stop reason, if not what follows from the calls
//	usage               {input, cached_input, cache_write, output, reasoning}; estimated if not given
//	repeat: N           the step plays N times in a row
//
// Conditions are texts that the request must contain anywhere (instructions,
// tools, messages, state), or regular expressions between slashes.
//
// In text and in argument strings, ${/regexp/} is replaced by the first group
// (or all) of the last match in the request: so that a step can name an op_id
// or a hash that nobody knows beforehand. No match is a bad_request.
//
// # Which step comes next
//
// Nothing is remembered between requests, so a script goes on after a crash,
// in another process or with another instance. Every response carries an
// opaque part with the number of its step; the next step is the one after the
// last such number in the history. A history without any (a wire that drops
// them, a compaction) counts its assistant messages instead.
//
// A step with when is outside that order: at every request the first step
// whose conditions hold is played before the step in order, which then stays
// due. It is how a script answers what may come at any time (a user's message,
// a refused claim) or what a compaction has made uncountable. A when step
// plays as often as its conditions hold, so they should name something that
// its own answer ends.
//
// The number of an attempt comes with the request. Only where the caller tells
// none does an instance count by itself.
package script
