// Row-wise operations on sparse matrices: norms, order checks, top-k, label centroids.
#pragma once

#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

void normalize_rows(const int64_t *indptr, const float *data, int64_t n_rows, int threads, float *out);

bool rows_rise(const int64_t *indptr, const int32_t *indices, int64_t n_rows);

// Whether a matrix of `stored` values is canonical: indptr rises from 0 to at most `stored`, columns rise strictly
// inside each row and are below n_cols, and all values are finite.
bool rows_valid(const CsrView &rows, int64_t stored);

// out_indptr (n_rows + 1) must be filled with the sizes min(k, row size) summed up; the others have its last entry.
void top_k_rows(const CsrView &rows, int threads, const int64_t *out_indptr, int32_t *out_indices, float *out_data);

// Sizes of the centroids: the number of different features over the rows of each label, at most max_features.
void centroid_sizes(const CsrView &x, const CsrView &labels, int64_t max_features, int threads, int64_t *sizes);

// Fills the centroids at out_indptr; `labels` holds one row per label: the rows of x it stands on, with weights.
// Where a label has more features than there is room for, the largest are kept (ties: the smaller feature).
void label_centroids(const CsrView &x, const CsrView &labels, int threads, const int64_t *out_indptr,
                     int32_t *out_indices, float *out_data);

} // namespace tagwood
