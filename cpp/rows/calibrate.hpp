// From scores to probabilities along a rising curve, in one call: a text is asked alone as often as in a batch.
#pragma once

#include <cstdint>

namespace tagwood {

// Knots (x, y), x rising, n at least 1; linear between them, constant beyond.
struct Curve {
  const double *x;
  const double *y;
  int64_t n;
};

// Writes the curve's value at each of n scores, or at its log odds (scores then being shares of 1, kept within 1e-6 of
// 0 and 1).
void calibrate(const Curve &curve, const float *scores, int64_t n, bool as_odds, float *out);

} // namespace tagwood
