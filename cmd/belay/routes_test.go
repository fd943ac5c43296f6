package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"belay/internal/api"
	"belay/internal/cli"
	"belay/internal/eval"
)

// routesOf says for each command by which routes its work can be done over
// HTTP, or why it cannot.
var routesOf = map[string]struct {
	routes []string
	not    string
}{
	"run":            {routes: []string{"POST /v1/goals", "GET /v1/goals/{goal}/stream"}},
	"resume":         {routes: []string{"POST /v1/goals/{goal}/resume", "POST /v1/goals/{goal}/budget", "POST /v1/goals/{goal}/adopt", "POST /v1/goals/{goal}/model"}},
	"attach":         {routes: []string{"GET /v1/goals/{goal}/stream", "GET /v1/goals/{goal}/operations/{op}/stream"}},
	"top":            {routes: []string{"GET /v1/goals", "GET /v1/stream"}},
	"goals":          {routes: []string{"GET /v1/goals"}},
	"show":           {routes: []string{"GET /v1/goals/{goal}"}},
	"timeline":       {routes: []string{"GET /v1/goals/{goal}/timeline", "GET /v1/goals/{goal}/stream"}},
	"events":         {routes: []string{"GET /v1/goals/{goal}/events"}},
	"diff":           {routes: []string{"GET /v1/goals/{goal}/diff"}},
	"search":         {routes: []string{"GET /v1/search", "GET /v1/goals/{goal}/events"}},
	"audit":          {routes: []string{"GET /v1/goals/{goal}/audit"}},
	"log":            {routes: []string{"GET /v1/goals/{goal}/operations/{op}/output"}},
	"report":         {routes: []string{"GET /v1/goals/{goal}/report"}},
	"budget":         {routes: []string{"GET /v1/goals/{goal}/budget"}},
	"approve":        {routes: []string{"POST /v1/goals/{goal}/approve", "POST /v1/goals/{goal}/always", "GET /v1/goals/{goal}/operations/{op}/suggest"}},
	"deny":           {routes: []string{"POST /v1/goals/{goal}/deny"}},
	"say":            {routes: []string{"POST /v1/goals/{goal}/say"}},
	"pause":          {routes: []string{"POST /v1/goals/{goal}/pause"}},
	"cancel":         {routes: []string{"POST /v1/goals/{goal}/cancel"}},
	"revise":         {routes: []string{"POST /v1/goals/{goal}/revise", "GET /v1/goals/{goal}/spec"}},
	"reconcile":      {routes: []string{"POST /v1/goals/{goal}/reconcile", "POST /v1/goals/{goal}/look"}},
	"checkpoints":    {routes: []string{"GET /v1/goals/{goal}"}},
	"memory forget":  {routes: []string{"POST /v1/memory/forget", "GET /v1/memory"}},
	"checkpoint":     {routes: []string{"POST /v1/goals/{goal}/checkpoint"}},
	"next":           {routes: []string{"GET /v1/goals/{goal}"}},
	"apply":          {routes: []string{"POST /v1/goals/{goal}/apply"}},
	"fork":           {routes: []string{"POST /v1/goals/{goal}/fork"}},
	"export":         {routes: []string{"GET /v1/goals/{goal}/export", "POST /v1/goals/{goal}/give-up"}},
	"import":         {not: "it reads a file and lays files into a directory where it is called"},
	"worktrees":      {routes: []string{"GET /v1/worktrees", "POST /v1/goals/{goal}/remove-worktree"}},
	"rollback":       {routes: []string{"POST /v1/goals/{goal}/rollback"}},
	"policy explain": {routes: []string{"POST /v1/policy/explain"}},
	"policy list":    {routes: []string{"GET /v1/policy/rules"}},
	"policy check":   {routes: []string{"POST /v1/policy/check"}},
	"policy allow":   {routes: []string{"POST /v1/policy/rules"}},
	"policy revoke":  {routes: []string{"POST /v1/policy/revoke", "DELETE /v1/policy/rules/{id}"}},
	"policy goal":    {routes: []string{"GET /v1/goals/{goal}/policy", "POST /v1/goals/{goal}/policy"}},
	"doctor":         {routes: []string{"GET /v1/doctor"}},
	"version":        {routes: []string{"GET /v1/version"}},
	"serve":          {not: "it is the server"},
	"worker":         {not: "it is what the server does besides"},
	"attend-goal":    {not: "a worker for one goal, which the server's own takes up"},
	"token new":      {not: "who is let in is decided at the machine: a token that made tokens would outlive its revocation"},
	"token list":     {not: "as token new"},
	"token revoke":   {not: "as token new"},
	"gc":             {not: "what goes for good is decided at the machine that has it, and only there no other belay is in the way"},
	"demo":           {not: "it has a repository and a ledger of its own, which it removes"},
	"man":            {not: "it writes files where it is called"},
	"eval run":       {not: "it starts processes with states of their own, to be judged from outside"},
	"eval compare":   {not: "it reads files where it is called"},
	"eval import":    {not: "it writes files where it is called"},
}

// servedBesides are routes that no command needs.
var servedBesides = map[string]string{
	"GET /healthz": "for those who run the server", "GET /readyz": "for those who run the server", "GET /metrics": "for Prometheus",
	"GET /v1/openapi.json": "for those who write clients", "GET /v1/self": "for the console: what the token allows",
	"GET /v1/artifacts/{sha256}": "contents that answers name", "GET /v1/goals/{goal}/operations/{op}": "for the console; events shows the same",
}

// TestEveryCommandHasItsRoute: whatever the command line can do can be done
// over HTTP, or it is said why not; and a route is there for a use.
func TestEveryCommandHasItsRoute(t *testing.T) {
	t.Parallel()
	doc, err := api.Document()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for path, methods := range d.Paths {
		for m := range methods {
			served[strings.ToUpper(m)+" "+path] = true
		}
	}
	used := map[string]bool{}
	commands := cli.Commands(cli.Env{More: []*cobra.Command{eval.Root(eval.Env{})}})
	for _, c := range commands {
		r, ok := routesOf[c]
		if !ok || (len(r.routes) == 0) == (r.not == "") {
			t.Errorf("belay %s has no route: give it one (internal/api/table.go, internal/remote), or say here why not", c)
		}
		for _, route := range r.routes {
			if used[route] = true; !served[route] {
				t.Errorf("belay %s: %s is not served", c, route)
			}
		}
	}
	for _, c := range slices.Sorted(maps.Keys(routesOf)) {
		if !slices.Contains(commands, c) {
			t.Errorf("there is no belay %s", c)
		}
	}
	for route := range served {
		if !used[route] && servedBesides[route] == "" {
			t.Errorf("%s is served and no command needs it", route)
		}
	}
	for route := range servedBesides {
		if !served[route] {
			t.Errorf("%s is not served", route)
		}
	}
}
