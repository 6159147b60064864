#include "rows/match.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "core/parallel.hpp"

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

} // namespace tagwood
