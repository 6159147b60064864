#include "tree/split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tagwood {

namespace {

// Sums that differ by no more than this share count as equal, so that rounding does not decide a tie.
constexpr double kTie = 1e-9;

} // namespace

Frequencies::Frequencies(const double *marginal, const double *context, int64_t n_labels, const SplitOptions &o)
    : marginal(marginal), context(context), powered(n_labels, 1.0) {
  const double power = o.direct ? 0.0 : std::min(o.lam, 1.0);
  if (power > 0)
    for (int64_t l = 0; l < n_labels; ++l)
      powered[l] = power == 1 ? marginal[l] : std::pow(marginal[l], power);
}

double coding_weight(const SplitOptions &o) { return o.direct ? 0.5 * o.lam : std::max(o.lam - 1.0, 0.0); }

void node_weights(const int32_t *labels, int64_t n, const Frequencies &f, const SplitOptions &o,
                  std::vector<double> &weight) {
  weight.resize(n);
  double total = 0, powered_total = 0, context_total = 0;
  for (int64_t i = 0; i < n; ++i) {
    total += f.marginal[labels[i]];
    powered_total += f.powered[labels[i]];
    context_total += f.context[labels[i]];
  }
  if (o.lam == 2 && o.gamma == 0) { // Fano: only proportions count, and sums of whole numbers stay exact
    for (int64_t i = 0; i < n; ++i)
      weight[i] = context_total > 0 ? f.context[labels[i]] : 1.0;
    return;
  }
  const double coding = coding_weight(o);
  const double similarity = o.direct ? 0.5 * (2.0 - o.lam) : 2.0 - o.lam;
  const double power = o.direct ? 0.0 : std::min(o.lam, 1.0);
  // (f / total)^power = f^power / total^power: one power a node instead of one a label.
  const double even = o.direct ? 1.0 / n : std::pow(1.0 / n, power);
  const double scale = o.direct ? 1.0 / n : total > 0 ? 1.0 / std::pow(total, power) : 0.0;
  const double bottom = similarity * (scale > 0 ? powered_total * scale : n * even) + coding + o.gamma;
  for (int64_t i = 0; i < n; ++i) {
    const double near = scale > 0 ? f.powered[labels[i]] * scale : even;
    const double far = context_total > 0 ? f.context[labels[i]] / context_total : 1.0 / n;
    weight[i] = (similarity * near + coding * far + o.gamma / n) / bottom;
  }
}

void assign_sides(const std::vector<double> &key, const std::vector<double> &weight, std::vector<int32_t> &rank,
                  std::vector<int8_t> &side) {
  const int64_t n = static_cast<int64_t>(key.size());
  rank.resize(n);
  std::iota(rank.begin(), rank.end(), 0);
  auto before = [&](int32_t a, int32_t b) { return key[a] != key[b] ? key[a] > key[b] : a < b; };
  const double half = 0.5 * std::accumulate(weight.begin(), weight.end(), 0.0);
  // Repeated partition instead of a sort: O(n). The crossing label is in rank[low:high]; `taken` is the weight before.
  int64_t low = 0, high = n;
  double taken = 0;
  while (high - low > 32) {
    const int64_t middle = low + (high - low) / 2;
    std::nth_element(rank.begin() + low, rank.begin() + middle, rank.begin() + high, before);
    double left = 0;
    for (int64_t i = low; i < middle; ++i)
      left += weight[rank[i]];
    if (taken + left > half) {
      high = middle;
    } else {
      taken += left;
      low = middle;
    }
  }
  std::sort(rank.begin() + low, rank.begin() + high, before);
  while (low < n && taken + 0.5 * weight[rank[low]] <= half * (1 + kTie)) {
    taken += weight[rank[low]];
    ++low;
    if (low == high && high < n) { // numerically on the border: go on in order
      high = std::min<int64_t>(n, high + 32);
      std::nth_element(rank.begin() + low, rank.begin() + high - 1, rank.end(), before);
      std::sort(rank.begin() + low, rank.begin() + high, before);
    }
  }
  const int64_t n_plus = std::clamp<int64_t>(low, 1, n - 1); // neither side may end empty
  if (low == 0)
    std::nth_element(rank.begin(), rank.begin(), rank.end(), before);
  if (low == n)
    std::nth_element(rank.begin(), rank.begin() + n - 1, rank.end(), before);
  side.assign(n, -1);
  for (int64_t i = 0; i < n_plus; ++i)
    side[rank[i]] = 1;
}

} // namespace tagwood
