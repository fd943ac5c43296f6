// What opens over the page: an operation, an event, a question, the report.

import { h, fill, instant, safe } from "./dom.js";
import { get, text, goalPath, follow } from "./api.js";
import { words, chip } from "./words.js";
import { drawDiff } from "./diff.js";

const chunk = 256 * 1024; // bytes of output that are read at a time

function dialog(title, ...children) {
  const d = h("dialog", { "aria-label": typeof title === "string" ? title : "Details", onclose: () => d.remove() },
    h("header", {}, h("h2", {}, title), h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => d.close() }, "✕")), h("div", { class: "inside" }, children));
  document.body.append(d);
  d.showModal();
  return d;
}

// ask puts a question before something is sent.
export function ask(title, children, yes, no = "Back") {
  return new Promise((done) => {
    const d = dialog(title, children, h("p", { class: "buttons" },
      h("button", { type: "button", class: "primary", onclick: () => { done(true); d.close(); } }, yes),
      h("button", { type: "button", onclick: () => d.close() }, no)));
    d.addEventListener("close", () => done(false));
  });
}

let toastEnd;

// toast says what came of a command, to eyes and ears.
export function toast(message) {
  const t = document.getElementById("say");
  clearTimeout(toastEnd);
  fill(t, message, h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => { t.hidden = true; } }, "✕"));
  t.hidden = false;
  toastEnd = setTimeout(() => { t.hidden = true; }, 12000);
}

const pretty = (v) => JSON.stringify(v, null, 2);

