// The console: which part is shown, and whether the server is there.

import { h, fill } from "./dom.js";
import { begin, use, get, onLost } from "./api.js";
import { Goals } from "./goals.js";
import { Goal } from "./goal.js";
import { startForm } from "./start.js";

const $ = (id) => document.getElementById(id);
let goals, shown, self, may;
const links = { goals: "", goal: "" };

// state says whether what is seen is live.
function state(of) {
  return (now) => {
    links[of] = now;
    const away = Object.values(links).includes("away");
    $("link").className = "link " + (away ? "away" : "live");
    const text = away ? "connection lost, trying again" : "live";
    if ($("link").textContent !== text) fill($("link"), text);
  };
}

async function enter() {
  try {
    self = await get("/v1/self");
  } catch (e) {
    if (e.status === 401) return;
    $("link").className = "link away";
    fill($("link"), "the server cannot be reached, trying again");
    setTimeout(enter, 1000);
    return;
  }
  may = { answer: self.scope !== "watch", operate: self.scope === "operate" };
  fill($("who"), `${self.name} · ${self.scope}`);
  $("new").hidden = !may.operate;
  $("leave").hidden = false;
  $("goals").hidden = false;
  goals ||= new Goals($("goals"), state("goals"), (g) => shown?.kin?.(g));
  route();
}

function route() {
  if (!goals) return; // nobody is in
  const [, part, id, then] = location.hash.split("/");
  shown?.close?.();
  shown = null;
  links.goal = "";
  const main = $("main");
  document.body.className = part ? "in" : "";
  goals.mark(part === "goal" ? id : "");
  if (part === "goal" && id) {
    shown = new Goal(main, decodeURIComponent(id), may, state("goal"), Number(then) || 0);
  } else if (part === "new" && may.operate) {
    fill(main, startForm(self));
  } else {
    fill(main, h("div", { class: "empty" }, h("p", {}, "Pick a goal to see where it stands.")));
  }
  main.scrollTop = 0;
  if (part) main.focus({ preventScroll: true });
}

// door asks for a token.
function door(problem) {
  goals?.close();
  shown?.close?.();
  goals = shown = null;
  use("");
  for (const id of ["goals", "new", "leave"]) $(id).hidden = true;
  fill($("who"));
  fill($("link"));
  document.body.className = "in";
  const field = h("input", { type: "password", autocomplete: "off", spellcheck: "false", id: "token", required: true });
  fill($("main"), h("form", { class: "card door", onsubmit: (e) => { e.preventDefault(); use(field.value); location.hash = "#/"; enter(); } },
    h("h1", {}, "belay"),
    problem && h("p", { class: "bad", role: "alert" }, problem),
    h("label", { for: "token" }, "Token"), field, h("button", { class: "primary" }, "Enter"),
    h("p", { class: "dim" }, "Make one where the server runs: ", h("code", {}, "belay token new NAME --scope operate")),
    h("p", { class: "dim" }, "It stays in this tab until the tab is closed.")));
  field.focus();
}

onLost((p) => door(p.detail || p.title));
$("leave").addEventListener("click", () => { location.hash = "#/"; door(""); });
addEventListener("hashchange", () => { if (begin.is(location.hash)) location.reload(); else route(); });
if (begin()) enter();
else door("");
