package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belay/internal/event"
)

// fetching is a user's rule that lets a command reach the network.
func fetching(command, network string) event.Rule {
	return event.Rule{Decision: "allow", Command: command, Network: network, Layer: "user", ID: "fetch"}
}

func onNetwork(decision, command, network, layer string) event.Rule {
	return event.Rule{Decision: decision, Command: command, Network: network, Layer: layer, ID: "narrow"}
}

func TestNetworkIsJudgedForEveryCommandOfTheText(t *testing.T) {
	t.Parallel()
	download := fetching("go mod download *", "full")
	tests := []struct {
		name     string
		rules    []event.Rule
		command  string
		asked    string
		decision Decision
		scope    string
	}{
		{"nobody asks, nobody grants", nil, "ls", "", Allow, ""},
		{"what is asked for is asked about", nil, "ls", "full", Ask, "full"},
		{"a loopback is asked about too", nil, "ls", "loopback", Ask, "loopback"},
		{"none is no question", nil, "ls", "none", Allow, ""},
		{"a rule grants it without being asked", []event.Rule{download}, "go mod download", "", Allow, "full"},
		{"a rule answers the question", []event.Rule{download}, "go mod download", "full", Allow, "full"},
		{"a rule answers for less", []event.Rule{download}, "go mod download", "loopback", Allow, "loopback"},
		{"none is taken at its word", []event.Rule{download}, "go mod download", "none", Allow, ""},
		{"a rule for a loopback is none for the network", []event.Rule{fetching("go mod download *", "loopback")}, "go mod download", "full", Ask, "full"},
		{"readers beside it change nothing", []event.Rule{download}, "cd sub && go mod download 2>&1 | tail -5", "", Allow, "full"},
		{"wrappers are looked through", []event.Rule{download}, "timeout 60 go mod download", "", Allow, "full"},
		{"an allowed command beside it has no network of its own", []event.Rule{download, allowing("npm run *")[0]}, "go mod download && npm run x", "", Allow, ""},
		{"an allowed command beside it makes it a question", []event.Rule{download, allowing("npm run *")[0]}, "go mod download && npm run x", "full", Ask, "full"},
		{"each by its own rule", []event.Rule{download, fetching("npm ci", "full")}, "go mod download && npm ci", "", Allow, "full"},
		{"the least of both", []event.Rule{download, fetching("npm ci", "loopback")}, "go mod download && npm ci", "", Allow, "loopback"},
		{"what is not known before it runs gets none", []event.Rule{download}, "go mod download; $x", "", Ask, ""},
		{"a function hides nothing", []event.Rule{download, allowing("npm run *")[0]}, "f() { npm run x; }; go mod download; f", "", Allow, ""},
		{"sh -c hides nothing", []event.Rule{download, allowing("npm run *")[0]}, "go mod download; sh -c 'npm run x'", "full", Ask, "full"},
		{"a rule without a command answers for a loopback", []event.Rule{onNetwork("allow", "", "loopback", "user")}, "npm run x", "loopback", Ask, "loopback"},
		{"and grants nothing that nobody asks for", []event.Rule{onNetwork("allow", "", "loopback", "user")}, "ls", "", Allow, ""},
		{"and is no rule for the network", []event.Rule{onNetwork("allow", "", "loopback", "user")}, "ls", "full", Ask, "full"},
		{"the repository takes a grant away", []event.Rule{download, onNetwork("deny", "", "full", "repository")}, "go mod download", "", Allow, ""},
		{"the repository denies what is asked", []event.Rule{download, onNetwork("deny", "", "full", "repository")}, "go mod download", "full", Deny, "full"},
		{"denying the network leaves a loopback", []event.Rule{fetching("npm ci", "loopback"), onNetwork("deny", "", "full", "repository")}, "npm ci", "", Allow, "loopback"},
		{"denying a loopback denies the network", []event.Rule{download, onNetwork("deny", "", "loopback", "repository")}, "go mod download", "full", Deny, "full"},
		{"the repository has it asked", []event.Rule{download, onNetwork("ask", "go mod *", "full", "repository")}, "go mod download", "full", Ask, "full"},
		{"the repository has it asked: nothing is given unasked", []event.Rule{download, onNetwork("ask", "go mod *", "full", "repository")}, "go mod download", "", Allow, ""},
		{"a restriction of another command is none", []event.Rule{download, onNetwork("deny", "npm *", "full", "repository")}, "go mod download", "full", Allow, "full"},
		{"a restriction reaches through wrappers", []event.Rule{download, onNetwork("deny", "npm *", "full", "user")}, "go mod download; env A=1 npm ls", "full", Deny, "full"},
		{"a restriction on the network is none on the command", []event.Rule{onNetwork("deny", "ls *", "full", "user")}, "ls", "", Allow, ""},
		{"a repository grants nothing", []event.Rule{onNetwork("allow", "npm ci", "full", "repository")}, "npm ci", "", Ask, ""},
		{"a rule for one tool", []event.Rule{{Decision: "deny", Tool: "write_file", Network: "full", Layer: "user"}, download}, "go mod download", "", Allow, "full"},
		{"a rule that cannot be read asks", []event.Rule{onNetwork("deny", "", "half", "user")}, "ls", "", Ask, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := Judge(Config{Root: "/work/repo", Rules: tt.rules}, "run_command", event.Supervised, event.Access{Command: tt.command, Network: tt.asked})
			if v.Decision != tt.decision || v.Scope != tt.scope {
				t.Errorf("%q asking for %q is judged %s with %q, want %s with %q: %s", tt.command, tt.asked, v.Decision, v.Scope, tt.decision, tt.scope, v.Reason)
			}
			if tt.scope != "" && !v.Network {
				t.Error("it is not said to reach the network")
			}
		})
	}
}

