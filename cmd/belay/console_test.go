package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belay/client"
	"belay/internal/event"
)

// go test ./cmd/belay -run TestTheConsole -pictures ../../docs/console takes the
// pictures of docs/console.md.
var pictures = flag.String("pictures", "", "a directory for pictures of the console")

// served is a belay serve with a token.
type served struct {
	*world
	p      *process
	addr   string
	secret string
	c      *client.Client
}

func (w *world) serveAPI() *served {
	w.t.Helper()
	// A port of its own, which a restart takes again.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	s := &served{world: w, addr: l.Addr().String()}
	l.Close()
	s.secret = w.token("operate")
	s.c = &client.Client{URL: "http://" + s.addr, Token: s.secret}
	s.up()
	return s
}

// token makes a token and returns its secret.
func (w *world) token(scope string) string {
	w.t.Helper()
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal([]byte(w.must(0, "token", "new", "test", "--scope", scope, "--json").out), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.Token
}

// up starts the server and waits until it listens.
func (s *served) up() {
	s.t.Helper()
	s.p = s.start("serve", "--json", "--listen", s.addr, "--socket", "off")
	s.p.await(`"listening"`)
}

func (s *served) url() string { return "http://" + s.addr + "/#token=" + s.secret }

// begin starts a goal over HTTP that asks before it changes anything.
func (s *served) begin(text, script string) string {
	s.t.Helper()
	g, err := s.c.Start(s.t.Context(), client.StartGoal{Text: text, Repo: s.repo, Model: s.script(script), Plan: event.PlanNever,
		Acceptance: []event.Criterion{{Kind: event.CriterionTest, Command: "sh check.sh"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return g.Goal
}

const stepPlan = "  - calls:\n" +
	"      - {tool: update_plan, args: {summary: Repair code.txt, steps: [{id: s1, text: Read it}, {id: s2, text: Patch it}], scope: [code.txt]}}\n" +
	"      - {tool: update_todos, args: {todos: [{id: t1, content: Patch code.txt, status: in_progress}, {id: t2, content: Run the tests, status: pending}]}}\n"

func TestTheConsole(t *testing.T) {
	t.Parallel()
	chromium(t)
	w := newWorld(t, toy())
	s := w.serveAPI()
	b := newBrowser(t)
	page := b.open(t, s.url())
	page.size(1280, 900, "light")
	page.shows("No goals yet.")
	page.eval("window.__stays = true", nil) // a reload would forget it

	s.begin("Repair code.txt", "steps:\n"+stepPlan+stepRead+stepFix+stepTest+stepDone)
	page.press("Repair code.txt")
	page.shows("Approve file_patch?")
	page.until(`document.querySelector(".ask .diff .del")?.innerText.includes("broken") && document.querySelector(".ask .diff .add")?.innerText.includes("fixed")`)
	page.shows("approval_requested: file_patch")
	if *pictures != "" {
		s.take(page)
	}
	axe(page, "a goal that asks")

	// The server dies in the middle and comes back: the page goes on by itself.
	s.p.kill()
	s.p.wait()
	page.shows("connection lost")
	s.up()
	page.until(`document.querySelector("#link").innerText === "live"`)
	second := b.open(t, s.url())
	second.press("Repair code.txt")
	second.shows("Approve file_patch?")
	// Both have the question before them: what the second holds is what it would
	// press in the instant in which the first has pressed.
	second.eval(`window.__late = [...document.querySelectorAll("button")].find((b) => b.innerText === "Deny")`, nil)
	page.press("Approve")
	page.state("completed: verified")
	page.until(`!document.querySelector(".ask")`)
	second.state("completed: verified")
	second.eval("__late.click()", nil)
	second.shows("somebody else was faster")
	if n := len(of[event.ApprovalDenied](t, s.events())); n != 0 {
		t.Errorf("%d denials on record", n)
	}

	page.press("Where the time went")
	page.until(`document.querySelectorAll(".lanes rect.model").length === 5 && document.querySelectorAll(".lanes rect.waits").length === 1 && document.querySelectorAll(".lanes circle.good").length === 1 && document.querySelectorAll(".lanes text.revision").length === 1`)
	page.shows("1 of 1 test runs passed, over 1 change of the repository")
	page.until(`document.querySelector(".lanes circle.good title").textContent.includes("on revision 1")`)
	if *pictures != "" {
		page.eval(`document.querySelector(".lanes").scrollIntoView()`, nil)
		page.picture(filepath.Join(*pictures, "lanes.png"))
	}
	axe(page, "a goal that is completed")
	page.shows("agent_loop_stopped: finished")
	page.press("op5")
	page.shows("1 passed in 0.01s")
	page.shows("whole, ")
	axe(page, "an operation")
	page.eval(`document.querySelector("dialog").close()`, nil)
	var stays bool
	if page.eval("window.__stays === true", &stays); !stays {
		t.Error("the page was loaded anew")
	}
	page.sound()
	second.sound()

	for name, f := range map[string]func(*served, *testing.T, *browser){"start": (*served).startInThePage, "hostile": (*served).hostile, "watch": (*served).watchOnly, "keys": (*served).byKeys, "running": (*served).running, "settle": (*served).settle, "family": (*served).family, "past": (*served).past} {
		t.Run(name, func(t *testing.T) { f(s.room(t, name), t, b) })
	}
}

// room is the same server with another repository.
func (s *served) room(t *testing.T, name string) *served {
	t.Helper()
	w := *s.world
	w.t, w.dir, w.repo = t, filepath.Join(s.dir, name), filepath.Join(s.dir, name, "repo")
	for file, content := range toy() {
		w.put(filepath.Join(w.repo, file), content)
	}
	return &served{world: &w, p: s.p, addr: s.addr, secret: s.secret, c: s.c}
}

// state waits until the goal that is shown is in a state.
func (p *tab) state(words string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(".goal-head .chip").innerText.includes(%s)`, quote(words)))
}

// startInThePage starts a goal by the form, answers no with a reason, and
// cancels.
func (s *served) startInThePage(t *testing.T, b *browser) {
	page := b.open(t, s.url())
	page.press("New goal")
	page.shows("What should be done?")
	axe(page, "the form")
	model := s.script("steps:\n" + stepRead + stepFix + "  - {expect: {last_result_contains: [\"not like this\"]}, calls: [{tool: ask_user, args: {question: Which way then?}}]}\n" + stepTest)
	set := func(id, value string) {
		page.eval(fmt.Sprintf("document.getElementById(%s).value = %s", quote(id), quote(value)), nil)
	}
	set("g-text", "Start from the page")
	set("g-repo", "no/such/place")
	set("g-model", model)
	set("g-plan", "never")
	set("g-tests", "sh check.sh")
	page.press("Start")
	page.shows("name the repository by its absolute path")
	set("g-repo", s.repo)
	page.press("Start")
	page.shows("Approve file_patch?")
	page.eval(`document.querySelector(".ask input").value = "not like this"`, nil)
	page.press("Deny")
	page.shows("Which way then?")
	page.press("Cancel goal")
	page.shows("It ends for good.")
	axe(page, "a question before something is sent")
	page.eval(`[...document.querySelectorAll("dialog button")].find((b) => b.innerText === "Cancel goal").click()`, nil)
	page.state("cancelled")
	page.sound()
}

// hostile shows what wants to be more than text: markup, scripts, terminal
// sequences, characters that turn the reading direction.
func (s *served) hostile(t *testing.T, b *browser) {
	const bad = "<img src=x onerror=alert(1)><script>window.__owned=1</script>\u202egnp.exe\x1b[31mred\x07\u2066"
	name := `<img src=x onerror="window.__owned=1"> ` + "\u202egnp" + `.txt`
	script := "steps:\n" +
		stepCall("update_plan", map[string]any{"summary": bad, "steps": []any{map[string]any{"id": "s1", "text": bad}}, "scope": []string{"**"}}) +
		stepCall("write_file", map[string]any{"path": name, "content": bad + "\n"}) +
		stepCommand(`printf '%s\033]0;owned\007\033[2J%b\n' '<script>window.__owned=1</script>' '\xe2\x80\xae'`) +
		stepRead + stepFix + stepTest + stepDone
	s.begin("Hostile "+bad, script)
	page := b.open(t, s.url())
	page.press("Hostile")
	page.shows("Approve write_file?")
	page.until(`document.querySelector(".ask").innerText.includes("\\u202egnp")`)
	// What the shown diff says is the whole of it, with nothing hidden in it.
	page.until(`document.querySelector(".ask .diff").innerText.includes("\\x1b[31mred\\x07\\u2066")`)
	page.press("Approve")
	page.shows("Approve file_patch?")
	page.press("Approve")
	page.state("completed: verified")
	page.until(`[...document.querySelectorAll(".changes summary")].some((e) => e.innerText.includes("<img src=x"))`)
	page.eval(`for (const d of document.querySelectorAll(".changes details")) d.open = true`, nil)
	page.until(`[...document.querySelectorAll(".changes .diff")].some((e) => e.innerText.includes("<script>window.__owned=1</script>\\u202egnp.exe\\x1b[31m"))`)
	// What is out of sight is found by searching.
	page.eval(`(() => { const f = document.querySelector(".timeline-card input[type=search]"); f.value = "op3"; f.dispatchEvent(new Event("input")); })()`, nil)
	// And in everything that there is, events that were never loaded and files.
	page.eval(`(() => { const f = document.querySelector(".timeline-card input[type=search]"); f.value = "owned tool:run_command"; f.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" })); f.value = "op3"; })()`, nil)
	page.until(`document.querySelector(".hits li")?.innerText.includes("run_command") && document.querySelector(".hits li pre").innerText.includes("<script>window.__owned=1</script>")`)
	page.eval(`document.querySelector(".found .quiet").click()`, nil)
	page.press("op3")
	page.until(`document.querySelector("dialog .output").innerText.includes("\\x1b]0;owned\\x07\\x1b[2J\\u202e")`)
	var found struct {
		Owned, Images, Scripts, Turned int
	}
	page.eval(`(() => ({
		Owned: window.__owned ? 1 : 0,
		Images: document.querySelectorAll("img,iframe,object,svg,style").length,
		Scripts: document.querySelectorAll("script").length,
		Turned: /[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u000b-\u001f]/.test(document.documentElement.textContent) ? 1 : 0,
	}))()`, &found)
	if found.Owned != 0 || found.Images != 0 || found.Scripts != 1 || found.Turned != 0 {
		t.Errorf("text became more than text: %+v", found)
	}
	page.sound()
}

// watchOnly looks with a token that may not answer, and with none.
func (s *served) watchOnly(t *testing.T, b *browser) {
	goal := s.begin("Only watched", repair)
	page := b.open(t, "http://"+s.addr+"/#token="+s.token("watch")+"")
	page.press("Only watched")
	page.shows("answering needs the scope answer")
	var buttons []string
	page.eval(`[...document.querySelectorAll(".goal-head button, .ask button, .top .button")].filter((b) => b.checkVisibility()).map((b) => b.innerText)`, &buttons)
	for _, b := range buttons {
		if b != "Report" && !strings.HasPrefix(b, "op") {
			t.Errorf("it offers %q", b)
		}
	}
	var address string
	page.eval("location.href + JSON.stringify(document.cookie)", &address)
	if strings.Contains(address, "belay_") {
		t.Errorf("the token stays in the address: %s", address)
	}
	page.press("Forget token")
	page.shows("Make one where the server runs")
	axe(page, "the door")
	page.eval(`document.getElementById("token").value = "belay_wrong"`, nil)
	page.press("Enter")
	page.shows("it is wrong, was revoked, or has expired")
	page.sound()
	if _, err := s.c.Tell(t.Context(), goal, "cancel", client.Cancel{}); err != nil {
		t.Fatal(err)
	}
}

// past looks at the goal as it was when it asked, after it has ended.
func (s *served) past(t *testing.T, b *browser) {
	goal := s.begin("Look back", repair)
	asked := s.until(t, goal, event.TypeApprovalRequested)
	page := b.open(t, s.url())
	page.press("Look back")
	page.shows("Approve file_patch?")
	page.press("Approve")
	page.state("completed: verified")
	page.eval(fmt.Sprintf(`location.hash = "#/goal/%s/%d"`, goal, asked.Seq), nil)
	page.shows(fmt.Sprintf("This is the goal as it was after event %d.", asked.Seq))
	page.until(`document.querySelector(".ask")?.innerText.includes("file_patch")`)
	page.until(`!document.querySelector(".goal-head").innerText.includes("verified")`)
	var buttons []string
	page.eval(`[...document.querySelectorAll(".goal-head button, .ask button")].filter((b) => b.checkVisibility()).map((b) => b.innerText)`, &buttons)
	for _, b := range buttons {
		if b != "Report" && !strings.HasPrefix(b, "op") {
			t.Errorf("the past offers %q", b)
		}
	}
	axe(page, "the past")
	page.press("As it is now")
	page.state("completed: verified")
	page.eval(fmt.Sprintf(`location.hash = "#/goal/%s/99999"`, goal), nil)
	page.shows("No such event")
	page.sound()
}

// running watches what a command prints while it runs.
func (s *served) running(t *testing.T, b *browser) {
	gate := s.gate()
	model := s.script("steps:\n" + stepCommand(`printf 'began \303\251 <b>\033[2J\n'; cat ../gate; echo ended`) + stepRead + stepFix + stepTest + stepDone)
	g, err := s.c.Start(t.Context(), client.StartGoal{Text: "Watch it run", Repo: s.repo, Model: model, Plan: event.PlanNever, Approve: event.ApproveAuto,
		Acceptance: []event.Criterion{{Kind: event.CriterionTest, Command: "sh check.sh"}}})
	if err != nil {
		t.Fatal(err)
	}
	page := b.open(t, s.url())
	page.press("Watch it run")
	page.until(`document.querySelector(".card.live .output").innerText.includes("began é <b>\\x1b[2J")`)
	page.press("op1")
	page.until(`document.querySelector("dialog .output").innerText.includes("began")`)
	page.eval(`document.querySelector("dialog").close()`, nil)
	gate.open(s.p)
	var printed strings.Builder
	for m, err := range s.c.FollowOutput(t.Context(), g.Goal, "op1") {
		if err != nil {
			t.Fatal(err)
		}
		var o client.Output
		if err := json.Unmarshal(m.Data, &o); err != nil {
			t.Fatal(err)
		}
		printed.WriteString(o.Text)
		if m.Name == "output" && strings.Contains(o.Text, "began") {
			gate.close()
		}
		if m.Name == "end" {
			break
		}
	}
	if got := printed.String(); got != "began é <b>\x1b[2J\nended\n" {
		t.Errorf("it printed %q", got)
	}
	page.state("completed: verified")
	page.until(`document.querySelector(".card.live").hidden`)
	page.sound()
}

// settle allows for good what is asked, says what became of an operation that
// nobody knows about, and reads the report.
func (s *served) settle(t *testing.T, b *browser) {
	gate := s.gate()
	model := s.script("steps:\n" + stepPlan + stepRead + stepFix + stepCommand("echo began; cat ../gate; echo ended") + stepTest + stepDone + stepDone + stepDone)
	g, err := s.c.Start(t.Context(), client.StartGoal{Text: "Settle it", Repo: s.repo, Model: model, Plan: event.PlanAlways,
		Acceptance: []event.Criterion{{Kind: event.CriterionTest, Command: "sh check.sh"}}})
	if err != nil {
		t.Fatal(err)
	}
	page := b.open(t, s.url())
	page.press("Settle it")
	page.shows("Approve update_plan?")
	page.press("Approve")
	page.shows("Approve file_patch?")
	page.press("Always")
	page.shows("From now on this is allowed without a question")
	axe(page, "a rule before it is recorded")
	page.eval(`[...document.querySelectorAll("dialog button")].find((b) => b.innerText === "Allow").click()`, nil)
	page.shows("Running run_command")
	gate.open(s.p)
	s.killShim(t, g.Goal)
	page.shows("What did run_command do?")
	page.eval(`document.querySelector('[aria-label="How you know"]').value = "I looked"`, nil)
	page.press("It failed")
	page.until(`![...document.querySelectorAll(".ask")].some((e) => e.innerText.includes("What did"))`)
	page.shows("operation_reconciled: failed")
	page.state("completed: verified")
	page.press("Report")
	page.until(`document.querySelector("dialog pre").innerText.includes("Settle it") && document.querySelector("dialog a").download.endsWith(".md")`)
	axe(page, "the report")
	page.eval(`document.querySelector("dialog").close()`, nil)
	page.press("Roll back…")
	page.shows("Roll back to cp0?")
	page.until(`document.querySelector("dialog .diff .add")?.innerText.includes("broken")`)
	axe(page, "a rollback before it is done")
	page.eval(`[...document.querySelectorAll("dialog button")].find((b) => b.innerText === "Roll back").click()`, nil)
	page.shows("Rolled back to cp0.")
	if got := s.read("code.txt"); got != "broken\n" {
		t.Errorf("after the rollback there is %q", got)
	}
	page.sound()
	if n := len(of[event.PolicyChanged](t, decodeEvents(t, s.must(0, "events", g.Goal).out))); n != 1 {
		t.Errorf("%d changes of policy are on record", n)
	}
}

// killShim kills the supervisor of a goal's only command.
func (s *served) killShim(t *testing.T, goal string) {
	t.Helper()
	specs, err := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "state/spool", "*"+goal+"*", "shim.json"))
	if err != nil || len(specs) != 1 {
		t.Fatalf("%v %v", specs, err)
	}
	var shim struct {
		PID int `json:"pid"`
	}
	b, err := os.ReadFile(specs[0])
	if err == nil {
		err = json.Unmarshal(b, &shim)
	}
	if err == nil {
		err = syscall.Kill(shim.PID, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
}

// byKeys goes to a goal and answers by the keyboard alone.
func (s *served) byKeys(t *testing.T, b *browser) {
	s.begin("By keys", repair)
	page := b.open(t, s.url())
	page.shows("By keys")
	key := func(name string, code int) {
		down := map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code}
		if name == "Enter" {
			down["text"] = "\r"
		}
		page.do("Input.dispatchKeyEvent", down)
		page.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": code})
	}
	// tab moves on until what has the focus reads so.
	tab := func(label string) {
		t.Helper()
		for range 80 {
			key("Tab", 9)
			var now string
			page.eval(`document.activeElement.matches("a,button") ? document.activeElement.innerText : ""`, &now)
			if strings.HasPrefix(strings.TrimSpace(now), label) {
				return
			}
		}
		t.Fatalf("no way to %q by the tab key", label)
	}
	tab("By keys")
	key("Enter", 13)
	page.shows("Approve file_patch?")
	tab("Approve")
	key("Enter", 13)
	page.state("completed: verified")
	page.sound()
}

// axe looks for what keeps people out.
func axe(page *tab, where string) {
	page.t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	if err != nil {
		page.t.Fatal(err)
	}
	page.eval(string(source)+"\n;true", nil)
	for _, look := range []struct {
		width, height int
		scheme        string
	}{{1280, 900, "light"}, {1280, 900, "dark"}, {390, 844, "light"}} {
		page.size(look.width, look.height, look.scheme)
		var found []struct {
			ID, Impact, Help string
			Nodes            []struct {
				HTML, FailureSummary string
			}
		}
		page.eval(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations)`, &found)
		for _, v := range found {
			if v.Impact == "serious" || v.Impact == "critical" {
				page.t.Errorf("%s, %d wide, %s: %s: %s\n%s\n%s", where, look.width, look.scheme, v.ID, v.Help, v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
			}
		}
	}
	page.size(1280, 900, "light")
}

// take takes the pictures of docs/console.md.
func (s *served) take(page *tab) {
	s.t.Helper()
	for _, look := range []struct {
		name          string
		width, height int
		scheme        string
	}{{"desktop-light", 1280, 900, "light"}, {"desktop-dark", 1280, 900, "dark"}, {"phone-light", 390, 844, "light"}, {"phone-dark", 390, 844, "dark"}} {
		page.size(look.width, look.height, look.scheme)
		page.picture(filepath.Join(*pictures, look.name+".png"))
	}
	page.size(1280, 900, "light")
}
