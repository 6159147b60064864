#include "tree/split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.hpp"
#include "core/random.hpp"

namespace tagwood {

namespace {

// Above this many stored values a node is split in place, without a compact copy, to bound the memory.
constexpr int64_t kCopyLimit = int64_t{48} << 20;

// The labels of one node in a feature space of their own: hot loops then run in small, dense arrays.
struct LocalLabels {
  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
  std::vector<float> data;
  std::vector<int32_t> feature_of; // compact id -> feature
};

struct Scratch {
  std::vector<int32_t> local_of; // feature -> compact id, -1 where absent; all -1 between nodes
  LocalLabels local;
  std::vector<float> sum_plus, sum_minus, difference;
  std::vector<double> weight, key;
  std::vector<float> similarity;
  std::vector<int8_t> side, next_side;
  std::vector<int32_t> rank, minus;
};

TAGWOOD_HOT float gather_dot(const int32_t *indices, const float *data, int64_t n, const float *dense) {
  float a = 0, b = 0, c = 0, d = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a += data[i] * dense[indices[i]];
    b += data[i + 1] * dense[indices[i + 1]];
    c += data[i + 2] * dense[indices[i + 2]];
    d += data[i + 3] * dense[indices[i + 3]];
  }
  for (; i < n; ++i)
    a += data[i] * dense[indices[i]];
  return (a + b) + (c + d);
}

void scatter_add(const int32_t *indices, const float *data, int64_t n, float scale, float *dense) {
  for (int64_t i = 0; i < n; ++i)
    dense[indices[i]] += scale * data[i];
}

// Copies the rows of `labels` into the compact space. Features of a single label cannot attract two labels to each
// other, but they count in the norm of a centroid, so all are kept.
void copy_local(const CsrView &v, const int32_t *labels, int64_t n, Scratch &scratch) {
  auto &local = scratch.local;
  scratch.local_of.resize(v.n_cols, -1);
  local.indptr.assign(1, 0);
  local.indices.clear();
  local.data.clear();
  local.feature_of.clear();
  for (int64_t i = 0; i < n; ++i) {
    const auto features = v.row_indices(labels[i]);
    const auto values = v.row_data(labels[i]);
    for (size_t t = 0; t < features.size(); ++t) {
      int32_t &id = scratch.local_of[features[t]];
      if (id < 0) {
        id = static_cast<int32_t>(local.feature_of.size());
        local.feature_of.push_back(features[t]);
      }
      local.indices.push_back(id);
      local.data.push_back(values[t]);
    }
    local.indptr.push_back(static_cast<int64_t>(local.indices.size()));
  }
  for (const int32_t feature : local.feature_of)
    scratch.local_of[feature] = -1;
}

// One node: alternates centroids and sides until the objective no longer rises; leaves the sides in scratch.side.
class NodeSplit {
public:
  NodeSplit(const CsrView &v, const int32_t *labels, int64_t n, const SplitOptions &o, Scratch &s)
      : v_(v), labels_(labels), n_(n), o_(o), s_(s), coding_(coding_weight(o)) {
    if (o.lam == 2)
      return; // features do not count
    int64_t stored = 0;
    for (int64_t i = 0; i < n; ++i)
      stored += v.row_size(labels[i]);
    compact_ = stored <= kCopyLimit;
    if (compact_)
      copy_local(v, labels, n, s);
    n_features_ = compact_ ? static_cast<int64_t>(s.local.feature_of.size()) : v.n_cols;
  }

