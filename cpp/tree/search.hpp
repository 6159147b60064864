// Search in a trained label tree: beam, exact best-first (with an optional budget), and margins of given outputs.
//
// First the functions that Python calls, then what they share: evaluation of one node, the best items so far, and the
// memory of one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/arrays.hpp"
#include "core/parallel.hpp"
#include "tree/blocks.hpp"

namespace tagwood {

// Breadth-first numbering: node i has the children child_ptr[i] .. child_ptr[i + 1] and, if it is a leaf, the labels
// labels[label_ptr[i] .. label_ptr[i + 1]]. Node i's first block is block_ptr[i]; its outputs come in the order of its
// children or labels, 256 to a block.
struct TreeView {
  const int32_t *child_ptr;
  const int32_t *label_ptr;
  const int32_t *labels;
  const int64_t *block_ptr;
  int32_t n_nodes;
  int32_t n_labels;
  int32_t max_outputs; // of any node

  bool is_leaf(int32_t node) const { return child_ptr[node] == child_ptr[node + 1]; }
  int32_t n_outputs(int32_t node) const {
    return (child_ptr[node + 1] - child_ptr[node]) + (label_ptr[node + 1] - label_ptr[node]);
  }
  int64_t first_output(int32_t node) const { return int64_t{child_ptr[node]} - 1 + label_ptr[node]; }
};

// A margin z becomes log p: -max(0, 1 - z)^power, or the logarithm of the sigmoid where power is 0.
struct Link {
  int power = 3;
};

struct ModelView {
  TreeView tree;
  BlocksView blocks;
  const float *bias;
  Link link;
};

struct SearchOptions {
  int k = 5;
  int width = 10;        // of the beam
  int64_t max_nodes = 0; // budget of the exact search per row; 0: none
  bool has_copies = false;
  bool mean_copies = true;                // else the best copy counts
  const uint8_t *label_allowed = nullptr; // per label, null: all
  const uint8_t *node_allowed = nullptr;  // per node: some allowed label below
  int threads = 1;
};

// Results of one search: k places per row, unused ones -1; evaluated counts nodes, outputs their classifiers; bound is
// the best score that an unseen label may still have (0 where nothing was missed; -1 for beams, where it is unknown).
struct SearchOutput {
  int32_t *labels;
  float *scores;
  int32_t *found;
  int32_t *evaluated;
  int64_t *outputs;
  float *bound;
};

void beam_search(const ModelView &model, const CsrView &x, const SearchOptions &options, const SearchOutput &out);

void exact_search(const ModelView &model, const CsrView &x, const SearchOptions &options, const SearchOutput &out);

// Writes the leaves at the end of the beam: `width` places per row, unused ones -1; scores are path scores.
void beam_leaves(const ModelView &model, const CsrView &x, const SearchOptions &options, int32_t *leaves,
                 float *scores);

// Writes the margins of given outputs: for row r those of the nodes nodes[ptr[r] .. ptr[r + 1]] and the output of each.
// Callers combine them to scores of paths.
void margins(const ModelView &model, const CsrView &x, const int64_t *ptr, const int32_t *nodes, const int32_t *outputs,
             int threads, float *out);

// Opens given nodes, those of row r at ptr[r] .. ptr[r + 1], whose own log scores are `scores`: writes the log scores
// of all outputs of pair i, and their exponentials, from out_ptr[i] on. What a beam computes, for searches whose nodes
// are on several machines.
void open_nodes(const ModelView &model, const CsrView &x, const int64_t *ptr, const int32_t *nodes, const float *scores,
                const int64_t *out_ptr, int threads, float *logs, float *probabilities);

// Rows prepared for look-ups: features are hashed once for all nodes and roughly sorted by hash, so that look-ups go
// through a block's tables from front to back.
class HashedRows {
public:
  void assign(const CsrView &x, int64_t begin, int64_t end, int feature_bits);
  std::span<const uint32_t> hashes(int64_t i) const { return {hashes_.data() + ptr_[i], size(i)}; }
  std::span<const float> values(int64_t i) const { return {values_.data() + ptr_[i], size(i)}; }

private:
  size_t size(int64_t i) const { return static_cast<size_t>(ptr_[i + 1] - ptr_[i]); }
  std::vector<int64_t> ptr_;
  std::vector<uint32_t> hashes_;
  std::vector<float> values_;
};

// Writes the margins of all outputs of `node` for one row to `out`: the inner loop of every search.
void evaluate_node(const ModelView &model, int32_t node, std::span<const uint32_t> hashes,
                   std::span<const float> values, float *out);

// Writes the places of the scores that are at least `least`; returns how many.
int select_scores(const float *scores, int n, float least, int32_t *places);

// log p of each margin, plus `base`, in place.
void apply_link(const Link &link, float *margins, int n, float base);

struct Scored {
  float score; // log
  int32_t id;
};

// The order of results: higher score first, then smaller id. The order of arrival does not matter, so rows searched
// alone and in a batch get the same result.
inline bool better(const Scored &a, const Scored &b) { return a.score != b.score ? a.score > b.score : a.id < b.id; }

// The best `capacity` items so far, best first, in memory that the caller owns.
struct Best {
  Scored *items;
  int size = 0;
  int capacity;
  bool full() const { return size == capacity; }
  // Inserts `item` in order, at place `from` or later.
  void offer(Scored item, int from = 0) {
    if (size == capacity) {
      if (size <= from || !better(item, items[size - 1]))
        return;
    } else {
      ++size;
    }
    int at = size - 1;
    for (; at > from && better(item, items[at - 1]); --at)
      items[at] = items[at - 1];
    items[at] = item;
  }
  // As `offer`, but keeps each id once, with its best score.
  void offer_once(Scored item) {
    if (full() && !better(item, items[size - 1]))
      return;
    int at = 0;
    while (at < size && items[at].id != item.id)
      ++at;
    if (at < size) {
      if (!better(item, items[at]))
        return;
      std::copy(items + at + 1, items + size, items + at);
      --size;
    }
    offer(item);
  }
};

// One node to evaluate for one row.
struct Visit {
  int32_t node;
  int32_t row; // inside the chunk
  float score;
};

// Memory of one thread, reused from chunk to chunk.
struct Scratch {
  HashedRows rows;
  std::vector<float> margins;
  std::vector<int32_t> places;       // of margins
  std::vector<Scored> levels;        // beams: `width` places for each row and level
  std::vector<int> sizes, heads;     // used places, and those already visited
  std::vector<Scored> results, open; // labels found; nodes still to be visited by an exact search
  std::vector<int> result_sizes;
  std::vector<std::vector<Scored>> row_candidates; // only where copies count by their mean
  std::vector<int32_t> active, counts;
  std::vector<Visit> visits, sorted;
};

inline bool is_allowed(const ModelView &model, const SearchOptions &o, int32_t label) {
  return !o.label_allowed ||
         (static_cast<uint32_t>(label) < static_cast<uint32_t>(model.tree.n_labels) && o.label_allowed[label]);
}

// Scores of the node's outputs for row `row` of the scratch: log p of each, plus the node's own score.
inline void score_outputs(const ModelView &model, int32_t node, float score, int64_t row, Scratch &s) {
  evaluate_node(model, node, s.rows.hashes(row), s.rows.values(row), s.margins.data());
  apply_link(model.link, s.margins.data(), model.tree.n_outputs(node), score);
}

inline void write_row(const ModelView &model, const SearchOptions &o, const Best &best, int64_t row,
                      const SearchOutput &out) {
  int found = 0;
  for (int i = 0; i < best.size; ++i) {
    if (static_cast<uint32_t>(best.items[i].id) >= static_cast<uint32_t>(model.tree.n_labels))
      continue; // damaged model: the label must not be used as an index
    out.labels[row * o.k + found] = best.items[i].id;
    out.scores[row * o.k + found++] = std::exp(best.items[i].score);
  }
  out.found[row] = found;
  for (int i = found; i < o.k; ++i) {
    out.labels[row * o.k + i] = -1;
    out.scores[row * o.k + i] = 0;
  }
}

// Calls body(begin, end, scratch) for chunks of at most `most` rows. A single row allocates nothing once the sizes of
// this thread's scratch are known.
template <class Body> void for_chunks(const ModelView &model, int64_t n_rows, int threads, int64_t most, Body &&body) {
  static thread_local Scratch own;
  const int n_margins = model.tree.max_outputs + 256; // a block may touch any of 256 columns
  if (n_rows == 1) {
    own.margins.resize(n_margins);
    own.places.resize(n_margins);
    body(0, 1, own);
    return;
  }
  const int64_t fair = (n_rows + std::max(1, threads) - 1) / std::max(1, threads);
  std::vector<Scratch> scratches(std::max(1, threads));
  parallel_chunks(n_rows, threads, std::clamp<int64_t>(fair, 1, most), [&](int64_t begin, int64_t end, int thread) {
    scratches[thread].margins.resize(n_margins);
    scratches[thread].places.resize(n_margins);
    body(begin, end, scratches[thread]);
  });
}

} // namespace tagwood
