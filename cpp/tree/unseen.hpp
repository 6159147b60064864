// Leaves for training rows, found by matchers that have not seen them.
#pragma once

#include "tree/search.hpp"
#include "tree/train.hpp"

namespace tagwood {

// The rows are in two halves: each is matched by classifiers that were trained on the other.
struct UnseenOptions {
  const uint8_t *second_half; // per row of x
  int width;                  // of the beam
  int followed;               // inner nodes of a beam that are looked into: the best ones
  Link link;
};

// The leaves that beams end in: `width` places per row, unused ones -1. The blocks of `tasks` are the nodes of the
// tree, breadth first, and their outputs the children: node i has child_ptr[i] .. child_ptr[i + 1].
void match_unseen(const CsrView &x, const TrainTasks &tasks, const int32_t *child_ptr, const TrainOptions &training,
                  const UnseenOptions &options, int32_t *leaves);

} // namespace tagwood
