// The picture of a label tree: a row of cells for each level, as wide as the training texts below. Cells are buttons.
// Arrow keys move to parent, child and siblings, Enter zooms in, Escape zooms out.
import { bdi, h, setVars } from "../dom.js";
import { plural } from "../format.js";

const LEVELS = 5;
const LEAST = 0.004;

export class Icicle {
  /** `zoom(node)` and `openLabel(id)` are called when the user chooses a cell, `up()` for Escape. */
  constructor({ zoom, openLabel, up }) {
    this.zoom = zoom;
    this.openLabel = openLabel;
    this.up = up;
    this.cells = new Map();
    this.element = h("div", { class: "icicle", role: "group", "aria-label": "Label tree. Arrow keys move, Enter zooms in, Escape zooms out." });
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  /** Draw a node of a store at full width; `found` is the id of a label to highlight. */
  draw(store, root, found = null) {
    const next = store.cells(root, LEVELS, LEAST);
    const keep = new Set(next.map((cell) => cell.key));
    this.leave(keep, this.cells.get(`n${root}`), store.nodes.get(root).depth);
    for (const cell of next) this.place(cell, found);
    this.root = store.nodes.get(root);
    this.found = found;
    const levels = Math.max(...next.map((cell) => cell.level)) + 1;
    const hanging = next.some((cell) => cell.label && cell.level === levels - 1);
    setVars(this.element, { "--levels": levels + (hanging ? 1 : 0) });
    this.fit();
    this.focusable(`n${root}`);
  }

  /** Mark the cells that are too narrow for text. */
  fit() {
    const width = this.element.clientWidth || 1000;
    for (const { element, width: share } of this.cells.values()) {
      element.classList.toggle("cell-thin", share * width < 64);
      element.classList.toggle("cell-bare", share * width < 15);
    }
  }

  place(cell, found) {
    const known = this.cells.get(cell.key);
    const element = known?.element ?? this.make(cell);
    setVars(element, { "--x": cell.x, "--w": cell.width, "--y": cell.level });
    element.classList.toggle("cell-found", found !== null && cell.label?.id === found);
    this.cells.set(cell.key, { ...cell, element });
    if (!known) this.element.append(element);
  }

  make(cell) {
    const depth = (cell.node?.depth ?? cell.parent.depth + 1) % 8;
    const names = cell.label ? cell.label.name : cell.node.largest.slice(0, 3).map((one) => one.name).join(", ");
    const more = cell.label ? plural(cell.label.rows, "text") : plural(cell.node.labels, "label");
    const spoken = cell.label ? `${names} ${more}` : `${names} ${more}, ${plural(cell.node.rows, "training text")}`;
    return h(
      "button",
      {
        type: "button",
        class: cell.label ? "cell cell-label" : "cell",
        "data-depth": depth,
        "data-key": cell.key,
        tabindex: "-1",
        title: spoken,
        "aria-label": spoken,
        onclick: () => (cell.label ? this.openLabel(cell.label.id) : this.zoom(cell.node.node)),
      },
      h("span", { class: "cell-name" }, bdi(names)),
      " ",
      h("span", { class: "cell-more" }, more),
    );
  }

  /** Move cells that are no longer shown out of view, then remove them. */
  leave(keep, toward, rootDepth) {
    for (const [key, cell] of this.cells) {
      if (keep.has(key)) continue;
      this.cells.delete(key);
      const { element } = cell;
      element.inert = true;
      element.removeAttribute("data-key"); // the same cell may be shown again before this one is removed
      element.classList.add("cell-leaving");
      if (toward) {
        const depth = cell.node?.depth ?? cell.parent.depth + 1;
        setVars(element, { "--x": (cell.x - toward.x) / toward.width, "--w": cell.width / toward.width, "--y": depth - rootDepth });
      }
      setTimeout(() => element.remove(), 320);
    }
  }

  focusable(key) {
    for (const [other, { element }] of this.cells) element.tabIndex = other === key ? 0 : -1;
  }

  focus(key) {
    const cell = this.cells.get(key);
    if (!cell) return;
    this.focusable(key);
    cell.element.focus({ preventScroll: true });
  }

  key(event) {
    const cell = this.cells.get(event.target.dataset?.key);
    if (!cell) return;
    if (event.key === "Escape" || event.key === "Backspace") this.up();
    else if (event.key === "ArrowUp") this.focus(this.parentKey(cell));
    else if (event.key === "ArrowDown") this.focus(this.near(cell, cell.level + 1, (other) => other.x + other.width / 2 >= cell.x));
    else if (event.key === "ArrowRight") this.focus(this.near(cell, cell.level, (other) => other.x > cell.x));
    else if (event.key === "ArrowLeft") this.focus(this.near(cell, cell.level, (other) => other.x < cell.x, true));
    else return;
    event.preventDefault();
  }

  parentKey(cell) {
    return cell.label ? `n${cell.parent.node}` : `n${cell.node.parent}`;
  }

  near(cell, level, fits, last = false) {
    const row = [...this.cells.values()].filter((other) => other.level === level && fits(other)).sort((a, b) => a.x - b.x);
    return (last ? row.at(-1) : row[0])?.key;
  }
}
