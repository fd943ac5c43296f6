package wire

import "belay/internal/lazyre"

// overflow matches what providers say when a request is larger than the
// context window or than their byte limit. testdata/errors.yaml holds the real
// messages that it is tested with, and some that it must not match.
var overflow = lazyre.New(`(?i)` +
	`context_length_exceeded|exceed_context_size|context_window_exceeded|model_context_window` +
	`|maximum (context|prompt) (length|window)|max(imum)? context size|max_model_len|max_seq_len` +
	`|exceeds?( the)?( model'?s)?( maximum| available| max)? context` +
	`|exceed(s|ed)? (the )?(context (limit|window|length|size)|limit of \d+ tokens)` +
	`|context (window|length|size)( limit)?( is| was| has been)? (exceeded|full|too small)` +
	`|larger than the (max(imum)? )?context|than the context (length|size|window)|context window is \d+` +
	`|(prompt|input|request|conversation|messages?) ((is|are|was) (currently )?)?too (long|large)` +
	`|input (length|tokens?)( and .max_tokens.)? exceeds?|too many (input |prompt )?tokens` +
	`|input token count.{0,40}exceeds|reduce the length of the (messages|prompt|input)` +
	`|prompt has [\d,]+ tokens|prompt contains at least [\d,]+ (input )?tokens` +
	`|request too large|request_too_large|payload too large|entity too large|body (is )?too large` +
	`|exceeds the (maximum|max)( allowed)? (number of (input )?tokens|size|length|input)` +
	`|string too long|string_above_max_length|array_above_max_length`)

// refusal matches refusals of content.
var refusal = lazyre.New(`(?i)content[_ ](filter|policy)|content management policy|moderation|flagged (as|for|by)` +
	`|safety (system|reasons)|violat\w+ our (usage )?polic|prohibited[_ ]content|output blocked by content`)

// noCredit matches accounts that cannot pay: waiting does not help.
var noCredit = lazyre.New(`(?i)insufficient[_ ](quota|credits?|balance|funds)|billing_hard_limit|exceeded your current quota` +
	`|credit balance is too low|requires more credits|payment[_ ]required|billing_error|billing[_ ]not[_ ]active|account is not active`)

// noModel matches unknown model names.
var noModel = lazyre.New(`(?i)model_not_found|model_not_available|DeploymentNotFound|unknown[_ ]model|invalid model( name| id)?\b|not a valid model` +
	`|no (endpoints|allowed providers) (found|are available)` +
	`|\bmodel\b.{0,120}(not[_ ]found|does not exist|is not (available|supported)|not exist|unknown|has been (deprecated|retired)|is not loaded)` +
	`|not_found_error.{0,20}model|^model:|no such model|try pulling it`)
