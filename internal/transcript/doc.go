// Package transcript projects a goal's events into the messages that a model
// is sent. It is pure and decides nothing: the ledger says what happened, and
// the same events give the same bytes, in this process or in the next.
//
// It must not know tools, wires, prompts or where events are stored; it reads
// events in order and returns model.Message values.
//
// # What always holds
//
//   - The messages of a request are a prefix of those of the next one, unless
//     the context was compacted between the two. What has been sent is never
//     worded anew: providers cache by prefix.
//   - Every call has exactly one result, in the message directly after its
//     response, in the order of the calls, whatever happened. The first outcome
//     that the ledger shows is the result; what becomes known later (an unknown
//     outcome that is settled, a second attempt) is told in a note.
//   - A user message stands where the request took it in, and nowhere else.
//   - Whose words a text holds is marked: [user] for the user, [belay] for the
//     runtime, on every text of the role user. A wire may join such texts.
//
// # How it works
//
// Messages that a request has sent are sealed. After them comes the open
// exchange (the latest response with the results of its calls) and the pending
// texts (notes, and user messages that no request has taken in). Messages puts
// the three together for a request made now; the event model_requested seals
// exactly that. So a request is composed from the ledger before its event is
// written, and found again after it.
//
// # Compaction
//
// A summary replaces what the model has answered to. What it has not seen yet
// (the results of its latest calls, texts behind them) stays, cut short: else a
// model whose request overflows would ask for the same thing again, for ever.
// The goal is stated first in its newest version.
//
// # Sizes
//
// Each result is capped by MaxResult and by its share of MaxExchange, each text
// of the user by MaxUserText. The middle is left out, in so many words, with
// the address of the whole where there is one.
package transcript
