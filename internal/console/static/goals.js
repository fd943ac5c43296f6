// The list of goals.

import { h, fill, ago, amount, count } from "./dom.js";
import { List } from "./list.js";
import { face, chip, ended, left } from "./words.js";
import { follow } from "./api.js";

const filters = {
  all: ["All", () => true],
  you: ["Needs you", (g) => face(g).tone === "you"],
  going: ["Not ended", (g) => !ended(g)],
  ended: ["Ended", ended],
};

export class Goals {
  // news hears of every goal that has changed.
  constructor(root, state, news) {
    this.news = news;
    this.rows = new Map();
    this.search = "";
    this.filter = "all";
    this.open = "";
    this.list = new List({ label: "Goals", className: "goal-list", row: (i) => this.row(this.seen[i]) });
    this.seen = [];
    this.summary = h("p", { class: "summary", role: "status" });
    this.none = h("p", { class: "none", hidden: true });
    const find = h("input", { type: "search", placeholder: "Search goals", "aria-label": "Search goals", oninput: () => { this.search = find.value.toLowerCase(); this.arrange(); } });
    const pick = h("select", { "aria-label": "Which goals", onchange: () => { this.filter = pick.value; this.arrange(); } },
      Object.entries(filters).map(([k, [name]]) => h("option", { value: k }, name)));
    fill(root, h("div", { class: "find" }, find, pick), this.summary, this.list.element, this.none);
    this.stop = follow("/v1/stream", 0, (e) => this.on(e), state);
    this.clock = setInterval(() => this.list.draw(true), 15000); // ages go on
  }

  close() { this.stop(); clearInterval(this.clock); cancelAnimationFrame(this.frame); }

  on(e) {
    if (e.name === "goal") {
      this.rows.set(e.data.goal, e.data);
      if (this.loaded) this.news(e.data);
    }
    if (e.name === "caught_up") this.loaded = true;
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.arrange(); });
  }

  // family puts goals under those that started them, in the order in which they
  // began, as far as these are seen.
  family(seen) {
    const listed = new Set(seen.map((g) => g.goal)), below = new Map(), ordered = [];
    for (const g of seen) if (listed.has(g.parent)) below.set(g.parent, [g, ...(below.get(g.parent) || [])]);
    const put = (g) => { ordered.push(g); (below.get(g.goal) || []).forEach(put); };
    for (const g of seen) if (!listed.has(g.parent)) put(g);
    return ordered;
  }

  // arrange sorts and narrows; the newest goal is first, its children below it.
  arrange() {
    const fits = filters[this.filter][1];
    this.seen = this.family([...this.rows.values()]
      .filter((g) => fits(g) && (!this.search || (g.title + " " + g.goal + " " + g.repo).toLowerCase().includes(this.search)))
      .sort((a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : a.goal < b.goal ? -1 : 1)));
    const you = [...this.rows.values()].filter(filters.you[1]).length;
    const text = `${this.seen.length} of ${this.rows.size} goals` + (you ? ` · ${you} need${you === 1 ? "s" : ""} you` : "");
    if (this.summary.textContent !== text) fill(this.summary, text);
    document.title = (you ? `(${you}) ` : "") + "belay";
    this.none.hidden = this.seen.length > 0 || !this.loaded;
    fill(this.none, this.rows.size ? "No goal fits." : "No goals yet.");
    this.list.set(this.seen.length);
  }

  row(g) {
    const f = face(g);
    const used = [g.steps && count(g.steps) + " steps", g.tokens && count(g.tokens) + " tokens", g.cost_micros && amount("cost_micros", g.cost_micros)].filter(Boolean).join(" · ");
    return h("a", { class: "goal-row tone-" + f.tone + (g.parent ? " child" : ""), href: "#/goal/" + g.goal, "aria-current": g.goal === this.open ? "page" : false },
      h("span", { class: "title" }, g.parent && h("span", { "aria-hidden": "true" }, "└ "), g.title),
      h("span", { class: "state" }, chip(f), h("span", { class: "age", title: "since it was started" }, ago(g.created))),
      h("span", { class: "doing" }, g.current_action || used || " "),
      h("span", { class: "rest" }, [left(g.budget_left), g.goal.slice(0, 8), g.parent && "child of " + g.parent.slice(0, 8)].filter(Boolean).join(" · ")));
  }

  mark(goal) { this.open = goal; this.list.draw(true); }
}
