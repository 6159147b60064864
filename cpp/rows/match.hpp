// What ranking metrics count: which returned labels are true, what they gain, and the best that was to be gained.
#pragma once

#include <cstdint>
#include <span>

namespace tagwood {

// Ragged lists of labels: row i holds labels[indptr[i]:indptr[i + 1]].
struct LabelRows {
  const int64_t *indptr;
  const int32_t *labels;
  int64_t n_rows;

  std::span<const int32_t> row(int64_t i) const {
    return {labels + indptr[i], static_cast<size_t>(indptr[i + 1] - indptr[i])};
  }
};

// How entries are counted: weights per label, discounts per place, cutoffs (rising places at which sums are taken).
struct Gains {
  const double *weights;
  const double *discounts;
  std::span<const int64_t> cutoffs;
};

// Says whether no row holds a label twice.
bool rows_distinct(const LabelRows &rows);

// hits[e] = 1 where the label of entry e of `ranked` is among the (rising) labels of the same row of `truth`.
void match_rows(const LabelRows &truth, const LabelRows &ranked, int threads, uint8_t *hits);

// out[i * n_cutoffs + c] = sum over the first cutoffs[c] entries of row i of hit * weight * discount.
void ranked_gains(const LabelRows &ranked, const uint8_t *hits, const Gains &gains, int threads, double *out);

// The same sums for the best ranking of each row: its true labels in falling order of weight.
void best_gains(const LabelRows &truth, const Gains &gains, int threads, double *out);

} // namespace tagwood
