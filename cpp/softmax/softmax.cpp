// The softmax tree: vector arithmetic that is inlined into the hot loops, then training, then search.
#include "softmax/softmax.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

// Eight floats at any address: two, one or half a register, depending on the machine.
typedef float Lane __attribute__((vector_size(32), aligned(4), may_alias));

constexpr int64_t kBlockLanes = 8; // lanes of a row that are kept in registers

TAGWOOD_INLINE Lane *lanes(float *values) { return reinterpret_cast<Lane *>(values); }
TAGWOOD_INLINE const Lane *lanes(const float *values) { return reinterpret_cast<const Lane *>(values); }

// Prefetches a whole row: rows are scattered in memory.
TAGWOOD_INLINE void prefetch_row(const float *row, int64_t dimension) {
  for (int64_t at = 0; at < dimension; at += 16)
    __builtin_prefetch(row + at);
}

// sum = Σ weights[i] · rows[ids[i]]
TAGWOOD_INLINE void weighted_sum(const float *rows, int64_t dimension, std::span<const int32_t> ids,
                                 std::span<const float> weights, float *sum) {
  constexpr size_t kAhead = 4;
  const size_t n = ids.size();
  const int64_t n_lanes = dimension / kLane;
  for (int64_t first = 0; first < n_lanes; first += kBlockLanes) {
    const int64_t width = std::min(kBlockLanes, n_lanes - first);
    Lane total[kBlockLanes] = {};
    if (width == kBlockLanes) {
      for (size_t i = 0; i < n; ++i) {
        if (first == 0 && i + kAhead < n)
          prefetch_row(rows + ids[i + kAhead] * dimension, dimension);
        const Lane *row = lanes(rows + ids[i] * dimension) + first;
        for (int64_t j = 0; j < kBlockLanes; ++j)
          total[j] += weights[i] * row[j];
      }
    } else {
      for (size_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < width; ++j)
          total[j] += weights[i] * (lanes(rows + ids[i] * dimension) + first)[j];
    }
    for (int64_t j = 0; j < width; ++j)
      lanes(sum)[first + j] = total[j];
  }
}

// rows[ids[i]] += weights[i] · step
TAGWOOD_INLINE void add_to_rows(float *rows, int64_t dimension, std::span<const int32_t> ids,
                                std::span<const float> weights, const float *step) {
  const int64_t n_lanes = dimension / kLane;
  for (int64_t first = 0; first < n_lanes; first += kBlockLanes) {
    const int64_t width = std::min(kBlockLanes, n_lanes - first);
    Lane kept[kBlockLanes] = {};
    for (int64_t j = 0; j < width; ++j)
      kept[j] = lanes(step)[first + j];
    if (width == kBlockLanes) {
      for (size_t i = 0; i < ids.size(); ++i) {
        Lane *row = lanes(rows + ids[i] * dimension) + first;
        for (int64_t j = 0; j < kBlockLanes; ++j)
          row[j] += weights[i] * kept[j];
      }
    } else {
      for (size_t i = 0; i < ids.size(); ++i)
        for (int64_t j = 0; j < width; ++j)
          (lanes(rows + ids[i] * dimension) + first)[j] += weights[i] * kept[j];
    }
  }
}

TAGWOOD_INLINE float dot(const float *a, const float *b, int64_t dimension) {
  Lane sums[4] = {};
  const int64_t n_lanes = dimension / kLane;
  int64_t j = 0;
  for (; j + 4 <= n_lanes; j += 4)
    for (int64_t u = 0; u < 4; ++u)
      sums[u] += lanes(a)[j + u] * lanes(b)[j + u];
  for (; j < n_lanes; ++j)
    sums[0] += lanes(a)[j] * lanes(b)[j];
  const Lane all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (int64_t u = 0; u < kLane; ++u)
    total += all[u];
  return total;
}

// e^x to the last digits of a float, without branches or calls: loops over it become vector code.
TAGWOOD_INLINE float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 87.0f);
  const float turns = x * 1.44269504088896341f;
  const int32_t power_of_two = static_cast<int32_t>(turns + (turns < 0 ? -0.5f : 0.5f));
  const float whole = static_cast<float>(power_of_two);
  const float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float power = 1.9875691500e-4f;
  power = power * rest + 1.3981999507e-3f;
  power = power * rest + 8.3334519073e-3f;
  power = power * rest + 4.1665795894e-2f;
  power = power * rest + 1.6666665459e-1f;
  power = power * rest + 5.0000001201e-1f;
  power = power * rest * rest + rest + 1.0f;
  return power * std::bit_cast<float>((power_of_two + 127) << 23);
}

TAGWOOD_INLINE float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

