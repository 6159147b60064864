// Ranked labels: matches and gains for the metrics, the mean of several lists, calibrated scores.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/parallel.hpp"
#include "rows/rows.hpp"

namespace tagwood {

namespace {

constexpr int64_t kChunk = 4096;
constexpr size_t kShort = 16; // up to here comparing all pairs, or scanning, beats sorting and halving

bool all_pairs_differ(std::span<const int32_t> labels) {
  for (size_t i = 1; i < labels.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (labels[i] == labels[j])
        return false;
  return true;
}

bool holds(std::span<const int32_t> rising, int32_t label) {
  if (rising.size() > kShort)
    return std::binary_search(rising.begin(), rising.end(), label);
  bool found = false;
  for (const int32_t other : rising)
    found |= other == label;
  return found;
}

// Writes the running sum of gain(place) over `size` places at each cutoff.
template <class Gain> void sum_at_cutoffs(int64_t size, std::span<const int64_t> cutoffs, double *out, Gain &&gain) {
  double sum = 0;
  int64_t place = 0;
  for (size_t c = 0; c < cutoffs.size(); ++c) {
    for (const int64_t end = std::min(size, cutoffs[c]); place < end; ++place)
      sum += gain(place);
    out[c] = sum;
  }
}

} // namespace

bool rows_distinct(const LabelRows &rows) {
  std::vector<int32_t> sorted;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    const auto labels = rows.row(i);
    if (labels.size() <= kShort) {
      if (!all_pairs_differ(labels))
        return false;
      continue;
    }
    sorted.assign(labels.begin(), labels.end());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return false;
  }
  return true;
}

void match_rows(const LabelRows &truth, const LabelRows &ranked, int threads, uint8_t *hits) {
  parallel_chunks(ranked.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const auto rising = truth.row(i);
      for (int64_t e = ranked.indptr[i]; e < ranked.indptr[i + 1]; ++e)
        hits[e] = holds(rising, ranked.labels[e]);
    }
  });
}

void ranked_gains(const LabelRows &ranked, const uint8_t *hits, const Gains &gains, int threads, double *out) {
  const size_t n_cutoffs = gains.cutoffs.size();
  parallel_chunks(ranked.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const auto labels = ranked.row(i);
      const uint8_t *hit = hits + ranked.indptr[i];
      sum_at_cutoffs(static_cast<int64_t>(labels.size()), gains.cutoffs, out + i * n_cutoffs, [&](int64_t place) {
        return hit[place] ? gains.weights[labels[place]] * gains.discounts[place] : 0.0;
      });
    }
  });
}

void best_gains(const LabelRows &truth, const Gains &gains, int threads, double *out) {
  const size_t n_cutoffs = gains.cutoffs.size();
  const size_t deepest = n_cutoffs ? static_cast<size_t>(gains.cutoffs[n_cutoffs - 1]) : 0;
  parallel_chunks(truth.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int) {
    std::vector<double> falling;
    for (int64_t i = begin; i < end; ++i) {
      falling.clear();
      for (const int32_t label : truth.row(i))
        falling.push_back(gains.weights[label]);
      const size_t kept = std::min(deepest, falling.size());
      std::partial_sort(falling.begin(), falling.begin() + kept, falling.end(), std::greater<>());
      sum_at_cutoffs(static_cast<int64_t>(kept), gains.cutoffs, out + i * n_cutoffs,
                     [&](int64_t place) { return falling[place] * gains.discounts[place]; });
    }
  });
}

namespace {

struct Item {
  int32_t label;
  double score;
};

// Joins items of one label; their scores are added in the order of the lists.
void add_up(std::vector<Item> &items) {
  std::stable_sort(items.begin(), items.end(), [](const Item &a, const Item &b) { return a.label < b.label; });
  size_t kept = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (kept > 0 && items[kept - 1].label == items[i].label)
      items[kept - 1].score += items[i].score;
    else
      items[kept++] = items[i];
  }
  items.resize(kept);
}

} // namespace

void merge_lists(const Lists &lists, int k, int threads, int32_t *labels, float *scores, int32_t *found) {
  const double share = 1.0 / static_cast<double>(lists.n_lists);
  const int64_t chunk = std::clamp<int64_t>(lists.n_rows / std::max(1, threads), 1, 4096);
  parallel_chunks(lists.n_rows, lists.n_rows == 1 ? 1 : threads, chunk, [&](int64_t begin, int64_t end, int) {
    std::vector<Item> items;
    for (int64_t row = begin; row < end; ++row) {
      items.clear();
      for (int64_t list = 0; list < lists.n_lists; ++list) {
        const int64_t first = (list * lists.n_rows + row) * lists.width;
        const int64_t used = std::min<int64_t>(lists.found[list * lists.n_rows + row], lists.width);
        for (int64_t i = first; i < first + used; ++i)
          items.push_back({lists.labels[i], lists.scores[i] * share});
      }
      add_up(items);
      const int n = static_cast<int>(std::min<size_t>(items.size(), static_cast<size_t>(k)));
      std::partial_sort(items.begin(), items.begin() + n, items.end(), [](const Item &a, const Item &b) {
        const float x = static_cast<float>(a.score), y = static_cast<float>(b.score);
        return x != y ? x > y : a.label < b.label;
      });
      for (int i = 0; i < k; ++i) {
        labels[row * k + i] = i < n ? items[i].label : -1;
        scores[row * k + i] = i < n ? static_cast<float>(items[i].score) : 0.0f;
      }
      found[row] = n;
    }
  });
}

namespace {

constexpr double kEdge = 1e-6;

double value_at(const Curve &curve, double x) {
  const double *above = std::upper_bound(curve.x, curve.x + curve.n, x);
  if (above == curve.x)
    return curve.y[0];
  if (above == curve.x + curve.n)
    return curve.y[curve.n - 1];
  const int64_t at = above - curve.x - 1;
  const double slope = (curve.y[at + 1] - curve.y[at]) / (curve.x[at + 1] - curve.x[at]);
  return slope * (x - curve.x[at]) + curve.y[at];
}

} // namespace

void calibrate(const Curve &curve, const float *scores, int64_t n, bool as_odds, float *out) {
  for (int64_t i = 0; i < n; ++i) {
    double x = scores[i];
    if (as_odds) {
      x = std::clamp(x, kEdge, 1 - kEdge);
      x = std::log(x) - std::log1p(-x);
    }
    out[i] = static_cast<float>(value_at(curve, x));
  }
}

} // namespace tagwood
