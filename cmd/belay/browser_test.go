package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium of its own, driven over the DevTools protocol
// on a pair of pipes: no port, no library.
type browser struct {
	cmd  *exec.Cmd
	in   *os.File
	mu   sync.Mutex
	next int
	wait map[int]chan reply
	log  bytes.Buffer
	gone chan struct{}
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// chromium finds the program; where there is none the test says loudly that it
// showed nothing.
func chromium(t testing.TB) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED, SO THE CONSOLE IS NOT SHOWN TO WORK: there is no chromium here (apt-get install chromium)")
	return ""
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	dir := t.TempDir()
	fromUs, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{in: toBrowser, wait: map[int]chan reply{}, gone: make(chan struct{})}
	b.cmd = exec.Command(chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	b.cmd.Env = append(os.Environ(), "HOME="+dir, "LANG=C.UTF-8", "TZ=UTC")
	b.cmd.ExtraFiles = []*os.File{fromUs, toUs}
	b.cmd.Stderr = &b.log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	toUs.Close()
	go b.read(fromBrowser)
	t.Cleanup(func() {
		toBrowser.Close()
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // its own process group: the renderers too
		_ = b.cmd.Wait()
		<-b.gone
	})
	return b
}

func (b *browser) read(from *os.File) {
	defer close(b.gone)
	defer from.Close()
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m reply
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil || m.ID == 0 {
			continue
		}
		b.mu.Lock()
		c := b.wait[m.ID]
		delete(b.wait, m.ID)
		b.mu.Unlock()
		if c != nil {
			c <- m
		}
	}
}

// call sends one command and decodes its result into out, which may be nil.
func (b *browser) call(t testing.TB, session, method string, params map[string]any, out any) {
	t.Helper()
	c := make(chan reply, 1)
	b.mu.Lock()
	b.next++
	m := map[string]any{"id": b.next, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	b.wait[b.next] = c
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	select {
	case r := <-c:
		if r.Error != nil {
			t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if out != nil {
			if err := json.Unmarshal(r.Result, out); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
		}
	case <-b.gone:
		t.Fatalf("%s: the browser is gone\n%s", method, &b.log)
	case <-time.After(2 * patience):
		t.Fatalf("%s: the browser does not answer", method)
	}
}

// tab is a page in a profile of its own: another tab shares nothing with it.
type tab struct {
	*browser
	t       testing.TB
	session string
}

// open opens a page for one test.
func (b *browser) open(t testing.TB, url string) *tab {
	t.Helper()
	var context struct {
		ID string `json:"browserContextId"`
	}
	b.call(t, "", "Target.createBrowserContext", nil, &context)
	var target struct {
		ID string `json:"targetId"`
	}
	b.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": context.ID, "width": 1280, "height": 900}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	b.call(t, "", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session)
	p := &tab{browser: b, t: t, session: session.ID}
	p.do("Page.enable", nil)
	// What the page's policy refused, and errors of its scripts, are kept for
	// the test to look at.
	p.do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		window.__wrong = [];
		addEventListener("securitypolicyviolation", (e) => __wrong.push("policy: " + e.violatedDirective + " " + e.blockedURI));
		addEventListener("error", (e) => __wrong.push("error: " + e.message));
		addEventListener("unhandledrejection", (e) => __wrong.push("rejection: " + e.reason));`})
	p.do("Page.navigate", map[string]any{"url": url})
	t.Cleanup(func() {
		b.call(t, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": context.ID}, nil)
	})
	return p
}

func (p *tab) do(method string, params map[string]any) {
	p.t.Helper()
	p.call(p.t, p.session, method, params, nil)
}

// eval runs JavaScript, waits for its promise, and decodes the value.
func (p *tab) eval(js string, out any) {
	p.t.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.call(p.t, p.session, "Runtime.evaluate", map[string]any{"expression": js, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r)
	if r.Exception != nil {
		p.t.Fatalf("%.200s: %s %s", js, r.Exception.Text, r.Exception.Exception.Description)
	}
	if out != nil && len(r.Result.Value) > 0 {
		if err := json.Unmarshal(r.Result.Value, out); err != nil {
			p.t.Fatalf("%.200s: %v: %s", js, err, r.Result.Value)
		}
	}
}

// until waits until a condition of the page holds.
func (p *tab) until(condition string) {
	p.t.Helper()
	late := time.Now().Add(patience)
	for {
		// A page that is being replaced forgets what it was asked.
		var ok bool
		p.eval(`new Promise((done) => {
			const end = Date.now() + 5000;
			const look = () => {
				let v = false;
				try { v = !!(`+condition+`); } catch {}
				if (v || Date.now() > end) done(v); else setTimeout(look, 25);
			};
			look();
		})`, &ok)
		if ok {
			return
		}
		if time.Now().After(late) {
			var text string
			p.eval(`document.body.innerText + "\n" + JSON.stringify(window.__wrong)`, &text)
			p.t.Fatalf("it never held that %s; the page shows\n%s", condition, text)
		}
	}
}

// shows waits for a text on the page.
func (p *tab) shows(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.body.innerText.includes(%s)", quote(text)))
}

// press clicks the button or link that reads so, as soon as it is there.
func (p *tab) press(label string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("button,a,summary")].find((e) => e.innerText.trim().startsWith(%s) && !e.disabled && e.checkVisibility())`, quote(label))
	p.until(find)
	p.eval(find+".click()", nil)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// size makes the window so wide and high, and dark or light.
func (p *tab) size(width, height int, scheme string) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
	p.until(`matchMedia("(prefers-color-scheme: ` + scheme + `)").matches`)
}

// picture writes what is seen to a file.
func (p *tab) picture(path string) {
	p.t.Helper()
	var r struct {
		Data string `json:"data"`
	}
	p.call(p.t, p.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	b, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// sound checks that no script of the page failed and its policy refused nothing.
func (p *tab) sound() {
	p.t.Helper()
	var wrong []string
	p.eval("window.__wrong", &wrong)
	if len(wrong) > 0 {
		p.t.Errorf("the page: %s", strings.Join(wrong, "; "))
	}
}
