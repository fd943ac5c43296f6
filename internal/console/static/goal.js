// One goal: where it stands, what it asks, and what happened; or, after an
// event of its past, where it stood then, which nobody can answer any more.

import { h, fill, settle, ago, amount, dimensions, when, count } from "./dom.js";
import { get, follow, goalPath } from "./api.js";
import { face, chip, ended, words } from "./words.js";
import { questions, controls, rollBack, nameCheckpoint } from "./answer.js";
import { Changes } from "./diff.js";
import { Timeline } from "./timeline.js";
import { Lanes } from "./lanes.js";
import { all, drawChildren, goalLink } from "./family.js";
import { showOperation, showReport, tail } from "./detail.js";

export class Goal {
  constructor(root, goal, may, state, then) {
    Object.assign(this, { goal, may: then ? {} : may, state, then, snap: null });
    this.closed = new AbortController();
    const part = (name, cls) => { const e = h("section", { class: "card " + (cls || "") }); this[name] = e; return e; };
    this.head = h("header", { class: "goal-head" });
    this.ask = h("section", { class: "asks", "aria-label": "What the goal asks", "aria-live": "polite" });
    this.live = h("section", { class: "card live", hidden: true });
    this.changes = new Changes(goal);
    this.timeline = new Timeline(goal, (op) => this.operation(op));
    fill(root,
      h("a", { class: "back", href: "#/" }, "‹ Goals"), then && this.past(), this.head, this.ask, this.live,
      h("div", { class: "cards" }, part("plan"), part("criteria"), part("budget"), part("tests"), part("trouble", "wide"), part("children", "wide")),
      // What these ask for is the present.
      !then && this.changes.element, this.timeline.element, !then && new Lanes(goal).element, part("facts"));
    this.load();
  }

  past() {
    return h("p", { class: "card past", role: "status" }, `This is the goal as it was after event ${this.then}. `,
      h("a", { href: "#/goal/" + encodeURIComponent(this.goal) }, "As it is now"));
  }

  close() {
    this.closed.abort();
    this.stop?.();
    this.timeline.close();
    this.watching?.stop();
    clearTimeout(this.soon);
  }

  async load() {
    try {
      this.show(await get(goalPath(this.goal) + (this.then ? "?at=" + this.then : ""), this.closed.signal));
    } catch (e) {
      if (e.name === "AbortError" || e.status === 401) return;
      if (e.status === 404) return fill(this.head, h("h1", {}, "No such goal"), h("p", {}, e.message));
      if (e.status === 400) return fill(this.head, h("h1", {}, "No such event"), h("p", {}, e.message));
      this.state("away");
      this.soon = setTimeout(() => this.load(), 1000);
      return;
    }
    if (this.closed.signal.aborted) return;
    await this.timeline.begin(this.snap.head);
    if (this.closed.signal.aborted || this.then) return;
    this.stop = follow(goalPath(this.goal, "stream") + "?view=timeline", this.snap.head, (e) => this.on(e), this.state);
  }

  // on takes one event of the stream in: the timeline grows, and what stands
  // elsewhere is asked for anew.
  on(e) {
    if (e.name === "entry") this.timeline.add(e.data);
    if (e.name === "entry" || e.name === "head") this.refresh();
  }

  refresh() {
    this.stale = true;
    if (this.soon || this.asking) return;
    this.soon = setTimeout(async () => {
      this.soon = 0;
      this.stale = false;
      this.asking = true;
      try {
        this.show(await get(goalPath(this.goal), this.closed.signal));
      } catch {
        this.stale = true;
      }
      this.asking = false;
      if (this.stale && !this.closed.signal.aborted) setTimeout(() => this.refresh(), 500);
    }, 120);
  }

  // kin hears of a goal that has changed: one below this one is shown here too.
  kin(g) {
    if (this.snap && !this.then && g.parent && [this.snap, ...all(this.snap)].some((c) => c.goal === g.parent)) this.refresh();
  }