func TestAGoalGivesItsTestCommandANetwork(t *testing.T) {
	t.Parallel()
	c := Config{Root: "/work/repo", TestCommands: []string{"npm test", "go test ./..."}, TestNetwork: map[string]string{"npm test": "full", "go test ./...": "loopback"}}
	for _, tt := range []struct {
		a        event.Access
		decision Decision
		scope    string
	}{
		{event.Access{Command: "npm test"}, Allow, "full"},
		{event.Access{Command: " npm test\n", Network: "full"}, Allow, "full"},
		{event.Access{Command: "npm test", Dir: "sub"}, Ask, ""},
		{event.Access{Command: "npm test; npm run evil", Network: "full"}, Ask, "full"},
		{event.Access{Command: "go test ./..."}, Allow, "loopback"},
		{event.Access{Command: "go test ./...", Network: "full"}, Ask, "full"},
		{event.Access{Command: "go test ./x -run Y"}, Allow, "loopback"}, // code of the goal's tests
		{event.Access{Command: "ls"}, Allow, ""},
	} {
		if v := Judge(c, "run_test", event.Supervised, tt.a); v.Decision != tt.decision || v.Scope != tt.scope {
			t.Errorf("%+v is judged %s with %q, want %s with %q: %s", tt.a, v.Decision, v.Scope, tt.decision, tt.scope, v.Reason)
		}
	}
	c.Rules = []event.Rule{onNetwork("deny", "", "loopback", "repository")}
	if v := Judge(c, "run_test", event.Supervised, event.Access{Command: "npm test"}); v.Decision != Allow || v.Scope != "" {
		t.Errorf("a repository that denies the network leaves a test %s with %q", v.Decision, v.Scope)
	}
}

func TestNetworkRulesAreCheckedAndSuggested(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]event.Rule{
		"none of loopback and full":            {Decision: "allow", Command: "x", Network: "lan"},
		"write two rules":                      {Decision: "deny", Path: "x", Network: "full"},
		"has to name the command":              {Decision: "allow", Network: "full"},
		`"cargo fetch" is not matched by`:      {Decision: "allow", Command: "npm ci", Network: "full", Match: []string{"cargo fetch"}},
		`"loopback" is not matched by network`: {Decision: "deny", Network: "full", Match: []string{"loopback"}},
	} {
		if err := CheckRules([]event.Rule{r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
	}
	good := []event.Rule{{Decision: "allow", Network: "loopback"}, {Decision: "deny", Network: "loopback", Match: []string{"full"}},
		{Decision: "allow", Command: "npm ci", Network: "full", Match: []string{"npm ci"}, NotMatch: []string{"npm run x"}}}
	if err := CheckRules(good); err != nil {
		t.Error(err)
	}
	rules := Suggest(Config{}, event.Access{Command: "cd x && go mod download && npm ci", Network: "full"})
	if len(rules) != 2 || rules[0].Command != "go mod download" || rules[0].Network != "full" || rules[1].Network != "full" {
		t.Errorf("suggested: %+v", rules)
	}
}

// TestNetworkOnlyNarrows holds invariant 4 for the network: whatever else is
// added, restrictions and rules of the repository never give a text more of it.
func TestNetworkOnlyNarrows(t *testing.T) {
	t.Parallel()
	commands := []string{"go mod download", "npm ci", "npm run x", "ls", "cat f | head", "$x", "curl x", "go test ./..."}
	patterns := []string{"go mod *", "npm *", "ls *", "** x", "curl *", ""}
	scopes := []string{"loopback", "full"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(commands), 1, 3).Draw(t, "commands"), rapid.SampledFrom(joins).Draw(t, "join"))
		base := Config{Root: "/r", TestCommands: []string{"go test ./..."}}
		if rapid.Bool().Draw(t, "test network") {
			base.TestNetwork = map[string]string{"go test ./...": rapid.SampledFrom(scopes).Draw(t, "own")}
		}
		for range rapid.IntRange(0, 3).Draw(t, "grants") {
			base.Rules = append(base.Rules, fetching(rapid.SampledFrom(commands).Draw(t, "granted"), rapid.SampledFrom(scopes).Draw(t, "scope")))
		}
		with := base
		for range rapid.IntRange(1, 2).Draw(t, "more") {
			r := onNetwork(rapid.SampledFrom([]string{"ask", "deny"}).Draw(t, "decision"), rapid.SampledFrom(patterns).Draw(t, "pattern"), rapid.SampledFrom(scopes).Draw(t, "from"), "repository")
			if rapid.Bool().Draw(t, "tries to allow") {
				r.Decision = "allow"
			}
			with.Rules = append(append([]event.Rule{}, with.Rules...), r)
		}
		a := event.Access{Command: text, Network: rapid.SampledFrom([]string{"", "none", "loopback", "full"}).Draw(t, "asked")}
		before, after := Judge(base, "run_command", event.Supervised, a), Judge(with, "run_command", event.Supervised, a)
		if after.Decision.rank() < before.Decision.rank() || rankOf(after.Scope) > rankOf(before.Scope) {
			t.Fatalf("%+v: %s with %q became %s with %q by %+v", a, before.Decision, before.Scope, after.Decision, after.Scope, with.Rules)
		}
		// Joined to a command that nothing grants it, nothing is given unasked.
		if a.Network == "" {
			a.Command += "\nnpm run other"
			if v := Judge(base, "run_command", event.Supervised, a); v.Scope != "" {
				t.Fatalf("%q is given %q", a.Command, v.Scope)
			}
		}
	})
}
