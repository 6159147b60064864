// Creating elements. Strings always become text nodes, so input from models and users is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element: h("button", {class: "primary", onclick: f, disabled: true}, "Save").
 * `vars` sets CSS variables; true sets and false omits an attribute; functions become listeners.
 */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Create an SVG element. */
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

/** A name or text from outside, isolated from the writing direction around it. */
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

/** Focus a heading, and scroll to it if it is not visible. */
export function goTo(heading) {
  if (!heading) return;
  heading.focus({ preventScroll: true });
  const { top } = heading.getBoundingClientRect();
  if (top < 60 || top > window.innerHeight - 120) heading.scrollIntoView({ block: "start" });
}

let last = 0;

/** Return an id that no other element has. */
export function uniqueId(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** Return a function that runs `task` once, `wait` ms after its last call; `.now()` runs it immediately. */
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
