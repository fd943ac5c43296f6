// What a person can send: the same commands as from anywhere else.

import { h, fill, settle } from "./dom.js";
import { tell, get, text, goalPath, Problem } from "./api.js";
import { ended, words } from "./words.js";
import { drawDiff } from "./diff.js";
import { ask, toast } from "./detail.js";
import { all, asks } from "./family.js";

// act sends a command from a button and says what came of it.
async function act(button, s, command, body, say) {
  const all = button.closest(".asks, .goal-head, .card, form")?.querySelectorAll("button") || [button];
  for (const b of all) b.disabled = true;
  try {
    say(await tell(goalPath(s.goal, command), body));
    return true;
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    if (["no_question", "question_changed", "ended"].includes(e.code)) toast("Not sent: somebody else was faster, or the question has changed. " + e.message);
    else toast(e.message);
    say(null);
    return false;
  } finally {
    for (const b of all) b.disabled = false;
  }
}

function button(s, say, label, command, body, attrs) {
  return h("button", { type: "button", "data-keep": command + JSON.stringify(body || {}), ...attrs, onclick: (e) => act(e.currentTarget, s, command, typeof body === "function" ? body() : body, say) }, label);
}

// questions shows what waits for a person, each with what an answer allows.
export function questions(root, s, may, say, show) {
  say.button = (label, command, body, attrs) => button(s, say, label, command, body, attrs);
  const key = JSON.stringify([s.pending_approvals, s.in_doubt, s.wait_reason, s.wait_detail, s.status, may,
    all(s).map((c) => [c.goal, c.title, c.status, c.wait_reason, c.wait_detail, c.pending_approvals])]);
  settle(root, key, () => [
    (s.pending_approvals || []).map((p) => approval(s, p, may, say, show)),
    (s.in_doubt || []).map((o) => doubt(s, o, may, say, show)),
    s.wait_reason === "user_input" && question(s, may, say),
    asks(s),
  ]);
}

function approval(s, p, may, say, show) {
  const a = p.access || {}, body = { op_id: p.op_id, intent: p.intent.hash };
  const reason = h("input", { type: "text", "aria-label": "Why not; the model is told", placeholder: "Why not (the model is told)", "data-keep": "why-" + p.op_id });
  const touches = [["reads", a.reads], ["writes", a.writes], ["runs in", a.dir && [a.dir]], ["network", (p.intent.network || a.network) && [p.intent.network || a.network]], ["changes", a.remote && [a.remote]]];
  // What it touches stands below, path by path.
  const why = (p.why || []).filter((w) => !(a.writes || []).some((path) => w === "writes " + path));
  return h("article", { class: "ask", "aria-label": "Approval of " + p.tool },
    h("h2", {}, h("span", {}, "Approve ", h("strong", {}, p.tool), "?"), h("button", { type: "button", class: "ref", onclick: () => show(p.op_id) }, p.op_id),
      p.intent.destructive && h("span", { class: "chip bad" }, "can discard work"), p.renewed && h("span", { class: "chip wait" }, "asked again: what it answered has changed")),
    why.length > 0 && h("p", { class: "dim" }, why.join("; ")),
    a.command && h("pre", { class: "command", tabindex: "0", "aria-label": "the command" }, a.command),
    touches.filter(([, v]) => v?.length).map(([k, v]) => h("p", { class: "touch" }, h("span", { class: "dim" }, k + " "), v.map((x) => h("code", {}, x)))),
    preview(s, p.intent.preview, a.command),
    may.answer ? h("p", { class: "buttons" },
      button(s, say, "Approve", "approve", body, { class: "primary" }),
      may.operate && h("button", { type: "button", onclick: (e) => always(e.currentTarget, s, p, say) }, "Always…"),
      reason, button(s, say, "Deny", "deny", () => ({ ...body, reason: reason.value }), { class: "danger", "data-keep": "deny-" + p.op_id }))
      : h("p", { class: "dim" }, "This token may watch; answering needs the scope answer."));
}

