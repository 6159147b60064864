#include "rows/rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "core/pages.hpp"
#include "core/parallel.hpp"

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

namespace {

// One number for a value and its column: it is larger for a larger value and, among equal ones, for a smaller column.
uint64_t pack_entry(float value, int32_t column) {
  constexpr uint32_t kSign = 0x80000000u;
  const uint32_t bits = value == 0 ? 0 : std::bit_cast<uint32_t>(value);
  const uint32_t rising = bits & kSign ? ~bits : bits | kSign;
  return static_cast<uint64_t>(rising) << 32 | ~static_cast<uint32_t>(column);
}

float value_of(uint64_t entry) {
  constexpr uint32_t kSign = 0x80000000u;
  const auto rising = static_cast<uint32_t>(entry >> 32);
  return std::bit_cast<float>(rising & kSign ? rising & ~kSign : ~rising);
}

} // namespace

void top_k_rows(const CsrView &rows, int threads, const int64_t *out_indptr, int32_t *out_indices, float *out_data) {
  parallel_chunks(rows.n_rows, threads, 256, [&](int64_t begin, int64_t end, int) {
    std::vector<uint64_t> entries;
    for (int64_t row = begin; row < end; ++row) {
      const auto indices = rows.row_indices(row);
      const auto data = rows.row_data(row);
      const int64_t kept = out_indptr[row + 1] - out_indptr[row];
      entries.resize(indices.size());
      for (size_t i = 0; i < indices.size(); ++i)
        entries[i] = pack_entry(data[i], indices[i]);
      const auto last = entries.begin() + kept;
      if (last != entries.end())
        std::nth_element(entries.begin(), last, entries.end(), std::greater<>());
      std::sort(entries.begin(), last, std::greater<>());
      for (int64_t i = 0; i < kept; ++i) {
        out_indices[out_indptr[row] + i] = static_cast<int32_t>(~static_cast<uint32_t>(entries[i]));
        out_data[out_indptr[row] + i] = value_of(entries[i]);
      }
    }
  });
}

void take_rows(const CsrView &x, std::span<const int32_t> rows, bool mapped, int32_t *out_indices, float *out_data) {
  PagesRead pages(x, mapped);
  for (const int32_t row : rows) {
    const auto indices = x.row_indices(row);
    const auto data = x.row_data(row);
    out_indices = std::copy(indices.begin(), indices.end(), out_indices);
    out_data = std::copy(data.begin(), data.end(), out_data);
    pages.read(row);
  }
  pages.release();
}

void centroid_sizes(const CsrView &x, const CsrView &labels, int64_t max_features, int threads, bool mapped,
                    int64_t *sizes) {
  std::vector<std::vector<int32_t>> marks(std::max(1, threads));
  parallel_chunks(labels.n_rows, threads, 512, [&](int64_t begin, int64_t end, int thread) {
    auto &mark = marks[thread];
    mark.resize(x.n_cols, -1);
    for (int64_t label = begin; label < end; ++label) {
      int64_t size = 0;
      PagesRead pages(x, mapped);
      for (const int32_t row : labels.row_indices(label)) {
        for (const int32_t feature : x.row_indices(row)) {
          size += mark[feature] != static_cast<int32_t>(label);
          mark[feature] = static_cast<int32_t>(label);
        }
        pages.read(row);
      }
      pages.release();
      sizes[label] = std::min(size, max_features);
    }
  });
}

namespace {

// Sums up the rows of one label at a time.
struct CentroidSum {
  struct Cell {
    float sum = 0;
    int32_t label = -1; // that last touched the feature
  };
  std::vector<Cell> cells;      // per feature
  std::vector<int32_t> touched; // features of the current label

  void add_label(const CsrView &x, const CsrView &labels, int64_t label, bool mapped) {
    cells.resize(x.n_cols);
    touched.clear();
    const auto rows = labels.row_indices(label);
    const auto weights = labels.row_data(label);
    PagesRead pages(x, mapped);
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto features = x.row_indices(rows[r]);
      const auto values = x.row_data(rows[r]);
      for (size_t i = 0; i < features.size(); ++i) {
        Cell &cell = cells[features[i]];
        if (cell.label != static_cast<int32_t>(label)) {
          cell = {0, static_cast<int32_t>(label)};
          touched.push_back(features[i]);
        }
        cell.sum += weights[r] * values[i];
      }
      pages.read(rows[r]);
    }
    pages.release();
  }

  // Keeps the `room` largest features, in rising order.
  void cut(int64_t room) {
    if (static_cast<int64_t>(touched.size()) > room) {
      auto before = [&](int32_t a, int32_t b) {
        const float va = std::abs(cells[a].sum), vb = std::abs(cells[b].sum);
        return va != vb ? va > vb : a < b;
      };
      std::nth_element(touched.begin(), touched.begin() + room, touched.end(), before);
      touched.resize(room);
    }
    if (!std::is_sorted(touched.begin(), touched.end())) // as after a single row
      std::sort(touched.begin(), touched.end());
  }
};

} // namespace

void label_centroids(const CsrView &x, const CsrView &labels, int threads, bool mapped, const int64_t *out_indptr,
                     int32_t *out_indices, float *out_data) {
  std::vector<CentroidSum> sums(std::max(1, threads));
  parallel_chunks(labels.n_rows, threads, 256, [&](int64_t begin, int64_t end, int thread) {
    CentroidSum &s = sums[thread];
    for (int64_t label = begin; label < end; ++label) {
      s.add_label(x, labels, label, mapped);
      s.cut(out_indptr[label + 1] - out_indptr[label]);
      double norm = 0;
      for (const int32_t f : s.touched)
        norm += static_cast<double>(s.cells[f].sum) * s.cells[f].sum;
      const double scale = norm > 0 ? 1.0 / std::sqrt(norm) : 1.0;
      int64_t at = out_indptr[label];
      for (const int32_t f : s.touched) {
        out_indices[at] = f;
        out_data[at++] = static_cast<float>(s.cells[f].sum * scale);
      }
    }
  });
}

} // namespace tagwood
