// The Labels page: search on the left, everything about one label on the right.
import { api, labelId } from "../api.js";
import { bdi, debounce, goTo, h, put } from "../dom.js";
import { cut, percent, plural } from "../format.js";
import { icon } from "../icons.js";
import { rowsWords } from "../parts/explanation.js";
import { empty, fillWith } from "../parts/states.js";

const SHOWN = 40;

/** Build the page; #/labels/12 shows label 12. */
export function build(context) {
  const page = new LabelsPage(context);
  return { element: page.element, heading: "Labels", lead: "What each label means to the model: its texts, its senses, and similar labels.", visit: (rest, inside) => page.visit(rest, inside) };
}

class LabelsPage {
  constructor(context) {
    this.context = context;
    this.chosen = null;
    this.list = h("div", { class: "label-index" });
    this.card = h("section", { class: "card label-card", "aria-label": "Label" });
    this.field = h("input", { class: "field", type: "search", id: "label-search", dir: "auto", autocomplete: "off", placeholder: "Search by name" });
    this.element = h(
      "div",
      { class: "split" },
      h(
        "section",
        { class: "card index-card", "aria-label": "Search" },
        h("label", { class: "unseen", for: "label-search" }, "Search labels"),
        h("div", { class: "combobox-field" }, icon("search", 16), this.field),
        this.list,
      ),
      this.card,
    );
    this.field.addEventListener("input", debounce(() => this.search(), 150));
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.list.querySelector("a")?.click();
    });
    context.onLanguage(() => {
      this.search();
      if (this.chosen !== null) this.open(this.chosen);
    });
    this.search();
    put(this.card, empty("No label chosen", `This model has ${plural(context.model.labels, "label")}. Choose one on the left, or search.`));
  }

  async visit([id], inside) {
    if (id === undefined || labelId(id) === this.chosen) return;
    await this.open(labelId(id));
    if (inside) goTo(this.card.querySelector("h2"));
  }

  search() {
    const query = this.field.value.trim();
    return fillWith(this.list, async (signal) => this.found(query, await api.labels(query, { limit: SHOWN, language: this.context.language(), signal })), { lines: 8, keep: this.list.children.length > 0 });
  }

  found(query, { labels }) {
    if (labels.length === 0) return empty("No label found", `No name matches “${query}”.`);
    return [
      h("p", { class: "index-head" }, query ? `${plural(labels.length, "match", "matches")}${labels.length === SHOWN ? " or more" : ""}` : "Most frequent"),
      h("ul", { class: "index-list" }, labels.map((one) => this.link(one))),
    ];
  }

  link(label) {
    const current = label.id === this.chosen ? "true" : null;
    return h(
      "li",
      null,
      h("a", { href: `#/labels/${label.id}`, "data-label": label.id, "aria-current": current }, h("span", { class: "index-name" }, bdi(label.name)), h("span", { class: "index-rows" }, label.masked ? "masked" : label.rows.toLocaleString("en"))),
    );
  }

  open(id) {
    this.chosen = id;
    for (const link of this.list.querySelectorAll("a")) {
      if (labelId(link.dataset.label) === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    return fillWith(this.card, async (signal) => labelCard(await api.label(id, this.context.language(), signal)), { lines: 6 });
  }
}

/** Everything about a label. */
function labelCard(label) {
  const others = Object.entries(label.names).filter(([, name]) => name !== label.name);
  return h(
    "div",
    { class: "stack" },
    h(
      "header",
      { class: "stack-small" },
      h("h2", { class: "label-title", tabindex: "-1" }, bdi(label.name)),
      label.uri && h("p", { class: "quiet" }, address(label.uri)),
      label.notation.length > 0 && h("p", { class: "quiet" }, "notation ", h("code", null, label.notation.join(", "))),
      others.length > 0 && h("p", { class: "quiet" }, others.map(([code, name], n) => [n > 0 && " · ", bdi(name), ` (${code})`])),
      h(
        "p",
        { class: "row" },
        h("span", { class: "chip" }, rowsWords(label.rows)),
        label.rows > 0 && h("span", { class: "chip" }, `${percent(label.share, label.share < 0.01 ? 2 : 1)} of all`),
        label.masked && h("span", { class: "chip chip-warn" }, "masked: not suggested"),
        label.senses.length > 0 && h("a", { class: "button", href: `#/tree/label/${label.id}` }, icon("tree", 16), "Show in the tree"),
      ),
    ),
    label.replaced_by.length > 0 && part("Replaced by", links(label.replaced_by)),
    label.alternatives.length > 0 && part("Also called", h("ul", { class: "chips" }, label.alternatives.map((name) => h("li", { class: "chip" }, bdi(name))))),
    label.broader.length > 0 && part("Broader labels", links(label.broader)),
    label.description && part("Description", h("p", { dir: "auto" }, label.description)),
    label.senses.length > 0 && part(label.senses.length > 1 ? `${label.senses.length} senses` : "Sense", label.senses.map(sense)),
    label.neighbours.length > 0 && part("Labels with similar texts", neighbours(label.neighbours)),
    part("Example texts", examples(label)),
  );
}

function links(labels) {
  return h("ul", { class: "chips" }, labels.map((one) => h("li", null, h("a", { class: "chip", href: `#/labels/${one.id}` }, bdi(one.name)))));
}

function part(title, ...content) {
  return h("section", { class: "stack-small" }, h("h3", null, title), content);
}

/** A URI as a link if it is a web address, else as text. */
function address(uri) {
  return /^https?:\/\//i.test(uri) ? h("a", { href: uri, rel: "noreferrer noopener", target: "_blank" }, uri) : h("code", null, uri);
}

function sense(one, n, all) {
  return h(
    "div",
    { class: "sense" },
    all.length > 1 && h("p", { class: "sense-name" }, `Sense ${n + 1}`),
    one.words.length > 0 && h("p", { class: "chips" }, one.words.map((word) => h("span", { class: "chip chip-word" }, bdi(word)))),
    one.beside.length > 0 && h("p", { class: "quiet" }, "in the same leaf: ", one.beside.map((label, place) => [place > 0 && ", ", h("a", { href: `#/labels/${label.id}` }, bdi(label.name))])),
  );
}

function neighbours(list) {
  return h(
    "ul",
    { class: "neighbours" },
    list.map((one) =>
      h(
        "li",
        null,
        h("a", { href: `#/labels/${one.id}` }, bdi(one.name)),
        h("span", { class: "bar", "aria-hidden": "true", vars: { "--w": `${Math.max(0, one.similarity) * 100}%` } }),
        h("span", { class: "number" }, h("span", { class: "unseen" }, "similarity "), one.similarity.toFixed(2)),
      ),
    ),
  );
}

function examples(label) {
  const texts = [...label.examples, ...label.senses.flatMap((one) => one.examples)];
  if (texts.length === 0) return h("p", { class: "quiet" }, "The model stores no training text of this label.");
  const seen = [...new Map(texts.map((one) => [one.text, one])).values()].slice(0, 6);
  return h(
    "ul",
    { class: "texts" },
    seen.map((one) => h("li", null, h("p", { dir: "auto" }, cut(one.text, 260)), h("p", { class: "quiet" }, one.labels.map((name, n) => [n > 0 && " · ", bdi(name)])))),
  );
}
