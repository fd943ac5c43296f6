// Where the time went: lanes of what the model, the operations and the people
// took, the tests as they came out over the repository's revisions, and the
// tokens as they were used up.

import { h, fill, count, safe } from "./dom.js";
import { get, goalPath } from "./api.js";

const events = 2000; // the newest that are drawn
const width = 1000, lane = 26, label = 110;

function svg(tag, attrs, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// spans reads the events as intervals by lane, and the points beside them.
export function spans(es) {
  const open = new Map(), out = { model: [], operations: [], waits: [] }, tests = [], tokens = [], revisions = [];
  let used = 0, wait = null, revision = null;
  const end = (key, at, lane, what) => {
    if (open.has(key)) out[lane].push({ from: open.get(key), to: at, what });
    open.delete(key);
  };
  for (const e of es) {
    const at = Date.parse(e.time);
    switch (e.type) {
      case "model_requested": open.set("model", at); break;
      case "model_responded":
        used += (e.payload.usage?.input || 0) + (e.payload.usage?.output || 0);
        tokens.push({ at, used });
      // falls through
      case "model_failed": end("model", at, "model", e.type); break;
      case "operation_started": open.set(e.op_id, at); break;
      case "operation_finished": end(e.op_id, at, "operations", `${e.op_id} ${e.payload.tool}: ${e.payload.outcome}`); break;
      case "repo_state_mutated":
        revision = e.payload.revision?.n ?? revision;
        revisions.push({ at, n: revision, what: `revision ${revision} by ${e.payload.by}` });
        break;
      case "test_completed":
        tests.push({ at, good: e.payload.exit_code === 0, what: e.payload.command + (revision === null ? "" : `, on revision ${revision}`) });
        break;
    }
    if (wait && /^(goal_woken|goal_resumed|turn_started|goal_completed|goal_cancelled|goal_failed)$/.test(e.type)) {
      out.waits.push({ ...wait, to: at });
      wait = null;
    }
    if (e.type === "goal_waiting" || e.type === "goal_paused") wait = { from: at, what: `${e.type}: ${e.payload.reason}` };
  }
  return { lanes: out, tests, tokens, revisions };
}

// scale maps instants to the page. What is only waited for is drawn no wider
// than a tenth of the rest, or a second: a night would leave nothing to see.
function scale(lanes, from, to) {
  const idle = lanes.waits.reduce((n, w) => n + w.to - w.from, 0);
  const most = Math.max(1000, (to - from - idle) / 10);
  let at = from, x = 0;
  const knots = [[from, 0]];
  for (const w of lanes.waits) {
    if (w.from > at) knots.push([w.from, (x += w.from - at)]);
    knots.push([w.to, (x += Math.min(w.to - w.from, most))]);
    at = w.to;
  }
  knots.push([to, (x += Math.max(to - at, 1))]);
  return (t) => {
    let i = 1;
    while (i < knots.length - 1 && knots[i][0] < t) i++;
    const [[a, xa], [b, xb]] = [knots[i - 1], knots[i]];
    return label + ((xa + (b > a ? (Math.min(Math.max(t, a), b) - a) / (b - a) : 0) * (xb - xa)) / x) * (width - label - 8);
  };
}

const seconds = (ms) => (ms < 60000 ? (ms / 1000).toFixed(1) + " s" : Math.round(ms / 60000) + " min");

// draw makes the picture; limit is the most tokens that the goal may use, 0 for
// none.
function draw(es, limit) {
  const { lanes, tests, tokens, revisions } = spans(es);
  const from = Date.parse(es[0].time), to = Date.parse(es[es.length - 1].time);
  const x = scale(lanes, from, to);
  const sum = (l) => lanes[l].reduce((n, s) => n + s.to - s.from, 0);
  const words = `The model took ${seconds(sum("model"))} in ${lanes.model.length} requests, operations ${seconds(sum("operations"))}, waits ${seconds(sum("waits"))}; ` +
    `${tests.filter((t) => t.good).length} of ${tests.length} test runs passed, over ${revisions.length} change${revisions.length === 1 ? "" : "s"} of the repository; ` +
    `${count(tokens.at(-1)?.used || 0)}${limit ? " of " + count(limit) : ""} tokens.`;
  const rows = Object.keys(lanes);
  const height = (rows.length + 3) * lane + 8;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words, class: "lanes" });
  const title = (text) => { const t = svg("title", {}); t.textContent = safe(text); return t; };
  const name = (text, y) => { const t = svg("text", { x: 0, y: y + lane * 0.65 }); t.textContent = text; picture.append(t, svg("line", { x1: label, x2: width, y1: y + lane - 2, y2: y + lane - 2 })); };
  rows.forEach((l, i) => {
    name(l, i * lane);
    for (const s of lanes[l]) {
      picture.append(svg("rect", { class: l, x: x(s.from), y: i * lane + 4, width: Math.max(2, x(s.to) - x(s.from)), height: lane - 10 }, title(`${s.what}, ${seconds(s.to - s.from)}`)));
    }
  });
  const ty = rows.length * lane;
  name("tests", ty);
  for (const r of revisions) {
    const at = x(r.at), mark = svg("text", { class: "revision", x: at + 3, y: ty + 9 }, title(r.what));
    mark.append(`r${r.n}`);
    picture.append(svg("line", { class: "revision", x1: at, x2: at, y1: ty + 2, y2: ty + lane - 4 }), mark);
  }
  for (const t of tests) {
    // Passed and failed differ in shape too.
    const at = x(t.at), y = ty + lane / 2 - 1;
    picture.append(t.good ? svg("circle", { class: "good", cx: at, cy: y, r: 6 }, title("passed: " + t.what)) : svg("path", { class: "bad", d: `M${at - 5} ${y - 5}l10 10m0 -10l-10 10` }, title("failed: " + t.what)));
  }
  name("tokens", ty + lane);
  const used = tokens.at(-1)?.used || 0, base = ty + 3 * lane;
  // The limit is drawn once the use of it can be seen beside it.
  const near = limit > 0 && used * 5 >= limit, most = Math.max(1, used, near ? limit : 0);
  if (near) {
    const y = base - (2 * lane - 8);
    picture.append(svg("line", { class: "limit", x1: label, x2: width, y1: y, y2: y }, title(`limit: ${count(limit)} tokens`)));
  }
  picture.append(svg("polyline", { class: "tokens", points: [[from, 0], ...tokens.map((t) => [t.at, t.used]), [to, used]].map(([t, n]) => `${x(t)},${base - (n / most) * (2 * lane - 8)}`).join(" ") }));
  return [picture, h("p", { class: "dim" }, words)];
}

// Lanes is drawn when somebody opens it.
export class Lanes {
  constructor(goal) {
    const inside = h("div", {});
    const d = h("details", { "data-keep": "lanes", ontoggle: async () => {
      if (!d.open) return;
      try {
        const { head, budget } = await get(goalPath(goal));
        const es = await get(`${goalPath(goal, "events")}?after=${Math.max(0, head - events)}&limit=${events}`);
        fill(inside, draw(es, budget?.limits?.tokens || 0), head > events && h("p", { class: "dim" }, `The newest ${events} events.`));
      } catch (e) { fill(inside, h("p", { class: "bad" }, e.message)); }
    } }, h("summary", {}, h("h2", {}, "Where the time went")), inside);
    this.element = h("section", { class: "card lanes-card" }, d);
  }
}
