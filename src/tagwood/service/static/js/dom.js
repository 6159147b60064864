// Building elements. Strings always become text nodes, so nothing that comes from a model or a user is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element: h("button", {class: "primary", onclick: f, disabled: true}, "Save").
 * `vars` sets CSS variables; true and false set and leave out attributes; functions become listeners.
 */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Make an SVG element. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "vars") setVars(element, value);
    else if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (key === "value" && "value" in element) element.value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set CSS variables of an element; the style attribute itself is forbidden by the page's security policy. */
export function setVars(element, values) {
  for (const [name, value] of Object.entries(values)) element.style.setProperty(name, String(value));
}

/** A name or text from outside: kept apart from its surroundings, whatever its direction of writing. */
export function bdi(text) {
  return h("bdi", null, text);
}

/** Replace the children of an element. */
export function put(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Put the focus on a heading, and bring it into sight where it is not. */
export function goTo(heading) {
  if (!heading) return;
  heading.focus({ preventScroll: true });
  const { top } = heading.getBoundingClientRect();
  if (top < 60 || top > window.innerHeight - 120) heading.scrollIntoView({ block: "start" });
}

let last = 0;

/** An id that no other element has. */
export function uniqueId(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** A function that runs `task` once, `wait` ms after its last call; `.now()` runs it at once. */
export function debounce(task, wait) {
  let timer = 0;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => task(...values), wait);
  };
  later.now = (...values) => {
    clearTimeout(timer);
    return task(...values);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
