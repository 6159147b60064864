// The leaves of each label: those that reach most of its rows for the work that training them costs.
//
// Training a leaf costs its labels times its rows to the power of 1.25: larger leaves take more sweeps and do not
// fit in the caches. A row that is matched to a leaf at place p, one of the first `width`, has the reach
// width - p there; among several leaves of a label the best one counts. A label brings to each of its leaves the rows
// matched there at any place.
#pragma once

#include <cstdint>
#include <vector>

namespace tagwood {

struct PlacementTask {
  const int64_t *label_ptr; // rows of each label
  const int32_t *label_rows;
  int64_t n_labels;
  const int32_t *first_leaf; // of each label
  const int32_t *matched;    // [row][place], -1 for unused places
  int64_t n_rows;
  int64_t n_places; // per row
  int64_t width;    // places that count as reached
  int64_t n_nodes;
};

struct PlacementOptions {
  double price;       // share of all positives that training all leaves once more must gain
  double growth;      // most places, as a multiple of the labels
  double most_work;   // as a multiple of the initial work
  int64_t least_gain; // rows that one more leaf must gain
  int64_t max_copies; // of a label
  bool brings_all;    // a label brings all its rows to all its leaves, not only those matched there
};

// Labels and their leaves, pair by pair: by label, and in the order in which the leaves were chosen.
struct Placement {
  std::vector<int32_t> labels, leaves;
};

Placement place_labels(const PlacementTask &task, const PlacementOptions &options);

// Wanted pairs of a label and a leaf, most important first.
struct Pairs {
  const int32_t *labels;
  const int32_t *leaves;
  int64_t n;
};

// Writes 1 for each accepted pair: a label gets at most `copies` leaves, a leaf at most capacity[leaf] labels.
void accept_pairs(const Pairs &pairs, int32_t copies, int64_t n_labels, std::vector<int64_t> capacity,
                  uint8_t *accepted);

} // namespace tagwood
