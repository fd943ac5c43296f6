// How states are named and coloured. The words are the snapshot's own.

import { h, dimensions, amount } from "./dom.js";

// face is a goal's state in a word or two, with the tone it is shown in: go
// (works), you (waits for a person), wait, good, bad, or off.
export function face(g) {
  switch (g.status) {
    case "completed":
      return { word: "completed: " + words(g.completed_how || ""), tone: g.completed_how === "accepted_unverified" ? "wait" : "good", mark: "✓" };
    case "failed": return { word: "failed", tone: "bad", mark: "✕" };
    case "cancelled":
      if (g.current_action) return { word: "cancel requested", tone: "wait", mark: "…" };
      return { word: "cancelled", tone: "off", mark: "■" };
    case "paused": return { word: "paused: " + words(g.pause_reason || ""), tone: g.pause_reason === "user" ? "off" : "you", mark: "‖" };
    case "reserved": return { word: "to be started", tone: "wait", mark: "…" };
    case "verifying": return { word: "verifying", tone: "go", mark: "◐" };
  }
  if (g.wait_reason === "approval") return { word: "waits for your approval", tone: "you", mark: "?" };
  if (g.wait_reason === "user_input") return { word: "waits for your answer", tone: "you", mark: "?" };
  if (g.wait_reason) return { word: "waits: " + words(g.wait_reason), tone: "wait", mark: "…" };
  if (g.held && g.current_action === "ready for a worker") return { word: "starting", tone: "go", mark: "▶" };
  if (g.held === false || g.current_action === "ready for a worker") return { word: "ready for a worker", tone: "wait", mark: "…" };
  return { word: "running", tone: "go", mark: "▶" };
}

export const words = (s) => s.replaceAll("_", " ");

export function chip(f) {
  return h("span", { class: "chip " + f.tone }, h("span", { class: "mark", "aria-hidden": "true" }, f.mark), f.word);
}

export const ended = (g) => ["completed", "failed", "cancelled"].includes(g.status);

// left is the budget that is left, the shortest dimension of a list.
export function left(l) {
  const parts = Object.entries(l || {}).filter(([k]) => dimensions[k]);
  return parts.map(([k, n]) => amount(k, n) + " " + (k === "cost_micros" ? "" : dimensions[k] + " ") + "left").join(", ");
}

// tone of a timeline entry by its name.
export function entryTone(name) {
  if (/^(goal_completed|approval_granted)|exit_code=0$/.test(name)) return "good";
  if (/^(approval_requested|goal_waiting|progress_alarm|goal_paused)/.test(name)) return "you";
  if (/failed|rejected|denied|unknown|exit_code=|damaged|forbidden/.test(name)) return "bad";
  return "off";
}
