// Label trees by recursive two-way splits, anywhere between balanced spherical 2-means and Fano coding.
#pragma once

#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

struct SplitOptions {
  double lam = 0;   // 0: balanced 2-means, 1: frequency-weighted 2-means, 2: Fano coding
  double gamma = 0; // smoothing of the frequencies
  bool direct = false;
  int64_t max_leaf_size = 100;
  int max_iterations = 20;
  double tolerance = 1e-4;
  uint64_t seed = 0;
  int threads = 1;
};

// A binary tree over a permutation of the labels: node i covers order[begin[i] : end[i]]; its children are left[i]
// and left[i] + 1, or none where left[i] is -1. Nodes are numbered by generation, so children follow parents.
struct SplitTree {
  std::vector<int32_t> order;
  std::vector<int64_t> begin, end;
  std::vector<int32_t> left;
};

// `v` holds one unit row per label, `frequency` and `context_frequency` (the papers' f and f~) one number per label.
SplitTree split_labels(const CsrView &v, const double *frequency, const double *context_frequency,
                       const SplitOptions &options);

} // namespace tagwood