  operation(op) { showOperation(this.goal, op); }

  // show draws a snapshot, part by part where something has changed. An older
  // one than is shown never replaces it.
  show(s) {
    if (this.snap && s.head < this.snap.head) return;
    this.snap = s;
    const say = (snap) => { if (snap?.goal) this.show(snap); this.refresh(); };
    const key = (...v) => JSON.stringify(v);
    const f = face(s);
    settle(this.head, key(f, s.text, s.next, s.current_action, s.wait_detail, s.wait_until, s.pause_detail, s.refused, s.hand_off, s.status), () => [
      s.parent && h("p", { class: "dim" }, "Child of goal ", goalLink(s.parent, s.parent)),
      h("h1", {}, s.text),
      h("p", { class: "now" }, chip(f), s.current_action && s.current_action !== f.word && !["approval", "user_input"].includes(s.wait_reason) && h("span", { class: "doing" }, s.current_action), this.spinner(f)),
      s.next && !ended(s) && h("p", { class: "dim next" }, `Next, ${s.next.who}: ${s.next.what}`),
      this.why(s),
      controls(s, this.may, say, () => showReport(s.goal)),
    ]);
    questions(this.ask, s, this.may, say, (op) => this.operation(op));
    settle(this.plan, key(s.plan, s.todos, s.permission_mode, s.decisions), () => this.drawPlan(s));
    settle(this.criteria, key(s.criteria, s.missing, s.wait_reason), () => this.drawCriteria(s, say));
    settle(this.budget, key(s.budget), () => this.drawBudget(s.budget));
    settle(this.tests, key(s.latest_successful_test, s.recent_test_failures, s.revision), () => this.drawTests(s));
    settle(this.trouble, key(s.fault, s.hand_off, s.refused, s.open_operations), () => this.drawTrouble(s));
    settle(this.facts, key(s.repo, s.model, s.sandbox, s.revision, s.fence, s.checkpoints, s.constraints, s.goal_version), () => this.drawFacts(s));
    settle(this.children, key(s.children), () => drawChildren(s));
    this.trouble.hidden = !this.trouble.childElementCount;
    this.children.hidden = !this.children.childElementCount;
    if (this.then) return;
    this.changes.show(s);
    this.watch(s);
  }

  // watch shows what the command that runs now prints.
  watch(s) {
    const o = (s.open_operations || []).find((x) => x.phase === "started" && x.effect === "supervised");
    const key = o ? o.op_id + "." + o.attempt : "";
    if (this.watching?.key === key || (!this.watching && !o)) return;
    this.watching?.stop();
    this.watching = null;
    this.live.hidden = !o;
    if (!o) return fill(this.live);
    const pre = h("pre", { class: "output", tabindex: "0", "aria-label": "what it prints" });
    fill(this.live, h("h2", {}, this.spinner({ tone: "go" }), h("span", {}, "Running ", h("strong", {}, o.tool_name)), this.ref(o.op_id)), h("pre", { class: "command", tabindex: "0", "aria-label": "the command that runs" }, o.command || o.tool_name), pre);
    this.watching = { key, stop: tail(goalPath(s.goal, "operations", o.op_id, "stream"), pre) };
  }

  spinner(f) { return f.tone === "go" && h("span", { class: "pulse", "aria-hidden": "true" }); }

  why(s) {
    const lines = [];
    if (s.wait_detail && s.wait_reason !== "approval" && s.wait_reason !== "user_input") lines.push(s.wait_detail);
    if (s.wait_until) lines.push("until " + when(s.wait_until));
    if (s.pause_detail) lines.push(s.pause_detail);
    if (s.hand_off && s.status === "paused") lines.push(s.hand_off.why);
    return lines.length > 0 && h("p", { class: "why" }, lines.join(" · "));
  }

