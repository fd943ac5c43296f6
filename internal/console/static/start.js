// Starting a goal.

import { h, fill } from "./dom.js";
import { tell } from "./api.js";

const field = (id, label, input, note) => h("div", { class: "field" }, h("label", { for: id }, label), input, note && h("p", { class: "dim" }, note));

export function startForm(self) {
  const text = h("textarea", { id: "g-text", rows: "4", required: true });
  const repo = h("input", { id: "g-repo", type: "text", required: true, placeholder: "/home/you/project", spellcheck: "false" });
  const tests = h("textarea", { id: "g-tests", rows: "2", spellcheck: "false", placeholder: "go test ./..." });
  const model = h("input", { id: "g-model", type: "text", spellcheck: "false", placeholder: self.model || "provider:name", required: !self.model });
  const option = (id, words) => h("select", { id }, Object.entries(words).map(([v, t]) => h("option", { value: v }, t)));
  const approve = option("g-approve", { ask: "ask me", auto: "grant it, on record", never: "deny it" });
  const plan = option("g-plan", { auto: "if it is not small", always: "always", never: "never" });
  const number = (id) => h("input", { id, type: "number", min: "0", step: "any" });
  const steps = number("g-steps"), tokens = number("g-tokens"), cost = number("g-cost");
  const constraints = h("textarea", { id: "g-constraints", rows: "2" });
  const wrong = h("p", { class: "bad", role: "alert", hidden: true });
  const lines = (e) => e.value.split("\n").map((l) => l.trim()).filter(Boolean);
  const send = h("button", { class: "primary" }, "Start");
  return h("form", { class: "card start", onsubmit: async (e) => {
    e.preventDefault();
    send.disabled = true;
    wrong.hidden = true;
    const limits = {};
    if (steps.value) limits.steps = Math.round(Number(steps.value));
    if (tokens.value) limits.tokens = Math.round(Number(tokens.value));
    if (cost.value) limits.cost_micros = Math.round(Number(cost.value) * 1e6);
    const body = { text: text.value, repo: repo.value.trim(), plan: plan.value, approve: approve.value, limits };
    if (model.value.trim()) body.model = model.value.trim();
    if (tests.value.trim()) body.acceptance = lines(tests).map((command) => ({ id: "", kind: "test", command }));
    if (constraints.value.trim()) body.constraints = lines(constraints);
    try {
      const started = await tell("/v1/goals", body);
      location.hash = "#/goal/" + started.goal;
    } catch (problem) {
      fill(wrong, problem.message);
      wrong.hidden = false;
      send.disabled = false;
    }
  } },
    h("h1", {}, "New goal"), wrong,
    field("g-text", "What should be done?", text),
    field("g-repo", "Repository", repo, "An absolute path on the server's machine."),
    field("g-tests", "Tests that must pass", tests, "One command a line. Without any, belay looks for the repository's own."),
    field("g-constraints", "Constraints", constraints, "One a line."),
    h("div", { class: "columns" },
      field("g-model", "Model", model), field("g-approve", "When policy asks", approve), field("g-plan", "Approve the plan first", plan),
      field("g-steps", "Most model requests", steps), field("g-tokens", "Most tokens", tokens), field("g-cost", "Most cost, US dollars", cost)),
    h("p", { class: "buttons" }, send));
}
