#include "blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tagwood {

namespace {

// A feature with at least this share of the block's outputs is stored for all of them.
constexpr int kDenseShare = 2;

void append_value(std::vector<uint8_t> &bytes, float value, float scale, WeightType type) {
  if (type == WeightType::int8) {
    bytes.push_back(static_cast<uint8_t>(static_cast<int8_t>(std::lrint(value / scale))));
  } else if (type == WeightType::float16) {
    const _Float16 half = static_cast<_Float16>(value);
    uint8_t raw[2];
    std::memcpy(raw, &half, 2);
    bytes.insert(bytes.end(), raw, raw + 2);
  } else {
    uint8_t raw[4];
    std::memcpy(raw, &value, 4);
    bytes.insert(bytes.end(), raw, raw + 4);
  }
}

} // namespace

PackedBlock pack_block(std::vector<Weight> &weights, int n_columns, WeightType type) {
  PackedBlock block;
  int64_t n_features = 0;
  float largest = 0;
  std::sort(weights.begin(), weights.end(), [](const Weight &a, const Weight &b) {
    return a.feature != b.feature ? a.feature < b.feature : a.column < b.column;
  });
  for (size_t i = 0; i < weights.size(); ++i) {
    n_features += i == 0 || weights[i].feature != weights[i - 1].feature;
    largest = std::max(largest, std::abs(weights[i].value));
  }
  if (type == WeightType::int8 && largest > 0)
    block.scale = largest / 127;
  const int bits = n_features <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(n_features - 1));
  std::vector<uint32_t> first(n_features + 1); // where each feature's weights start
  std::vector<uint32_t> order(n_features);
  block.buckets.assign((size_t{1} << bits) + 1, 0);
  for (size_t i = 0, f = 0; i < weights.size(); ++i)
    if (i == 0 || weights[i].feature != weights[i - 1].feature) {
      first[f] = static_cast<uint32_t>(i);
      order[f] = static_cast<uint32_t>(f);
      ++block.buckets[bucket_of(weights[i].feature, bits) + 1];
      ++f;
    }
  first[n_features] = static_cast<uint32_t>(weights.size());
  for (size_t h = 1; h < block.buckets.size(); ++h)
    block.buckets[h] += block.buckets[h - 1];
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return bucket_of(weights[first[a]].feature, bits) < bucket_of(weights[first[b]].feature, bits);
  });
  block.slots.reserve(2 * (n_features + 1));
  block.columns.reserve(weights.size());
  block.weights.reserve(weights.size() * weight_size(type));
  std::vector<float> dense(n_columns);
  for (const uint32_t f : order) {
    block.slots.push_back(static_cast<uint32_t>(weights[first[f]].feature));
    block.slots.push_back(static_cast<uint32_t>(block.columns.size()));
    const int64_t n_entries = first[f + 1] - first[f];
    if (n_entries * kDenseShare >= n_columns) {
      std::fill(dense.begin(), dense.end(), 0.0f);
      for (uint32_t i = first[f]; i < first[f + 1]; ++i)
        dense[weights[i].column] = weights[i].value;
      for (int column = 0; column < n_columns; ++column) {
        block.columns.push_back(static_cast<uint8_t>(column));
        append_value(block.weights, dense[column], block.scale, type);
      }
    } else {
      for (uint32_t i = first[f]; i < first[f + 1]; ++i) {
        block.columns.push_back(static_cast<uint8_t>(weights[i].column));
        append_value(block.weights, weights[i].value, block.scale, type);
      }
    }
  }
  block.slots.push_back(0);
  block.slots.push_back(static_cast<uint32_t>(block.columns.size()));
  return block;
}

} // namespace tagwood
