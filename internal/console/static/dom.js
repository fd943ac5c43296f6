// Building the page. Everything that is shown goes through here as text: no
// markup is ever parsed, and characters that control a terminal or reorder text
// are shown as what they are.

const harmful = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

// safe makes text harmless to read: line ends and tabs stay.
export function safe(s) {
  return String(s).replace(/\r\n/g, "\n").replace(harmful, (c) => {
    const n = c.codePointAt(0);
    return n < 0x100 ? "\\x" + n.toString(16).padStart(2, "0") : "\\u" + n.toString(16).padStart(4, "0");
  });
}

// h makes an element. Attributes that begin with "on" are listeners; false,
// null and undefined leave an attribute or a child out.
export function h(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === false || v === null || v === undefined) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k === "value") e.value = v;
    else if (v === true) e.setAttribute(k, "");
    else e.setAttribute(k, k === "title" || k.startsWith("aria-") ? safe(v) : v);
  }
  put(e, children);
  return e;
}

function put(e, children) {
  for (const c of children.flat(9)) {
    if (c === false || c === null || c === undefined || c === "") continue;
    e.append(c instanceof Node ? c : document.createTextNode(safe(c)));
  }
}

// fill replaces what an element holds.
export function fill(e, ...children) {
  e.replaceChildren();
  put(e, children);
  return e;
}

// settle replaces what an element holds only if that would change something,
// and keeps the focus and what a person has typed or opened.
export function settle(e, key, make) {
  if (e.dataset.key === key) return;
  e.dataset.key = key;
  const held = document.activeElement;
  const at = held && e.contains(held) && held.dataset.keep;
  const typed = new Map();
  for (const i of e.querySelectorAll("[data-keep]")) {
    if ("value" in i) typed.set(i.dataset.keep, i.value);
    else if ("open" in i) typed.set(i.dataset.keep, i.open);
  }
  fill(e, make());
  for (const i of e.querySelectorAll("[data-keep]")) {
    if (!typed.has(i.dataset.keep)) continue;
    if ("open" in i) i.open = typed.get(i.dataset.keep);
    else if (i.tagName !== "BUTTON") i.value = typed.get(i.dataset.keep);
  }
  if (at) e.querySelector(`[data-keep="${CSS.escape(at)}"]`)?.focus();
}

const units = [["d", 86400], ["h", 3600], ["min", 60]];

// ago is how long something is past, in one unit.
export function ago(time) {
  const s = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  for (const [name, size] of units) if (s >= size) return Math.floor(s / size) + " " + name;
  return Math.floor(s) + " s";
}

// clock is an instant as a person reads it.
export function clock(time) {
  const d = new Date(time);
  return d.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function when(time) {
  return new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

const round = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// count writes a number short, amount one of a budget dimension.
export const count = (n) => round.format(n);

export function amount(dimension, n) {
  switch (dimension) {
    case "cost_micros": return "$" + (n / 1e6).toFixed(n < 1e6 ? 4 : 2);
    case "tool_ms": return (n / 1000).toFixed(n < 10000 ? 1 : 0) + " s";
  }
  return count(n);
}

export const dimensions = { turns: "turns", steps: "steps", tokens: "tokens", cost_micros: "cost", tool_ms: "command time" };

// time is an element that shows an instant and says it whole.
export function instant(time) {
  return h("time", { datetime: time, title: when(time) }, clock(time));
}
