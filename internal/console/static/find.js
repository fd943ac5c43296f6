// Finding again: a search over everything that a goal went through and its
// repository holds, also what was never loaded here.

import { h, fill, instant } from "./dom.js";
import { get } from "./api.js";
import { chip } from "./words.js";

const most = 30; // hits that are shown

const tones = { succeeded: { tone: "good", mark: "✓" }, failed: { tone: "bad", mark: "✕" } };

export class Find {
  // go shows the event with a seq, op an operation.
  constructor(goal, go, op) {
    Object.assign(this, { goal, go, op, asked: 0 });
    this.element = h("section", { class: "found", "aria-label": "What was found", "aria-live": "polite", hidden: true });
  }

  async ask(text) {
    const mine = ++this.asked; // an answer that comes late replaces no later one
    this.element.hidden = false;
    fill(this.element, h("p", { class: "none" }, "Searching…"));
    let answer;
    try {
      answer = await get(`/v1/search?goal=${encodeURIComponent(this.goal)}&limit=${most}&q=${encodeURIComponent(text)}`);
    } catch (e) {
      answer = { hits: [], notes: [e.message] };
    }
    if (mine === this.asked) this.show(text, answer);
  }

  show(text, answer) {
    const close = () => { this.element.hidden = true; fill(this.element); };
    fill(this.element,
      h("h3", {}, answer.hits.length ? `${answer.hits.length} hits for ` : "Nothing was found for ", h("q", {}, text),
        h("button", { type: "button", class: "quiet", "aria-label": "Close what was found", onclick: close }, "✕")),
      (answer.notes || []).map((n) => h("p", { class: "dim" }, n)),
      h("ol", { class: "hits" }, answer.hits.map((x) => this.hit(x))));
  }

  hit(x) {
    const mine = x.goal === this.goal;
    return h("li", {},
      h("p", {},
        mine ? h("button", { type: "button", class: "ref", "aria-label": "event " + x.seq, onclick: () => this.go(x.seq) }, String(x.seq)) : h("code", {}, x.ref), " ",
        mine && x.op_id && h("button", { type: "button", class: "ref", onclick: () => this.op(x.op_id) }, x.op_id), " ",
        x.kind !== "file" && h("strong", {}, x.action), " ",
        x.outcome && chip({ word: x.outcome, ...(tones[x.outcome] || { tone: "wait", mark: "?" }) }), " ",
        x.time && instant(x.time), x.alike && h("span", { class: "dim" }, ` and ${x.alike} alike`)),
      x.because && h("p", { class: "dim" }, "because: " + x.because),
      x.text && h("pre", { tabindex: "0", "aria-label": "the lines that fit" }, x.text),
      x.then && h("p", { class: "dim" }, "then: ", x.then.map((l) => [h("button", { type: "button", class: "ref", onclick: () => this.op(l.op_id) }, l.op_id), ` ${l.action} → ${l.outcome} `])));
  }
}
