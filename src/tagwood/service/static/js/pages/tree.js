// The Tree page: the label tree as an icicle plot to zoom into, and the labels of the chosen branch.
import { api, labelId } from "../api.js";
import { bdi, h, put } from "../dom.js";
import { count, plural } from "../format.js";
import { icon } from "../icons.js";
import { combobox } from "../parts/combobox.js";
import { Icicle } from "../parts/icicle.js";
import { failed, loading } from "../parts/states.js";
import { labelOption } from "../parts/tag_rows.js";
import { TreeStore } from "../parts/tree_store.js";

/** Build the page; #/tree/label/12 zooms to label 12. */
export function build(context) {
  const page = new TreePage(context);
  return { element: page.element, heading: "Label tree", lead: "Each step of a search chooses a branch. Width: training texts; colour: depth.", visit: (rest) => page.visit(rest) };
}

class TreePage {
  constructor(context) {
    this.context = context;
    this.stores = new Map();
    this.tree = 0;
    this.crumbs = h("nav", { class: "crumbs", "aria-label": "Path in the tree" });
    this.picture = h("div", { class: "icicle-place" });
    this.details = h("div", { class: "tree-details" });
    this.senses = h("div", { class: "row" });
    this.choice = h("div");
    this.icicle = new Icicle({ zoom: (node) => this.choose(node), openLabel: (id) => { location.hash = `#/labels/${id}`; }, up: () => this.up() });
    const search = combobox({
      label: "Find a label in the tree",
      hideLabel: true,
      placeholder: "Find a label",
      find: async (query, signal) => (await api.labels(query, { language: context.language(), signal })).labels,
      show: labelOption,
      take: (label) => { location.hash = `#/tree/label/${label.id}`; },
    });
    this.element = h("section", { class: "card tree-card", "aria-label": "Tree" }, h("div", { class: "tree-bar" }, search, this.choice, this.senses), this.crumbs, this.picture, this.details);
    context.onLanguage(() => {
      this.stores.clear();
      this.go(0);
    });
  }

  visit([kind, id]) {
    if (kind === "label" && id !== undefined) return this.find(labelId(id));
    put(this.senses);
    return this.store().nodes.size === 0 || this.found !== null ? this.go(0) : undefined;
  }

  store() {
    if (!this.stores.has(this.tree)) this.stores.set(this.tree, new TreeStore(this.tree, () => this.context.language()));
    return this.stores.get(this.tree);
  }

  /** Show a node at full width; `found` is the id of a label to highlight. */
  async go(node, found = null) {
    const store = this.store();
    this.found = found;
    this.asked = node;
    if (!this.icicle.element.isConnected || store.nodes.size === 0) put(this.picture, loading(5));
    try {
      await store.load(node);
      if (this.asked !== node || store !== this.store()) return;
      if (!this.icicle.element.isConnected) put(this.picture, this.icicle.element);
      const focused = this.icicle.element.contains(document.activeElement);
      this.icicle.draw(store, node, found);
      if (focused) this.icicle.focus(`n${node}`);
      this.describe(store, node);
      this.treeChoice(store);
    } catch (error) {
      put(this.picture, failed(error, () => this.go(node, found)));
    }
  }

  /** A click on the topmost cell zooms out, on any other zooms in. */
  choose(node) {
    if (this.icicle.root?.node === node) this.up();
    else this.go(node);
  }

  up() {
    const { root } = this.icicle;
    if (root && root.parent !== null) this.go(root.parent);
  }

  async find(id) {
    put(this.senses);
    try {
      const label = await api.label(id, this.context.language());
      if (label.senses.length === 0) return put(this.picture, failed({ title: "Not in the tree", detail: `${label.name} has no training texts yet.` }, () => this.go(0)));
      this.showSenses(label, 0);
      return this.toSense(label, 0);
    } catch (error) {
      return put(this.picture, failed(error, () => this.find(id)));
    }
  }

  toSense(label, place) {
    const sense = label.senses[place];
    this.tree = sense.tree;
    return this.go(sense.leaf, label.id);
  }

  showSenses(label, chosen) {
    if (label.senses.length < 2) return;
    const choose = (place) => {
      this.showSenses(label, place);
      this.toSense(label, place);
    };
    put(this.senses, label.senses.map((_, place) => h("button", { type: "button", class: "button", "aria-pressed": String(place === chosen), onclick: () => choose(place) }, `Place ${place + 1}`)));
  }

  describe(store, node) {
    const path = store.path(node);
    const one = path.at(-1);
    const link = (step, n) => [
      n > 0 && h("span", { "aria-hidden": "true" }, "›"),
      step === one ? h("span", { "aria-current": "true" }, stepName(step)) : h("button", { type: "button", class: "link", onclick: () => this.go(step.node) }, stepName(step)),
    ];
    put(this.crumbs, path.map(link));
    const labels = store.labels.get(node) ?? one.largest;
    put(
      this.details,
      h("h2", null, one.parent === null ? "The whole tree" : one.leaf ? "A leaf" : "A branch"),
      h("p", { class: "quiet" }, `${plural(one.labels, "label")} · ${count(one.rows)} training texts, counted per label · depth ${one.depth}`),
      h("h3", null, one.leaf ? "Its labels" : "Most frequent labels"),
      h("ul", { class: "chips" }, labels.slice(0, 60).map((label) => h("li", null, h("a", { class: label.id === this.found ? "chip chip-found" : "chip", href: `#/labels/${label.id}` }, bdi(label.name))))),
      one.parent !== null && h("div", { class: "row" }, h("button", { type: "button", class: "button", onclick: () => this.up() }, icon("up", 16), "One level up")),
    );
  }

  treeChoice(store) {
    if (store.trees < 2) return;
    const change = (event) => {
      this.tree = Number(event.target.value);
      put(this.senses);
      this.go(0);
    };
    put(this.choice, h("select", { class: "select", "aria-label": "Which tree", onchange: change }, Array.from({ length: store.trees }, (_, n) => h("option", { value: n, selected: n === this.tree }, `Tree ${n + 1}`))));
  }
}

function stepName(step) {
  if (step.parent === null) return "All labels";
  const first = step.largest[0]?.name ?? `node ${step.node}`;
  return [bdi(first), step.labels > 1 && ` +${count(step.labels - 1)}`];
}
