// The Progress page: how often people agreed with suggestions, over time and by label, and which texts wait.
import { api } from "../api.js";
import { bdi, h, put } from "../dom.js";
import { count, cut, percent, plural } from "../format.js";
import { icon } from "../icons.js";
import { chart } from "../parts/chart.js";
import { empty, fillWith } from "../parts/states.js";

const WAITING = 10;
const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** Build the page; it is filled anew at every visit. */
export function build(context) {
  const place = h("div", { class: "stack" });
  const waiting = h("div");
  const element = h("div", { class: "stack" }, place, context.model.queue && waiting);
  const fill = () => {
    fillWith(place, async (signal) => facts(await api.progress(context.language(), signal), context.model), { lines: 8, keep: place.children.length > 0 });
    if (context.model.queue) fillWith(waiting, async (signal) => queue(await api.queue(WAITING, signal)), { lines: 4 });
  };
  context.onLanguage(() => place.children.length > 0 && fill());
  return { element, heading: "Progress", lead: "How often people agreed with the suggestions: over time, and label by label.", visit: fill };
}

function facts(found, model) {
  if (found.records === 0) return h("section", { class: "card" }, empty("No decisions yet", "Accept, reject or add labels under Tag or Correct, and save them."));
  const sides = h("div", { class: "progress-sides" }, found.periods.length > 1 && overTime(found.periods), byLabel(found.labels));
  return [figures(found), sides, next(found, model)];
}

function figures(found) {
  const figure = (name, value, words) => h("div", { class: "figure-number" }, h("dt", null, name), h("dd", null, h("strong", null, value), h("span", { class: "quiet" }, words)));
  return h(
    "section",
    { class: "card", "aria-label": "Figures" },
    h(
      "dl",
      { class: "figure-numbers" },
      figure("Agreement", found.agreement === null ? "–" : percent(found.agreement), "of decided suggestions were accepted"),
      figure("Texts", count(found.texts), `by ${plural(found.people, "person with a name", "people with names")}`),
      figure("Rejected", count(found.rejected), `${plural(found.accepted, "suggestion")} accepted`),
      figure("Added", count(found.added), "labels that were missing"),
    ),
  );
}

function overTime(periods) {
  const decided = periods.map((one, n) => ({ ...one, x: n })).filter((one) => one.agreement !== null);
  const steps = Math.max(1, Math.ceil(periods.length / 6));
  const points = decided.map((one) => ({ x: one.x, y: one.agreement, note: `${one.period}: ${percent(one.agreement)} of ${count(one.accepted + one.rejected)}` }));
  const name = (n) => periods[n]?.period ?? "";
  return h(
    "section",
    { class: "card stack-small", "aria-label": "Agreement over time" },
    h("h2", null, "Agreement over time"),
    chart({
      title: "Share of decided suggestions that were accepted",
      x: { label: "Day or month", min: 0, max: periods.length - 1, ticks: periods.map((_, n) => n).filter((n) => n % steps === 0), format: name },
      y: { label: "Agreement", min: 0, max: 1, ticks: TICKS, format: percent },
      series: [{ name: "Agreement", points, kind: "dots", tone: "main" }],
    }),
  );
}

function byLabel(labels) {
  if (labels.length === 0) return null;
  const name = (one) => (one.id === null ? [bdi(one.name), h("span", { class: "quiet" }, " (proposed)")] : h("a", { href: `#/labels/${one.id}` }, bdi(one.name)));
  const row = (one) => h("tr", null, h("th", { scope: "row" }, name(one)), h("td", null, one.agreement === null ? "–" : percent(one.agreement)), ["accepted", "rejected", "added"].map((kind) => h("td", null, count(one[kind]))));
  return h(
    "section",
    { class: "card stack-small", "aria-label": "By label" },
    h("h2", null, "By label"),
    h("p", { class: "quiet" }, "The labels that were corrected most come first."),
    h(
      "div",
      { class: "table-wrap table-tall", tabindex: "0", role: "region", "aria-label": "Agreement by label" },
      h("table", { class: "table" }, h("thead", null, h("tr", null, ["Label", "Agreement", "Accepted", "Rejected", "Added"].map((one) => h("th", { scope: "col" }, one)))), h("tbody", null, labels.map(row))),
    ),
  );
}

function next(found, model) {
  const words = model.learn
    ? `${plural(found.learned, "record was", "records were")} learned at once by the model in use.`
    : "Let the model learn the decisions with: tagwood learn MODEL MODEL.feedback.jsonl, or train with --with-feedback.";
  return h("p", { class: "quiet" }, words);
}

function queue({ waiting, done, texts }) {
  const row = (one) => h("tr", null, h("td", { dir: "auto" }, cut(one.text, 140)), h("td", null, percent(one.score)));
  const place = h("section", { class: "card stack-small", "aria-label": "Least certain texts" }, h("h2", null, "Least certain texts"));
  if (texts.length === 0) return put(place, h("h2", null, "Least certain texts"), empty("Nothing waits", `${plural(done, "text")} decided.`));
  place.append(
    h("p", { class: "quiet" }, `${plural(waiting, "text waits", "texts wait")} for review, ${count(done)} decided. What people say about these teaches the model most.`),
    h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Texts that wait" }, h("table", { class: "table" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Text"), h("th", { scope: "col" }, "Best label"))), h("tbody", null, texts.map(row)))),
    h("div", { class: "row" }, h("a", { class: "button primary", href: "#/correct" }, icon("correct", 16), "Correct them")),
  );
  return place;
}
