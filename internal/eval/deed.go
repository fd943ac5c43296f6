package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Deed is one thing that people or the world do: a word (kill), or a word with
// what it needs ({say: "stop"}).
type Deed struct {
	Verb string
	// Text is the word's own value; Args are those of a mapping.
	Text string
	Args deedArgs
}

// deedArgs are the fields of deeds that need more than one value.
type deedArgs struct {
	Path    string   `yaml:"path"`
	Content string   `yaml:"content"`
	Text    string   `yaml:"text"`
	Tests   []string `yaml:"tests"`
	Op      string   `yaml:"op"`
	As      string   `yaml:"as"`
	Reason  string   `yaml:"reason"`
	Steps   int64    `yaml:"steps"`
	Turns   int64    `yaml:"turns"`
	Tokens  int64    `yaml:"tokens"`
}

// deeds are the verbs: which fields each takes, and whether it takes a text.
var deeds = map[string]struct {
	fields string
	text   bool
	bare   bool
}{
	"kill":      {bare: true},                      // kill -9 of the process that works on the goal
	"resume":    {bare: true},                      // belay resume, once the process before it has ended
	"write":     {fields: "path content"},          // write a file of the repository from outside
	"append":    {fields: "path content"},          // append to a file of the repository from outside
	"remove":    {text: true},                      // remove a file of the repository from outside
	"touch":     {text: true},                      // make a file beside the repository, where block_until_file of a script looks
	"await":     {text: true},                      // wait until a file of the repository is there
	"outside":   {text: true},                      // a command that somebody runs in the repository, as any other program would
	"linger":    {text: true},                      // let time pass, to see that nothing comes any more
	"say":       {text: true},                      // belay say
	"steer":     {text: true},                      // belay say --steer
	"approve":   {text: true, bare: true},          // belay approve, of the operation that is named or the only one
	"deny":      {fields: "op reason", bare: true}, // belay deny
	"pause":     {bare: true},                      // belay pause
	"cancel":    {bare: true},                      // belay cancel
	"revise":    {fields: "text tests"},            // belay revise
	"extend":    {fields: "steps turns tokens"},    // belay resume with a larger budget
	"reconcile": {fields: "op as reason"},          // belay reconcile --succeeded, --failed, --retry or --look
}

// UnmarshalYAML reads a deed strictly.
func (d *Deed) UnmarshalYAML(n *yaml.Node) error {
	verb, value := n, (*yaml.Node)(nil)
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		verb, value = n.Content[0], n.Content[1]
	}
	d.Verb = verb.Value
	known, ok := deeds[d.Verb]
	if !ok || verb.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is no deed; there are %s", n.Line, d.Verb, strings.Join(slices.Sorted(maps.Keys(deeds)), ", "))
	}
	switch {
	case value == nil:
		if !known.bare {
			return fmt.Errorf("line %d: %s needs a value", n.Line, d.Verb)
		}
	case value.Kind == yaml.ScalarNode:
		if !known.text {
			return fmt.Errorf("line %d: %s takes no text", n.Line, d.Verb)
		}
		d.Text = value.Value
		if _, err := time.ParseDuration(d.Text); d.Verb == "linger" && err != nil {
			return fmt.Errorf("line %d: %q is no duration (3s)", value.Line, d.Text)
		}
	default:
		for i := 0; i+1 < len(value.Content); i += 2 {
			if k := value.Content[i]; !slices.Contains(strings.Fields(known.fields), k.Value) {
				return fmt.Errorf("line %d: %s has no field %q (%s)", k.Line, d.Verb, k.Value, known.fields)
			}
		}
		return strictNode(value, &d.Args)
	}
	return nil
}

// command is what a deed says to belay; ok is false for deeds of the world.
func (d Deed) command(goal string) (args []string, ok bool) {
	op := func(verb, id string, more ...string) []string {
		a := []string{verb, goal}
		if id != "" {
			a = append(a, id)
		}
		return append(a, more...)
	}
	switch d.Verb {
	case "say":
		return []string{"say", goal, d.Text}, true
	case "steer":
		return []string{"say", goal, d.Text, "--steer"}, true
	case "approve":
		return op("approve", d.Text), true
	case "deny":
		if d.Args.Reason != "" {
			return op("deny", d.Args.Op, "--reason", d.Args.Reason), true
		}
		return op("deny", d.Args.Op), true
	case "pause", "cancel":
		return []string{d.Verb, goal}, true
	case "revise":
		a := op("revise", d.Args.Text)
		for _, t := range d.Args.Tests {
			a = append(a, "--test", t)
		}
		return a, true
	case "reconcile":
		return op("reconcile", d.Args.Op, "--"+d.Args.As, "--reason", d.Args.Reason), true
	}
	return nil, false
}

// extension are the budget flags of a deed extend.
func (d Deed) extension() []string {
	var flags []string
	for _, f := range []struct {
		flag string
		n    int64
	}{{"--max-steps", d.Args.Steps}, {"--max-turns", d.Args.Turns}, {"--max-tokens", d.Args.Tokens}} {
		if f.n > 0 {
			flags = append(flags, f.flag, fmt.Sprint(f.n))
		}
	}
	return flags
}