  void run(const Frequencies &frequencies, uint64_t seed, int threads) {
    node_weights(labels_, n_, frequencies, o_, s_.weight);
    if (o_.lam == 2) {
      assign_sides(s_.weight, s_.weight, s_.rank, s_.side);
      return;
    }
    const double pull = 0.5 * (2.0 - o_.lam);
    start(seed);
    s_.side.assign(n_, 0);
    double best = -1e300;
    for (int iteration = 0; iteration < o_.max_iterations; ++iteration) {
      similarities(threads);
      s_.key.resize(n_);
      for (int64_t i = 0; i < n_; ++i)
        s_.key[i] = pull * s_.similarity[i] + coding_ * s_.weight[i];
      assign_sides(s_.key, s_.weight, s_.rank, s_.next_side);
      if (s_.next_side == s_.side)
        break;
      update_sums(threads);
      std::swap(s_.side, s_.next_side);
      const double value = objective();
      if (value < best)
        std::swap(s_.side, s_.next_side); // rounding the fractional label lost more than the step had won
      if (value <= best + o_.tolerance)
        break;
      best = value;
    }
  }

private:
  int64_t begin(int64_t i) const { return compact_ ? s_.local.indptr[i] : v_.indptr[labels_[i]]; }
  int64_t end(int64_t i) const { return compact_ ? s_.local.indptr[i + 1] : v_.indptr[labels_[i] + 1]; }
  const int32_t *indices() const { return compact_ ? s_.local.indices.data() : v_.indices; }
  const float *data() const { return compact_ ? s_.local.data.data() : v_.data; }

  // The first centroids are two different labels drawn at random.
  void start(uint64_t seed) {
    Random random(seed);
    const int64_t a = random.below(n_);
    const int64_t b = (a + 1 + random.below(n_ - 1)) % n_;
    s_.sum_plus.assign(n_features_, 0);
    s_.sum_minus.assign(n_features_, 0);
    s_.difference.assign(n_features_, 0);
    add(a, 1.0f, s_.difference);
    add(b, -1.0f, s_.difference);
  }

  void add(int64_t i, float scale, std::vector<float> &dense) const {
    scatter_add(indices() + begin(i), data() + begin(i), end(i) - begin(i), scale, dense.data());
  }

  void similarities(int threads) {
    s_.similarity.resize(n_);
    parallel_chunks(n_, threads, 64, [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i)
        s_.similarity[i] = gather_dot(indices() + begin(i), data() + begin(i), end(i) - begin(i), s_.difference.data());
    });
  }

  // Only labels that change sides touch the sums; each side is summed by one thread, in label order.
  void update_sums(int threads) {
    parallel_chunks(2, threads, 1, [&](int64_t from, int64_t to, int) {
      for (int64_t which = from; which < to; ++which) {
        const int8_t mine = which == 0 ? 1 : -1;
        auto &sum = which == 0 ? s_.sum_plus : s_.sum_minus;
        for (int64_t i = 0; i < n_; ++i) {
          if (s_.side[i] == s_.next_side[i])
            continue;
          if (s_.next_side[i] == mine)
            add(i, static_cast<float>(s_.weight[i] * n_), sum);
          else if (s_.side[i] == mine)
            add(i, -static_cast<float>(s_.weight[i] * n_), sum);
        }
      }
    });
  }

  // Computes the next difference of unit centroids and returns the objective of the current sides.
  double objective() {
    double plus = 0, minus = 0;
    for (int64_t f = 0; f < n_features_; ++f) {
      plus += static_cast<double>(s_.sum_plus[f]) * s_.sum_plus[f];
      minus += static_cast<double>(s_.sum_minus[f]) * s_.sum_minus[f];
    }
    plus = std::sqrt(plus);
    minus = std::sqrt(minus);
    const float scale_plus = plus > 0 ? static_cast<float>(1 / plus) : 0.0f;
    const float scale_minus = minus > 0 ? static_cast<float>(1 / minus) : 0.0f;
    for (int64_t f = 0; f < n_features_; ++f)
      s_.difference[f] = scale_plus * s_.sum_plus[f] - scale_minus * s_.sum_minus[f];
    double coding = 0;
    for (int64_t i = 0; i < n_; ++i)
      coding += s_.side[i] * s_.weight[i] * s_.weight[i];
    // The sum over a side of f v.mu is |sum of f v|: the centroid is that sum, scaled to norm 1.
    return (2.0 - o_.lam) * (plus + minus) / n_ + coding_ * coding;
  }

