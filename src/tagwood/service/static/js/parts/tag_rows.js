// Rows of the Tag page: a label with its bar, decisions and explanation; the card of a missing label.
import { bdi, h, put, uniqueId } from "../dom.js";
import { decimal, percent } from "../format.js";
import { icon } from "../icons.js";
import { explanationCard, rowsWords } from "./explanation.js";
import { failed, loading } from "./states.js";

/** A label in a list of suggestions of a combobox. */
export function labelOption(label) {
  const other = label.matched && label.matched !== label.name ? label.matched : null;
  return [
    h("span", { class: "option-name" }, bdi(label.name), other && h("span", { class: "quiet" }, " ", bdi(other))),
    h("span", { class: "option-more" }, label.masked ? "masked" : rowsWords(label.rows)),
  ];
}

/**
 * One label of the result. `look` has its state: kind (kept, other, added), decision, open.
 * `actions` has toggle(id), decide(id, decision) and drop(id).
 */
export function labelRow(label, look, actions) {
  const whyId = uniqueId("why");
  const score = label.score ?? null;
  const main = h(
    "button",
    { type: "button", class: "label-main", "aria-expanded": String(look.open), "aria-controls": whyId, onclick: () => actions.toggle(label.id) },
    h("span", { class: "label-name" }, bdi(label.name)),
    h("span", { class: "label-score" }, score === null ? "" : look.calibrated ? percent(score) : decimal(score, 2)),
    h("span", { class: "bar", "aria-hidden": "true", vars: { "--w": `${Math.min(100, Math.max(0, (score ?? 0) * 100))}%` } }),
  );
  const choice = (decision, name, picture) =>
    h("button", { type: "button", class: `decide decide-${decision}`, "aria-pressed": String(look.decision === decision), "aria-label": `${name} ${label.name}`, title: name, onclick: () => actions.decide(label.id, decision) }, icon(picture, 16));
  const accept = choice("accepted", "Accept", "check");
  const reject = choice("rejected", "Reject", "cross");
  const why = h("div", { class: "why-place", id: whyId, hidden: !look.open }, look.open && loading(3));
  const row = h(
    "li",
    { class: "label", "data-label": label.id, "data-kind": look.kind, "data-decision": look.decision },
    h(
      "div",
      { class: "label-head" },
      main,
      look.kind === "added"
        ? h("button", { type: "button", class: "decide", "aria-label": `Remove ${label.name}`, title: "Remove", onclick: () => actions.drop(label.id) }, icon("cross", 16))
        : [accept, reject],
    ),
    why,
  );
  main.addEventListener("keydown", (event) => keys(event, row, label, actions));
  row.setOpen = (open) => {
    main.setAttribute("aria-expanded", String(open));
    why.hidden = !open;
    put(why, open && loading(3));
  };
  row.setDecision = (decision) => {
    if (decision) row.dataset.decision = decision;
    else delete row.dataset.decision;
    accept.setAttribute("aria-pressed", String(decision === "accepted"));
    reject.setAttribute("aria-pressed", String(decision === "rejected"));
  };
  row.showWhy = (found) => put(why, explanationCard(found));
  row.showProblem = (problem, retry) => put(why, failed(problem, retry));
  return row;
}

/** Keys on a label: arrows move up and down, A accepts, R rejects. */
function keys(event, row, label, actions) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key === "a" && row.dataset.kind !== "added") actions.decide(label.id, "accepted");
  else if (key === "r" && row.dataset.kind !== "added") actions.decide(label.id, "rejected");
  else if (key === "arrowdown" || key === "arrowup") {
    const all = [...row.closest(".results").querySelectorAll(".label-main")];
    const next = all[all.indexOf(event.currentTarget) + (key === "arrowdown" ? 1 : -1)];
    next?.focus();
  } else return;
  event.preventDefault();
}

/** Why a label was not suggested, with a button to add it. */
export function missingCard(found, { add, close }) {
  return h(
    "div",
    { class: "missing-found" },
    h(
      "div",
      { class: "missing-head" },
      h("h2", { tabindex: "-1" }, "Why not ", bdi(found.name), "?"),
      h("button", { type: "button", class: "decide", "aria-label": "Close", title: "Close", onclick: close }, icon("cross", 16)),
    ),
    explanationCard(found),
    h("div", { class: "row" }, h("button", { type: "button", class: "button primary", onclick: add }, icon("plus", 16), "Add this label")),
  );
}
