// The frame: navigation by URL hash (#/tag), theme, language of names, token dialog, lost connection.
// Pages are built on the first visit and kept, so that their state is still there later.
import { api, connection, onTokenNeeded, project } from "./api.js";
import { h, put } from "./dom.js";
import { icon } from "./icons.js";
import { askToken } from "./parts/token.js";
import { failed, loading } from "./parts/states.js";
import { themeButton } from "./parts/theme.js";

const PAGES = [
  { name: "tag", title: "Tag", load: () => import("./pages/tag.js") },
  { name: "correct", title: "Correct", load: () => import("./pages/correct.js"), needs: (model) => model.feedback },
  { name: "labels", title: "Labels", load: () => import("./pages/labels.js") },
  { name: "tree", title: "Tree", load: () => import("./pages/tree.js"), needs: (model) => model.tree !== null },
  { name: "model", title: "Model", load: () => import("./pages/model.js") },
  { name: "batch", title: "Batch", load: () => import("./pages/batch.js") },
  { name: "progress", title: "Progress", load: () => import("./pages/progress.js"), needs: (model) => model.feedback },
  { name: "review", title: "Review", load: () => import("./pages/review.js"), needs: (model) => model.groups !== null },
];

const LANGUAGE = "tagwood-language";
const main = document.getElementById("content");
const banner = document.getElementById("banner");
const built = new Map();
let context = null;
let shown = null;
let wanted = null;

/** What the frame offers to pages. */
function makeContext(model) {
  const listeners = [];
  let language = model.languages.find((code) => code === localStorage.getItem(LANGUAGE)) ?? null;
  return {
    model,
    language: () => language ?? undefined,
    onLanguage: (listener) => listeners.push(listener),
    setLanguage(value) {
      language = value || null;
      localStorage.setItem(LANGUAGE, language ?? "");
      listeners.forEach((listener) => listener());
    },
    pending: null,
    openTable(file) {
      this.pending = file;
      location.hash = "#/batch";
    },
  };
}

async function start() {
  put(main, loading(6));
  try {
    const [model, { projects }] = await Promise.all([api.model(), api.projects()]);
    context = { ...makeContext(model), projects };
  } catch (error) {
    put(main, failed(error, start));
    return;
  }
  put(main);
  built.clear();
  shown = null;
  header();
  show();
}

function available() {
  return PAGES.filter((page) => !page.needs || page.needs(context.model));
}

function header() {
  put(
    document.getElementById("nav"),
    available().map((page) => h("a", { href: `#/${page.name}`, "data-page": page.name }, icon(page.name), page.title)),
  );
  const { languages, labels } = context.model;
  const name = `${labels.toLocaleString("en")} labels`;
  put(
    document.getElementById("top-end"),
    h("span", { class: "model-name", title: name }, name),
    context.projects.length > 1 && projectChoice(context.projects),
    languages.length > 0 && languageChoice(languages),
    themeButton(),
  );
}

/** A menu of the models that the service has; another one is another address, ?project=ID. */
function projectChoice(projects) {
  const chosen = project ?? projects[0].project_id;
  const open = (event) => {
    const url = new URL(location.href);
    url.searchParams.set("project", event.target.value);
    location.assign(url);
  };
  return h(
    "select",
    { class: "select small project-choice", "aria-label": "Model", onchange: open },
    projects.map((one) => h("option", { value: one.project_id, selected: one.project_id === chosen }, one.name)),
  );
}

function languageChoice(languages) {
  return h(
    "select",
    { class: "select small", "aria-label": "Language of label names", onchange: (event) => context.setLanguage(event.target.value) },
    h("option", { value: "" }, "Default names"),
    languages.map((code) => h("option", { value: code, selected: code === context.language() }, languageName(code))),
  );
}

/** "de" -> "German"; an unknown code is returned unchanged. */
function languageName(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code;
  }
}

/**
 * Show the page of the URL; #/labels/12 gives the page "labels" and the rest ["12"].
 * `moved`: the user navigated, so the focus moves to the heading.
 */
async function show(moved = false) {
  if (!context) return;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/"); // names and numbers need no decoding
  const page = available().find((one) => one.name === name) ?? PAGES[0];
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === page.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page.title} · tagwood`;
  wanted = location.hash;
  const asked = wanted;
  const view = await viewOf(page);
  if (asked !== wanted) return; // the user has moved on
  const before = shown;
  shown = view;
  if (before !== view) {
    for (const one of built.values()) one.element.hidden = one !== view;
    window.scrollTo(0, 0);
    if (moved) view.heading.focus();
  }
  view.visit?.(rest, before === view);
}

async function viewOf(page) {
  if (built.has(page.name)) return built.get(page.name);
  const { build } = await page.load();
  if (built.has(page.name)) return built.get(page.name);
  const { element, heading, lead, visit } = build(context);
  const title = h("h1", { tabindex: "-1" }, heading);
  const view = {
    heading: title,
    visit,
    element: h("div", { class: "page", "data-page": page.name }, h("div", { class: "page-head" }, h("div", null, title, h("p", null, lead))), element),
  };
  built.set(page.name, view);
  main.append(view.element);
  return view;
}

connection.addEventListener("gone", () => {
  put(banner, icon("warn"), h("span", null, "The service does not respond. Retrying …"));
  banner.hidden = false;
});
connection.addEventListener("changed", () => {
  put(banner, h("span", null, "A new model is available."), h("button", { type: "button", class: "button", onclick: () => location.reload() }, "Reload"));
  banner.hidden = false;
});
connection.addEventListener("back", () => {
  banner.hidden = true;
  if (!context) start();
});
window.addEventListener("hashchange", (event) => {
  if (new URL(event.newURL).hash !== "#content") show(true);
});
window.addEventListener("dragover", (event) => event.preventDefault());
window.addEventListener("drop", (event) => event.preventDefault());
onTokenNeeded(askToken);
start();
