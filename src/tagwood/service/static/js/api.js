// All requests to the service: relative URLs (so that a proxy may add a prefix), token, errors.
// In: paths and values. Out: JSON, or a `Problem` that can be shown to the user.

const BASE = new URL("v1/", new URL("./", document.baseURI));
const TOKEN = "tagwood-token";

/** The project that the address names (?project=books); the first one of the service otherwise. */
export const project = new URLSearchParams(location.search).get("project");

/** An error for the user: `kind` is one of gone, token, limit, missing, busy, fault. */
export class Problem extends Error {
  constructor(kind, title, detail, status = 0) {
    super(detail || title);
    this.kind = kind;
    this.title = title;
    this.detail = detail;
    this.status = status;
  }
}

/**
 * Events of the connection: "gone" (no answer), "back" (pages retry), and "changed" (the service has a new model, so
 * names and ids of labels may differ).
 */
export const connection = new EventTarget();

// Ids of labels that numbers of JavaScript would round become texts, which the service takes, too.
const LONG_ID = /("(?:id|label)":)(-?\d{16,})(?=[,}])/g;

/** The id of a label in an address or attribute, as answers have it. */
export function labelId(text) {
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

let askForToken = () => Promise.resolve(null);
let asking = null;
let away = false;
let answering = null;

/** Set the function that asks the user for a token: (refused) -> Promise of a token or null. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** What a label is called by in every model, where numbers may be rows of a label table. */
export function labelName(label) {
  return label.uri ?? label.name;
}

/** Send a request, under an `id` if it is given; the answer is JSON, or text if `plain` is set. */
export async function call(method, path, { query, body, signal, id, plain = false } = {}) {
  for (let tries = 0; ; tries += 1) {
    const used = sessionStorage.getItem(TOKEN);
    const response = await send(method, path, { query, body, signal, id }, used);
    if (response.ok) return plain ? response.text() : read(response);
    const problem = await problemOf(response);
    if (problem.kind !== "token" || tries > 8) throw problem;
    if (used === sessionStorage.getItem(TOKEN) && !(await newToken(Boolean(used)))) throw problem;
  }
}

async function send(method, path, { query, body, signal, id }, token) {
  const url = new URL(path, BASE);
  if (project) url.searchParams.set("project", project);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (id) headers["X-Request-ID"] = id;
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    const options = { method, headers, signal, cache: "no-store", credentials: "same-origin" };
    const response = await fetch(url, body === undefined ? options : { ...options, body: JSON.stringify(body) });
    if (away) {
      away = false;
      connection.dispatchEvent(new Event("back"));
    }
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!away) {
      away = true;
      connection.dispatchEvent(new Event("gone"));
      watch();
    }
    throw new Problem("gone", "The service does not respond", "It may be restarting. This page retries automatically.");
  }
}

async function read(response) {
  try {
    const value = JSON.parse((await response.text()).replace(LONG_ID, '$1"$2"'));
    if (typeof value.model === "string") noteModel(value.model);
    return value;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("fault", "The answer could not be read", "It is not valid JSON.");
  }
}

function noteModel(name) {
  if (answering !== null && answering !== name) connection.dispatchEvent(new Event("changed"));
  answering = name;
}

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  const kind = { 401: "token", 403: "token", 404: "missing", 429: "busy", 503: "busy" }[response.status]
    ?? (response.status < 500 ? "limit" : "fault");
  const titles = {
    token: "A token is required",
    missing: "Not found",
    busy: "The service is busy",
    limit: response.status === 413 ? "Too long" : "Request not accepted",
    fault: "The service reported an error",
  };
  const title = kind === "limit" && typeof said.title === "string" ? said.title : titles[kind];
  const detail = typeof said.detail === "string" ? said.detail : `The service answered with status ${response.status}.`;
  return new Problem(kind, title, detail, response.status);
}

/** Ask the user once, even if several requests wait for the token. */
async function newToken(refused) {
  asking ??= askForToken(refused).finally(() => {
    asking = null;
  });
  const token = await asking;
  if (token) sessionStorage.setItem(TOKEN, token);
  return Boolean(token);
}

/** Poll /health until it answers. */
async function watch() {
  while (away) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    await call("GET", "../health").catch(() => null);
  }
}

const PAGE_OF_NAMES = 12;

export const api = {
  model: (signal) => call("GET", "model", { signal }),
  suggest: (body, signal, id) => call("POST", "suggest", { body, signal, id }),
  explain: (body, signal) => call("POST", "explain", { body, signal }),
  labels: (q, { limit = PAGE_OF_NAMES, language, signal } = {}) => call("GET", "labels", { query: { q, limit, language }, signal }),
  label: (id, language, signal) => call("GET", `labels/${id}`, { query: { language }, signal }),
  tree: (query, signal) => call("GET", "tree", { query, signal }),
  feedback: (body) => call("POST", "feedback", { body }),
  projects: () => call("GET", "projects"),
  learn: (body) => call("POST", "learn", { body: { records: [body] } }),
  progress: (language, signal) => call("GET", "progress", { query: { language }, signal }),
  queue: (limit, signal) => call("GET", "queue", { query: { limit }, signal }),
  groups: (query, signal) => call("GET", "groups", { query, signal }),
  group: (id, language, signal) => call("GET", `groups/${id}`, { query: { language }, signal }),
  corrections: () => call("GET", "corrections", { plain: true }),
  correct: (id, body) => call("POST", `groups/${id}/corrections`, { body }),
};

const REFUSED = 409;

/**
 * Save a person's decisions, and let the model learn them at once where the service allows it.
 * Returns what to tell the person.
 */
export async function saveDecisions(body, model) {
  if (!model.learn) {
    await api.feedback(body);
    return "Decisions saved";
  }
  try {
    await api.learn(body);
    return "Saved and learned";
  } catch (error) {
    if (error.status !== REFUSED && error.status !== 422) throw error; // 422: only proposals, nothing to learn yet
    await api.feedback(body);
    return `Saved, but not learned: ${error.detail}`;
  }
}