constexpr int64_t kTrainChunk = 64; // rows that a thread takes at a time
constexpr int64_t kSearchChunk = 32;

// Scratch of one thread.
struct Trainer {
  std::vector<float> space;
  std::vector<float> steps;
  float *hidden = nullptr;
  float *gradient = nullptr;

  void reserve(int64_t dimension) {
    space.assign(2 * dimension + 32, 0.0f);
    const auto address = reinterpret_cast<uintptr_t>(space.data());
    hidden = space.data() + (64 - address % 64) % 64 / sizeof(float);
    gradient = hidden + (dimension + 15) / 16 * 16;
  }
};

struct Epoch {
  const CsrView &x;
  const CsrView &labels;
  const PathsView &paths;
  const int32_t *order;
  int64_t n_order;
  const EpochOptions &options;
  const Embeddings<float> &model;
};

// Updates the vectors on the path to one label, and adds the update of the hidden vector to `gradient`.
TAGWOOD_INLINE void follow_path(const Embeddings<float> &model, const int32_t *path, int64_t n_steps, float rate,
                                Trainer &t) {
  const int64_t dimension = model.dimension;
  if (static_cast<int64_t>(t.steps.size()) < n_steps)
    t.steps.resize(n_steps);
  float *steps = t.steps.data();
  for (int64_t s = 0; s < n_steps; ++s)
    prefetch_row(model.outputs + (path[s] >> 1) * dimension, dimension);
  for (int64_t s = 0; s < n_steps; ++s)
    steps[s] = dot(t.hidden, model.outputs + (path[s] >> 1) * dimension, dimension);
  for (int64_t s = 0; s < n_steps; ++s)
    steps[s] = rate * (static_cast<float>(path[s] & 1) - sigmoid(steps[s]));
  const Lane *hidden = lanes(t.hidden);
  Lane *gradient = lanes(t.gradient);
  for (int64_t s = 0; s < n_steps; ++s) {
    Lane *output = lanes(model.outputs + (path[s] >> 1) * dimension);
    const float step = steps[s];
    for (int64_t j = 0; j < dimension / kLane; ++j) {
      const Lane before = output[j];
      gradient[j] += step * before;
      output[j] = before + step * hidden[j];
    }
  }
}

TAGWOOD_HOT void train_rows(const Epoch &e, int64_t begin, int64_t end, Trainer &t) {
  const int64_t dimension = e.model.dimension;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = e.order[i];
    const auto labels = e.labels.row_indices(row);
    const auto features = e.x.row_indices(row);
    const auto weights = e.x.row_data(row);
    if (labels.empty() || features.empty())
      continue;
    const float done = static_cast<float>(static_cast<double>(i) / static_cast<double>(e.n_order));
    const float rate = e.options.first_rate + done * (e.options.last_rate - e.options.first_rate);
    weighted_sum(e.model.inputs, dimension, features, weights, t.hidden);
    std::fill_n(t.gradient, dimension, 0.0f);
    for (const int32_t label : labels)
      follow_path(e.model, e.paths.steps + e.paths.ptr[label], e.paths.ptr[label + 1] - e.paths.ptr[label], rate, t);
    add_to_rows(e.model.inputs, dimension, features, weights, t.gradient);
  }
}

} // namespace

void softmax_epoch(const CsrView &x, const CsrView &labels, const PathsView &paths, const int32_t *order,
                   int64_t n_order, const EpochOptions &options, const Embeddings<float> &model) {
  const Epoch epoch{x, labels, paths, order, n_order, options, model};
  std::vector<Trainer> trainers(std::max(1, options.threads));
  for (Trainer &trainer : trainers)
    trainer.reserve(model.dimension);
  parallel_chunks(n_order, options.threads, kTrainChunk,
                  [&](int64_t begin, int64_t end, int thread) { train_rows(epoch, begin, end, trainers[thread]); });
}

namespace {

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

// Rows whose columns are not features (a damaged model) must not lead outside the embeddings.
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
  parallel_chunks(x.n_rows, threads, kSearchChunk,
                  [&](int64_t begin, int64_t end, int thread) { search_rows(search, begin, end, searchers[thread]); });
}

void softmax_scores(const CsrView &x, const Embeddings<const float> &model, const SoftmaxTree &tree,
                    const int32_t *parent, const CsrView &leaves, int threads, float *out) {
  std::vector<std::vector<float>> hidden(std::max(1, threads));
  parallel_chunks(x.n_rows, threads, kSearchChunk, [&](int64_t begin, int64_t end, int thread) {
    score_rows(x, model, tree, parent, leaves, begin, end, hidden[thread], out);
  });
}

} // namespace tagwood