  ref(id) {
    return /^op\d+/.test(id) ? h("button", { type: "button", class: "ref", onclick: () => this.operation(id) }, id) : h("span", { class: "ref" }, id);
  }

  drawPlan(s) {
    const mark = { completed: "✓", in_progress: "▶", pending: "○" };
    return [
      h("h2", {}, "Plan", h("span", { class: "aside" }, s.permission_mode === "plan" ? "read-only until it is approved" : "changes allowed within policy")),
      s.plan ? [s.plan.summary && h("p", {}, s.plan.summary),
        h("ol", {}, (s.plan.steps || []).map((p) => h("li", {}, p.text))),
        s.plan.scope?.length > 0 && h("p", { class: "dim" }, "will change ", s.plan.scope.map((p) => h("code", {}, p)))] : h("p", { class: "none" }, "No plan yet."),
      s.todos?.length > 0 && h("ul", { class: "todos" }, s.todos.map((t) => h("li", { class: t.status },
        h("span", { class: "mark", role: "img", "aria-label": words(t.status) }, mark[t.status]), h("span", {}, t.content, " ", t.evidence && this.ref(t.evidence), t.reason && h("span", { class: "dim" }, t.reason),
          t.depends_on?.length > 0 && t.status !== "completed" && h("span", { class: "dim" }, " after " + t.depends_on.join(", ")),
          t.acceptance && t.status !== "completed" && h("span", { class: "dim" }, " done when: " + t.acceptance))))),
      s.decisions?.length > 0 && h("details", { "data-keep": "decisions" }, h("summary", {}, `${s.decisions.length} decisions`), h("ul", {}, s.decisions.map((d) => h("li", {}, d.decision, d.reason && h("span", { class: "dim" }, " — " + d.reason))))),
    ];
  }

  drawCriteria(s, say) {
    const tone = { pass: "good", fail: "bad", unknown: "wait" };
    return [
      h("h2", {}, "Done means", h("span", { class: "aside" }, `${(s.criteria || []).filter((c) => c.result === "pass").length} of ${(s.criteria || []).length} shown`)),
      s.criteria?.length ? h("ul", { class: "criteria" }, s.criteria.map((c) => h("li", {},
        chip({ word: c.result, tone: tone[c.result], mark: { pass: "✓", fail: "✕", unknown: "?" }[c.result] }),
        h("div", {}, h("strong", {}, c.id), " ", h("span", { class: "dim" }, words(c.kind)), c.text && h("p", {}, c.text), c.command && h("p", {}, h("code", {}, c.command)),
          c.evidence?.length > 0 && h("p", { class: "dim" }, "evidence ", c.evidence.map((e) => this.ref(e))),
          c.result !== "pass" && c.reason && h("p", { class: "dim" }, c.reason),
          c.kind === "manual" && c.result === "unknown" && !ended(s) && this.may.answer && s.wait_reason !== "user_input" && this.judge(s, c, say)))))
        : h("p", { class: "none" }, "No criteria: nothing can check a claim of completion, so it waits for you."),
    ];
  }

  judge(s, c, say) {
    return h("p", { class: "buttons" },
      say.button("It holds", "approve", { criterion: c.id }), say.button("It does not", "deny", { criterion: c.id }));
  }

  drawBudget(b) {
    const rows = Object.keys(dimensions).filter((d) => b.used?.[d] || b.limits?.[d] || b.reserved?.[d]);
    return [
      h("h2", {}, "Budget", b.limits?.deadline && h("span", { class: "aside" }, "until " + when(b.limits.deadline))),
      rows.length ? h("table", {}, h("thead", {}, h("tr", {}, ["", "used", "reserved", "limit", "left"].map((t) => t ? h("th", { scope: "col" }, t) : h("td", {})))),
        h("tbody", {}, rows.map((d) => h("tr", {}, h("th", { scope: "row" }, dimensions[d]), h("td", {}, amount(d, b.used?.[d] || 0)), h("td", {}, b.reserved?.[d] ? amount(d, b.reserved[d]) : "–"),
          h("td", {}, b.limits?.[d] ? amount(d, b.limits[d]) : "–"), h("td", {}, b.limits?.[d] ? [h("meter", { min: "0", max: String(b.limits[d]), low: String(b.limits[d] * 0.2), optimum: String(b.limits[d]), value: String(b.left?.[d] ?? 0), "aria-label": dimensions[d] + " left" }), amount(d, b.left?.[d] ?? 0)] : ""))))) : h("p", { class: "none" }, "Nothing used yet."),
    ];
  }

