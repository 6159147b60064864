#include "tree/blocks.hpp"

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

// Bits of a bucket number. More buckets than the slots need are worth it where they save a byte per remainder.
int bucket_bits(int64_t n_slots, int hash_bits) {
  const int wanted = static_cast<int>(std::bit_width(static_cast<uint64_t>(n_slots / kBucketFill)));
  const int least = std::clamp(wanted, std::max(0, hash_bits - 16), hash_bits);
  const int narrow = std::clamp(wanted, std::max(0, hash_bits - 8), hash_bits);
  const int64_t pair = 2 * sizeof(uint32_t);
  return pair * ((int64_t{1} << narrow) - (int64_t{1} << least)) <= n_slots ? narrow : least;
}

// Stable sort by `width` bits of `key`.
template <class Key> void sort_by_digit(std::vector<Weight> &weights, std::vector<Weight> &spare, int width, Key key) {
  std::vector<uint32_t> starts((size_t{1} << width) + 1, 0);
  for (const Weight &weight : weights)
    ++starts[key(weight) + 1];
  for (size_t digit = 1; digit < starts.size(); ++digit)
    starts[digit] += starts[digit - 1];
  spare.resize(weights.size());
  for (const Weight &weight : weights)
    spare[starts[key(weight)]++] = weight;
  std::swap(weights, spare);
}

// Radix sort by hash, then by column.
void sort_weights(std::vector<Weight> &weights, std::vector<Weight> &spare, int hash_bits) {
  sort_by_digit(weights, spare, 8, [](const Weight &weight) { return weight.column; });
  const int n_digits = (hash_bits + 9) / 10, width = (hash_bits + n_digits - 1) / n_digits;
  for (int shift = 0; shift < hash_bits; shift += width)
    sort_by_digit(weights, spare, width,
                  [&](const Weight &weight) { return (weight.hash >> shift) & ((uint32_t{1} << width) - 1); });
}

} // namespace

PackedBlock pack_block(std::vector<Weight> &weights, std::vector<Weight> &spare, int n_columns, int hash_bits,
                       WeightType type) {
  PackedBlock block;
  sort_weights(weights, spare, hash_bits);
  int64_t n_slots = 0;
  float largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    n_slots += i == 0 || weights[i].hash != weights[i - 1].hash;
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
      const uint32_t hash = weights[next].hash;
      if (hash >> remainder_bits != bucket)
        break;
      size_t last = next;
      while (last < weights.size() && weights[last].hash == hash)
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
