#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel.hpp"

namespace tagwood {

void normalize_rows(const int64_t *indptr, const float *data, int64_t n_rows, int threads, float *out) {
  parallel_chunks(n_rows, threads, 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      double sum = 0;
      for (int64_t i = indptr[row]; i < indptr[row + 1]; ++i)
        sum += static_cast<double>(data[i]) * data[i];
      const double scale = sum > 0 ? 1.0 / std::sqrt(sum) : 1.0;
      for (int64_t i = indptr[row]; i < indptr[row + 1]; ++i)
        out[i] = static_cast<float>(data[i] * scale);
    }
  });
}

bool rows_rise(const int64_t *indptr, const int32_t *indices, int64_t n_rows) {
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t i = indptr[row] + 1; i < indptr[row + 1]; ++i)
      if (indices[i] <= indices[i - 1])
        return false;
  return true;
}

bool rows_valid(const CsrView &rows, int64_t stored) {
  if (rows.indptr[0] != 0 || rows.indptr[rows.n_rows] > stored)
    return false;
  for (int64_t row = 0; row < rows.n_rows; ++row) {
    if (rows.indptr[row + 1] < rows.indptr[row] || rows.indptr[row + 1] > stored)
      return false;
    int64_t last = -1;
    float sum = 0; // not finite as soon as one value is not
    for (int64_t i = rows.indptr[row]; i < rows.indptr[row + 1]; ++i) {
      if (rows.indices[i] <= last || rows.indices[i] >= rows.n_cols)
        return false;
      last = rows.indices[i];
      sum += rows.data[i] * 0.0f;
    }
    if (!(sum == 0.0f))
      return false;
  }
  return true;
}

void top_k_rows(const CsrView &rows, int threads, const int64_t *out_indptr, int32_t *out_indices, float *out_data) {
  parallel_chunks(rows.n_rows, threads, 256, [&](int64_t begin, int64_t end, int) {
    std::vector<int32_t> order;
    for (int64_t row = begin; row < end; ++row) {
      const auto indices = rows.row_indices(row);
      const auto data = rows.row_data(row);
      const int64_t kept = out_indptr[row + 1] - out_indptr[row];
      order.resize(indices.size());
      std::iota(order.begin(), order.end(), 0);
      auto before = [&](int32_t a, int32_t b) {
        return data[a] != data[b] ? data[a] > data[b] : indices[a] < indices[b];
      };
      std::partial_sort(order.begin(), order.begin() + kept, order.end(), before);
      for (int64_t i = 0; i < kept; ++i) {
        out_indices[out_indptr[row] + i] = indices[order[i]];
        out_data[out_indptr[row] + i] = data[order[i]];
      }
    }
  });
}

void centroid_sizes(const CsrView &x, const CsrView &labels, int threads, int64_t *sizes) {
  std::vector<std::vector<int32_t>> marks(std::max(1, threads));
  parallel_chunks(labels.n_rows, threads, 512, [&](int64_t begin, int64_t end, int thread) {
    auto &mark = marks[thread];
    mark.resize(x.n_cols, -1);
    for (int64_t label = begin; label < end; ++label) {
      int64_t size = 0;
      for (const int32_t row : labels.row_indices(label))
        for (const int32_t feature : x.row_indices(row)) {
          size += mark[feature] != static_cast<int32_t>(label);
          mark[feature] = static_cast<int32_t>(label);
        }
      sizes[label] = size;
    }
  });
}

void label_centroids(const CsrView &x, const CsrView &labels, int threads, const int64_t *out_indptr,
                     int32_t *out_indices, float *out_data) {
  struct Scratch {
    std::vector<float> sum;
    std::vector<int32_t> mark;
  };
  std::vector<Scratch> scratches(std::max(1, threads));
  parallel_chunks(labels.n_rows, threads, 256, [&](int64_t begin, int64_t end, int thread) {
    auto &[sum, mark] = scratches[thread];
    sum.resize(x.n_cols);
    mark.resize(x.n_cols, -1);
    for (int64_t label = begin; label < end; ++label) {
      int32_t *columns = out_indices + out_indptr[label];
      int64_t size = 0;
      const auto rows = labels.row_indices(label);
      const auto weights = labels.row_data(label);
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto features = x.row_indices(rows[r]);
        const auto values = x.row_data(rows[r]);
        for (size_t i = 0; i < features.size(); ++i) {
          const int32_t f = features[i];
          if (mark[f] != static_cast<int32_t>(label)) {
            mark[f] = static_cast<int32_t>(label);
            sum[f] = 0;
            columns[size++] = f;
          }
          sum[f] += weights[r] * values[i];
        }
      }
      if (size > x.n_cols / 16) { // many features: a scan is cheaper than a sort
        int64_t at = 0;
        for (int64_t f = 0; f < x.n_cols; ++f)
          if (mark[f] == static_cast<int32_t>(label))
            columns[at++] = static_cast<int32_t>(f);
      } else {
        std::sort(columns, columns + size);
      }
      double norm = 0;
      for (int64_t i = 0; i < size; ++i)
        norm += static_cast<double>(sum[columns[i]]) * sum[columns[i]];
      const double scale = norm > 0 ? 1.0 / std::sqrt(norm) : 1.0;
      for (int64_t i = 0; i < size; ++i)
        out_data[out_indptr[label] + i] = static_cast<float>(sum[columns[i]] * scale);
    }
  });
}

} // namespace tagwood
