// What the searches share: scored items, the best of them, and the memory of one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.hpp"
#include "tree/evaluate.hpp"
#include "tree/search.hpp"

namespace tagwood {

struct Scored {
  float score; // log
  int32_t id;
};

// The one order of results: higher score first, then smaller id. With it the order of arrival does not matter, so
// rows searched one by one and rows searched together get the same answer.
inline bool better(const Scored &a, const Scored &b) { return a.score != b.score ? a.score > b.score : a.id < b.id; }

// The best `capacity` items so far, best first, in memory that the caller owns.
struct Best {
  Scored *items;
  int size = 0;
  int capacity;
  bool full() const { return size == capacity; }
  // Puts `item` into its place, but never before place `from`.
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
  // As `offer`, but an id stands only once, with its best score.
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
      continue; // a forged model: nobody may index with such a label
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
