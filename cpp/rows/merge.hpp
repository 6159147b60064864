// The mean over an ensemble: what several searches found for the same rows becomes one list per row.
#pragma once

#include <cstdint>

namespace tagwood {

// `width` places per row and list, the first found[list * n_rows + row] of them used.
struct Lists {
  const int32_t *labels;
  const float *scores;
  const int32_t *found;
  int64_t n_lists, n_rows, width;
};

// Writes the best k labels of each row by the mean score over the lists (0 where a list does not have the label); ties
// go to the smaller label. Unused places are -1.
void merge_lists(const Lists &lists, int k, int threads, int32_t *labels, float *scores, int32_t *found);

} // namespace tagwood
