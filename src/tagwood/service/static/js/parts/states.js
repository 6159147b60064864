// What stands where content is not (yet): loading, empty, gone wrong. Also short messages in a corner.
import { h, put } from "../dom.js";
import { icon } from "../icons.js";

/** Grey lines in the shape of what is coming; said aloud as "Loading". */
export function loading(lines = 4) {
  return h(
    "div",
    { class: "loading", role: "status" },
    h("span", { class: "unseen" }, "Loading"),
    Array.from({ length: lines }, (_, n) => h("div", { class: "bone", "aria-hidden": "true", vars: { "--w": `${[92, 74, 83, 61][n % 4]}%` } })),
  );
}

/** A calm note where there is nothing to show. */
export function empty(title, text, ...actions) {
  return h("div", { class: "state" }, h("p", { class: "state-title" }, title), text && h("p", null, text), actions.length > 0 && h("div", { class: "row" }, actions));
}

/** A problem in words, with a way to try again. */
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
 * Fill `place` with what `task` gives: loading first, then the content or the problem.
 * A newer call for the same place makes an older one stop.
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

/** Say something short in the corner. */
export function toast(text, kind = "good") {
  const box = document.getElementById("toasts");
  const note = h("div", { class: `toast toast-${kind}` }, icon(kind === "good" ? "check" : "warn"), h("span", null, text));
  box.append(note);
  setTimeout(() => note.remove(), 4500);
}