  const CsrView &v_;
  const int32_t *labels_;
  int64_t n_;
  const SplitOptions &o_;
  Scratch &s_;
  bool compact_ = true;
  int64_t n_features_ = 0;
  double coding_;
};

// Splits the labels of one node in place, keeping their order on each side; returns how many went to the left.
int64_t split_node(const CsrView &v, int32_t *labels, int64_t size, const Frequencies &frequencies,
                   const SplitOptions &o, uint64_t seed, int threads, Scratch &scratch) {
  NodeSplit(v, labels, size, o, scratch).run(frequencies, seed, threads);
  scratch.minus.clear();
  int64_t n_plus = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (scratch.side[i] > 0)
      labels[n_plus++] = labels[i];
    else
      scratch.minus.push_back(labels[i]);
  }
  std::copy(scratch.minus.begin(), scratch.minus.end(), labels + n_plus);
  return n_plus;
}

// The nodes of one generation. A large node is split by all threads together, the others are distributed over the
// threads: unbalanced trees have both kinds on one level.
class Generation {
public:
  Generation(const SplitTree &tree, size_t first, const SplitOptions &o) {
    int64_t n_labels = 0;
    for (size_t node = first; node < tree.begin.size(); ++node)
      n_labels += tree.end[node] - tree.begin[node] > o.max_leaf_size ? tree.end[node] - tree.begin[node] : 0;
    for (size_t node = first; node < tree.begin.size(); ++node) {
      const int64_t size = tree.end[node] - tree.begin[node];
      if (size <= o.max_leaf_size)
        continue;
      const bool is_large = o.threads > 1 && size >= kLargeNode && size > n_labels / (2 * o.threads);
      (is_large ? large : small).push_back(node);
    }
  }

  std::vector<size_t> large, small;

private:
  static constexpr int64_t kLargeNode = 2048; // below, starting threads costs more than it gains
};

} // namespace

SplitTree split_labels(const CsrView &v, const double *frequency, const double *context, const SplitOptions &o) {
  const Frequencies frequencies(frequency, context, v.n_rows, o);
  SplitTree tree;
  tree.order.resize(v.n_rows);
  std::iota(tree.order.begin(), tree.order.end(), 0);
  tree.begin = {0};
  tree.end = {v.n_rows};
  tree.left = {-1};
  std::vector<uint64_t> seeds = {mix(o.seed)};
  std::vector<Scratch> scratches(std::max(1, o.threads));
  std::vector<int64_t> cuts;
  for (size_t first = 0; first < tree.begin.size();) {
    const size_t last = tree.begin.size();
    cuts.assign(last - first, -1);
    const Generation generation(tree, first, o);
    auto split = [&](size_t node, int threads, Scratch &scratch) {
      int32_t *labels = tree.order.data() + tree.begin[node];
      const int64_t size = tree.end[node] - tree.begin[node];
      cuts[node - first] =
          tree.begin[node] + split_node(v, labels, size, frequencies, o, seeds[node], threads, scratch);
    };
    for (const size_t node : generation.large)
      split(node, o.threads, scratches[0]);
    const int64_t n_small = static_cast<int64_t>(generation.small.size());
    parallel_chunks(n_small, o.threads, 1, [&](int64_t from, int64_t to, int thread) {
      for (int64_t at = from; at < to; ++at)
        split(generation.small[at], 1, scratches[thread]);
    });
    for (size_t node = first; node < last; ++node) {
      const int64_t cut = cuts[node - first];
      if (cut < 0)
        continue;
      const int64_t begin = tree.begin[node], end = tree.end[node];
      tree.left[node] = static_cast<int32_t>(tree.begin.size());
      tree.begin.insert(tree.begin.end(), {begin, cut});
      tree.end.insert(tree.end.end(), {cut, end});
      tree.left.insert(tree.left.end(), {-1, -1});
      seeds.insert(seeds.end(), {mix(seeds[node] * 2), mix(seeds[node] * 2 + 1)});
    }
    first = last;
  }
  return tree;
}

} // namespace tagwood
