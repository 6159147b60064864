// The slider from "few and certain" to "many". With calibrated probabilities each step is a promise on precision;
// without them it is a number of labels.
import { h, uniqueId } from "../dom.js";
import { decimal, percent } from "../format.js";

const SIZES = [1, 2, 3, 4, 5, 7, 10, 15, 20];

/** The steps of the slider for a model: the options of the request, and their description. */
export function steps(model) {
  const promises = inOrder(model.calibration?.promises ?? []);
  if (promises.length > 0) {
    return promises.map((one) => ({ ask: { promise: one.promise }, words: promiseWords(one.promise), more: meaning(one), ...one }));
  }
  return SIZES.filter((size) => size <= model.limits.k).map((size) => ({
    ask: { k: size },
    words: size === 1 ? "The best label" : `The best ${size} labels`,
    more: "This model has no calibrated probabilities, so nothing can be promised.",
  }));
}

/** Promises of precision, the balance, then recall: only those that give more labels than the previous one. */
function inOrder(promises) {
  const found = [];
  for (const one of promises) if (found.length === 0 || !one.kept || one.size >= found.at(-1).size) found.push(one);
  return found;
}

/** "precision>=0.9" -> "At least 90 % of the labels are right". */
export function promiseWords(promise) {
  const [, measure, value] = promise.match(/^(precision|recall)>=([\d.]+)$/) ?? [];
  if (measure === "precision") return `At least ${percent(Number(value))} of the labels are right`;
  if (measure === "recall") return `At least ${percent(Number(value))} of the right labels are found`;
  return "The best balance of precision and recall";
}

function meaning(one) {
  if (!one.kept) return "This model cannot keep this promise: every text needs manual review.";
  const review = one.review > 0.005 ? `; ${percent(one.review)} of texts need manual review` : "";
  return `On average ${decimal(one.size, 1)} labels per text${review}.`;
}

/** The initial step: the first promise that leaves few texts without labels, or five labels. */
function firstStep(all) {
  if (!("promise" in all[0].ask)) return Math.min(4, all.length - 1);
  const good = all.findIndex((one) => one.kept && one.size >= 1 && one.review < 0.2);
  return good >= 0 ? good : Math.floor(all.length / 2);
}

/** The slider; `change(step)` is called while it moves. */
export function promiseSlider(model, change) {
  const all = steps(model);
  const begin = firstStep(all);
  const words = h("output", { class: "slider-words" });
  const more = h("p", { class: "slider-more" });
  const id = uniqueId("slider");
  const input = h("input", {
    type: "range",
    id,
    class: "slider",
    min: 0,
    max: all.length - 1,
    step: 1,
    value: begin,
    "aria-describedby": `${id}-more`,
  });
  more.id = `${id}-more`;
  const show = () => {
    const step = all[Number(input.value)];
    words.textContent = step.words;
    more.textContent = step.more;
    input.setAttribute("aria-valuetext", `${step.words}. ${step.more}`);
    input.style.setProperty("--done", `${(Number(input.value) / Math.max(1, all.length - 1)) * 100}%`);
    return step;
  };
  input.addEventListener("input", () => change(show()));
  show();
  const box = h(
    "div",
    { class: "promise" },
    h("label", { for: id, class: "unseen" }, "Number of labels: from few and certain to many"),
    h("div", { class: "slider-ends", "aria-hidden": "true" }, h("span", null, "few and certain"), h("span", null, "many")),
    input,
    words,
    more,
  );
  box.step = () => all[Number(input.value)];
  return box;
}
