// Vector arithmetic of the softmax tree: sums of weighted rows, dots, and sigmoids, all inlined into the hot callers.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/simd.hpp"
#include "softmax/softmax.hpp"

namespace tagwood {

// Eight floats at any address; two, one or half a register, as the machine has them.
typedef float Lane __attribute__((vector_size(32), aligned(4), may_alias));

constexpr int64_t kBlockLanes = 8; // lanes of a row that are kept in registers while rows come and go

TAGWOOD_INLINE Lane *lanes(float *values) { return reinterpret_cast<Lane *>(values); }
TAGWOOD_INLINE const Lane *lanes(const float *values) { return reinterpret_cast<const Lane *>(values); }

// Asks for a whole row before it is needed: rows lie anywhere in memory.
TAGWOOD_INLINE void prefetch_row(const float *row, int64_t dimension) {
  for (int64_t at = 0; at < dimension; at += 16)
    __builtin_prefetch(row + at);
}

// sum = Σ weights[i] · rows[ids[i]]
TAGWOOD_INLINE void weighted_sum(const float *rows, int64_t dimension, std::span<const int32_t> ids,
                                 std::span<const float> weights, float *sum) {
  constexpr size_t kAhead = 4;
  const size_t n = ids.size();
  const int64_t n_lanes = dimension / kLane;
  for (int64_t first = 0; first < n_lanes; first += kBlockLanes) {
    const int64_t width = std::min(kBlockLanes, n_lanes - first);
    Lane total[kBlockLanes] = {};
    if (width == kBlockLanes) {
      for (size_t i = 0; i < n; ++i) {
        if (first == 0 && i + kAhead < n)
          prefetch_row(rows + ids[i + kAhead] * dimension, dimension);
        const Lane *row = lanes(rows + ids[i] * dimension) + first;
        for (int64_t j = 0; j < kBlockLanes; ++j)
          total[j] += weights[i] * row[j];
      }
    } else {
      for (size_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < width; ++j)
          total[j] += weights[i] * (lanes(rows + ids[i] * dimension) + first)[j];
    }
    for (int64_t j = 0; j < width; ++j)
      lanes(sum)[first + j] = total[j];
  }
}

// rows[ids[i]] += weights[i] · step
TAGWOOD_INLINE void add_to_rows(float *rows, int64_t dimension, std::span<const int32_t> ids,
                                std::span<const float> weights, const float *step) {
  const int64_t n_lanes = dimension / kLane;
  for (int64_t first = 0; first < n_lanes; first += kBlockLanes) {
    const int64_t width = std::min(kBlockLanes, n_lanes - first);
    Lane kept[kBlockLanes] = {};
    for (int64_t j = 0; j < width; ++j)
      kept[j] = lanes(step)[first + j];
    if (width == kBlockLanes) {
      for (size_t i = 0; i < ids.size(); ++i) {
        Lane *row = lanes(rows + ids[i] * dimension) + first;
        for (int64_t j = 0; j < kBlockLanes; ++j)
          row[j] += weights[i] * kept[j];
      }
    } else {
      for (size_t i = 0; i < ids.size(); ++i)
        for (int64_t j = 0; j < width; ++j)
          (lanes(rows + ids[i] * dimension) + first)[j] += weights[i] * kept[j];
    }
  }
}

TAGWOOD_INLINE float dot(const float *a, const float *b, int64_t dimension) {
  Lane sums[4] = {};
  const int64_t n_lanes = dimension / kLane;
  int64_t j = 0;
  for (; j + 4 <= n_lanes; j += 4)
    for (int64_t u = 0; u < 4; ++u)
      sums[u] += lanes(a)[j + u] * lanes(b)[j + u];
  for (; j < n_lanes; ++j)
    sums[0] += lanes(a)[j] * lanes(b)[j];
  const Lane all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (int64_t u = 0; u < kLane; ++u)
    total += all[u];
  return total;
}

// e^x to the last digits of a float, without branches or calls: loops over it become vector code.
TAGWOOD_INLINE float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 87.0f);
  const float turns = x * 1.44269504088896341f;
  const int32_t power_of_two = static_cast<int32_t>(turns + (turns < 0 ? -0.5f : 0.5f));
  const float whole = static_cast<float>(power_of_two);
  const float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float power = 1.9875691500e-4f;
  power = power * rest + 1.3981999507e-3f;
  power = power * rest + 8.3334519073e-3f;
  power = power * rest + 4.1665795894e-2f;
  power = power * rest + 1.6666665459e-1f;
  power = power * rest + 5.0000001201e-1f;
  power = power * rest * rest + rest + 1.0f;
  return power * std::bit_cast<float>((power_of_two + 127) << 23);
}

TAGWOOD_INLINE float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

} // namespace tagwood
