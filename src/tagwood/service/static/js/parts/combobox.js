// A text field with suggestions (WAI-ARIA combobox): arrows move, Enter accepts, Escape closes.
import { debounce, h, put, uniqueId } from "../dom.js";
import { icon } from "../icons.js";

/**
 * Create a combobox.
 * `find(query, signal)` returns items, `show(item)` their nodes; `take(item)` is called with the chosen one.
 */
export function combobox({ label, placeholder, find, show, take, hideLabel = false }) {
  const listId = uniqueId("list");
  const input = h("input", {
    class: "field",
    type: "text",
    id: uniqueId("field"),
    role: "combobox",
    dir: "auto",
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": listId,
  });
  const list = h("ul", { class: "options", id: listId, role: "listbox", "aria-label": label, hidden: true });
  const said = h("div", { class: "unseen", "aria-live": "polite" });
  const box = h(
    "div",
    { class: "combobox" },
    h("label", { for: input.id, class: hideLabel ? "unseen" : "field-label" }, label),
    h("div", { class: "combobox-field" }, icon("search", 16), input, list),
    said,
  );
  let items = [];
  let chosen = -1;
  let control = null;

  const close = () => {
    control?.abort();
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (next) => {
    chosen = items.length === 0 ? -1 : (next + items.length) % items.length;
    [...list.children].forEach((option, n) => option.setAttribute("aria-selected", String(n === chosen)));
    const active = list.children[chosen];
    if (!active) return;
    input.setAttribute("aria-activedescendant", active.id);
    active.scrollIntoView({ block: "nearest" });
  };
  const accept = (item) => {
    input.value = "";
    search.cancel();
    close();
    take(item);
  };
  const note = (text) => {
    put(list, h("li", { class: "option-note", role: "option", "aria-disabled": "true", "aria-selected": "false" }, text));
    items = [];
    open();
  };
  const open = () => {
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  };
  const search = debounce(async () => {
    control?.abort();
    control = new AbortController();
    const { signal } = control;
    const query = input.value.trim();
    if (!query) return close();
    try {
      const found = await find(query, signal);
      if (signal.aborted) return undefined;
      if (found.length === 0) return note("No matching label.");
      items = found;
      put(
        list,
        found.map((item) =>
          h("li", { class: "option", role: "option", id: uniqueId("option"), "aria-selected": "false", onmousedown: (event) => event.preventDefault(), onclick: () => accept(item) }, show(item)),
        ),
      );
      said.textContent = `${found.length} found`;
      open();
      choose(0);
    } catch (error) {
      if (error.name !== "AbortError") note(error.detail ?? error.message);
    }
    return undefined;
  }, 120);

  input.addEventListener("input", search);
  input.addEventListener("blur", () => setTimeout(close, 100));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (!list.hidden) event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) search.now();
      else choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && !list.hidden && items[chosen]) {
      event.preventDefault();
      accept(items[chosen]);
    }
  });
  box.input = input;
  return box;
}
