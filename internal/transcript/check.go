package transcript

import (
	"fmt"
	"strings"

	"belay/internal/event"
	"belay/internal/model"
)

// Check says why messages are not a conversation that every provider takes, or
// nil. It begins and ends with somebody the model can answer; no message is
// empty; responses do not follow each other; and the message directly after a
// response holds exactly one result for each of its calls, in their order.
func Check(messages []model.Message) error {
	if len(messages) == 0 {
		return fmt.Errorf("transcript: there is no message")
	}
	if r := messages[0].Role; r != model.User {
		return fmt.Errorf("transcript: it begins with the role %q", r)
	}
	var owed []event.Part
	for i, m := range messages {
		if len(owed) > 0 && m.Role != model.ToolRole {
			return fmt.Errorf("transcript: message %d (%s) stands between calls and their results", i, m.Role)
		}
		switch m.Role {
		case model.User:
			if strings.TrimSpace(m.Text) == "" || len(m.Parts) > 0 || len(m.Results) > 0 {
				return fmt.Errorf("transcript: message %d is no text of a user", i)
			}
		case model.Assistant:
			if messages[i-1].Role == model.Assistant {
				return fmt.Errorf("transcript: message %d is a response to a response", i)
			}
			if len(m.Parts) == 0 || m.Text != "" || len(m.Results) > 0 {
				return fmt.Errorf("transcript: message %d is no response", i)
			}
			owed = calls(m.Parts)
		case model.ToolRole:
			if err := checkResults(owed, m); err != nil {
				return fmt.Errorf("transcript: message %d: %w", i, err)
			}
			owed = nil
		default:
			return fmt.Errorf("transcript: message %d has the unknown role %q", i, m.Role)
		}
	}
	if messages[len(messages)-1].Role == model.Assistant {
		return fmt.Errorf("transcript: it ends with a response")
	}
	return nil
}

func checkResults(owed []event.Part, m model.Message) error {
	if len(owed) == 0 || len(m.Results) != len(owed) || m.Text != "" || len(m.Parts) > 0 {
		return fmt.Errorf("%d results for %d calls", len(m.Results), len(owed))
	}
	for k, r := range m.Results {
		if r.CallID != owed[k].CallID || r.Tool != owed[k].Tool {
			return fmt.Errorf("result %d answers call %q of %s, not %q of %s", k, r.CallID, r.Tool, owed[k].CallID, owed[k].Tool)
		}
		if strings.TrimSpace(r.Text) == "" {
			return fmt.Errorf("result %d is empty", k)
		}
	}
	return nil
}

func calls(parts []event.Part) []event.Part {
	var cs []event.Part
	for _, p := range parts {
		if p.Kind == event.PartCall {
			cs = append(cs, p)
		}
	}
	return cs
}
