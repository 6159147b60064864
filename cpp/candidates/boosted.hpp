// Sums of decision trees, as gradient boosting learns them.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/parallel.hpp"

namespace tagwood {

// Nodes of all trees one after the other; children are numbered within all nodes. A leaf has feature -1.
struct BoostedView {
  const int64_t *roots; // first node of each tree
  int64_t n_trees;
  const int32_t *feature;
  const double *threshold; // values up to it go left
  const int32_t *left, *right;
  const uint8_t *missing_left; // whether NaN goes left
  const double *value;         // of a leaf
};

inline void boosted_sums(const BoostedView &trees, const float *rows, int64_t n_rows, int64_t n_features, double start,
                         int threads, double *out) {
  parallel_chunks(n_rows, threads, 512, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float *x = rows + row * n_features;
      double sum = start;
      for (int64_t tree = 0; tree < trees.n_trees; ++tree) {
        int64_t node = trees.roots[tree];
        while (trees.feature[node] >= 0) {
          const float value = x[trees.feature[node]];
          const bool to_left = std::isnan(value) ? trees.missing_left[node] != 0 : value <= trees.threshold[node];
          node = to_left ? trees.left[node] : trees.right[node];
        }
        sum += trees.value[node];
      }
      out[row] = sum;
    }
  });
}

} // namespace tagwood
