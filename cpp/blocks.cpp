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

// Bits of the number of a bucket. More buckets than the slots need pay where they make a byte of each remainder needless.
int bucket_bits(int64_t n_slots, int hash_bits) {
  const int wanted = static_cast<int>(std::bit_width(static_cast<uint64_t>(n_slots / kBucketFill)));
  const int least = std::clamp(wanted, std::max(0, hash_bits - 16), hash_bits);
  const int narrow = std::clamp(wanted, std::max(0, hash_bits - 8), hash_bits);
  const int64_t pair = 2 * sizeof(uint32_t);
  return pair * ((int64_t{1} << narrow) - (int64_t{1} << least)) <= n_slots ? narrow : least;
}

} // namespace

PackedBlock pack_block(std::vector<Weight> &weights, int n_columns, int64_t n_features, WeightType type) {
  PackedBlock block;
  const int hash_bits = feature_bits(n_features);
  std::sort(weights.begin(), weights.end(), [&](const Weight &a, const Weight &b) {
    return a.feature != b.feature ? hash_feature(a.feature, hash_bits) < hash_feature(b.feature, hash_bits)
                                  : a.column < b.column;
  });
  int64_t n_slots = 0;
  float largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    n_slots += i == 0 || weights[i].feature != weights[i - 1].feature;
    largest = std::max(largest, std::abs(weights[i].value));
  }
  if (type == WeightType::int8 && largest > 0)
    block.scale = largest / 127;
  const int bits = bucket_bits(n_slots, hash_bits);
  const int remainder_bits = hash_bits - bits;
  block.remainders.resize(n_slots * remainder_bytes(remainder_bits));
  block.buckets.reserve(2 * ((size_t{1} << bits) + 1));
  block.columns.reserve(weights.size());
  block.weights.reserve(weights.size() * weight_size(type));
  std::vector<float> dense(n_columns);
  size_t next = 0;
  for (uint32_t bucket = 0; bucket < (uint32_t{1} << bits); ++bucket) {
    block.buckets.push_back(static_cast<uint32_t>(block.counts.size()));
    block.buckets.push_back(static_cast<uint32_t>(block.columns.size()));
    while (next < weights.size()) {
      const int32_t feature = weights[next].feature;
      const uint32_t hash = hash_feature(feature, hash_bits);
      if (hash >> remainder_bits != bucket)
        break;
      size_t last = next;
      while (last < weights.size() && weights[last].feature == feature)
        ++last;
      const size_t before = block.columns.size();
      if (static_cast<int64_t>(last - next) * kDenseShare >= n_columns) {
        std::fill(dense.begin(), dense.end(), 0.0f);
        for (; next < last; ++next)
          dense[weights[next].column] = weights[next].value;
        for (int column = 0; column < n_columns; ++column) {
          block.columns.push_back(static_cast<uint8_t>(column));
          append_value(block.weights, dense[column], block.scale, type);
        }
      } else {
        for (; next < last; ++next) {
          block.columns.push_back(static_cast<uint8_t>(weights[next].column));
          append_value(block.weights, weights[next].value, block.scale, type);
        }
      }
      const uint32_t remainder = hash & ((uint32_t{1} << remainder_bits) - 1);
      block.remainders[block.counts.size()] = static_cast<uint8_t>(remainder);
      if (remainder_bytes(remainder_bits) == 2)
        block.remainders[n_slots + block.counts.size()] = static_cast<uint8_t>(remainder >> 8);
      block.counts.push_back(static_cast<uint8_t>(block.columns.size() - before - 1));
    }
  }
  block.buckets.push_back(static_cast<uint32_t>(block.counts.size()));
  block.buckets.push_back(static_cast<uint32_t>(block.columns.size()));
  return block;
}

} // namespace tagwood
