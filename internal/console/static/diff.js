// Diffs, by file.

import { h, fill, safe } from "./dom.js";
import { get, goalPath } from "./api.js";

// More lines than this are drawn only when they are asked for.
const much = 800;

// split cuts a unified diff into files, each with its lines.
export function split(text) {
  const files = [];
  let file = null;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff ") || (line.startsWith("--- ") && (!file || file.body))) {
      file = { lines: [], name: "", added: 0, deleted: 0, body: false };
      files.push(file);
    }
    if (!file) { file = { lines: [], name: "", added: 0, deleted: 0, body: true }; files.push(file); }
    if (!file.body && /^(\+\+\+|---) /.test(line)) {
      const name = line.slice(4).split("\t")[0].replace(/^[ab]\//, "");
      if (name !== "/dev/null") file.name = name;
    } else if (line.startsWith("@@")) file.body = true;
    else if (file.body && line.startsWith("+")) file.added++;
    else if (file.body && line.startsWith("-")) file.deleted++;
    file.lines.push(line);
  }
  return files;
}

const tones = { "+": "add", "-": "del", "@": "at" };

function body(lines) {
  const pre = h("pre", { class: "diff", tabindex: "0", "aria-label": "changed lines" });
  let inside = false; // what stands before the first @@ names the files
  const draw = (from, to) => {
    for (const line of lines.slice(from, to)) {
      inside ||= line.startsWith("@@");
      pre.append(h("span", { class: "line " + ((inside && tones[line[0]]) || "") }, line || " "));
    }
    if (to < lines.length) {
      const more = h("button", { type: "button", onclick: () => { more.remove(); draw(to, lines.length); } }, `Show ${lines.length - to} more lines`);
      pre.append(more);
    }
  };
  draw(0, much);
  return pre;
}

// drawDiff is a whole diff at once, for what is to be approved.
export function drawDiff(text) {
  return h("div", {}, split(text.replace(/\n$/, "")).map((f) => h("div", { class: "file" }, f.name && h("p", { class: "path" }, f.name, counts(f)), body(f.lines))));
}

function counts(f) {
  return [" ", h("span", { class: "plus" }, "+" + (f.added || 0)), " ", h("span", { class: "minus" }, "−" + (f.deleted || 0))];
}

// Changes is the goal's diff against its start.
export class Changes {
  constructor(goal) {
    this.goal = goal;
    this.list = h("div", {});
    this.title = h("h2", {}, "Changes");
    this.element = h("section", { class: "card changes" }, this.title, this.list);
    this.open = new Set();
  }

  show(s) {
    const key = JSON.stringify(s.diff_stat || []) + s.revision.tree;
    if (key === this.key) return;
    this.key = key;
    this.text = null;
    const stat = s.diff_stat || [];
    fill(this.title, "Changes", h("span", { class: "aside" }, stat.length ? `${stat.length} file${stat.length === 1 ? "" : "s"} since the start` : ""));
    if (!stat.length) return fill(this.list, h("p", { class: "none" }, "No difference to the start."));
    fill(this.list, stat.map((c) => this.file(c)));
  }

  file(c) {
    const box = h("div", {});
    const d = h("details", { class: "file", open: this.open.has(c.path), ontoggle: () => {
      if (d.open) { this.open.add(c.path); this.load(c.path, box); } else this.open.delete(c.path);
    } }, h("summary", {}, h("span", { class: "path" }, c.path), h("span", { class: "dim" }, " " + c.status), counts(c)), box);
    return d;
  }

  async load(path, box) {
    const key = this.key;
    try {
      this.text ||= get(goalPath(this.goal, "diff")).then((d) => split(d.latest_diff));
      const found = (await this.text).filter((f) => f.name === path || unquote(f.name) === path);
      if (key === this.key) fill(box, found.length ? found.map((f) => body(f.lines)) : h("p", { class: "none" }, "Its content is not shown: it is binary, or only its mode changed."));
    } catch (e) {
      this.text = null;
      fill(box, h("p", { class: "bad" }, e.message));
    }
  }
}

// unquote reads a file name as git writes one with unusual characters in it.
function unquote(name) {
  if (!name.startsWith('"')) return name;
  const bytes = [];
  const inner = name.slice(1, -1).replace(/^[ab]\//, "");
  const plain = { n: 10, t: 9, r: 13, a: 7, b: 8, f: 12, v: 11 };
  for (let i = 0; i < inner.length; i++) {
    if (inner[i] !== "\\") { bytes.push(...new TextEncoder().encode(inner[i])); continue; }
    const octal = /^[0-7]{3}/.exec(inner.slice(i + 1));
    if (octal) { bytes.push(parseInt(octal[0], 8)); i += 3; } else { bytes.push(plain[inner[i + 1]] ?? inner.charCodeAt(i + 1)); i++; }
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}
