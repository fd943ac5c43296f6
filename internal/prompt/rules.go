package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belay/internal/core"
	"belay/internal/event"
	"belay/internal/transcript"
)

const rulesEnd = "</repository_rules>"

// rules are the repository's own words: those at the root as they were at the
// start, and those that were found or changed since, as the last compaction
// left them. What came later stands in the conversation.
func rules(s core.State) string {
	root, name := s.Workspace.Instructions, s.Workspace.InstructionsPath
	if name == "" {
		name = "AGENTS.md"
	}
	var nested strings.Builder
	for _, f := range s.InstructionsAt(s.Compacted) {
		switch {
		case f.Path == name:
			root = f.Text
		case f.Hash == "":
		case strings.TrimSpace(f.Text.Head) == "":
			fmt.Fprintf(&nested, "\n(%s has rules for its folder that are not shown, for lack of room: read it before you change anything there.)\n", oneLine(f.Path))
		default:
			fmt.Fprintf(&nested, "\nFor the folder of %s, beside the above:\n%s", oneLine(f.Path), framed(f.Text, core.MaxInstructions, f.Path))
		}
	}
	words := ""
	if text := framed(root, MaxRules, name); text != "" {
		words = fmt.Sprintf(rulesHeading, oneLine(name)) + text
	} else if nested.Len() > 0 {
		words = fmt.Sprintf(rulesHeading, "of its folders")
	}
	return words + nested.String()
}

// framed is a text of the repository in its frame, "" when it says nothing.
func framed(t event.Text, most int, name string) string {
	words := strings.TrimSpace(strings.ToValidUTF8(t.Head, "\uFFFD"))
	if words == "" {
		return ""
	}
	cut := t.Cut
	if len(words) > most {
		n := most
		for !utf8.RuneStart(words[n]) {
			n--
		}
		words, cut = words[:n], true
	}
	words = transcript.Framed(words, "repository_rules")
	if cut {
		words += fmt.Sprintf("\n[… the rest is in %s …]", oneLine(name))
	}
	return "<repository_rules>\n" + words + "\n" + rulesEnd + "\n"
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}
