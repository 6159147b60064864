// Views of arrays that Python owns. Kernels take these and numbers, and know nothing of Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tagwood {

// A sparse matrix in compressed rows: indptr has n_rows + 1 entries; columns rise inside a row.
struct CsrView {
  const int64_t *indptr;
  const int32_t *indices;
  const float *data;
  int64_t n_rows;
  int64_t n_cols;

  int64_t row_size(int64_t row) const { return indptr[row + 1] - indptr[row]; }
  std::span<const int32_t> row_indices(int64_t row) const {
    return {indices + indptr[row], static_cast<size_t>(row_size(row))};
  }
  std::span<const float> row_data(int64_t row) const {
    return {data + indptr[row], static_cast<size_t>(row_size(row))};
  }
};

} // namespace tagwood
