// The Batch page: a table in, the same table with labels out. Rows are sent in small portions.
import { api } from "../api.js";
import { line, parse, rowText, separator, tableRecords, textColumn, titleColumn } from "../csv.js";
import { bdi, h, put, uniqueId } from "../dom.js";
import { download, readText } from "../files.js";
import { count, cut, duration, plural } from "../format.js";
import { icon } from "../icons.js";
import { droppable, fileButton } from "../parts/dropzone.js";
import { promiseSlider } from "../parts/promise.js";
import { failed, toast } from "../parts/states.js";

const PORTION = 100;
const PREVIEW = 5;

/** Build the page; a file that was dropped on Tag is waiting in `context.pending`. */
export function build(context) {
  const page = new BatchPage(context);
  const visit = () => {
    const file = context.pending;
    context.pending = null;
    if (file) page.take(file);
  };
  return { element: page.element, heading: "Tag a table", lead: "Open a CSV file, choose the column with the texts, and download the table with labels.", visit };
}

class BatchPage {
  constructor(context) {
    this.context = context;
    this.model = context.model;
    this.setup = h("section", { class: "card batch-setup", "aria-label": "Table" });
    this.work = h("div", { class: "batch-work" });
    this.element = h("div", { class: "stack" }, this.setup, this.work);
    droppable(this.element, (file) => this.take(file));
    this.start();
  }

  start() {
    this.table = null;
    put(
      this.setup,
      h(
        "div",
        { class: "drop-here" },
        icon("upload", 28),
        h("p", { class: "state-title" }, "Drop a CSV file here"),
        h("p", { class: "quiet" }, "Comma, semicolon or tab; the first line has the column names."),
        fileButton("Choose a file", ".csv,.tsv,.tab,text/csv", (file) => this.take(file), "button primary"),
      ),
    );
    put(this.work);
  }

  async take(file) {
    this.stop();
    try {
      const text = await readText(file);
      const rows = parse(text, separator(text));
      if (rows.length < 2) return this.refuse(`${file.name} has no rows below its first line.`);
      const [header, ...body] = rows;
      this.table = { name: file.name, text, header, rows: body, column: textColumn(header, body), title: titleColumn(header) };
      return this.choose();
    } catch (error) {
      return this.refuse(error.message);
    }
  }

  refuse(words) {
    this.start();
    put(this.work, failed({ title: "This file cannot be used", detail: words }));
  }

  choose() {
    const { name, header, rows, column, title } = this.table;
    const id = uniqueId("column");
    const titleId = uniqueId("title");
    const titles = h("select", { class: "select", id: titleId, onchange: (event) => this.setTitle(Number(event.target.value)) }, h("option", { value: -1, selected: title < 0 }, "none"), header.map((field, n) => h("option", { value: n, selected: n === title }, field || `column ${n + 1}`)));
    this.slider = promiseSlider(this.model, () => {});
    this.preview = h("div");
    const select = h("select", { class: "select", id, onchange: (event) => this.setColumn(Number(event.target.value)) }, header.map((field, n) => h("option", { value: n, selected: n === column }, field || `column ${n + 1}`)));
    put(
      this.setup,
      h("div", { class: "batch-head" }, h("div", null, h("h2", null, bdi(name)), h("p", { class: "quiet" }, `${plural(rows.length, "row")}, ${plural(header.length, "column")}`)), fileButton("Another file", ".csv,.tsv,.tab,text/csv", (file) => this.take(file))),
      h("div", { class: "batch-options" }, h("div", { class: "stack-small" }, h("label", { class: "field-label", for: id }, "Column with the texts"), select, h("label", { class: "field-label", for: titleId }, "Column with the titles"), titles, this.preview), this.slider),
      h("div", { class: "row" }, h("button", { type: "button", class: "button primary", onclick: () => this.run() }, `Tag ${plural(rows.length, "row")}`), this.model.feedback && h("button", { type: "button", class: "button", onclick: () => this.correct() }, icon("correct", 16), "Correct them one by one")),
    );
    this.setColumn(column);
    put(this.work);
  }

  correct() {
    const { text, column, title } = this.table;
    this.context.records = tableRecords(text, { column, title });
    location.hash = "#/correct";
  }

  setTitle(title) {
    this.table.title = title;
    this.setColumn(this.table.column);
  }

  setColumn(column) {
    this.table.column = column;
    const sample = this.table.rows.slice(0, 3).map((row) => rowText(row, column, this.table.title));
    put(this.preview, h("ul", { class: "texts" }, sample.map((text) => h("li", null, h("p", { dir: "auto" }, cut(text, 120) || "(empty)")))));
  }

  /** Tag all rows; after an error the user can continue with the remaining ones. */
  async run() {
    this.stop();
    this.results = [];
    this.ask = this.slider.step().ask;
    this.progress();
    await this.goOn();
  }

  async goOn() {
    const control = new AbortController();
    this.control = control;
    const begun = performance.now();
    const before = this.results.length;
    try {
      while (this.results.length < this.table.rows.length) {
        const portion = this.portion();
        this.results.push(...(await this.tagPortion(portion, control.signal)));
        const speed = (this.results.length - before) / ((performance.now() - begun) / 1000);
        this.showProgress((this.table.rows.length - this.results.length) / speed);
      }
      this.finish();
    } catch (error) {
      if (error.name !== "AbortError") this.interrupt(error);
    }
  }

