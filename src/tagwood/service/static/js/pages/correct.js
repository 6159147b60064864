// The Correct page: texts one after the other, text and labels side by side, by keyboard alone if one likes.
// In: texts that wait at the service, least certain first, or the rows of a table. Out: decisions, saved one by one.
import { api, connection } from "../api.js";
import { h, put, uniqueId } from "../dom.js";
import { readText } from "../files.js";
import { count, plural } from "../format.js";
import { icon } from "../icons.js";
import { tableRecords } from "../csv.js";
import { combobox } from "../parts/combobox.js";
import { droppable, fileButton } from "../parts/dropzone.js";
import { promiseSlider } from "../parts/promise.js";
import { empty, failed, loading, toast } from "../parts/states.js";
import { suggestions, TagResult } from "../parts/tag_result.js";
import { labelOption } from "../parts/tag_rows.js";

const PORTION = 100; // texts that are fetched from the queue at a time
const PERSON = "tagwood-person";
const KEYS = [
  ["↑ ↓", "label before or after"],
  ["A", "accept"],
  ["R", "reject"],
  ["Y", "accept all suggested labels that are undecided"],
  ["+", "add a label"],
  ["Esc", "back to the labels"],
  ["S", "save, then the next text"],
  ["N", "next text without saving"],
  ["P", "text before"],
  ["Enter", "why"],
];

/** Build the page; rows that were opened in Batch are waiting in `context.records`. */
export function build(context) {
  const page = new CorrectPage(context);
  const visit = () => {
    const rows = context.records;
    context.records = null;
    if (rows) page.begin(rows);
    else if (!page.records) page.start();
  };
  return { element: page.element, heading: "Correct texts", lead: "Decide about the labels of one text after the other. Every decision is saved with your name, and can be learned.", visit };
}

class CorrectPage {
  constructor(context) {
    this.context = context;
    this.model = context.model;
    this.slider = promiseSlider(this.model, () => this.current && this.ask(this.current));
    this.place = h("div", { class: "correct-place" });
    const id = uniqueId("person");
    this.person = h("input", { class: "field", id, autocomplete: "name", maxlength: 200, value: localStorage.getItem(PERSON) ?? "" });
    this.person.addEventListener("change", () => localStorage.setItem(PERSON, this.person.value.trim()));
    const who = h("div", { class: "correct-person" }, h("label", { class: "field-label", for: id }, "Your name"), this.person);
    const settings = h("details", { class: "card correct-settings" }, h("summary", null, "How many labels, and who decides"), h("div", { class: "batch-options" }, this.slider, who));
    this.element = h("div", { class: "stack" }, this.place, settings, keyTable());
    droppable(this.element, (file) => this.openFile(file));
    document.addEventListener("keydown", (event) => this.key(event));
    connection.addEventListener("back", () => this.current && this.ask(this.current));
    context.onLanguage(() => this.current && this.ask(this.current));
  }

  start() {
    if (this.model.queue) this.fetchQueue();
    else this.welcome();
  }

  welcome(words = "Open a table with texts (CSV), or start the service with texts to review: tagwood serve MODEL --queue FILE.") {
    this.records = [];
    const actions = [fileButton("Open a table", ".csv,.tsv,.tab,text/csv", (file) => this.openFile(file), "button primary")];
    if (this.model.queue) actions.push(h("button", { type: "button", class: "button", onclick: () => this.fetchQueue() }, "Look for more texts"));
    put(this.place, h("section", { class: "card" }, empty("No text to correct", words, ...actions)));
  }

  async fetchQueue() {
    put(this.place, h("section", { class: "card" }, loading(6)));
    try {
      const { texts } = await api.queue(PORTION);
      if (texts.length === 0) this.welcome("All texts of the queue have been decided.");
      else this.begin(texts.map(({ id, text }) => ({ id, text })));
    } catch (error) {
      put(this.place, failed(error, () => this.fetchQueue()));
    }
  }

