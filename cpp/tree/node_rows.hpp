// Which rows belong to which node of a label tree: those with a label below it.
#pragma once

#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

struct NodeRows {
  std::vector<int64_t> ptr;   // n_nodes + 1
  std::vector<int32_t> rows;  // rising inside a node
  std::vector<float> weights; // the largest weight of the row's labels below the node
};

// `label_rows` is Y transposed, one row per label, with the weight of each entry; `parent`, `label_ptr` and `labels`
// describe the tree (breadth-first numbering).
NodeRows node_rows(const CsrView &label_rows, const int32_t *parent, const int32_t *label_ptr, const int32_t *labels,
                   int32_t n_nodes, int64_t n_rows, int threads);

} // namespace tagwood
