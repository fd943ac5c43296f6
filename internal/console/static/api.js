// Talking to the server: requests, and streams that come back by themselves.

let token = "";
const lost = new Set();

// begin takes the token from the address or from this tab's memory.
export function begin() {
  const m = /^#token=([\w-]+)$/.exec(location.hash);
  if (m) {
    token = m[1];
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", location.pathname + "#/");
  } else {
    token = sessionStorage.getItem("token") || "";
  }
  return token !== "";
}

begin.is = (hash) => hash.startsWith("#token=");

export function use(secret) {
  token = secret.trim();
  if (token) sessionStorage.setItem("token", token);
  else sessionStorage.removeItem("token");
}

// onLost is called when the token is refused.
export function onLost(f) { lost.add(f); }

// Problem is what the server answers when it will not.
export class Problem extends Error {
  constructor(p) {
    super(p.detail || p.title || "The server does not answer");
    Object.assign(this, { code: p.code, status: p.status, title: p.title });
  }
}

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
      headers: { Authorization: "Bearer " + token, ...options.headers } });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem({ title: "The server cannot be reached", code: "unreachable" });
  }
  if (answer.ok) return answer;
  let p = { title: answer.statusText, status: answer.status, code: "http" };
  try { p = await answer.json(); } catch { /* a proxy's page, say */ }
  if (answer.status === 401) for (const f of lost) f(p);
  throw new Problem(p);
}

export async function get(path, signal) { return (await send(path, { signal })).json(); }
export async function text(path, headers) { return send(path, { headers }); }

// newKey is a UUIDv7: its time tells the server how far back to look for it.
function newKey() {
  const b = crypto.getRandomValues(new Uint8Array(10));
  b[0] = (b[0] & 0x0f) | 0x70;
  b[2] = (b[2] & 0x3f) | 0x80;
  const s = Date.now().toString(16).padStart(12, "0") + Array.from(b, (n) => n.toString(16).padStart(2, "0")).join("");
  return [s.slice(0, 8), s.slice(8, 12), s.slice(12, 16), s.slice(16, 20), s.slice(20)].join("-");
}

// tell sends a command. Its key lets it be sent again when the connection broke
// before the answer came, without being done twice.
export async function tell(path, body) {
  const key = newKey();
  for (let tries = 0; ; tries++) {
    try {
      const answer = await send(path, { method: "POST", body: JSON.stringify(body || {}),
        headers: { "Content-Type": "application/json", "Idempotency-Key": key } });
      return await answer.json();
    } catch (e) {
      if (e.code !== "unreachable" || tries >= 5) throw e;
      await new Promise((done) => setTimeout(done, 300 * 2 ** tries));
    }
  }
}

export const goalPath = (goal, ...more) => "/v1/goals/" + [goal, ...more].map(encodeURIComponent).join("/");

// The server says that a stream is alive every ten seconds. One that says
// nothing for longer than this has died without a word, as when a machine slept.
const silence = 25000;

// follow keeps a stream open until it is stopped: after a break it goes on from
// the last id. on is called with each event; state with "live" and "away".
export function follow(path, after, on, state) {
  const stop = new AbortController();
  let last = after, wait = 250, wake = () => {};
  const poke = () => { if (document.visibilityState === "visible") wake(); };
  addEventListener("online", poke);
  document.addEventListener("visibilitychange", poke);
  (async () => {
    while (!stop.signal.aborted) {
      const one = new AbortController();
      const both = () => one.abort();
      stop.signal.addEventListener("abort", both);
      try {
        const answer = await send(path, { signal: one.signal, headers: last ? { "Last-Event-ID": String(last) } : {} });
        state("live");
        wait = 250;
        await read(answer.body, one, (e) => { if (e.id) last = e.id; on(e); });
      } catch (e) {
        if (e.status === 401 || e.status === 404) { state("away"); stop.abort(); }
      }
      stop.signal.removeEventListener("abort", both);
      if (stop.signal.aborted) break;
      state("away");
      await new Promise((done) => { wake = done; setTimeout(done, wait * (0.7 + 0.6 * Math.random())); });
      wait = Math.min(wait * 2, 8000);
    }
    removeEventListener("online", poke);
    document.removeEventListener("visibilitychange", poke);
  })();
  return () => stop.abort();
}

async function read(body, control, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const dead = setTimeout(() => control.abort(), silence);
    const { done, value } = await reader.read().finally(() => clearTimeout(dead));
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const e = parse(rest.slice(0, end));
      if (e.name) on(e);
    }
  }
}

function parse(block) {
  const e = { name: "", id: 0, data: null };
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) e.name = line.slice(7);
    else if (line.startsWith("id: ")) e.id = Number(line.slice(4));
    else if (line.startsWith("data: ")) e.data = JSON.parse(line.slice(6));
  }
  return e;
}