// preview shows exactly what is answered, whole.
function preview(s, t, command) {
  if (!t?.head || t.head === command) return false;
  const box = h("div", { class: "preview" });
  const draw = (whole) => fill(box, /^(diff |--- |@@)/m.test(whole) ? drawDiff(whole) : h("pre", { tabindex: "0", "aria-label": "what is approved" }, whole));
  if (t.whole?.sha256) {
    fill(box, h("p", { class: "none" }, "Loading the whole of it…"));
    text("/v1/artifacts/" + t.whole.sha256).then((r) => r.text()).then(draw, (e) => { draw(t.head); box.prepend(h("p", { class: "bad" }, "Only the beginning could be read: " + e.message)); });
  } else draw(t.head);
  return box;
}

// always shows the rules that would answer the like before any is recorded.
async function always(from, s, p, say) {
  let found;
  try {
    found = await get(goalPath(s.goal, "operations", p.op_id, "suggest"));
  } catch (e) { return toast(e.message); }
  if (!found.rules.length) return toast("No rule can allow this beforehand: answer it each time.");
  const save = h("input", { type: "checkbox", id: "save-rule" });
  const yes = await ask("Always allow this?", [h("p", {}, "From now on this is allowed without a question, in this goal:"),
    h("ul", {}, found.rules.map((r) => h("li", {}, h("code", {}, [r.tool && "tool " + r.tool, r.command && "command " + r.command, r.path && "path " + r.path].filter(Boolean).join("  "))))),
    h("p", { class: "check" }, save, h("label", { for: "save-rule" }, "also in my policy file, for goals that start later"))], "Allow");
  if (yes) await act(from, s, "always", { op_id: p.op_id, intent: p.intent.hash, rules: found.rules, save: save.checked }, say);
}

function doubt(s, o, may, say, show) {
  const reason = h("input", { type: "text", "aria-label": "How you know", placeholder: "How you know", "data-keep": "how-" + o.op_id });
  const body = (more) => () => ({ op_id: o.op_id, reason: reason.value, ...more });
  return h("article", { class: "ask", "aria-label": "Unknown outcome of " + o.tool_name },
    h("h2", {}, h("span", {}, "What did ", h("strong", {}, o.tool_name), " do?"), h("button", { type: "button", class: "ref", onclick: () => show(o.op_id) }, o.op_id)),
    h("p", {}, "It was started, and what it did could not be established. The same action is refused until this is settled."),
    h("pre", { class: "command", tabindex: "0", "aria-label": "the operation" }, o.command || (o.paths || []).join("\n") || o.tool_name),
    may.answer && h("p", { class: "buttons" },
      h("button", { type: "button", onclick: (e) => look(e.currentTarget, s, o, say) }, "Look (runs nothing)"), reason,
      button(s, say, "It succeeded", "reconcile", body({ outcome: "succeeded" }), { "data-keep": "ok-" + o.op_id }),
      button(s, say, "It failed", "reconcile", body({ outcome: "failed" }), { "data-keep": "no-" + o.op_id }),
      button(s, say, "Run it again", "reconcile", body({ retry: true }), { class: "danger", "data-keep": "again-" + o.op_id })));
}

async function look(b, s, o, say) {
  b.disabled = true;
  try {
    const r = await tell(goalPath(s.goal, "look"), { op_id: o.op_id });
    toast((r.settled ? `Settled as ${r.outcome}: ` : "Still in doubt: ") + r.detail);
  } catch (e) { toast(e.message); } finally { b.disabled = false; }
  say(null);
}

// question is a question of the model, or a claim that nothing could check.
function question(s, may, say) {
  const asked = (s.open_operations || []).some((o) => o.tool_name === "ask_user");
  const manual = (s.criteria || []).some((c) => c.kind === "manual" && c.result === "unknown");
  const words = h("textarea", { rows: "2", "aria-label": "Your answer", placeholder: asked ? "Your answer" : "What is missing, or anything else", "data-keep": "answer" });
  return h("article", { class: "ask", "aria-label": "The goal asks" },
    h("h2", {}, asked ? "The model asks" : manual ? "Your judgement is asked" : "Is it done?"),
    h("pre", { class: "asked" }, s.wait_detail || "It waits for you."),
    may.answer && [words, h("p", { class: "buttons" },
      !asked && button(s, say, manual ? "It holds" : "Accept as done", "approve", {}, { class: "primary" }),
      !asked && button(s, say, manual ? "It does not" : "Not done", "deny", () => ({ reason: words.value }), { class: "danger", "data-keep": "notdone" }),
      button(s, say, "Send", "say", () => ({ text: words.value }), { class: asked ? "primary" : "", "data-keep": "send-answer" }))]);
}

