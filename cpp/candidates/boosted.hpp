// Sums of decision trees, as gradient boosting learns them.
#pragma once

#include <cstdint>

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

// Writes to `out` for each row `start` plus the leaf that it reaches in every tree, in the order of the trees.
void boosted_sums(const BoostedView &trees, const float *rows, int64_t n_rows, int64_t n_features, double start,
                  int threads, double *out);

} // namespace tagwood
