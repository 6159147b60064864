// The part of a label tree that is loaded so far, and the layout of its nodes.
// In: answers of /v1/tree. Out: rectangles in shares of the width, by level.
import { api } from "../api.js";

const AHEAD = 3; // levels that are loaded below a node

export class TreeStore {
  constructor(tree, language) {
    this.tree = tree;
    this.language = language;
    this.nodes = new Map();
    this.children = new Map();
    this.labels = new Map();
    this.loaded = new Map();
    this.trees = 1;
  }

  /** Load a node with a few levels below it, unless it is loaded. */
  async load(node, signal) {
    if (this.loaded.has(node)) return;
    const answer = await api.tree({ tree: this.tree, node, depth: AHEAD, language: this.language() }, signal);
    this.trees = answer.trees;
    for (const one of [...answer.path, ...answer.nodes]) this.keep(one);
    if (answer.nodes[0].leaf) this.labels.set(node, answer.labels);
    this.loaded.set(node, answer.complete);
  }

  keep(one) {
    this.nodes.set(one.node, one);
    if (one.leaf && one.labels === one.largest.length && !this.labels.has(one.node)) this.labels.set(one.node, one.largest);
    if (one.parent === null) return;
    const siblings = this.children.get(one.parent) ?? new Set();
    siblings.add(one.node);
    this.children.set(one.parent, siblings);
  }

  /** The nodes from the root to a node. */
  path(node) {
    const found = [];
    for (let one = this.nodes.get(node); one; one = one.parent === null ? null : this.nodes.get(one.parent)) found.unshift(one);
    return found;
  }

  /** The children of a node in order; empty unless all of them are loaded. */
  childrenOf(node) {
    const found = [...(this.children.get(node) ?? [])].sort((a, b) => a - b);
    return found.length === this.nodes.get(node).children ? found : [];
  }

  /** The cells of `root` and what is below it: {key, level, x, width} with x and width between 0 and 1. */
  cells(root, levels, least) {
    const found = [];
    const place = (node, level, x, width) => {
      if (width < least) return;
      const one = this.nodes.get(node);
      found.push({ key: `n${node}`, node: one, level, x, width });
      if (level + 1 >= levels) return;
      const below = one.leaf ? (this.labels.get(node) ?? []) : this.childrenOf(node).map((child) => this.nodes.get(child));
      const weight = (item) => Math.max(item.rows, 0.5);
      const total = below.reduce((sum, item) => sum + weight(item), 0);
      let begin = x;
      for (const item of below) {
        const share = (width * weight(item)) / total;
        if (!one.leaf) place(item.node, level + 1, begin, share);
        else if (share >= least) found.push({ key: `l${node}-${item.id}`, label: item, parent: one, level: level + 1, x: begin, width: share });
        begin += share;
      }
    };
    place(root, 0, 0, 1);
    return found;
  }
}
