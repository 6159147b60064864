// The Model page: what the model is, its quality on held-out texts, and the reliability of its probabilities.
import { h } from "../dom.js";
import { count, decimal, duration, percent } from "../format.js";
import { chart, ticks } from "../parts/chart.js";
import { promiseWords } from "../parts/promise.js";
import { empty } from "../parts/states.js";

const SHARE = { min: 0, max: 1, ticks: [0, 0.25, 0.5, 0.75, 1], format: (value) => percent(value), exact: (value) => percent(value, 1) };

/** Build the page. */
export function build({ model }) {
  const element = h("div", { class: "stack model-page" }, facts(model), metrics(model), members(model), h("div", { class: "tiles" }, reliability(model), sets(model), pareto(model)), promises(model), traffic(model), updates(model), passport(model));
  return { element, heading: "Model", lead: "What this model is, and its quality on texts that it was not trained on." };
}

function card(title, note, ...content) {
  return h("section", { class: "card stack-small" }, h("h2", null, title), note && h("p", { class: "quiet" }, note), content);
}

function facts(model) {
  const figure = (value, name) => h("div", { class: "fact" }, h("dd", null, value), h("dt", null, name));
  const seconds = Number(model.passport.training_seconds);
  return h(
    "dl",
    { class: "facts" },
    figure(count(model.labels), "labels"),
    figure(count(model.rows), "training texts"),
    figure(count(model.labels_in_training), "labels with texts"),
    model.labels_masked > 0 && figure(count(model.labels_masked), "masked labels"),
    Number.isFinite(seconds) && figure(duration(seconds), "training time"),
    figure(model.kind, "model type"),
    figure(model.quality, "quality setting"),
  );
}

function why(model, name) {
  return empty("Not available", model.missing[name] ?? "This model does not have it.");
}

function metrics(model) {
  const note = `In percent, on ${count(model.measured_rows)} texts that were held out from training.`;
  if (!model.metrics) return card("Quality", null, why(model, "metrics"));
  const one = ([name, value]) =>
    h("div", { class: "metric" }, h("dt", null, name), h("dd", null, decimal(value * 100, 1), h("span", { class: "bar", "aria-hidden": "true", vars: { "--w": `${value * 100}%` } })));
  return card("Quality", note, h("dl", { class: "metrics" }, Object.entries(model.metrics).map(one)));
}

/** What each member of a fused model brings; for a single model, why it is alone. */
function members(model) {
  if (model.members.length === 0) {
    return model.simpler_because ? card("Members", `One model only: ${model.simpler_because}.`) : null;
  }
  const row = (one) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, one.name),
      h("td", { class: "number" }, decimal(one.alone * 100, 1)),
      h("td", { class: "number" }, decimal(one.lost * 100, 1)),
      h("td", null, one.used ? "yes" : "no, it does not help"),
      h("td", { class: "number" }, decimal(one.seconds, 1)),
    );
  return card(
    "Members",
    "Several models answer together. nDCG@5 in percent, on held-out texts: of each member alone, and what all lose without it.",
    table("Members", ["Member", "Alone", "Lost without it", "Used", "CPU seconds"], model.members.map(row)),
  );
}

function table(title, names, rows) {
  const head = h("tr", null, names.map((name) => h("th", { scope: "col" }, name)));
  return h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": title }, h("table", { class: "table" }, h("thead", null, head), h("tbody", null, rows)));
}

function reliability(model) {
  const { calibration } = model;
  if (!calibration) return card("Are the probabilities reliable?", null, why(model, "calibration"));
  const points = calibration.reliability.map((bin) => ({ x: bin.predicted, y: bin.observed, note: `predicted ${percent(bin.predicted)}, correct ${percent(bin.observed)} (${count(bin.count)} labels)` }));
  return card(
    "Are the probabilities reliable?",
    `Points on the dotted line are perfect. Mean deviation ${percent(calibration.expected_error, 1)}, on ${count(calibration.rows)} texts.`,
    chart({ title: "Reliability: predicted and observed probability", x: { ...SHARE, label: "predicted probability" }, y: { ...SHARE, label: "share of correct labels" }, series: [{ name: "share of correct labels", points, kind: "dots", tone: "main" }], diagonal: true }),
  );
}

function sets(model) {
  const { calibration } = model;
  if (!calibration) return card("Precision and recall by set size", null, why(model, "calibration"));
  const best = calibration.sets.reduce((one, other) => (other.f1 > one.f1 ? other : one));
  const longest = Math.max(5, 4 * best.size); // larger sets are not useful
  const shown = calibration.sets.filter((one) => one.size > 0.05 && one.size <= longest).sort((a, b) => a.size - b.size);
  const most = Math.max(...shown.map((one) => one.size));
  const series = [
    ["precision", "main"],
    ["recall", "second"],
    ["f1", "third"],
  ].map(([name, tone]) => ({
    name: name === "f1" ? "F1" : name,
    tone,
    kind: "line",
    points: shown.filter((one) => one[name] !== null).map((one) => ({ x: one.size, y: one[name] })),
  }));
  const x = { label: "labels per text, on average", min: 0, max: most, ticks: [0, 1, 2, 3, 5, 7, 10, 20, 50].filter((tick) => tick <= most), format: String, exact: (value) => decimal(value, 2), scale: Math.sqrt };
  return card("Precision and recall by set size", "Larger sets contain more of the right labels, and more wrong ones.", chart({ title: "Precision and recall over the mean size of label sets", x, y: { ...SHARE, label: "share" }, series }));
}

