// The goals that a goal has started, as it shows them.

import { h, amount, count, dimensions } from "./dom.js";
import { face, chip } from "./words.js";

export const goalLink = (goal, ...text) => h("a", { href: "#/goal/" + goal }, text);

// all lists the goals below one, each before its own children.
export const all = (s) => (s.children || []).flatMap((c) => [c, ...all(c)]);

const waits = (c) => ["approval", "user_input"].includes(c.wait_reason) && c.status === "active";

// spent is what a child used of its share.
function spent(c) {
  return Object.keys(dimensions).filter((d) => c.share?.[d] || c.used?.[d])
    .map((d) => amount(d, c.used?.[d] || 0) + (c.share?.[d] ? " of " + amount(d, c.share[d]) : "") + (d === "cost_micros" ? "" : " " + dimensions[d])).join(", ");
}

function changed(c) {
  if (!c.files_changed) return false;
  return `${count(c.files_changed)} file${c.files_changed === 1 ? "" : "s"} changed` + (c.applied ? ", applied" : ", not applied");
}

function list(children) {
  return h("ul", { class: "family" }, children.map((c) => h("li", {},
    h("div", {}, goalLink(c.goal, c.title), " ", chip(face(c))),
    c.current_action && h("p", {}, c.current_action),
    h("p", { class: "dim" }, [c.op_id, c.by_user && "started by a person", c.read_only && "only looks", spent(c), changed(c)].filter(Boolean).join(" · ")),
    c.children?.length > 0 && list(c.children))));
}

export function drawChildren(s) {
  return s.children?.length > 0 && [h("h2", {}, "Child goals"), list(s.children)];
}

// asks are the questions of the goals below: they are answered where they stand.
export function asks(s) {
  return all(s).filter(waits).map((c) => h("article", { class: "ask", "aria-label": "A child goal asks: " + c.title },
    h("h2", {}, h("span", {}, "A child goal asks: ", goalLink(c.goal, c.title))),
    (c.pending_approvals || []).map((p) => h("p", {}, "Approve ", h("strong", {}, p.tool), "? ", h("span", { class: "dim" }, (p.why || []).join("; ")))),
    c.wait_reason === "user_input" && h("pre", { class: "asked" }, c.wait_detail || "It waits for you."),
    h("p", {}, goalLink(c.goal, "Answer it there"))));
}
