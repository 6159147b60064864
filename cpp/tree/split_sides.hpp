// The parts of a split that need no features: the weights of the labels in a node, and who goes to which side.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/split.hpp"

namespace tagwood {

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