  /** The next rows: at most a hundred, within the limits of a request. */
  portion() {
    const { rows, column, title } = this.table;
    const found = [];
    let size = 0;
    for (let row = this.results.length; row < rows.length && found.length < Math.min(PORTION, this.model.limits.texts); row += 1) {
      const text = rowText(rows[row], column, title);
      size += 4 * text.length + 8;
      if (found.length > 0 && size > this.model.limits.body_bytes / 2) break;
      found.push(text);
    }
    return found;
  }

  async tagPortion(texts, signal) {
    const most = this.model.limits.text_chars;
    const fits = texts.map((text) => text.trim() !== "" && Array.from(text).length <= most);
    const sent = texts.filter((_, n) => fits[n]);
    const answers = sent.length === 0 ? [] : (await api.suggest({ texts: sent, language: this.context.language(), ...this.ask }, signal)).results;
    let next = 0;
    return texts.map((text, n) => {
      if (fits[n]) return answers[next++];
      return { labels: [], review: true, note: text.trim() === "" ? "no text" : `longer than ${most} characters` };
    });
  }

  progress() {
    this.meter = h("progress", { class: "meter", max: this.table.rows.length, value: 0, "aria-label": "Rows tagged" });
    this.status = h("p", { class: "quiet" });
    const cancel = h("button", { type: "button", class: "button", onclick: () => { this.stop(); toast("Stopped"); this.finish(); } }, "Stop");
    put(this.work, h("section", { class: "card stack-small", "aria-label": "Progress" }, h("h2", null, "Tagging"), this.meter, this.status, h("div", { class: "row" }, cancel)));
    this.showProgress(NaN);
    for (const control of this.setup.querySelectorAll("input, select, button")) control.disabled = true;
  }

  showProgress(seconds) {
    this.meter.value = this.results.length;
    const left = Number.isFinite(seconds) && seconds > 1 ? `, about ${duration(seconds)} left` : "";
    this.status.textContent = `${count(this.results.length)} of ${count(this.table.rows.length)} rows${left}`;
  }

  stop() {
    this.control?.abort();
    for (const control of this.setup.querySelectorAll(":disabled")) control.disabled = false;
  }

  interrupt(problem) {
    const goOn = () => {
      this.progress();
      this.goOn();
    };
    put(this.work, failed({ ...problem, title: problem.title, detail: `${problem.detail ?? problem.message} ${plural(this.results.length, "row is", "rows are")} done and kept.` }, goOn));
  }

  finish() {
    this.stop();
    const { rows } = this.table;
    const tagged = this.results.filter((one) => one.labels.length > 0).length;
    const review = this.results.filter((one) => one.review).length;
    const notes = this.results.filter((one) => one.note).length;
    const words = [`${plural(tagged, "row has", "rows have")} labels`, review > 0 && `${count(review)} for manual review`, notes > 0 && `${count(notes)} skipped: no text, or too long`].filter(Boolean);
    put(
      this.work,
      h(
        "section",
        { class: "card stack-small", "aria-label": "Result" },
        h("h2", { tabindex: "-1" }, this.results.length === rows.length ? "Done" : `Stopped after ${plural(this.results.length, "row")}`),
        h("p", null, `${words.join(", ")}.`),
        h("div", { class: "row" }, h("button", { type: "button", class: "button primary", disabled: this.results.length === 0, onclick: () => this.save() }, icon("download", 16), "Download the tagged CSV")),
        this.previewTable(),
      ),
    );
    this.work.querySelector("h2").focus();
  }

  previewTable() {
    const { rows, column } = this.table;
    if (this.results.length === 0) return null;
    const row = (one, n) => h("tr", null, h("td", { dir: "auto" }, cut(rows[n][column] ?? "", 90)), h("td", null, h("span", { class: "chips" }, one.labels.slice(0, 6).map((label) => h("span", { class: "chip" }, bdi(label.name))), one.labels.length === 0 && h("span", { class: "quiet" }, one.note ?? "none"))));
    return h(
      "div",
      { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "First rows" },
      h("table", { class: "table" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Text"), h("th", { scope: "col" }, "Labels"))), h("tbody", null, this.results.slice(0, PREVIEW).map(row))),
    );
  }

  /** Download the table with more columns, as `tagwood predict` writes them; `tagwood train` can read the labels. */
  save() {
    const { name, header, rows } = this.table;
    const results = ["labels", "uris", "scores", "review", "note"];
    const kept = header.map((one) => (results.includes(one) ? `input_${one}` : one));
    const head = line([...kept, ...results]);
    const body = this.results.map((one, n) => {
      const fields = header.map((_, column) => rows[n][column] ?? "");
      const names = labelCell(one.labels.map((label) => label.name));
      const scores = one.labels.map((label) => label.score.toFixed(4)).join(";");
      const uris = labelCell(one.labels.map((label) => label.uri ?? ""));
      return line([...fields, names, uris, scores, one.review ? "yes" : "", one.note ?? ""]);
    });
    download(name.replace(/(\.[a-z]+)?$/i, "-tagged.csv"), ["\uFEFF", head, ...body], "text/csv");
  }
}

/** Names in one cell: separated by semicolons, or as a JSON list if a name contains one. */
function labelCell(names) {
  return names.some((name) => /[;|]/.test(name)) ? JSON.stringify(names) : names.join(";");
}
