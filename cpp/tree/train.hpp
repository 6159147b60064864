// Training of the linear classifiers of a label tree, block by block.
#pragma once

#include <span>
#include <vector>

#include "core/arrays.hpp"
#include "tree/blocks.hpp"

namespace tagwood {

enum class Loss : int { squared_hinge = 0, logistic = 1 };

struct TrainOptions {
  Loss loss = Loss::squared_hinge;
  double cost = 1;        // C: the weight of a row's loss against the regulariser
  double bias = 1;        // value of the constant feature
  double tolerance = 0.1; // stop when the largest violation of a sweep spans no more
  int max_sweeps = 100;
  double threshold = 0.1; // smaller weights are dropped
  WeightType weight_type = WeightType::float16;
  uint64_t seed = 0;
  int threads = 1;
};

// What to train: block b sees the rows rows[row_begin[b]:row_end[b]] and has the outputs
// output_ptr[b]:output_ptr[b + 1]; output o is positive on positives[positive_begin[o]:positive_end[o]].
// positive_weights (may be null) belong to the positives, row_weights (may be null) to rows of x.
// seeds: one number per block, so that a block's result does not depend on which others are trained with it.
struct TrainTasks {
  const int64_t *row_begin, *row_end;
  const int32_t *rows;
  const int64_t *output_ptr;
  const int64_t *positive_begin, *positive_end;
  const int32_t *positives;
  const float *positive_weights;
  const float *row_weights;
  const int64_t *seeds;
  int64_t n_blocks;

  std::span<const int32_t> rows_of(int64_t block) const {
    return {rows + row_begin[block], static_cast<size_t>(row_end[block] - row_begin[block])};
  }
};

struct TrainedBlock {
  PackedBlock packed;
  std::vector<float> bias; // one per output, already times the constant feature
  int64_t sweeps = 0;      // over all outputs
};

std::vector<TrainedBlock> train_blocks(const CsrView &x, const TrainTasks &tasks, const TrainOptions &options);

} // namespace tagwood
