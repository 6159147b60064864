#include "candidates/context.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int64_t kChunk = 64;  // rows
constexpr double kLeast = 0.01; // probability of candidates that tell something
constexpr double kPrior = 5.0;  // rows that a label is thought to have beside its own, with other labels as usual
constexpr double kOthers = 0.1; // probability that is added to that of the others, to divide by

double pair_count(const PairsView &pairs, int64_t first, int32_t second) {
  const int32_t *begin = pairs.labels + pairs.indptr[first], *end = pairs.labels + pairs.indptr[first + 1];
  const int32_t *found = std::lower_bound(begin, end, second);
  return found != end && *found == second ? pairs.counts[found - pairs.labels] : 0.0;
}

int64_t rows_of(const PairsView &pairs, int32_t label) { return label < pairs.n_labels ? pairs.rows[label] : 0; }

// What the other candidates tell about one of them.
struct Told {
  double given = 0, most_given = 0, lift = 0, most_lift = 0, least_lift = 0, back = 0, strongest = 0;
  int32_t partner = -1;

  void hear(double p, int32_t label, double n_together, double n_other, double n_own, double n_rows) {
    const double given_other = p * n_together / (n_other + 1);
    const double prior = (n_own + 1) / (n_rows + 1);
    const double more = p * std::log((n_together + kPrior * prior) / ((n_other + kPrior) * prior));
    given += given_other;
    most_given = std::max(most_given, given_other);
    lift += more;
    most_lift = std::max(most_lift, more);
    least_lift = std::min(least_lift, more);
    back += p * n_together / (n_own + 1);
    if (std::abs(more) > strongest) {
      strongest = std::abs(more);
      partner = label;
    }
  }
};

void write_row(const CandidatesView &candidates, const PairsView &pairs, const int64_t *entries, int64_t n, float *out,
               int32_t *partners) {
  std::vector<double> p(n);
  std::vector<Told> told(n);
  for (int64_t i = 0; i < n; ++i)
    p[i] = 1.0 / (1.0 + std::exp(-candidates.logits[entries[i]]));
  for (int64_t j = 0; j < n && p[j] >= kLeast; ++j) {
    const int32_t other = candidates.labels[entries[j]];
    if (other >= pairs.n_labels)
      continue;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t own = candidates.labels[entries[i]];
      if (i != j)
        told[i].hear(p[j], other, pair_count(pairs, other, own), static_cast<double>(pairs.rows[other]),
                     static_cast<double>(rows_of(pairs, own)), static_cast<double>(pairs.n_rows));
    }
  }
  const double mass = std::accumulate(p.begin(), p.end(), 0.0);
  double before = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    const double own = candidates.logits[entries[i]];
    const double next = i + 1 < n ? candidates.logits[entries[i + 1]] : own;
    const double previous = i > 0 ? candidates.logits[entries[i - 1]] : own;
    const Told &one = told[i];
    const double others = mass - p[i] + kOthers;
    const double values[kContext] = {own,
                                     static_cast<double>(i),
                                     own - next,
                                     previous - own,
                                     candidates.logits[entries[0]],
                                     mass,
                                     before,
                                     one.given,
                                     one.most_given,
                                     one.lift,
                                     one.most_lift,
                                     one.least_lift,
                                     one.back,
                                     one.given / others,
                                     one.lift / others};
    std::copy(values, values + kContext, out + i * kContext);
    partners[i] = one.partner;
    before += p[i];
  }
}

} // namespace

Context candidate_context(const CandidatesView &candidates, const PairsView &pairs, int64_t k, int threads) {
  Context found;
  found.indptr.assign(candidates.n_rows + 1, 0);
  for (int64_t row = 0; row < candidates.n_rows; ++row)
    found.indptr[row + 1] = found.indptr[row] + std::min(k, candidates.indptr[row + 1] - candidates.indptr[row]);
  found.entries.resize(found.indptr.back());
  found.partners.resize(found.indptr.back());
  found.features.resize(found.indptr.back() * kContext);
  parallel_chunks(candidates.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, int) {
    std::vector<int64_t> order;
    for (int64_t row = begin; row < end; ++row) {
      order.resize(candidates.indptr[row + 1] - candidates.indptr[row]);
      std::iota(order.begin(), order.end(), candidates.indptr[row]);
      const int64_t first = found.indptr[row], n = found.indptr[row + 1] - first;
      std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int64_t one, int64_t other) {
        const double difference = candidates.logits[one] - candidates.logits[other];
        return difference > 0 || (difference == 0 && one < other);
      });
      std::copy_n(order.begin(), n, found.entries.begin() + first);
      write_row(candidates, pairs, found.entries.data() + first, n, found.features.data() + first * kContext,
                found.partners.data() + first);
    }
  });
  return found;
}

} // namespace tagwood
