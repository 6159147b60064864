// A group under review: the current labels of its samples, and the view of a sample.
import { labelId } from "../api.js";
import { bdi, h } from "../dom.js";
import { percent } from "../format.js";
import { icon } from "../icons.js";

const DOUBT = 0.6; // below this confidence a label is marked

export class GroupDraft {
  constructor({ group, name, labels, samples }) {
    Object.assign(this, { group, name, labels });
    this.original = samples;
    this.reset();
  }

  reset() {
    this.samples = this.original.map((sample) => ({ ...sample, labels: sample.labels.map((label) => ({ ...label })) }));
    this.saved = false;
  }

  /** Number of samples whose labels were changed. */
  get changed() {
    const ids = (sample) => sample.labels.map((label) => label.id).sort((a, b) => a - b).join();
    return this.samples.filter((sample, n) => ids(sample) !== ids(this.original[n])).length;
  }

  /** Remove a label from a sample. */
  remove(from, id) {
    this.samples[from].labels = this.samples[from].labels.filter((label) => label.id !== id);
    this.saved = false;
  }

  /** Add a label of the group to a sample. */
  give(to, id) {
    const { labels } = this.samples[to];
    if (labels.some((label) => label.id === id)) return;
    const before = this.original[to].labels.find((label) => label.id === id);
    labels.push(before ? { ...before } : { ...this.labels.find((label) => label.id === id), confidence: null });
    this.saved = false;
  }

  /** The request that stores the group. */
  body() {
    return { samples: this.samples.map(({ row, labels }) => ({ row, labels: labels.map((label) => label.id) })) };
  }

  /** One JSON line per sample, in the form that the service stores and `tagwood train --corrections` reads. */
  lines() {
    const named = ({ name, uri }) => (uri ? { label: name, uri } : { label: name });
    return this.samples.map(({ row, text, labels }) => `${JSON.stringify({ row, from_group: this.name, text, labels: labels.map(named) })}\n`);
  }
}

/** A sample with its labels; `draw(place)` redraws the group and moves the focus to a place. */
export function sampleRow(draft, sample, n, draw) {
  const missing = draft.labels.filter((label) => !sample.labels.some((own) => own.id === label.id));
  return h(
    "li",
    { class: "sample" },
    h("p", { class: "sample-text", dir: "auto" }, h("span", { class: "unseen" }, `Sample ${n + 1}: `), sample.text || "(no text kept)"),
    h("div", { class: "sample-labels" }, sample.labels.map((label) => imputed(draft, label, n, draw)), missing.length > 0 && giveChoice(draft, missing, n, draw)),
  );
}

function imputed(draft, label, n, draw) {
  const moved = label.confidence === null;
  const doubt = !moved && label.confidence < DOUBT;
  const place = `${n}-${label.id}`;
  const remove = () => {
    draft.remove(n, label.id);
    draw(`give-${n}`);
  };
  return h(
    "span",
    { class: `imputed${moved ? " imputed-moved" : doubt ? " imputed-doubt" : ""}` },
    h("span", { class: "imputed-name" }, bdi(label.name)),
    h("span", { class: "imputed-share" }, moved ? "by you" : percent(label.confidence)),
    draft.samples.length > 1 && moveChoice(draft, label, n, draw),
    h("button", { type: "button", class: "decide", "data-place": place, "aria-label": `Remove ${label.name} from sample ${n + 1}`, title: "Remove", onclick: remove }, icon("cross", 14)),
  );
}

/** A menu of the other samples; choosing one moves the label there. */
function moveChoice(draft, label, n, draw) {
  const move = (event) => {
    const to = Number(event.target.value);
    draft.give(to, label.id);
    draft.remove(n, label.id);
    draw(`${to}-${label.id}`);
  };
  return h(
    "span",
    { class: "menu-button" },
    icon("move", 14),
    h(
      "select",
      { "aria-label": `Move ${label.name} from sample ${n + 1} to`, title: "Move to another sample", onchange: move },
      h("option", { value: "", selected: true }, "Move to …"),
      draft.samples.map((other, to) => to !== n && h("option", { value: to }, `${to + 1}: ${other.text.slice(0, 50)}`)),
    ),
  );
}

function giveChoice(draft, missing, n, draw) {
  const give = (event) => {
    const id = labelId(event.target.value);
    draft.give(n, id);
    draw(`${n}-${id}`);
  };
  return h(
    "select",
    { class: "select small", "data-place": `give-${n}`, "aria-label": `Add a label to sample ${n + 1}`, onchange: give },
    h("option", { value: "" }, "Add …"),
    missing.map((label) => h("option", { value: label.id }, label.name)),
  );
}
