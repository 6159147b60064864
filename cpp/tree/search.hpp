// Search in a trained label tree: beam, exact best-first (with an optional budget), and scores of given labels.
#pragma once

#include <vector>

#include "core/arrays.hpp"
#include "tree/blocks.hpp"

namespace tagwood {

// Breadth-first numbering: node i has the children child_ptr[i] .. child_ptr[i + 1] and, if it is a leaf, the labels
// labels[label_ptr[i] .. label_ptr[i + 1]]. Node i's first block is block_ptr[i]; its outputs come in the order of its
// children or labels, 256 to a block.
struct TreeView {
  const int32_t *child_ptr;
  const int32_t *label_ptr;
  const int32_t *labels;
  const int64_t *block_ptr;
  int32_t n_nodes;
  int32_t n_labels;
  int32_t max_outputs; // of any node

  bool is_leaf(int32_t node) const { return child_ptr[node] == child_ptr[node + 1]; }
  int32_t n_outputs(int32_t node) const {
    return (child_ptr[node + 1] - child_ptr[node]) + (label_ptr[node + 1] - label_ptr[node]);
  }
  int64_t first_output(int32_t node) const { return int64_t{child_ptr[node]} - 1 + label_ptr[node]; }
};

// A margin z becomes log p: -max(0, 1 - z)^power, or the logarithm of the sigmoid where power is 0.
struct Link {
  int power = 3;
};

struct ModelView {
  TreeView tree;
  BlocksView blocks;
  const float *bias;
  Link link;
};

struct SearchOptions {
  int k = 5;
  int width = 10;        // of the beam
  int64_t max_nodes = 0; // budget of the exact search per row; 0: none
  bool has_copies = false;
  bool mean_copies = true;                // else the best copy counts
  const uint8_t *label_allowed = nullptr; // per label, null: all
  const uint8_t *node_allowed = nullptr;  // per node: some allowed label below
  int threads = 1;
};

// Results of one search: k places per row, unused ones -1; evaluated counts nodes; bound is the best score that an
// unseen label may still have (0 where nothing was missed; -1 for beams, which do not know).
struct SearchOutput {
  int32_t *labels;
  float *scores;
  int32_t *found;
  int32_t *evaluated;
  float *bound;
};

void beam_search(const ModelView &model, const CsrView &x, const SearchOptions &options, const SearchOutput &out);

void exact_search(const ModelView &model, const CsrView &x, const SearchOptions &options, const SearchOutput &out);

// Leaves that a beam ends in: `width` places per row, unused ones -1; scores are path scores.
void beam_leaves(const ModelView &model, const CsrView &x, const SearchOptions &options, int32_t *leaves,
                 float *scores);

// Scores of wanted outputs along their paths: for row r the nodes nodes[ptr[r] .. ptr[r + 1]] and the output of each;
// writes the margin of that output alone. Callers put paths together from these.
void margins(const ModelView &model, const CsrView &x, const int64_t *ptr, const int32_t *nodes, const int32_t *outputs,
             int threads, float *out);

} // namespace tagwood
