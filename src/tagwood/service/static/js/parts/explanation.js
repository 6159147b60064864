// Why a label was suggested, or why not: what each member found, words for and against, the path through the tree,
// similar texts.
import { bdi, h } from "../dom.js";
import { count, cut, decimal, percent, plural } from "../format.js";

const FOR = 6;
const AGAINST = 3;

/** The card of an explanation, from an answer of /v1/explain. */
export function explanationCard(found) {
  return h(
    "div",
    { class: "why" },
    h("p", { class: "why-verdict" }, verdictWords(found)),
    memberList(found),
    wordBars(found.words),
    found.paths.map((path) => pathList(path, found.paths.length > 1)),
    similarTexts(found.similar),
    h("p", { class: "why-links" }, h("a", { href: `#/labels/${found.label}` }, "About this label"), h("a", { href: `#/tree/label/${found.label}` }, "Show it in the tree")),
  );
}

function verdictWords(found) {
  // The list of members below tells what each of them did not find.
  const words = found.verdict.reason === "not found" ? "not suggested: no member found it." : found.verdict.words;
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${decimal(Math.abs(value), 2)}`;
}

/** What each member of a fused model found, with its contribution as a bar. */
function memberList(found) {
  if (found.members.length === 0) return null;
  const most = Math.max(...found.members.map((one) => Math.abs(one.contribution)), 1e-9);
  const row = (one) =>
    h(
      "li",
      { class: one.contribution < 0 ? "word word-against member" : "word member" },
      h("span", { class: "word-name" }, one.member),
      one.place === null
        ? h("span", { class: "quiet" }, "did not find it")
        : h("span", { class: "word-bar", "aria-hidden": "true", vars: { "--w": `${(Math.abs(one.contribution) / most) * 100}%` } }),
      h("span", { class: "word-weight" }, signed(one.contribution)),
      h("span", { class: "member-reason" }, bdi(one.reason)),
      one.texts.slice(0, 2).map((text) => h("span", { class: "member-reason member-text", dir: "auto" }, `${decimal(text.similarity, 2)} · ${cut(text.text, 110)}`)),
    );
  return h(
    "section",
    null,
    h("h3", null, "What each member found"),
    h("ul", { class: "words" }, found.members.map(row)),
    h("p", { class: "quiet" }, `Log odds: ${signed(found.base)} for a label that no member finds, ${signed(found.log_odds)} for this one (${percent(found.model_score)}).`),
  );
}

/** The strongest words, as bars to the right (for) and to the left (against). */
export function wordBars(words) {
  const speaking = words.filter((one) => one.weight > 0).slice(0, FOR);
  const against = words.filter((one) => one.weight < 0).slice(-AGAINST);
  if (speaking.length + against.length === 0) {
    return h("p", { class: "quiet" }, "The model knows none of the words of this text.");
  }
  const most = Math.max(...[...speaking, ...against].map((one) => Math.abs(one.weight)));
  const row = ({ word, weight }) =>
    h(
      "li",
      { class: weight > 0 ? "word" : "word word-against" },
      h("span", { class: "word-name" }, bdi(word)),
      h("span", { class: "word-bar", "aria-hidden": "true", vars: { "--w": `${(Math.abs(weight) / most) * 100}%` } }),
      h("span", { class: "word-weight" }, signed(weight)),
    );
  return h(
    "section",
    null,
    h("h3", null, "Words for and against it"),
    h("ul", { class: "words" }, speaking.map(row), against.map(row)),
  );
}

function pathList(path, several) {
  const last = path.steps.length - 1;
  return h(
    "section",
    null,
    h("h3", null, several ? `Path in tree ${path.tree + 1}` : "Path through the tree"),
    h(
      "ol",
      { class: "path" },
      path.steps.map((step, n) =>
        h(
          "li",
          null,
          h("span", { class: "path-dot", "aria-hidden": "true", vars: { "--p": step.probability } }),
          h(
            "div",
            null,
            h("span", { class: "path-to" }, n === last ? "The label itself" : `A branch of ${plural(step.labels_below, "label")}`),
            step.top_words.length > 0 && h("span", { class: "path-words" }, "typical: ", bdi(step.top_words.slice(0, 5).join(", "))),
          ),
          h("span", { class: "path-p" }, h("span", { class: "unseen" }, "probability "), percent(step.probability)),
        ),
      ),
    ),
  );
}

function similarTexts(similar) {
  if (similar.length === 0) return null;
  return h(
    "section",
    null,
    h("h3", null, "Similar training texts"),
    h(
      "ul",
      { class: "texts" },
      similar.slice(0, 2).map((one) =>
        h("li", null, h("p", { dir: "auto" }, cut(one.text, 130)), h("p", { class: "quiet" }, one.labels.map((name, n) => [n > 0 && " · ", bdi(name)]))),
      ),
    ),
  );
}

/** "1,204 training texts". */
export function rowsWords(rows) {
  return rows === 0 ? "no training text" : `${count(rows)} training ${rows === 1 ? "text" : "texts"}`;
}
