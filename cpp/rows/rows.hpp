// Row-wise operations on sparse matrices, rows parsed from text, and operations on ranked labels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

void normalize_rows(const int64_t *indptr, const float *data, int64_t n_rows, int threads, float *out);

bool rows_rise(const int64_t *indptr, const int32_t *indices, int64_t n_rows);

// Whether a matrix of `stored` values is canonical: indptr rises from 0 to at most `stored`, columns rise strictly
// inside each row and are below n_cols, and all values are finite.
bool rows_valid(const CsrView &rows, int64_t stored);

// Keeps the largest entries of each row. out_indptr (n_rows + 1) holds the running sum of min(k, row size).
void top_k_rows(const CsrView &rows, int threads, const int64_t *out_indptr, int32_t *out_indices, float *out_data);

// Copies some rows of x, in rising order; `mapped`: x is in files whose pages are released when they have been copied.
void take_rows(const CsrView &x, std::span<const int32_t> rows, bool mapped, int32_t *out_indices, float *out_data);

// Sizes of the centroids: the number of different features over the rows of each label, at most max_features. With
// `mapped`, pages of x are released when they have been read.
void centroid_sizes(const CsrView &x, const CsrView &labels, int64_t max_features, int threads, bool mapped,
                    int64_t *sizes);

// Fills the centroids at out_indptr; `labels` holds one row per label: the rows of x it stands on, with weights.
// Where a label has more features than there is room for, the largest are kept (ties: the smaller feature).
void label_centroids(const CsrView &x, const CsrView &labels, int threads, bool mapped, const int64_t *out_indptr,
                     int32_t *out_indices, float *out_data);

// What is wrong with a line of text; the messages for users are in Python.
enum class RowProblem : int32_t {
  none = 0,
  label = 1,         // a label is not a whole number, or a comma has nothing beside it
  label_range = 2,   // a label is not below n_labels
  feature = 3,       // not "feature:value" with a whole number before the colon
  feature_range = 4, // a feature is not below n_features
  value = 5,         // the value is not a number
  value_range = 6,   // the value is infinite or too large for float32
};

struct ParsedRows {
  std::vector<int64_t> label_ends;
  std::vector<int32_t> labels;
  std::vector<int64_t> feature_ends;
  std::vector<int32_t> features;
  std::vector<float> values;
  int64_t consumed = 0; // bytes of the complete lines that were parsed; on a problem, the start of its line
  RowProblem problem = RowProblem::none;
  int64_t problem_at = 0; // byte where the offending token begins
};

// Parses sparse rows, "l1,l2 f:v f:v ..." per line, the format of the extreme classification repository. Reads
// complete lines, at most max_rows, and stops before the first bad one. A line without a line break at the
// end is parsed only if `last`. A first token with a colon is a feature: such a row has no labels.
void parse_rows(const char *text, int64_t size, bool last, int64_t max_rows, int64_t n_labels, int64_t n_features,
                ParsedRows &out);

// Ragged lists of labels: row i holds labels[indptr[i]:indptr[i + 1]].
struct LabelRows {
  const int64_t *indptr;
  const int32_t *labels;
  int64_t n_rows;

  std::span<const int32_t> row(int64_t i) const {
    return {labels + indptr[i], static_cast<size_t>(indptr[i + 1] - indptr[i])};
  }
};

// Weights per label, discounts per place, and cutoffs: the rising places at which sums are taken.
struct Gains {
  const double *weights;
  const double *discounts;
  std::span<const int64_t> cutoffs;
};

// Whether no row holds a label twice.
bool rows_distinct(const LabelRows &rows);

// hits[e] = 1 where the label of entry e of `ranked` is among the (rising) labels of the same row of `truth`.
void match_rows(const LabelRows &truth, const LabelRows &ranked, int threads, uint8_t *hits);

// out[i * n_cutoffs + c] = sum over the first cutoffs[c] entries of row i of hit * weight * discount.
void ranked_gains(const LabelRows &ranked, const uint8_t *hits, const Gains &gains, int threads, double *out);

// The same sums for the best ranking of each row: its true labels in falling order of weight.
void best_gains(const LabelRows &truth, const Gains &gains, int threads, double *out);

// Results of several searches for the same rows: `width` places per row and list, of which the first
// found[list * n_rows + row] are used.
struct Lists {
  const int32_t *labels;
  const float *scores;
  const int32_t *found;
  int64_t n_lists, n_rows, width;
};

// Writes the best k labels of each row by the mean score over the lists (0 where a list does not have the label); ties
// go to the smaller label. Unused places are -1.
void merge_lists(const Lists &lists, int k, int threads, int32_t *labels, float *scores, int32_t *found);

// A rising curve from scores to probabilities. Knots (x, y), x rising, n at least 1; linear between them, constant
// beyond.
struct Curve {
  const double *x;
  const double *y;
  int64_t n;
};

// Writes the curve's value at each of n scores, or at its log odds (scores then being shares of 1, kept within 1e-6 of
// 0 and 1).
void calibrate(const Curve &curve, const float *scores, int64_t n, bool as_odds, float *out);

} // namespace tagwood
