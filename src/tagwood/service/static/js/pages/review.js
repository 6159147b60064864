// The Review page, for models trained from group labels: the label of each sample, its confidence, and corrections.
// In: groups with imputed labels. Out: corrections, stored by the service and exported as JSONL that `train` reads.
import { api } from "../api.js";
import { bdi, debounce, goTo, h, put } from "../dom.js";
import { download } from "../files.js";
import { count, percent, plural } from "../format.js";
import { icon } from "../icons.js";
import { GroupDraft, sampleRow } from "../parts/group_draft.js";
import { empty, fillWith, toast } from "../parts/states.js";

const SHOWN = 50;
const NOT_STORED = 409; // the service has no file for corrections

/** Build the page; #/review/3 shows group 3. */
export function build(context) {
  const page = new ReviewPage(context);
  return { element: page.element, heading: "Review groups", lead: "Labels were known per group; training inferred which sample each belongs to. Accept them, or move a label to another sample.", visit: (rest, inside) => page.visit(rest, inside) };
}

class ReviewPage {
  constructor(context) {
    this.context = context;
    this.drafts = new Map();
    this.offset = 0;
    this.list = h("div", { class: "label-index" });
    this.card = h("section", { class: "card", "aria-label": "Group" });
    this.field = h("input", { class: "field", type: "search", id: "group-search", dir: "auto", autocomplete: "off", placeholder: "Search groups by name" });
    this.export = h("button", { type: "button", class: "button", onclick: () => this.save() }, icon("download", 16), "Export corrections");
    this.element = h(
      "div",
      { class: "split" },
      h("section", { class: "card index-card", "aria-label": "Groups" }, h("label", { class: "unseen", for: "group-search" }, "Search groups"), h("div", { class: "combobox-field" }, icon("search", 16), this.field), this.list, this.export),
      this.card,
    );
    this.field.addEventListener("input", debounce(() => { this.offset = 0; this.search(); }, 150));
    context.onLanguage(() => {
      for (const [id, draft] of this.drafts) if (!draft.changed && !draft.saved) this.drafts.delete(id);
      if (this.chosen !== undefined) this.open(this.chosen);
    });
    this.countDrafts();
    this.search();
    put(this.card, empty("No group chosen", "The least certain groups are listed first."));
  }

  async visit([id], inside) {
    if (id === undefined || Number(id) === this.chosen) return;
    await this.open(Number(id));
    if (inside) goTo(this.card.querySelector("h2"));
  }

  search() {
    const query = { q: this.field.value.trim(), offset: this.offset, limit: SHOWN };
    return fillWith(this.list, async (signal) => this.found(await api.groups(query, signal)), { lines: 8, keep: this.list.children.length > 0 });
  }

  found({ total, groups }) {
    if (groups.length === 0) return empty("No group found", "No name matches.");
    const step = (by) => () => {
      this.offset += by;
      this.search();
    };
    const last = this.offset + groups.length;
    return [
      h("p", { class: "index-head" }, total > groups.length ? `${count(this.offset + 1)} to ${count(last)} of ${plural(total, "group")}` : plural(total, "group")),
      h("ul", { class: "index-list" }, groups.map((one) => this.link(one))),
      total > SHOWN && h("div", { class: "row" }, h("button", { type: "button", class: "button", disabled: this.offset === 0, onclick: step(-SHOWN) }, "Back"), h("button", { type: "button", class: "button", disabled: last >= total, onclick: step(SHOWN) }, "Next")),
    ];
  }

  link(one) {
    const done = one.corrected || this.drafts.get(one.group)?.saved;
    return h(
      "li",
      null,
      h("a", { href: `#/review/${one.group}`, "data-group": one.group, "aria-current": one.group === this.chosen ? "true" : null }, h("span", { class: "index-name" }, bdi(one.name)), h("span", { class: "index-rows" }, done ? "reviewed" : percent(one.confidence))),
    );
  }

  open(id) {
    this.chosen = id;
    for (const link of this.list.querySelectorAll("a")) {
      if (Number(link.dataset.group) === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    return fillWith(this.card, async (signal) => {
      if (!this.drafts.has(id)) this.drafts.set(id, new GroupDraft(await api.group(id, this.context.language(), signal)));
      return this.group(this.drafts.get(id));
    }, { lines: 6 });
  }

  group(draft) {
    const samples = h("ul", { class: "samples" });
    const changes = h("p", { class: "quiet", "aria-live": "polite" });
    const accept = h("button", { type: "button", class: "button primary", onclick: () => this.accept(draft) }, icon("check", 16), "Accept and save");
    const reset = h("button", { type: "button", class: "button", onclick: () => { draft.reset(); draw(); } }, "Undo changes");
    const draw = (focus) => {
      put(samples, draft.samples.map((sample, n) => sampleRow(draft, sample, n, draw)));
      changes.textContent = draft.saved ? "Saved." : draft.changed ? plural(draft.changed, "sample changed", "samples changed") : "No changes: accepting confirms all labels.";
      reset.disabled = !draft.changed;
      if (focus) samples.querySelector(`[data-place="${focus}"]`)?.focus();
    };
    draw();
    return [
      h("header", { class: "stack-small" }, h("h2", { class: "label-title", tabindex: "-1" }, bdi(draft.name)), h("p", { class: "quiet" }, `${plural(draft.samples.length, "sample")} · labels of the group:`), h("p", { class: "chips" }, draft.labels.map((one) => h("a", { class: "chip", href: `#/labels/${one.id}` }, bdi(one.name))))),
      samples,
      h("div", { class: "group-actions" }, changes, h("div", { class: "row" }, reset, accept)),
    ];
  }

  async accept(draft) {
    try {
      await api.correct(draft.group, draft.body());
      this.stored = true;
      toast("Saved");
    } catch (error) {
      if (error.status !== NOT_STORED) return toast(error.detail ?? error.message, "bad");
      toast("Kept on this page only, because the service stores no corrections. Export them before you leave.");
    }
    draft.saved = true;
    this.countDrafts();
    await this.search();
    return this.next(draft.group);
  }

  /** Open the next group of the list that is not reviewed. */
  next(group) {
    const links = [...this.list.querySelectorAll("a")];
    const here = links.findIndex((link) => Number(link.dataset.group) === group);
    const following = [...links.slice(here + 1), ...links.slice(0, here)].find((link) => !this.drafts.get(Number(link.dataset.group))?.saved && !link.textContent.endsWith("reviewed"));
    if (following) location.hash = following.getAttribute("href");
    else this.open(group);
  }

  countDrafts() {
    const saved = [...this.drafts.values()].filter((draft) => draft.saved).length;
    this.export.disabled = saved === 0;
    this.export.lastChild.textContent = saved === 0 ? "Export corrections" : `Export ${plural(saved, "group")} as JSONL`;
  }

  /** Export what the service has stored, else what was accepted on this page. */
  async save() {
    try {
      const lines = this.stored ? [await api.corrections()] : this.accepted();
      download("corrections.jsonl", lines, "application/jsonl");
    } catch (error) {
      toast(error.detail ?? error.message, "bad");
    }
  }

  accepted() {
    return [...this.drafts.values()].filter((draft) => draft.saved).flatMap((draft) => draft.lines());
  }
}