  drawTests(s) {
    const t = s.latest_successful_test;
    return [
      h("h2", {}, "Tests", h("span", { class: "aside" }, "revision " + s.revision.n)),
      t ? h("p", {}, chip({ word: `${count(t.counts.passed)} passed`, tone: "good", mark: "✓" }), " ", h("code", {}, t.command), " ", this.ref(t.op_id), h("span", { class: "dim" }, " on the repository as it is now"))
        : h("p", { class: "none" }, "No successful run for the repository as it is now."),
      (s.recent_test_failures || []).slice(-3).reverse().map((x) => h("details", { "data-keep": "fail-" + x.op_id },
        h("summary", {}, `exit code ${x.exit_code}`, " ", h("code", {}, x.command), " ", x.failing?.length > 0 && x.failing.slice(0, 3).join(", ")), h("p", {}, this.ref(x.op_id)), h("pre", {}, x.tail || ""))),
    ];
  }

  drawTrouble(s) {
    return [
      s.refused && h("p", { class: "bad" }, "This belay cannot advance the goal: " + s.refused),
      s.fault && h("p", { class: "bad" }, h("strong", {}, words(s.fault.kind)), " ", s.fault.message),
      s.hand_off && [h("h2", {}, "Handed off"), h("p", {}, s.hand_off.why),
        [["done", "Done"], ["missing", "Missing"], ["running", "Running"]].map(([k, name]) => s.hand_off[k]?.length > 0 && [h("h3", {}, name), h("ul", {}, s.hand_off[k].map((x) => h("li", {}, x)))]),
        h("p", { class: "dim" }, s.hand_off.how_to_resume)],
      s.open_operations?.length > 0 && [h("h2", {}, "Open operations"), h("ul", { class: "ops" }, s.open_operations.map((o) => h("li", {}, this.ref(o.op_id), " ", h("strong", {}, o.tool_name), " ", h("span", { class: "dim" }, words(o.phase)), " ", (o.command || o.paths?.length > 0) && h("code", {}, o.command || o.paths.join(" ")))))],
    ];
  }

  drawFacts(s) {
    const rows = [["Repository", s.repo], ["Revision", `${s.revision.n}, tree ${s.revision.tree.slice(0, 12)}`], ["Model", s.model], ["Commands", s.sandbox],
      ["Goal", `${s.goal}, version ${s.goal_version}, fence ${s.fence}`], ["Started", `${when(s.created)} (${ago(s.created)} ago)`], ["Constraints", (s.constraints || []).join("; ")],
      ["Checkpoints", s.checkpoints?.length > 0 && [h("ul", {}, s.checkpoints.slice(-20).map((c) => h("li", {}, `${c.name || c.checkpoint} ${c.why} `, c.size && h("span", { class: "dim" }, `${c.size.files} files +${c.size.added} −${c.size.deleted} `),
        this.may.operate && h("button", { type: "button", class: "ref", "aria-label": "Roll back to " + c.checkpoint, onclick: (e) => rollBack(e.currentTarget, s, c.checkpoint) }, "Roll back…")))),
        this.may.operate && h("button", { type: "button", onclick: (e) => nameCheckpoint(e.currentTarget, s) }, "Name a checkpoint…")]]];
    return [h("h2", {}, "Facts"), h("dl", {}, rows.filter(([, v]) => v).map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]))];
  }
}
