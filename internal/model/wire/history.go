package wire

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"belay/internal/event"
	"belay/internal/fault"
	"belay/internal/model"
)

// Turn is one turn of a history in normal form: either what the user said, or
// what the assistant answered together with the results of its calls.
type Turn struct {
	// User are the texts of neighbouring user messages, none of them blank.
	User []string
	// Parts are the assistant's, blank texts left out, neighbours joined.
	// Calls have an ID and a tool name that every wire accepts, and arguments
	// that are a JSON object.
	Parts []event.Part
	// Results are in the order of the calls in Parts, exactly one for each,
	// under the same ids.
	Results []model.ToolResult
}

// Continue is what the user says when a history ends with the assistant:
// providers answer users only.
const Continue = "Continue."

// Turns brings a history into the normal form: results directly after the
// message whose calls they answer, whatever stood between; user messages in
// their order after them; nothing blank; parts that belong to another provider
// left out. A call without a result, a second result or a result without a
// call is an error that blames the runtime: the provider would refuse every
// request that holds it.
func Turns(messages []model.Message, provider string) ([]Turn, error) {
	n := normaliser{provider: provider, open: map[string][]slot{}, used: map[string]int{}}
	for i, m := range messages {
		switch m.Role {
		case model.User:
			n.user(m.Text)
		case model.Assistant:
			n.flushUser()
			n.assistant(m.Parts)
		case model.ToolRole:
			for _, r := range m.Results {
				if err := n.result(r); err != nil {
					return nil, err
				}
			}
		default:
			return nil, internalFault(fmt.Sprintf("message %d of the history has the unknown role %q", i, m.Role))
		}
	}
	n.flushUser()
	return n.finish()
}

// slot is the place of the result of one call.
type slot struct{ turn, at int }

type normaliser struct {
	provider string
	turns    []Turn
	users    []string          // user texts that stand after the last turn
	open     map[string][]slot // calls without a result, by the model's own id
	answered bool              // a result came for the last turn
	used     map[string]int    // wire ids that are taken
}

func (n *normaliser) user(text string) {
	if strings.TrimSpace(text) != "" {
		n.users = append(n.users, text)
	}
}

func (n *normaliser) flushUser() {
	if len(n.users) == 0 {
		return
	}
	if last := len(n.turns) - 1; last >= 0 && n.turns[last].Parts == nil {
		n.turns[last].User = append(n.turns[last].User, n.users...)
	} else {
		n.turns = append(n.turns, Turn{User: n.users})
	}
	n.users = nil
}

// assistant adds a message of the assistant, joined to one directly before it.
func (n *normaliser) assistant(parts []event.Part) {
	kept := make([]event.Part, 0, len(parts))
	var ids []string // the model's own ids of the calls
	for _, p := range parts {
		switch p.Kind {
		case event.PartText:
			if strings.TrimSpace(p.Text) == "" {
				continue
			}
		case event.PartCall:
			ids = append(ids, p.CallID)
			p.CallID, p.Tool = n.id(p.CallID), Name(p.Tool)
			p.Arguments = string(Object(p.Arguments))
			if p.Provider != n.provider {
				p.Data = nil
			}
		default:
			if p.Provider != n.provider || !json.Valid(p.Data) {
				continue
			}
		}
		kept = append(kept, p)
	}
	if !speaks(kept) {
		return // thinking alone is no message that a wire takes back
	}
	last := len(n.turns) - 1
	if last < 0 || n.turns[last].Parts == nil || n.answered {
		n.turns = append(n.turns, Turn{})
		last++
		n.answered = false
	}
	t := &n.turns[last]
	t.Parts = append(t.Parts, kept...)
	for _, id := range ids {
		n.open[id] = append(n.open[id], slot{last, len(t.Results)})
		t.Results = append(t.Results, model.ToolResult{})
	}
}

func speaks(parts []event.Part) bool {
	for _, p := range parts {
		if p.Kind == event.PartText || p.Kind == event.PartCall {
			return true
		}
	}
	return false
}

// result gives a result to the oldest open call of its id: some servers use
// the same id in every response.
func (n *normaliser) result(r model.ToolResult) error {
	open := n.open[r.CallID]
	if len(open) == 0 {
		return internalFault(fmt.Sprintf("the history has a result of %s for call %q, which is not open", r.Tool, r.CallID))
	}
	at := open[0]
	if n.open[r.CallID] = open[1:]; len(open) == 1 {
		delete(n.open, r.CallID)
	}
	t := &n.turns[at.turn]
	r.CallID = callID(t.Parts, at.at)
	t.Results[at.at] = r
	n.answered = n.answered || at.turn == len(n.turns)-1
	return nil
}

// callID is the wire id of the at-th call among parts.
func callID(parts []event.Part, at int) string {
	for _, p := range parts {
		if p.Kind != event.PartCall {
			continue
		}
		if at == 0 {
			return p.CallID
		}
		at--
	}
	return ""
}

func (n *normaliser) finish() ([]Turn, error) {
	if len(n.open) == 0 {
		return n.turns, nil
	}
	var ids []string
	for id := range n.open {
		ids = append(ids, strconv.Quote(id))
	}
	sort.Strings(ids)
	return nil, internalFault("the history has calls without a result: " + strings.Join(ids, ", "))
}

// maxID is the longest call id that every wire takes: OpenAI refuses more than
// 40 characters, which ids of other providers have.
const maxID = 40

// id makes a call id that every wire accepts and that is unique in the
// history, from the ids before it alone.
func (n *normaliser) id(id string) string {
	id = clean(id, maxID)
	if id == "" {
		id = "call"
	}
	n.used[id]++
	if n.used[id] == 1 {
		return id
	}
	for k := n.used[id]; ; k++ {
		suffix := "_" + strconv.Itoa(k)
		next := id
		if len(next) > maxID-len(suffix) {
			next = next[:maxID-len(suffix)]
		}
		next += suffix
		if n.used[next] == 0 {
			n.used[next] = 1
			return next
		}
	}
}

// Name makes a tool name that every wire accepts: a model may ask for a tool
// that does not exist, and its call has to be sent back all the same.
func Name(tool string) string {
	if tool = clean(tool, 64); tool == "" {
		return "unnamed"
	}
	return tool
}

// clean keeps letters, digits, '_' and '-', which is the set that the
// strictest wire allows.
func clean(s string, limit int) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s) && len(b) < limit; i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			b = append(b, c)
		} else {
			b = append(b, '_')
		}
	}
	return string(b)
}

func internalFault(message string) error {
	return fault.New(fault.Internal, fault.Runtime, message,
		"this is a fault of belay: please report it with the goal's events")
}
