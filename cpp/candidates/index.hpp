// An inverted index of sparse rows, and the exact search for the rows with the largest inner product.
#pragma once

#include <cstdint>
#include <span>

#include "core/arrays.hpp"

namespace tagwood {

// Per feature the rows that have it, rising, with their weights in one byte: weight = code * scale[feature].
struct IndexView {
  const int64_t *feature_ptr; // n_features + 1
  const int32_t *rows;
  const uint8_t *codes;
  const float *scale;
  int64_t n_rows;
  int64_t n_features;
};

// Fills the arrays of an index of `rows`; weights must not be negative. The caller has made `feature_ptr` by counting.
void fill_index(const CsrView &rows, const int64_t *feature_ptr, int32_t *out_rows, uint8_t *out_codes,
                float *out_scale);

// Finds the k rows with the largest inner product with each query; ties go to the smaller row. Rows with `dead[row]`
// are left out; `dead` may be null. The last features of a query that together hold at most the share `neglected` of
// its squares do not count. out_* hold k places per query, out_found how many are used; the others are 0.
void nearest_rows(const IndexView &index, const uint8_t *dead, const CsrView &queries, int64_t k, float neglected,
                  int threads, int32_t *out_rows, float *out_scores, int32_t *out_found);

// Sums the weights of neighbours over their labels and returns the best k labels of each query. `rows` and `weights`
// hold `width` places per query, of which `found` are used. Labels with `blocked[label]` are left out.
void vote_labels(std::span<const int32_t> found, const int32_t *rows, const float *weights, int64_t width,
                 const int64_t *label_ptr, const int32_t *labels, const uint8_t *blocked, int64_t k, int threads,
                 int32_t *out_labels, float *out_scores, int32_t *out_found);

} // namespace tagwood