// showEvent shows what is recorded. jump goes to an event of the timeline, if it
// is there; a cause that is not is shown in its turn.
export async function showEvent(goal, seq, jump) {
  const inside = h("div", {}, "…");
  const d = dialog(`Event ${seq}`, inside);
  const cause = async (id) => {
    d.close();
    if (jump(id)) return;
    const from = Math.max(0, seq - 1000);
    const found = (await get(`${goalPath(goal, "events")}?after=${from}&limit=${seq - from}`)).find((e) => e.id === id);
    if (found) showEvent(goal, found.seq, jump);
  };
  try {
    const [e] = await get(`${goalPath(goal, "events")}?after=${seq - 1}&limit=1`);
    fill(inside, h("dl", {}, [["Type", e.type], ["Time", instant(e.time)], ["By", e.actor], ["Turn", e.turn_id], ["Operation", e.op_id], ["Fence", String(e.fence)],
      ["Cause", e.cause && h("button", { type: "button", class: "ref", onclick: () => cause(e.cause).catch((err) => toast(err.message)) }, e.cause)], ["Hash", e.hash]]
      .filter(([, v]) => v).map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
      h("p", {}, h("a", { href: `#/goal/${encodeURIComponent(goal)}/${seq}`, onclick: () => d.close() }, "The goal as it was then")), h("pre", { tabindex: "0", "aria-label": "what is recorded" }, pretty(e.payload)));
  } catch (err) { fill(inside, h("p", { class: "bad" }, err.message)); }
}

export async function showOperation(goal, op) {
  const inside = h("div", {}, "…");
  const d = dialog(`Operation ${op}`, inside);
  try {
    const o = await get(goalPath(goal, "operations", op));
    const of = (type) => o.events.find((e) => e.type === type)?.payload;
    const proposed = of("operation_proposed"), asked = of("approval_requested"), finished = of("operation_finished");
    const outcome = finished?.outcome || (of("operation_rejected") ? "rejected" : "");
    const fault = finished?.result?.fault || of("operation_rejected")?.fault;
    const tone = { succeeded: "good", failed: "bad", rejected: "bad", unknown: "you", cancelled: "off" }[outcome] || "go";
    const command = finished?.result?.command;
    fill(inside,
      h("p", {}, proposed && h("strong", {}, proposed.tool), " ", chip({ word: outcome || "open", tone, mark: outcome === "succeeded" ? "✓" : "•" }),
        command && h("span", { class: "dim" }, ` exit code ${command.exit_code} in ${command.duration_ms} ms` + (command.timed_out ? ", ended at its deadline" : ""))),
      fault && h("p", { class: "bad" }, words(fault.kind) + ": " + fault.message, fault.suggested_action && h("span", { class: "dim" }, " " + fault.suggested_action)),
      proposed && [h("h3", {}, "Arguments"), h("pre", { tabindex: "0", "aria-label": "arguments" }, pretty(proposed.arguments))],
      asked?.intent?.preview?.head && [h("h3", {}, "What was asked"), /^(diff |--- |@@)/m.test(asked.intent.preview.head) ? drawDiff(asked.intent.preview.head) : h("pre", { tabindex: "0", "aria-label": "what was asked" }, asked.intent.preview.head)],
      finished && [h("h3", {}, "Output"), output(goal, op)],
      !outcome && of("operation_started") && [h("h3", {}, "Output so far"), soFar(d, goalPath(goal, "operations", op, "stream"))],
      h("h3", {}, "On record"),
      h("ol", { class: "record" }, o.events.map((e) => h("li", {}, instant(e.time), " ", e.type, " ", h("span", { class: "dim" }, "by " + e.actor + ", event " + e.seq)))));
  } catch (err) { fill(inside, h("p", { class: "bad" }, err.message)); }
}

// soFar is the output of what still runs, while the dialog is open.
function soFar(d, path) {
  const pre = h("pre", { class: "output", tabindex: "0", "aria-label": "output so far" });
  d.addEventListener("close", tail(path, pre));
  return pre;
}

const tailed = 64 * 1024; // characters of running output that are kept in the page

// tail shows what a running command prints, the end of it. It begins anew when
// the connection does.
export function tail(path, pre) {
  let text = "";
  const stop = follow(path, 0, (e) => {
    if (e.name === "end") return stop();
    text = (text + e.data.text).slice(-tailed);
    pre.textContent = safe(text);
    pre.scrollTop = pre.scrollHeight;
  }, (now) => { if (now === "live") text = ""; });
  return stop;
}

// output reads the whole output, piece by piece as it is asked for.
function output(goal, op) {
  const pre = h("pre", { class: "output", tabindex: "0", "aria-label": "output" });
  const foot = h("p", { class: "buttons" });
  const decoder = new TextDecoder();
  let at = 0;
  const more = async () => {
    fill(foot, "…");
    try {
      const answer = await text(goalPath(goal, "operations", op, "output"), { Range: `bytes=${at}-${at + chunk - 1}` });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const size = answer.status === 206 ? Number(answer.headers.get("Content-Range").split("/")[1]) : bytes.length;
      at += bytes.length;
      pre.append(safe(decoder.decode(bytes, { stream: at < size })));
      fill(foot, at < size ? h("button", { type: "button", onclick: more }, `Show more (${Math.round(at / 1024)} of ${Math.round(size / 1024)} KiB)`) : h("span", { class: "dim" }, size ? `whole, ${size} bytes` : "no output"));
    } catch (e) {
      fill(foot, e.status === 416 ? h("span", { class: "dim" }, "no output") : h("span", { class: "bad" }, e.message));
    }
  };
  more();
  return h("div", {}, pre, foot);
}

export async function showReport(goal) {
  const inside = h("div", {}, "…");
  dialog("Report", inside);
  try {
    const body = await (await text(goalPath(goal, "report"))).text();
    const url = URL.createObjectURL(new Blob([body], { type: "text/markdown" }));
    fill(inside, h("p", {}, h("a", { href: url, download: `belay-${goal}.md`, class: "button" }, "Save as Markdown")), h("pre", { tabindex: "0", "aria-label": "report" }, body));
  } catch (e) { fill(inside, h("p", { class: "bad" }, e.message)); }
}
