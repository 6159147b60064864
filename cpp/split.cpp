#include "split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel.hpp"
#include "random.hpp"
#include "simd.hpp"

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
  std::vector<int32_t> rank;
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

// Copies the rows of `labels` into the compact space; features that stand on one label only cannot pull two labels
// together, but they do enter the norm of a centroid, so all are kept.
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

// f(lambda) over the labels of one node (the printed formula, frequencies renormalised inside the node).
void node_weights(const int32_t *labels, int64_t n, const double *frequency, const double *context,
                  const SplitOptions &o, std::vector<double> &weight) {
  weight.resize(n);
  double total = 0, context_total = 0;
  for (int64_t i = 0; i < n; ++i) {
    total += frequency[labels[i]];
    context_total += context[labels[i]];
  }
  const double coding = o.direct ? o.lam : std::max(o.lam - 1.0, 0.0);
  const double power = o.direct ? 0.0 : std::min(o.lam, 1.0);
  const double similarity = 2.0 - o.lam;
  double powered = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double f = total > 0 ? frequency[labels[i]] / total : 1.0 / n;
    weight[i] = power == 0 ? 1.0 : std::pow(f, power);
    powered += weight[i];
  }
  const double scale = o.direct && powered > 0 ? 1.0 / powered : 1.0;
  const double bottom = similarity * powered * scale + coding + o.gamma;
  for (int64_t i = 0; i < n; ++i) {
    const double f_tilde = context_total > 0 ? context[labels[i]] / context_total : 1.0 / n;
    weight[i] = (similarity * weight[i] * scale + coding * f_tilde + o.gamma / n) / bottom;
  }
}

// Lemma 1: +1 for the largest keys until half of the weight is reached; the label that crosses goes to the nearer
// side. Selects by repeated partition instead of sorting: O(n).
void assign_sides(const std::vector<double> &key, const std::vector<double> &weight, std::vector<int32_t> &rank,
                  std::vector<int8_t> &side) {
  const int64_t n = static_cast<int64_t>(key.size());
  rank.resize(n);
  std::iota(rank.begin(), rank.end(), 0);
  auto before = [&](int32_t a, int32_t b) { return key[a] != key[b] ? key[a] > key[b] : a < b; };
  const double half = 0.5 * std::accumulate(weight.begin(), weight.end(), 0.0);
  int64_t low = 0, high = n; // the crossing label is in rank[low:high]; `taken` is the weight before low
  double taken = 0;
  while (high - low > 32) {
    const int64_t middle = low + (high - low) / 2;
    std::nth_element(rank.begin() + low, rank.begin() + middle, rank.begin() + high, before);
    double left = 0;
    for (int64_t i = low; i < middle; ++i)
      left += weight[rank[i]];
    if (taken + left > half) {
      high = middle;
    } else {
      taken += left;
      low = middle;
    }
  }
  std::sort(rank.begin() + low, rank.begin() + high, before);
  while (low < n && taken + 0.5 * weight[rank[low]] <= half * (1 + 1e-12)) {
    taken += weight[rank[low]];
    ++low;
    if (low == high && high < n) { // numerically on the border: go on in order
      high = std::min<int64_t>(n, high + 32);
      std::nth_element(rank.begin() + low, rank.begin() + high - 1, rank.end(), before);
      std::sort(rank.begin() + low, rank.begin() + high, before);
    }
  }
  const int64_t n_plus = std::clamp<int64_t>(low, 1, n - 1); // neither side may end empty
  if (low == 0)
    std::nth_element(rank.begin(), rank.begin(), rank.end(), before);
  if (low == n)
    std::nth_element(rank.begin(), rank.begin() + n - 1, rank.end(), before);
  side.assign(n, -1);
  for (int64_t i = 0; i < n_plus; ++i)
    side[rank[i]] = 1;
}

// One node: alternates centroids and sides until the objective no longer rises; leaves the sides in scratch.side.
class NodeSplit {
public:
  NodeSplit(const CsrView &v, const int32_t *labels, int64_t n, const SplitOptions &o, Scratch &s)
      : v_(v), labels_(labels), n_(n), o_(o), s_(s) {
    int64_t stored = 0;
    for (int64_t i = 0; i < n; ++i)
      stored += v.row_size(labels[i]);
    compact_ = stored <= kCopyLimit;
    if (compact_)
      copy_local(v, labels, n, s);
    n_features_ = compact_ ? static_cast<int64_t>(s.local.feature_of.size()) : v.n_cols;
  }

  void run(const double *frequency, const double *context, uint64_t seed, int threads) {
    node_weights(labels_, n_, frequency, context, o_, s_.weight);
    coding_ = o_.direct ? 0.5 * o_.lam : std::max(o_.lam - 1.0, 0.0);
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
      const bool moved = s_.next_side != s_.side;
      update_sums(threads);
      std::swap(s_.side, s_.next_side);
      const double value = objective();
      if (pull == 0 || !moved || value <= best + o_.tolerance)
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

  // Makes the next difference of unit centroids and returns the objective that the present sides reach.
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
  double coding_ = 0;
};

} // namespace

SplitTree split_labels(const CsrView &v, const double *frequency, const double *context, const SplitOptions &o) {
  SplitTree tree;
  tree.order.resize(v.n_rows);
  std::iota(tree.order.begin(), tree.order.end(), 0);
  tree.begin = {0};
  tree.end = {v.n_rows};
  tree.left = {-1};
  std::vector<uint64_t> seeds = {mix(o.seed)};
  std::vector<Scratch> scratches(std::max(1, o.threads));
  std::vector<int64_t> cuts;
  // Generation by generation: few large nodes share the threads inside, many small ones are shared out.
  for (size_t first = 0; first < tree.begin.size();) {
    const size_t last = tree.begin.size();
    const int64_t n_nodes = static_cast<int64_t>(last - first);
    cuts.assign(n_nodes, -1);
    const bool inside = n_nodes < o.threads;
    parallel_chunks(n_nodes, inside ? 1 : o.threads, 1, [&](int64_t from, int64_t to, int thread) {
      for (int64_t at = from; at < to; ++at) {
        const size_t node = first + at;
        const int64_t size = tree.end[node] - tree.begin[node];
        if (size <= o.max_leaf_size)
          continue;
        int32_t *labels = tree.order.data() + tree.begin[node];
        Scratch &scratch = scratches[thread];
        NodeSplit(v, labels, size, o, scratch).run(frequency, context, seeds[node], inside ? o.threads : 1);
        std::vector<int32_t> minus;
        int64_t n_plus = 0;
        for (int64_t i = 0; i < size; ++i) {
          if (scratch.side[i] > 0)
            labels[n_plus++] = labels[i];
          else
            minus.push_back(labels[i]);
        }
        std::copy(minus.begin(), minus.end(), labels + n_plus);
        cuts[at] = tree.begin[node] + n_plus;
      }
    });
    for (int64_t at = 0; at < n_nodes; ++at) {
      if (cuts[at] < 0)
        continue;
      const size_t node = first + at;
      tree.left[node] = static_cast<int32_t>(tree.begin.size());
      tree.begin.insert(tree.begin.end(), {tree.begin[node], cuts[at]});
      tree.end.insert(tree.end.end(), {cuts[at], tree.end[node]});
      tree.left.insert(tree.left.end(), {-1, -1});
      seeds.insert(seeds.end(), {mix(seeds[node] * 2), mix(seeds[node] * 2 + 1)});
    }
    first = last;
  }
  return tree;
}

} // namespace tagwood
