// What the other candidates of a row tell about each of its best candidates.
#pragma once

#include <cstdint>
#include <vector>

namespace tagwood {

// How many rows have two labels: for each label, others with their counts, labels rising.
struct PairsView {
  const int64_t *indptr;
  const int32_t *labels;
  const float *counts;
  const int64_t *rows; // of each label
  int64_t n_labels;    // later ones have no rows
  int64_t n_rows;
};

struct CandidatesView {
  const int64_t *indptr;
  const int32_t *labels; // rising inside a row
  const double *logits;
  int64_t n_rows;
};

struct Context {
  std::vector<int64_t> indptr;   // of rows
  std::vector<int64_t> entries;  // numbers of the best candidates of each row, best first
  std::vector<float> features;   // kContext of each
  std::vector<int32_t> partners; // the label that tells most about each, -1 for none
};

constexpr int kContext = 15;

// Features of the best `k` candidates of each row, with p the probability of a log odds: own log odds, place, distance
// to the next and the one before, best log odds, sum of p, sum of p before; over other candidates j with a probability
// worth looking at, sum and maximum of p_j P(own | j); sum, maximum and minimum of p_j log(P(own | j) / P(own)); sum of
// p_j P(j | own); the two sums as shares of the sum of p of the others.
Context candidate_context(const CandidatesView &candidates, const PairsView &pairs, int64_t k, int threads);

} // namespace tagwood
