#include "candidates/gather.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int64_t kChunk = 256; // rows
constexpr int kPerMember = 3, kShared = 3;

float log_of(int64_t count) { return static_cast<float>(std::log1p(static_cast<double>(count))); }

// Writes the features of one row's candidates, whose labels rise from `begin` to `end`.
void write_features(const std::vector<RankingView> &rankings, int64_t row, const int32_t *begin, const int32_t *end,
                    const std::vector<float> &log_places, int64_t found_among, float *out) {
  const int64_t width = kPerMember * static_cast<int64_t>(rankings.size()) + kShared;
  for (size_t member = 0; member < rankings.size(); ++member) {
    const RankingView &ranking = rankings[member];
    const int64_t first = ranking.indptr[row];
    for (int64_t entry = first; entry < ranking.indptr[row + 1]; ++entry) {
      float *features = out + (std::lower_bound(begin, end, ranking.labels[entry]) - begin) * width;
      float *own = features + kPerMember * member;
      const float best = ranking.scores[first];
      own[0] = ranking.scores[entry];
      own[1] = log_places[entry - first];
      own[2] = ranking.scores[entry] / (best == 0.0f ? 1.0f : best);
      features[width - kShared] += entry - first < found_among;
    }
  }
}

} // namespace

GatheredCandidates gather_candidates(const std::vector<RankingView> &rankings, int64_t n_rows, const int64_t *counts,
                                     const int64_t *lengths, int64_t found_among, int threads) {
  const int64_t width = kPerMember * static_cast<int64_t>(rankings.size()) + kShared;
  std::vector<std::vector<int32_t>> chunks((n_rows + kChunk - 1) / kChunk);
  GatheredCandidates found;
  found.indptr.assign(n_rows + 1, 0);
  int64_t longest = 0;
  for (const RankingView &ranking : rankings)
    for (int64_t row = 0; row < n_rows; ++row)
      longest = std::max(longest, ranking.indptr[row + 1] - ranking.indptr[row]);
  std::vector<float> log_places(longest);
  for (int64_t place = 0; place < longest; ++place)
    log_places[place] = log_of(place);
  parallel_chunks(n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int) {
    std::vector<int32_t> &labels = chunks[begin / kChunk];
    for (int64_t row = begin; row < end; ++row) {
      const auto start = static_cast<int64_t>(labels.size());
      for (const RankingView &ranking : rankings)
        labels.insert(labels.end(), ranking.labels + ranking.indptr[row], ranking.labels + ranking.indptr[row + 1]);
      std::sort(labels.begin() + start, labels.end());
      labels.erase(std::unique(labels.begin() + start, labels.end()), labels.end());
      found.indptr[row + 1] = static_cast<int64_t>(labels.size()) - start;
    }
  });
  for (int64_t row = 0; row < n_rows; ++row)
    found.indptr[row + 1] += found.indptr[row];
  found.labels.resize(found.indptr[n_rows]);
  found.features.resize(found.indptr[n_rows] * width);
  parallel_chunks(n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int) {
    std::copy(chunks[begin / kChunk].begin(), chunks[begin / kChunk].end(), found.labels.begin() + found.indptr[begin]);
    for (int64_t row = begin; row < end; ++row) {
      const float log_length = log_of(lengths[row]);
      for (int64_t i = found.indptr[row]; i < found.indptr[row + 1]; ++i) {
        float *features = found.features.data() + i * width;
        std::fill_n(features, width - kShared, std::numeric_limits<float>::quiet_NaN());
        features[width - 3] = 0.0f;
        features[width - 2] = log_of(counts[found.labels[i]]);
        features[width - 1] = log_length;
      }
      const int32_t *labels = found.labels.data();
      write_features(rankings, row, labels + found.indptr[row], labels + found.indptr[row + 1], log_places, found_among,
                     found.features.data() + found.indptr[row] * width);
    }
  });
  return found;
}

} // namespace tagwood
