// The labels of a text: suggested ones, less certain ones, those a user added; decisions; copy, download, feedback.
import { api, labelId, labelName, saveDecisions } from "../api.js";
import { line } from "../csv.js";
import { h, put } from "../dom.js";
import { copy, download } from "../files.js";
import { plural } from "../format.js";
import { icon } from "../icons.js";
import { empty, toast } from "./states.js";
import { labelRow } from "./tag_rows.js";

const CANDIDATES = 20;
const NEXT = 5; // less certain labels shown initially,
const LIKELY = 0.02; // if they have at least this probability

/** Request the best labels of a text and those that keep the promise; the others are shown as less certain. */
export async function suggestions(text, ask, { model, language }, signal) {
  const body = { texts: text, language: language() };
  const id = requestId(text);
  const [best, promised] = await Promise.all([
    api.suggest({ ...body, k: Math.min(CANDIDATES, model.limits.k) }, signal, id),
    api.suggest({ ...body, ...ask }, signal, id),
  ]);
  if (best.model !== promised.model) return suggestions(text, ask, { model, language }, signal); // replaced in between
  const [all, chosen] = [best.results[0].labels, promised.results[0].labels];
  const known = new Set(all.map((one) => one.id));
  return {
    text,
    found: [...all, ...chosen.filter((one) => !known.has(one.id))],
    kept: new Set(chosen.map((one) => one.id)),
    review: promised.results[0].review,
    calibrated: best.calibrated,
    answering: best.model,
  };
}

const SALT = Math.floor(Math.random() * 2 ** 32);

/** The id of requests about a text: in an A/B test of two models, requests with the same id are answered by the same. */
function requestId(text) {
  let hash = SALT;
  for (let place = 0; place < text.length; place += 1) hash = Math.imul(hash, 31) + text.charCodeAt(place);
  return (hash >>> 0).toString(16);
}

export class TagResult {
  /**
   * `explain(id)` is called when a label is opened, `unmark()` when none is open any more, and `saved()` when the
   * decisions are stored. `about` has what is stored with them: the person, the id of the document.
   */
  constructor({ explain, unmark, model, saved = () => {}, about = () => ({}) }) {
    Object.assign(this, { explain, unmark, model, saved, about });
    this.element = h("div", { class: "results" });
    this.more = false;
    this.sendButton = h("button", { type: "button", class: "button primary", hidden: !model.feedback, onclick: () => this.send() }, icon("check", 16), "Save decisions");
    this.summary = h("p", { class: "result-words" });
    this.foot = h("div", { class: "result-foot" }, this.summary, h("div", { class: "row" }, this.buttons(), this.sendButton));
    this.forget();
  }

  /** Forget text, labels and decisions. */
  forget() {
    this.text = "";
    this.found = [];
    this.kept = new Set();
    this.decisions = new Map();
    this.added = new Map();
    this.open = null;
    this.unmark();
  }

  /** Show an answer; decisions stay if text and model are the same. */
  show({ text, found, kept, review, calibrated, answering }) {
    if (text !== this.text || answering !== this.answering) this.forget();
    Object.assign(this, { text, found, kept, review, calibrated, answering });
    this.render();
    if (this.open !== null) this.explain(this.open);
  }

  render() {
    const chosen = this.found.filter((one) => this.kept.has(one.id));
    const others = this.found.filter((one) => !this.kept.has(one.id) && !this.added.has(one.id));
    const likely = others.filter((one, n) => n < 1 || !this.calibrated || one.score >= LIKELY).slice(0, NEXT);
    const shown = this.more ? others : likely;
    put(
      this.element,
      this.review && h("p", { class: "notice" }, icon("warn"), h("span", null, "The promise cannot be kept for this text. Please review the candidates.")),
      this.list("Added by you", [...this.added.values()], "added"),
      this.list("Suggested labels", chosen, "kept"),
      shown.length > 0 && h("p", { class: "divider" }, h("span", null, chosen.length > 0 ? "less certain" : "candidates")),
      this.list("Less certain labels", shown, "other"),
      others.length > likely.length && this.moreButton(others.length - likely.length),
      this.found.length === 0 && empty("No labels found", "The model knows none of the words in this text."),
      this.foot,
    );
    this.count();
  }

