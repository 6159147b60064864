// Sweeps of dual coordinate descent over the rows of a block, up to 16 outputs at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/train.hpp"

namespace tagwood {

// The rows of a block in their compact feature space.
struct LocalRows {
  std::vector<int64_t> ptr;
  std::vector<uint32_t> features;
  std::vector<const float *> values; // of each row, in x: a copy of the largest block would be the peak of a fit
  std::vector<float> squared_norm;   // with the constant feature
  std::vector<int32_t> feature_of;
  int64_t size() const { return static_cast<int64_t>(squared_norm.size()); }
};

constexpr int kMaxLanes = 16;

// What a sweep reads and writes.
struct LaneArrays {
  LocalRows rows;
  float *weights = nullptr;       // [feature][lane], aligned to 64 bytes
  float *alpha = nullptr;         // [row][lane]: the dual variables
  std::vector<uint16_t> positive; // per row, one bit per lane
  std::vector<int32_t> sequence;  // order of visits
};

// What the lanes carry between sweeps.
struct alignas(64) LaneState {
  float bias[kMaxLanes] = {};
  float active[kMaxLanes] = {};  // 1 where the lane has an output
  float largest[kMaxLanes] = {}; // projected gradients of the present sweep
  float smallest[kMaxLanes] = {};
  const float *costs = nullptr;            // [row][lane] 1/(2C) per entry, or null where all are alike
  float diagonal_positive[kMaxLanes] = {}; // the same for the lane's positives
  float diagonal = 0.5f;                   // 1/(2C)
  float settled = 0;                       // smaller projected gradients are left alone
  float bias_value = 1;
};

// Visits the rows of arrays.sequence; lanes is 4, 8 or 16.
void sweep(LaneArrays &arrays, LaneState &state, int lanes, Loss loss);

// Rows of x whose products with the weights of each lane are wanted. Features that are not in the block have no weight.
struct RowMargins {
  const CsrView &x;
  std::span<const int32_t> rows;
  const float *weights;    // [feature][lane]
  const int32_t *local_of; // feature of x -> feature of the block, or -1
  const float *bias;       // per lane
  float *margins;          // [row][lane], to be filled
};

void find_margins(const RowMargins &task, int lanes);

} // namespace tagwood
