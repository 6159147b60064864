// The Tag page: a text, its labels, their explanations, and the user's decisions.
import { api, connection, labelName } from "../api.js";
import { debounce, h, put } from "../dom.js";
import { fileKind, readText } from "../files.js";
import { count, plural } from "../format.js";
import { combobox } from "../parts/combobox.js";
import { droppable, fileButton } from "../parts/dropzone.js";
import { editor } from "../parts/editor.js";
import { promiseSlider } from "../parts/promise.js";
import { empty, failed, loading, toast } from "../parts/states.js";
import { suggestions, TagResult } from "../parts/tag_result.js";
import { labelOption, missingCard } from "../parts/tag_rows.js";

/** Build the page. `context` has the model, the chosen language and `openTable(file)`. */
export function build(context) {
  const page = new TagPage(context);
  return { element: page.element, heading: "Tag a text", lead: "Paste a text to see which labels fit, and why. Choose how certain they must be." };
}

class TagPage {
  constructor(context) {
    this.context = context;
    this.model = context.model;
    this.tagSoon = debounce(() => this.tag(), 300);
    this.counter = h("span", { class: "quiet" });
    this.said = h("div", { class: "unseen", "aria-live": "polite" });
    this.missing = h("div", { class: "missing-card" });
    this.text = editor({
      label: "Text to tag",
      placeholder: "Paste a text, or drop a file: an abstract, a title, a product description …",
      change: () => this.changed(),
    });
    this.slider = promiseSlider(this.model, () => this.tagSoon());
    this.result = new TagResult({ explain: (id) => this.explain(id), unmark: () => this.text.mark(null), model: this.model });
    this.element = this.layout();
    this.listen();
    this.clear();
  }

  layout() {
    const whyNot = combobox({
      label: "Is a label missing?",
      placeholder: "Why not … ?",
      find: async (query, signal) => (await api.labels(query, { language: this.context.language(), signal })).labels,
      show: labelOption,
      take: (label) => this.askWhyNot(label),
    });
    const clear = h("button", { type: "button", class: "button", onclick: () => this.setText("") }, "Clear");
    const open = fileButton("Open a file", ".txt,.md,.csv,.tsv,text/*", (file) => this.takeFile(file));
    return h(
      "div",
      { class: "tag-page" },
      h(
        "div",
        { class: "tag-left" },
        h("section", { class: "card text-card", "aria-label": "Text" }, this.text.box, h("div", { class: "card-foot" }, this.counter, h("div", { class: "row" }, clear, open))),
        h("section", { class: "card missing", "aria-label": "Missing labels" }, whyNot, this.missing),
      ),
      h("section", { class: "card result-card", "aria-label": "Labels" }, this.slider, this.result.element, this.said),
    );
  }

  listen() {
    droppable(this.element, (file) => this.takeFile(file));
    connection.addEventListener("back", () => this.text.text && this.result.found.length === 0 && this.tag());
    this.context.onLanguage(() => {
      if (this.text.text) this.tag();
      this.result.rename(this.context.language()).catch(() => {}); // the request of the labels reports what is wrong
    });
    this.text.area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.tagSoon.now();
    });
  }

  changed() {
    const length = Array.from(this.text.text).length;
    this.counter.textContent = length > 0 ? plural(length, "character") : "";
    this.tagSoon();
  }

  setText(value) {
    this.text.text = value;
    this.changed();
    this.tagSoon.now();
    this.text.area.focus();
  }

  async tag() {
    this.control?.abort();
    const asked = this.text.text;
    if (!asked.trim()) return this.clear();
    const length = Array.from(asked).length;
    if (length > this.model.limits.text_chars) return this.fail(tooLong(length, this.model.limits.text_chars));
    const control = new AbortController();
    this.control = control;
    const place = this.result.element;
    if (this.result.found.length === 0) put(place, loading(5));
    place.setAttribute("aria-busy", "true");
    try {
      await this.ask(asked, control.signal);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    } finally {
      if (this.control === control) place.removeAttribute("aria-busy");
    }
    return undefined;
  }

  async ask(asked, signal) {
    const found = await suggestions(asked, this.slider.step().ask, this.context, signal);
    if (asked !== this.result.text) put(this.missing);
    this.result.show(found);
    this.said.textContent = `${plural(found.kept.size, "label")} suggested`;
  }

  clear() {
    this.control?.abort();
    this.result.forget();
    this.result.element.removeAttribute("aria-busy");
    put(this.missing);
    const label = this.model.largest[0];
    const example = label && h("button", { type: "button", class: "button", onclick: () => this.useExample(label.id) }, "Try an example");
    put(this.result.element, empty("No text yet", "Labels appear here as you type. The text is sent to this service only.", example));
  }

  fail(problem) {
    this.result.forget();
    put(this.missing);
    put(this.result.element, failed(problem, problem.kind === "limit" ? null : () => this.tag()));
  }

  /** The request that explains a label under the current setting of the slider. */
  question(label) {
    const { ask, threshold } = this.slider.step();
    const body = { text: this.result.text, label, model: this.result.answering, language: this.context.language() };
    const least = Math.floor(threshold * 1000) / 1000; // as shown to the user
    return ask.k ? { ...body, k: ask.k } : { ...body, k: Math.max(this.result.found.length, 1), threshold: least };
  }

  async explain(id) {
    const row = this.result.row(id);
    try {
      const found = await api.explain(this.question(id));
      if (this.result.open !== id || !row?.isConnected) return;
      row.showWhy(found);
      this.text.mark(found.segments);
    } catch (error) {
      if (row?.isConnected) row.showProblem(error, () => this.explain(id));
    }
  }

  async askWhyNot(label) {
    if (!this.result.text) return toast("Enter a text first.", "bad");
    if (this.result.row(label.id)) return this.result.jump(label.id);
    put(this.missing, loading(3));
    try {
      const found = await api.explain(this.question(labelName(label)));
      const close = () => {
        put(this.missing);
        this.text.mark(null);
      };
      const add = () => {
        close();
        this.result.add({ ...label, score: found.score });
        toast(`Added: ${label.name}`);
      };
      this.text.mark(found.segments);
      put(this.missing, missingCard(found, { add, close }));
      this.missing.querySelector("h2").focus();
    } catch (error) {
      put(this.missing, failed(error, () => this.askWhyNot(label)));
    }
    return undefined;
  }

  async takeFile(file) {
    const kind = fileKind(file);
    if (kind === "table") return this.context.openTable(file);
    if (kind === "other") return toast(`${file.name} is not a text file. Use .txt or .csv, or paste the text.`, "bad");
    return this.setText(await readText(file));
  }

  async useExample(id) {
    try {
      const card = await api.label(id);
      const example = [...card.examples, ...card.senses.flatMap((one) => one.examples)].find((one) => one.text);
      this.setText(example?.text ?? card.name);
    } catch (error) {
      this.fail(error);
    }
  }
}

function tooLong(length, most) {
  return {
    kind: "limit",
    title: "Too long",
    detail: `The text has ${count(length)} characters; this service accepts at most ${count(most)}. Shorten it, or split it into rows and use Batch.`,
  };
}