  list(name, labels, kind) {
    if (labels.length === 0) return null;
    const look = (one) => ({ kind, calibrated: this.calibrated, decision: this.decisions.get(one.id), open: this.open === one.id });
    return h("ol", { class: "label-list", "aria-label": name }, labels.map((one) => labelRow(one, look(one), this)));
  }

  moreButton(hidden) {
    const flip = () => {
      this.more = !this.more;
      this.render();
    };
    return h("button", { type: "button", class: "button quiet-button", onclick: flip }, this.more ? "Show fewer" : `Show ${hidden} more`);
  }

  row(id) {
    return this.element.querySelector(`[data-label="${id}"]`);
  }

  /** Open the explanation of a label, or close it. */
  toggle(id) {
    this.open = this.open === id ? null : id;
    this.unmark();
    for (const row of this.element.querySelectorAll("[data-label]")) row.setOpen(labelId(row.dataset.label) === this.open);
    if (this.open !== null) this.explain(id);
  }

  /** Open a label and focus it. */
  jump(id) {
    if (this.open !== id) this.toggle(id);
    this.row(id).querySelector(".label-main").focus();
  }

  decide(id, decision) {
    if (this.decisions.get(id) === decision) this.decisions.delete(id);
    else this.decisions.set(id, decision);
    this.row(id)?.setDecision(this.decisions.get(id));
    this.count();
  }

  add(label) {
    this.added.set(label.id, label);
    this.render();
  }

  drop(id) {
    this.added.delete(id);
    this.render();
  }

  /** The labels that the user keeps: suggested and not rejected, accepted, added. */
  result() {
    const wanted = (id) => this.decisions.get(id) === "accepted" || (this.kept.has(id) && this.decisions.get(id) !== "rejected");
    return [...this.added.values(), ...this.found.filter((one) => wanted(one.id))];
  }

  count() {
    this.summary.textContent = `Your result: ${plural(this.result().length, "label")}`;
    this.sendButton.disabled = this.decisions.size + this.added.size === 0;
  }

  buttons() {
    const button = (name, picture, task) => h("button", { type: "button", class: "button", onclick: task }, icon(picture, 16), name);
    return [button("Copy", "copy", () => this.copy()), button("CSV", "download", () => this.saveCsv()), button("JSON", "download", () => this.saveJson())];
  }

  async copy() {
    const names = this.result().map((one) => one.name);
    try {
      await copy(names.join("\n"));
      toast(`${plural(names.length, "label")} copied`);
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  saveCsv() {
    const lines = this.result().map((one) => line([one.name, one.uri ?? "", one.score ?? ""]));
    download("labels.csv", [line(["label", "uri", "score"]), ...lines], "text/csv");
  }

  saveJson() {
    const labels = this.result().map(({ id, name, uri, score }) => ({ id, name, uri, score: score ?? null }));
    download("labels.json", [JSON.stringify({ text: this.text, labels }, null, 2)], "application/json");
  }

  /** Show the names of added labels in another language. */
  async rename(language) {
    const cards = await Promise.all([...this.added.keys()].map((id) => api.label(id, language)));
    for (const { id, name } of cards) if (this.added.has(id)) this.added.set(id, { ...this.added.get(id), name });
    if (cards.length > 0) this.render();
  }

  /** What the person saw and decided: accepted, rejected, added, and shown but left untouched. */
  body() {
    const of = (kind) => [...this.decisions].filter(([, one]) => one === kind).map(([id]) => id);
    const seen = [...this.element.querySelectorAll("[data-label]")].map((row) => labelId(row.dataset.label));
    const untouched = seen.filter((id) => !this.decisions.has(id) && !this.added.has(id));
    return { text: this.text, accepted: of("accepted"), rejected: of("rejected"), added: [...this.added.values()].map(labelName), untouched, model: this.answering, ...this.about() };
  }

  async send() {
    this.sendButton.disabled = true;
    try {
      toast(await saveDecisions(this.body(), this.model));
      this.saved();
    } catch (error) {
      toast(error.detail ?? error.message, "bad");
      this.sendButton.disabled = false;
    }
  }
}
