#include "rows/calibrate.hpp"

#include <algorithm>
#include <cmath>

namespace tagwood {

namespace {

constexpr double kEdge = 1e-6;

double value_at(const Curve &curve, double x) {
  const double *above = std::upper_bound(curve.x, curve.x + curve.n, x);
  if (above == curve.x)
    return curve.y[0];
  if (above == curve.x + curve.n)
    return curve.y[curve.n - 1];
  const int64_t at = above - curve.x - 1;
  const double slope = (curve.y[at + 1] - curve.y[at]) / (curve.x[at + 1] - curve.x[at]);
  return slope * (x - curve.x[at]) + curve.y[at];
}

} // namespace

void calibrate(const Curve &curve, const float *scores, int64_t n, bool as_odds, float *out) {
  for (int64_t i = 0; i < n; ++i) {
    double x = scores[i];
    if (as_odds) {
      x = std::clamp(x, kEdge, 1 - kEdge);
      x = std::log(x) - std::log1p(-x);
    }
    out[i] = static_cast<float>(value_at(curve, x));
  }
}

} // namespace tagwood