// controls are the commands that fit a goal's state. Whether one is possible is
// for the server to say.
export function controls(s, may, say, report) {
  say.button = (label, command, body, attrs) => button(s, say, label, command, body, attrs);
  const over = ended(s);
  const field = h("input", { type: "text", "aria-label": "Message to the goal", placeholder: "Tell the goal something", "data-keep": "message" });
  const steer = h("select", { "aria-label": "How it is taken in", "data-keep": "mode" }, h("option", { value: "message" }, "as its own turn"), h("option", { value: "steer" }, "into this turn"));
  const form = h("form", { class: "tell", onsubmit: async (e) => {
    e.preventDefault();
    if (field.value.trim() && await act(form.lastChild, s, "say", { text: field.value, mode: steer.value }, say)) field.value = "";
  } }, field, steer, h("button", {}, "Send"));
  return [
    h("p", { class: "buttons" },
      may.operate && !over && s.status !== "paused" && button(s, say, "Pause", "pause"),
      may.operate && s.status === "paused" && button(s, say, "Resume", "resume", {}, { class: "primary" }),
      may.operate && !over && h("button", { type: "button", class: "danger", onclick: (e) => cancel(e.currentTarget, s, say) }, "Cancel goal"),
      h("button", { type: "button", onclick: report }, "Report")),
    may.answer && !over && form,
  ];
}

// rollBack shows what a rollback would change before it does it.
export async function rollBack(from, s, target) {
  from.disabled = true;
  try {
    const path = goalPath(s.goal, "rollback");
    const { plan } = await tell(path, { target });
    if (!plan.changes?.length && !plan.staged?.length) return toast("Nothing would change: the workspace is as it was, but for what others have changed.");
    const yes = await ask(`Roll back to ${target}?`, [
      h("p", {}, `${plan.changes.length} file${plan.changes.length === 1 ? "" : "s"} would change; a checkpoint of what is there now comes first.`),
      plan.staged?.length > 0 && h("p", {}, "What is staged comes back for: ", plan.staged.map((c) => h("code", {}, c.path))),
      (plan.kept || plan.kept_staged) && h("div", {}, h("p", {}, "Left alone:"), h("ul", {}, [...(plan.kept || []), ...(plan.kept_staged || [])].map((k) => h("li", {}, h("code", {}, k), " ", plan.because?.[k])))),
      plan.note && h("p", {}, plan.note),
      drawDiff(plan.diff)], "Roll back");
    if (!yes) return;
    const r = await tell(path, { target, from: plan.from, tree: plan.tree, index: plan.index });
    toast(r.done ? `Rolled back to ${target}.` : "Not rolled back: " + (r.latest_tool_result?.output || "see the timeline"));
  } catch (e) { toast(e.message); } finally { from.disabled = false; }
}

// nameCheckpoint gives the state of now a name, for a later rollback.
export async function nameCheckpoint(from, s) {
  const name = h("input", { type: "text", "aria-label": "Name of the checkpoint", maxlength: "80" });
  if (!await ask("Name a checkpoint", [h("p", {}, "The state of the workspace as it is on record; a rollback finds it by this name."), name], "Name it")) return;
  from.disabled = true;
  try {
    const c = await tell(goalPath(s.goal, "checkpoint"), { name: name.value });
    toast(`${c.name} is ${c.checkpoint}.`);
  } catch (e) { toast(e.message); } finally { from.disabled = false; }
}

async function cancel(from, s, say) {
  const reason = h("input", { type: "text", "aria-label": "Why", placeholder: "Why (optional)" });
  if (await ask("Cancel this goal?", [h("p", {}, "It ends for good. What runs is stopped and recorded; the changes stay in the repository."), reason], "Cancel goal", "Keep it")) {
    await act(from, s, "cancel", { reason: reason.value }, say);
  }
}
