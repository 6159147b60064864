// A text field that grows with its text and can highlight words.
// A hidden copy of the text under the field sets the height and holds the highlights.
import { h, put } from "../dom.js";

/** Create an editor; `change(text)` is called on every edit. */
export function editor({ label, placeholder, change }) {
  const area = h("textarea", {
    class: "editor-area",
    id: "text",
    dir: "auto",
    spellcheck: "false",
    "aria-label": label,
    placeholder,
    rows: 1,
  });
  const copy = h("div", { class: "editor-copy", dir: "auto", "aria-hidden": "true" });
  const box = h("div", { class: "editor" }, h("div", { class: "editor-lines" }, copy, area));
  const plain = () => put(copy, `${area.value}\n`);
  area.addEventListener("input", () => {
    plain();
    change(area.value);
  });
  plain();
  return {
    box,
    area,
    get text() {
      return area.value;
    },
    set text(value) {
      area.value = value;
      plain();
    },
    /** Highlight segments [{text, weight}] of the text; segments of another text clear the highlights. */
    mark(segments) {
      if (!segments || segments.map((one) => one.text).join("") !== area.value) return plain();
      const most = Math.max(...segments.map((one) => one.weight ?? 0), 0);
      return put(
        copy,
        segments.map(({ text, weight }) =>
          weight > most / 5 ? h("mark", { vars: { "--strength": `${Math.round(12 + (weight / most) * 34)}%` } }, text) : text,
        ),
        "\n",
      );
    },
  };
}