  async openFile(file) {
    try {
      this.begin(tableRecords(await readText(file)));
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  /** Begin with records {id, text}. */
  begin(records) {
    this.records = records.map((record) => ({ ...record, saved: false, result: null }));
    this.go(0);
  }

  get current() {
    return this.records?.[this.at];
  }

  go(at) {
    if (this.records.length === 0) return;
    if (at >= this.records.length) {
      this.finish();
      return;
    }
    this.at = Math.max(0, at);
    this.draw(this.current);
    this.ask(this.current);
  }

  draw(record) {
    const { records, at } = this;
    record.result ??= new TagResult({
      explain: (id) => this.explain(record, id),
      unmark: () => {},
      model: this.model,
      saved: () => this.saved(record),
      about: () => ({ id: record.id, by: this.person.value.trim() || null }),
    });
    this.add = combobox({
      label: "Add a label",
      placeholder: "Name, other name or number",
      find: async (query, signal) => (await api.labels(query, { language: this.context.language(), signal })).labels,
      show: labelOption,
      take: (label) => {
        if (record.result.row(label.id)) record.result.decide(label.id, "accepted");
        else record.result.add(label);
        this.focusLabel();
      },
    });
    this.add.input.addEventListener("keydown", (event) => event.key === "Escape" && this.focusLabel());
    const done = records.filter((one) => one.saved).length;
    const button = (name, key, task, style = "button") => h("button", { type: "button", class: style, "aria-keyshortcuts": key, onclick: task }, name, h("kbd", { "aria-hidden": "true" }, key));
    put(
      this.place,
      h(
        "div",
        { class: "correct-bar" },
        h("p", { class: "correct-count" }, h("strong", null, `Text ${count(at + 1)} of ${count(records.length)}`), h("span", { class: "quiet" }, ` · ${count(done)} saved${record.saved ? " · this one, too" : ""}`)),
        h("progress", { class: "meter", max: records.length, value: done, "aria-label": "Texts saved" }),
        h("div", { class: "row" }, button("Before", "P", () => this.go(at - 1)), button("Skip", "N", () => this.go(at + 1)), button("Save and next", "S", () => this.save(), "button primary")),
      ),
      h(
        "div",
        { class: "correct-sides" },
        h("section", { class: "card correct-text", tabindex: "0", "aria-label": `Text ${at + 1}` }, record.id && h("p", { class: "quiet" }, record.id), h("p", { class: "correct-words", dir: "auto" }, record.text)),
        h("section", { class: "card correct-labels", "aria-label": "Labels" }, record.result.element, this.add),
      ),
    );
  }

  async ask(record) {
    const { element } = record.result;
    element.setAttribute("aria-busy", "true");
    if (record.result.found.length === 0) put(element, loading(5));
    try {
      if (Array.from(record.text).length > this.model.limits.text_chars) throw new Error(`The text is longer than ${count(this.model.limits.text_chars)} characters.`);
      record.result.show(await suggestions(record.text, this.slider.step().ask, this.context));
      if (record === this.current && !this.element.querySelector(":focus")) this.focusLabel();
    } catch (error) {
      put(element, failed(error, () => this.ask(record)));
    } finally {
      element.removeAttribute("aria-busy");
    }
  }

  async explain(record, id) {
    const row = record.result.row(id);
    try {
      const found = await api.explain({ text: record.text, label: id, model: record.result.answering, k: Math.max(1, record.result.found.length), language: this.context.language() });
      if (record.result.open === id) row?.showWhy(found);
    } catch (error) {
      row?.showProblem(error, () => this.explain(record, id));
    }
  }

  save() {
    const { result } = this.current;
    if (result.decisions.size + result.added.size === 0) toast("Decide about a label first, or skip the text with N.", "bad");
    else result.send();
  }

  saved(record) {
    record.saved = true;
    if (record === this.current) this.go(this.at + 1);
  }

  finish() {
    const done = this.records.filter((one) => one.saved).length;
    const heading = h("h2", { tabindex: "-1" }, "No more texts here");
    put(
      this.place,
      h(
        "section",
        { class: "card stack-small" },
        heading,
        h("p", null, `${plural(done, "text")} saved, ${count(this.records.length - done)} skipped.`),
        h("div", { class: "row" }, h("button", { type: "button", class: "button", onclick: () => this.go(this.records.length - 1) }, "Back to the last text"), this.model.queue && h("button", { type: "button", class: "button primary", onclick: () => this.fetchQueue() }, icon("correct", 16), "More texts"), h("a", { class: "button", href: "#/progress" }, "See the progress")),
      ),
    );
    this.at = this.records.length;
    heading.focus();
  }

  focusLabel() {
    (this.current?.result.element.querySelector(".label-main") ?? this.place.querySelector(".correct-text"))?.focus();
  }

  /** Keys of the page; those of a label (arrows, A, R) are handled by its row if it has the focus. */
  key(event) {
    const { target } = event;
    if (event.defaultPrevented || this.element.closest("[hidden]") || !this.current || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches?.("input, select, textarea, dialog *")) return;
    const { result } = this.current;
    const task = {
      s: () => this.save(),
      n: () => this.go(this.at + 1),
      p: () => this.go(this.at - 1),
      y: () => this.acceptAll(result),
      "+": () => this.add.input.focus(),
      "/": () => this.add.input.focus(),
      escape: () => this.focusLabel(),
      arrowdown: () => this.focusLabel(),
    }[event.key.toLowerCase()];
    if (!task) return;
    event.preventDefault();
    task();
  }

  acceptAll(result) {
    for (const id of result.kept) if (!result.decisions.has(id)) result.decide(id, "accepted");
  }
}

function keyTable() {
  return h(
    "section",
    { class: "card correct-keys", "aria-label": "Keys" },
    h("h2", null, "Keys"),
    h("dl", null, KEYS.map(([key, words]) => h("div", null, h("dt", null, key.split(" ").map((one) => h("kbd", null, one))), h("dd", null, words)))),
  );
}
