// Averaged embeddings with a hierarchical softmax over a binary label tree: one epoch of training, search, scores.
#pragma once

#include "core/arrays.hpp"

namespace tagwood {

constexpr int64_t kLane = 8; // a dimension is a multiple of this

// Embeddings of features, and one vector per decision of the tree; both row after row.
template <class Float> struct Embeddings {
  Float *inputs;  // n_features × dimension
  Float *outputs; // n_outputs × dimension
  int64_t n_features;
  int64_t n_outputs;
  int64_t dimension;
};

// The decisions on the path to each label: label l has steps[ptr[l]] up to steps[ptr[l + 1]], each 2 · decision, + 1
// where the path goes to the second child.
struct PathsView {
  const int64_t *ptr;
  const int32_t *steps;
};

struct EpochOptions {
  float first_rate; // falls evenly to last_rate
  float last_rate;
  int threads;
};

// One pass over the rows of `order`. Of `labels` only indptr and indices are read: the labels of every row. One thread
// processes the rows in order and gives the same bits every time; several write to the same embeddings without locks,
// so updates may be lost and results differ in the last digits from run to run.
void softmax_epoch(const CsrView &x, const CsrView &labels, const PathsView &paths, const int32_t *order,
                   int64_t n_order, const EpochOptions &options, const Embeddings<float> &model);

// decision[node]: the vector of an inner node, or kFirst, kSecond, kEven where nothing was learned.
enum Decision : int32_t { kFirst = -1, kSecond = -2, kEven = -3 };

struct SoftmaxTree {
  const int32_t *child_ptr; // n_nodes + 1: the two children of an inner node are adjacent
  const int32_t *label_ptr; // n_nodes + 1
  const int32_t *labels;
  const int32_t *decision; // n_nodes
  int64_t n_nodes;
  int64_t n_labels;
};

struct SoftmaxFound {
  int32_t *labels;    // n_rows × k, -1 where there are fewer
  float *scores;      // n_rows × k
  int32_t *found;     // n_rows
  int32_t *evaluated; // n_rows: decisions taken
};

// The k most probable labels of each row, exactly: best-first, so that the first k leaves reached are the result.
// node_allowed (n_nodes) or null: subtrees to leave out.
void softmax_search(const CsrView &x, const Embeddings<const float> &model, const SoftmaxTree &tree, int64_t k,
                    const uint8_t *node_allowed, int threads, const SoftmaxFound &out);

// The probabilities of given leaves: those of row i are leaves.row_indices(i). parent: n_nodes, the root's is not read.
void softmax_scores(const CsrView &x, const Embeddings<const float> &model, const SoftmaxTree &tree,
                    const int32_t *parent, const CsrView &leaves, int threads, float *out);

} // namespace tagwood
