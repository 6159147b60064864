#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "softmax/math.hpp"

namespace tagwood {

namespace {

constexpr int64_t kChunk = 32;
constexpr float kNever = -30.0f; // ln of the probability of a branch without training rows

struct Open {
  float score;
  int32_t node;
};

// For std::push_heap: the best is on top, of equals the one nearer to the root.
TAGWOOD_INLINE bool is_worse(const Open &a, const Open &b) {
  return a.score != b.score ? a.score < b.score : a.node > b.node;
}

struct Searcher {
  std::vector<float> hidden;
  std::vector<Open> open;
};

struct Search {
  const CsrView &x;
  const Embeddings<const float> &model;
  const SoftmaxTree &tree;
  int64_t k;
  const uint8_t *node_allowed;
  const SoftmaxFound &out;
};

struct Branches {
  float first;
  float second;
};

TAGWOOD_INLINE Branches decide(const Embeddings<const float> &model, int32_t decision, const float *hidden) {
  if (decision >= 0 && decision < model.n_outputs) {
    const float margin = dot(hidden, model.outputs + decision * model.dimension, model.dimension);
    const float likely = -std::log1p(fast_exp(-std::fabs(margin))); // the other branch has |margin| less
    const float other = likely - std::fabs(margin);
    return margin < 0 ? Branches{likely, other} : Branches{other, likely};
  }
  if (decision == kFirst)
    return {0.0f, kNever};
  return decision == kSecond ? Branches{kNever, 0.0f} : Branches{-0.693147181f, -0.693147181f};
}

// Rows whose columns are not features (a forged model) must not lead outside the embeddings.
TAGWOOD_INLINE bool columns_fit(std::span<const int32_t> columns, int64_t n_features) {
  for (const int32_t column : columns)
    if (column < 0 || column >= n_features)
      return false;
  return true;
}

TAGWOOD_INLINE void embed(const CsrView &x, int64_t row, const Embeddings<const float> &model, float *hidden) {
  if (columns_fit(x.row_indices(row), model.n_features))
    weighted_sum(model.inputs, model.dimension, x.row_indices(row), x.row_data(row), hidden);
  else
    std::fill_n(hidden, model.dimension, 0.0f);
}

// Takes the best of `open` and `next` (node -1: none) into `next`; false if there is neither.
TAGWOOD_INLINE bool take_best(std::vector<Open> &open, Open &next) {
  const auto worse = [](const Open &a, const Open &b) { return is_worse(a, b); };
  if (open.empty() || (next.node >= 0 && !is_worse(next, open.front())))
    return next.node >= 0;
  std::pop_heap(open.begin(), open.end(), worse);
  if (next.node < 0) {
    next = open.back();
    open.pop_back();
  } else {
    std::swap(next, open.back());
    std::push_heap(open.begin(), open.end(), worse);
  }
  return true;
}

// Opens an inner node: the better child becomes `next`, which need not go through the heap if it is the best of all.
TAGWOOD_INLINE void open_node(const Search &s, int32_t first, const Branches &branches, Open &next,
                              std::vector<Open> &open) {
  const auto allowed = [&](int32_t node) { return s.node_allowed == nullptr || s.node_allowed[node]; };
  Open near{next.score + branches.first, first}, far{next.score + branches.second, first + 1};
  if (is_worse(near, far))
    std::swap(near, far);
  if (!allowed(near.node))
    std::swap(near, far);
  if (near.node != far.node && allowed(far.node) && allowed(near.node)) {
    open.push_back(far);
    std::push_heap(open.begin(), open.end(), [](const Open &a, const Open &b) { return is_worse(a, b); });
  }
  next = allowed(near.node) ? near : Open{0.0f, -1};
}

TAGWOOD_INLINE void search_row(const Search &s, int64_t row, Searcher &w) {
  int32_t found = 0, evaluated = 0;
  w.open.clear();
  Open next{0.0f, s.node_allowed == nullptr || s.node_allowed[0] ? 0 : -1};
  while (found < s.k && take_best(w.open, next)) {
    const int32_t first = s.tree.child_ptr[next.node];
    if (first < s.tree.child_ptr[next.node + 1]) {
      open_node(s, first, decide(s.model, s.tree.decision[next.node], w.hidden.data()), next, w.open);
      ++evaluated;
      continue;
    }
    const int32_t label = s.tree.labels[s.tree.label_ptr[next.node]]; // a leaf: nothing still open is more probable
    if (label >= 0 && label < s.tree.n_labels) {
      s.out.labels[row * s.k + found] = label;
      s.out.scores[row * s.k + found++] = std::exp(next.score);
    }
    next.node = -1;
  }
  s.out.found[row] = found;
  s.out.evaluated[row] = evaluated;
  for (int64_t place = found; place < s.k; ++place) {
    s.out.labels[row * s.k + place] = -1;
    s.out.scores[row * s.k + place] = 0.0f;
  }
}

TAGWOOD_HOT void search_rows(const Search &s, int64_t begin, int64_t end, Searcher &w) {
  w.hidden.resize(s.model.dimension);
  for (int64_t row = begin; row < end; ++row) {
    embed(s.x, row, s.model, w.hidden.data());
    search_row(s, row, w);
  }
}

TAGWOOD_HOT void score_rows(const CsrView &x, const Embeddings<const float> &model, const SoftmaxTree &tree,
                            const int32_t *parent, const CsrView &pairs, int64_t begin, int64_t end,
                            std::vector<float> &hidden, float *out) {
  hidden.resize(model.dimension);
  for (int64_t row = begin; row < end; ++row) {
    embed(x, row, model, hidden.data());
    for (int64_t i = pairs.indptr[row]; i < pairs.indptr[row + 1]; ++i) {
      float sum = 0;
      for (int32_t node = pairs.indices[i]; node > 0; node = parent[node]) {
        const Branches branches = decide(model, tree.decision[parent[node]], hidden.data());
        sum += node == tree.child_ptr[parent[node]] ? branches.first : branches.second;
      }
      out[i] = std::exp(sum);
    }
  }
}

} // namespace

void softmax_search(const CsrView &x, const Embeddings<const float> &model, const SoftmaxTree &tree, int64_t k,
                    const uint8_t *node_allowed, int threads, const SoftmaxFound &out) {
  const Search search{x, model, tree, k, node_allowed, out};
  std::vector<Searcher> searchers(std::max(1, threads));
  parallel_chunks(x.n_rows, threads, kChunk,
                  [&](int64_t begin, int64_t end, int thread) { search_rows(search, begin, end, searchers[thread]); });
}

void softmax_scores(const CsrView &x, const Embeddings<const float> &model, const SoftmaxTree &tree,
                    const int32_t *parent, const CsrView &leaves, int threads, float *out) {
  std::vector<std::vector<float>> hidden(std::max(1, threads));
  parallel_chunks(x.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int thread) {
    score_rows(x, model, tree, parent, leaves, begin, end, hidden[thread], out);
  });
}

} // namespace tagwood
