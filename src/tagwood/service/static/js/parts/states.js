// Placeholders for content (loading, empty, failed) and short messages in a corner.
import { h, put } from "../dom.js";
import { icon } from "../icons.js";

/** Grey lines in place of the content; screen readers say "Loading". */
export function loading(lines = 4) {
  return h(
    "div",
    { class: "loading", role: "status" },
    h("span", { class: "unseen" }, "Loading"),
    Array.from({ length: lines }, (_, n) => h("div", { class: "bone", "aria-hidden": "true", vars: { "--w": `${[92, 74, 83, 61][n % 4]}%` } })),
  );
}

/** A note for an empty place. */
export function empty(title, text, ...actions) {
  return h("div", { class: "state" }, h("p", { class: "state-title" }, title), text && h("p", null, text), actions.length > 0 && h("div", { class: "row" }, actions));
}

/** An error message with a button to retry. */
export function failed(problem, retry) {
  return h(
    "div",
    { class: "state state-bad", role: "alert" },
    h("p", { class: "state-title" }, icon("warn"), problem.title ?? "Something went wrong"),
    h("p", null, problem.detail ?? problem.message),
    retry && h("div", { class: "row" }, h("button", { class: "button", type: "button", onclick: retry }, problem.kind === "token" ? "Enter a token" : "Try again")),
  );
}

/**
 * Fill `place` with the result of `task`: first a placeholder, then the content or the error.
 * A newer call for the same place cancels an older one.
 */
export async function fillWith(place, task, { lines = 4, keep = false } = {}) {
  running.get(place)?.abort();
  const control = new AbortController();
  running.set(place, control);
  place.setAttribute("aria-busy", "true");
  if (!keep) put(place, loading(lines));
  try {
    const content = await task(control.signal);
    if (running.get(place) === control) put(place, content);
  } catch (error) {
    if (error.name === "AbortError" || running.get(place) !== control) return;
    if (!error.kind) console.error(error);
    put(place, failed(error, () => fillWith(place, task, { lines, keep })));
  } finally {
    if (running.get(place) === control) place.removeAttribute("aria-busy");
  }
}

const running = new WeakMap();

/** Show a short message in the corner. */
export function toast(text, kind = "good") {
  const box = document.getElementById("toasts");
  const note = h("div", { class: `toast toast-${kind}` }, icon(kind === "good" ? "check" : "warn"), h("span", null, text));
  box.append(note);
  setTimeout(() => note.remove(), 4500);
}
