// The layout of trained weights.
//
// A block holds the linear classifiers of up to 256 outputs of one tree node (its children or its labels). Search looks
// up the weights of one feature in a block again and again, so a block is a small hash table by feature, and the
// weights of one feature are contiguous:
//
//   buckets     2^bits + 1 pairs: where the slots and the entries of the bucket start
//   remainders  one byte per slot: the part of the feature's hash that the bucket number does not give. Blocks with
//               few slots in a large feature space need two bytes: the low bytes of all slots, then the high ones
//   counts      one per slot: number of its entries, less one
//   columns     one per entry: which output of the block
//   weights     one per entry: float32, float16 or int8 (times the block's scale)
//
// The hash is a bijection of the feature numbers, so bucket and remainder together identify the feature: a slot takes
// two or three bytes, and a whole bucket is compared at once. There are no pointers, so a model is memory-mapped and
// used as it is on disk. Features with many outputs are stored for all of them (zeros included):
// their entries are then a dense row, added with SIMD.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tagwood {

enum class WeightType : int { float32 = 0, float16 = 1, int8 = 2 };

inline int64_t weight_size(WeightType type) {
  return type == WeightType::float32 ? 4 : type == WeightType::float16 ? 2 : 1;
}

constexpr int kBucketFill = 16; // slots of a bucket, on average 8 to 16
constexpr int kBucketScan = 32; // slots compared at once; the slots of a model end with as many spare ones

// Bytes of a remainder.
inline int remainder_bytes(int remainder_bits) { return remainder_bits > 8 ? 2 : 1; }

// Bits needed to number the features of a matrix.
inline int feature_bits(int64_t n_features) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(n_features, 2) - 1))));
}

// A bijection of the numbers below 2^bits: an odd factor has an inverse.
inline uint32_t hash_feature(int32_t feature, int bits) {
  return (static_cast<uint32_t>(feature) * 0x9e3779b1u) & ((uint64_t{1} << bits) - 1);
}

struct PackedBlock {
  std::vector<uint32_t> buckets;
  std::vector<uint8_t> remainders;
  std::vector<uint8_t> counts;
  std::vector<uint8_t> columns;
  std::vector<uint8_t> weights;
  float scale = 1;
};

// A weight that training kept; `hash` is that of its feature.
struct Weight {
  uint32_t hash;
  uint32_t column;
  float value;
};

// Packs the weights of one block; `weights` is reordered, `spare` is scratch.
PackedBlock pack_block(std::vector<Weight> &weights, std::vector<Weight> &spare, int n_columns, int hash_bits,
                       WeightType type);

// All blocks of a model, in memory. Block b starts at bucket_ptr[b] (in pairs), slot_ptr[b],
// remainder_ptr[b] (in bytes) and entry_ptr[b].
struct BlocksView {
  const int64_t *bucket_ptr;
  const uint32_t *buckets;
  const int64_t *slot_ptr;
  const int64_t *remainder_ptr;
  const uint8_t *remainders;
  const uint8_t *counts;
  const int64_t *entry_ptr;
  const uint8_t *columns;
  const void *weights;
  const float *scales;
  WeightType type;
  int feature_bits;
};

} // namespace tagwood