function pareto(model) {
  if (!model.pareto) return null;
  const { points, quality, cost } = model.pareto;
  const range = (name) => {
    const values = points.map((one) => one[name]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low || high || 1) * 0.08;
    return { min: low - room, max: high + room };
  };
  const axis = (name, label) => {
    const { min, max } = range(name);
    return { label, min, max, ticks: ticks(min, max, 4), format: (value) => String(Number(value.toPrecision(3))) };
  };
  const dots = [...points].sort((a, b) => a.cost - b.cost).map((one) => ({ x: one.cost, y: one.quality, big: one.chosen, note: `λ ${one.lam}: ${quality} ${decimal(one.quality)}, ${cost} ${decimal(one.cost)}` }));
  const chosen = points.find((one) => one.chosen);
  return card("Shape of the tree (λ)", chosen ? `λ = ${chosen.lam} was chosen (the large point).` : "Values tried in tuning.", chart({ title: `${quality} over ${cost} for each λ`, x: axis("cost", cost), y: axis("quality", quality), series: [{ name: quality, points: dots, kind: "dots", tone: "main" }] }));
}

function promises(model) {
  if (!model.calibration) return null;
  const row = (one) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, promiseWords(one.promise)),
      h("td", null, one.kept ? "yes" : "no"),
      h("td", { class: "number" }, decimal(one.size, 1)),
      h("td", { class: "number" }, one.precision === null ? "–" : percent(one.precision)),
      h("td", { class: "number" }, percent(one.recall)),
      h("td", { class: "number" }, percent(one.review)),
    );
  const names = ["Promise", "Can be kept", "Labels per text", "Precision", "Recall", "Texts for review"];
  return card(
    "What can be promised",
    "The steps of the slider, measured on held-out texts.",
    table("What can be promised", names, model.calibration.promises.map(row)),
  );
}

/** What the requests to this service looked like since it started. */
function traffic(model) {
  const { texts, mean_top_score, unknown_words, label_drift, compared, agreement, training } = model.traffic;
  if (texts === 0) return null;
  const figure = (value, name) => value !== null && h("div", { class: "fact" }, h("dd", null, value), h("dt", null, name));
  const share = (value) => (value === null ? null : percent(value, 1));
  const beside = (value, before) => value !== null && `${share(value)} / ${share(before) ?? "not known"}`;
  return card(
    "Texts since the service started",
    "Where there are two figures, the second one is of held-out texts in training. Label drift is the share of suggestions that would have to move to be spread over frequent and rare labels as the labels of the training texts.",
    h(
      "dl",
      { class: "facts" },
      figure(count(texts), "texts"),
      figure(beside(mean_top_score, training.mean_top_score), "mean of the best score, now / in training"),
      figure(beside(unknown_words, training.unknown_words), "unknown words, now / in training"),
      figure(beside(label_drift, training.label_drift), "label drift, now / in training"),
      compared > 0 && figure(share(agreement), `agreement with the candidate, ${count(compared)} texts`),
    ),
  );
}

/** What the model has learned since its last full training. */
function updates(model) {
  if (model.updates.length === 0) return null;
  const row = (one) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, one.date.replace("T", " ").slice(0, 16)),
      h("td", { class: "number" }, count(one.rows)),
      h("td", { class: "number" }, count(one.labels)),
      h("td", { class: "number" }, count(one.new_labels)),
      h("td", { class: "number" }, decimal(one.cpu_seconds, 1)),
      h("td", null, one.unchanged.join(", ") || "all learned"),
    );
  const note = model.full_training_due ? `A full training is due: ${model.full_training_due}.` : "Learned since the last full training, newest first; no full training is due yet.";
  return card("Updates", note, table("Updates", ["Date (UTC)", "Texts", "Labels", "New labels", "CPU seconds", "Members unchanged"], model.updates.map(row).reverse()));
}

function passport(model) {
  const entries = Object.entries({ model: model.model, ...model.passport }).filter(([, value]) => value !== null && value !== "");
  const tree = Object.entries(model.tree ?? {}).map(([name, value]) => [`tree: ${name}`, value]);
  const row = ([name, value]) => [h("dt", null, name.replaceAll("_", " ")), h("dd", null, shown(value))];
  return card(
    "Passport",
    "Origin of this model, as stored in its folder and shown by “tagwood info”.",
    h("dl", { class: "passport" }, [...entries, ...tree].map(row)),
    model.recipe && h("details", { class: "numbers" }, h("summary", null, "Recipe: all settings, for “tagwood train --recipe”"), h("pre", { class: "recipe", tabindex: "0" }, model.recipe)),
  );
}

function shown(value) {
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : decimal(value, 2);
  if (value !== null && typeof value === "object") {
    const parts = Array.isArray(value) ? value.map(shown) : Object.entries(value).map(([name, one]) => `${name} ${shown(one)}`);
    return parts.join(" · ");
  }
  return String(value);
}
