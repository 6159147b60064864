// Label trees by recursive two-way splits, anywhere between balanced spherical 2-means and Fano coding.
//
// split_sides.cpp holds the parts that need no features. It is compiled apart from the hot loops of split.cpp, so that
// its sums do not depend on the instruction set.
#pragma once

#include <cstdint>
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

// Marginal frequencies f, f to the power of min(lambda, 1), and the context frequencies f~: one number per label.
struct Frequencies {
  const double *marginal;
  const double *context;
  std::vector<double> powered;

  Frequencies(const double *marginal, const double *context, int64_t n_labels, const SplitOptions &options);
};

// Weight of the coding term in the objective: (lambda - 1)+, or lambda / 2 without the way-point at 1.
double coding_weight(const SplitOptions &options);

// f(lambda) over the labels of one node, frequencies renormalised inside the node; sums to 1, or to any other number
// where only the proportions count.
void node_weights(const int32_t *labels, int64_t n, const Frequencies &frequencies, const SplitOptions &options,
                  std::vector<double> &weight);

// Lemma 1 with its fractional label rounded: +1 for the largest keys until half of the weight is reached; the label
// that crosses goes to the nearer side, to +1 if both are equally near. Equal keys: the earlier label comes first.
// Neither side ends empty.
void assign_sides(const std::vector<double> &key, const std::vector<double> &weight, std::vector<int32_t> &rank,
                  std::vector<int8_t> &side);

} // namespace tagwood
