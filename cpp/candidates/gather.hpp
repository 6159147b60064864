// The candidates of several members' rankings, and the features that a fusion reads.
#pragma once

#include <cstdint>
#include <vector>

namespace tagwood {

struct RankingView {
  const int64_t *indptr;
  const int32_t *labels;
  const float *scores; // best first
};

struct GatheredCandidates {
  std::vector<int64_t> indptr; // of rows
  std::vector<int32_t> labels; // rising inside a row
  std::vector<float> features; // 3 of each member, then 3 of the candidate
};

// Features: for each member score, log(1 + place) and score / best score of the row, all NaN where the member does not
// return the label; then how many members have it among their best `found_among`, log(1 + rows of the label) and
// log(1 + length of the row).
GatheredCandidates gather_candidates(const std::vector<RankingView> &rankings, int64_t n_rows, const int64_t *counts,
                                     const int64_t *lengths, int64_t found_among, int threads);

} // namespace tagwood
