// A list of which only what is seen is in the page, so that its length costs
// nothing. Every row has the same height, set in the style sheet.

import { h } from "./dom.js";

export class List {
  // row makes the content of item i; label names the list for those who hear it.
  constructor({ label, row, className, onTop }) {
    this.row = row;
    this.onTop = onTop;
    this.length = 0;
    this.first = 0;
    this.shown = new Map();
    this.space = h("div", { class: "space", role: "list", "aria-label": label });
    this.element = h("div", { class: "list " + className, tabindex: "0", role: "region", "aria-label": label }, this.space);
    this.pinned = false; // the end stays in view when more comes
    this.top = 0;
    this.element.addEventListener("scroll", () => this.moved(), { passive: true });
    this.element.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => { this.height = 0; this.set(this.length); }).observe(this.element);
  }

  // moved follows a scroll; whoever goes up wants to stay there.
  moved() {
    if (this.element.scrollTop < this.top && !this.atEnd && this.pinned) { this.pinned = false; this.onUp?.(); }
    this.top = this.element.scrollTop;
    this.draw();
  }

  get size() {
    if (!this.height) this.height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 40;
    return this.height;
  }

  // atEnd reports whether the last item is seen.
  get atEnd() {
    const e = this.element;
    return e.scrollHeight - e.scrollTop - e.clientHeight < this.size;
  }

  // set says how many items there are; anew draws all of them again. With
  // before, that many came in front and what is seen stays where it is.
  set(length, { anew = true, before = 0 } = {}) {
    this.length = length;
    this.space.style.height = length * this.size + "px";
    if (this.pinned) this.element.scrollTop = length * this.size;
    else if (before) this.element.scrollTop += before * this.size;
    this.top = this.element.scrollTop;
    this.draw(anew);
  }

  // show brings an item into view.
  show(i) {
    this.element.scrollTop = Math.max(0, i * this.size - this.element.clientHeight / 3);
    this.draw();
    return this.shown.get(i);
  }

  draw(anew) {
    const e = this.element, size = this.size;
    const from = Math.max(0, Math.floor(e.scrollTop / size) - 6);
    const to = Math.min(this.length, Math.ceil((e.scrollTop + e.clientHeight) / size) + 6);
    const held = document.activeElement?.closest?.("[data-i]");
    const focus = anew && held && this.space.contains(held) ? Number(held.dataset.i) : -1;
    for (const [i, row] of this.shown) {
      if (anew || i < from || i >= to) { row.remove(); this.shown.delete(i); }
    }
    for (let i = from; i < to; i++) {
      if (this.shown.has(i)) continue;
      const row = h("div", { class: "row", role: "listitem", "aria-setsize": String(this.length), "aria-posinset": String(i + 1), "data-i": String(i) }, this.row(i));
      row.style.transform = `translateY(${i * size}px)`;
      this.shown.set(i, row);
      // In the order in which they are read.
      let next = null;
      for (const other of this.space.children) if (Number(other.dataset.i) > i) { next = other; break; }
      this.space.insertBefore(row, next);
      if (i === focus) row.querySelector("a,button")?.focus({ preventScroll: true });
    }
    if (from === 0 && this.onTop && this.length) this.onTop();
  }

  // key moves between items with the arrow keys.
  key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const held = document.activeElement?.closest?.("[data-i]");
    if (!step || !held || !this.space.contains(held)) return;
    e.preventDefault();
    const i = Number(held.dataset.i) + step;
    if (i < 0 || i >= this.length) return;
    const at = i * this.size, box = this.element;
    if (at < box.scrollTop) box.scrollTop = at;
    if (at + this.size > box.scrollTop + box.clientHeight) box.scrollTop = at + this.size - box.clientHeight;
    this.draw();
    this.shown.get(i)?.querySelector("a,button")?.focus({ preventScroll: true });
  }
}
