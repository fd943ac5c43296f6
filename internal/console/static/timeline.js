// The timeline: what happened, with the cause of each thing.

import { h, fill, instant } from "./dom.js";
import { get, goalPath } from "./api.js";
import { List } from "./list.js";
import { entryTone } from "./words.js";
import { showEvent } from "./detail.js";
import { Find } from "./find.js";

const page = 500; // events that are read back at a time

export class Timeline {
  constructor(goal, show) {
    Object.assign(this, { goal, show, entries: [], first: 1, byID: new Map(), search: "", seen: [] });
    this.list = new List({ label: "Timeline", className: "timeline", row: (i) => this.row(this.seen[i]), onTop: () => this.earlier() });
    this.follow = h("input", { type: "checkbox", id: "follow", checked: true, onchange: () => this.pin(this.follow.checked) });
    this.list.onUp = () => { this.follow.checked = false; };
    this.status = h("span", { class: "aside" });
    this.found = new Find(goal, (seq) => showEvent(goal, seq, (id) => this.jump(id)), show);
    const everything = () => { if (find.value.trim()) this.found.ask(find.value); };
    const find = h("input", { type: "search", "aria-label": "Search the timeline", placeholder: "Search", title: "Typing narrows the entries here. Enter searches everything, with filters such as file:PATH tool:NAME outcome:failed since:2h",
      oninput: () => { this.search = find.value.toLowerCase(); this.narrow(); }, onkeydown: (e) => { if (e.key === "Enter") everything(); } });
    this.element = h("section", { class: "card timeline-card" },
      h("h2", {}, "Timeline", this.status),
      h("div", { class: "tools" }, find, h("button", { type: "button", onclick: everything }, "Search everything"), h("button", { type: "button", onclick: () => this.all() }, "Load from the start"), h("span", { class: "check" }, this.follow, h("label", { for: "follow" }, "follow"))),
      this.found.element, this.list.element);
  }

  close() { this.closed = true; cancelAnimationFrame(this.frame); }

  // begin reads the newest page.
  async begin(head) {
    this.first = head + 1;
    this.list.pinned = true;
    await this.earlier();
  }

  pin(yes) {
    this.follow.checked = this.list.pinned = yes;
    if (yes) this.narrow();
  }

  // earlier reads the page before what is there.
  async earlier(size = page) {
    if (this.reading || this.first <= 1 || this.closed) return;
    this.reading = true;
    const from = Math.max(0, this.first - 1 - size);
    try {
      const es = await get(`${goalPath(this.goal, "timeline")}?after=${from}&limit=${this.first - 1 - from}`);
      this.entries.unshift(...es);
      for (const e of es) this.byID.set(e.id, e);
      this.first = from + 1;
      this.narrow(es.length);
    } catch { /* the next scroll tries again */ }
    this.reading = false;
  }

  async all() {
    for (let before = 0; this.first > 1 && this.first !== before && !this.closed;) {
      before = this.first;
      await this.earlier(5000);
    }
    this.pin(false);
    this.list.show(0);
  }

  add(e) {
    if (this.byID.has(e.id)) return;
    this.entries.push(e);
    this.byID.set(e.id, e);
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.narrow(); });
  }

  narrow(before = 0) {
    const fits = (e) => (e.event_type + " " + (e.detail || "") + " " + (e.op_id || "")).toLowerCase().includes(this.search);
    this.seen = this.search ? this.entries.filter(fits) : this.entries;
    fill(this.status, `${this.seen.length} entries` + (this.first > 1 ? `, from event ${this.first} on` : ""));
    this.list.set(this.seen.length, { before: this.search ? 0 : before });
  }

  row(e) {
    const cause = e.cause && this.byID.get(e.cause);
    return h("div", { class: "entry tone-" + entryTone(e.event_type) },
      h("button", { type: "button", class: "seq", "aria-label": "event " + e.seq, onclick: () => showEvent(this.goal, e.seq, (id) => this.jump(id)) }, String(e.seq)),
      instant(e.time),
      h("span", { class: "name" }, e.event_type),
      e.op_id ? h("button", { type: "button", class: "ref", onclick: () => this.show(e.op_id) }, e.op_id) : h("span", {}),
      h("span", { class: "detail", title: e.detail || "" }, e.detail || ""),
      cause ? h("button", { type: "button", class: "cause", "aria-label": `caused by event ${cause.seq}`, title: "caused by " + cause.event_type, onclick: () => this.jump(cause.id) }, "↖" + cause.seq) : h("span", {}));
  }

  jump(id) {
    const i = this.seen.findIndex((e) => e.id === id);
    if (i < 0) return false;
    this.pin(false);
    const row = this.list.show(i);
    row?.querySelector("button")?.focus({ preventScroll: true });
    return true;
  }
}
