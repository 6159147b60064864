// The layout of trained weights.
//
// A block holds the linear classifiers of up to 256 outputs of one tree node (its children or its labels). Search asks
// one question again and again: which weights does this block have for feature f? So a block is a small hash table by
// feature, and the weights of one feature stand together:
//
//   buckets  2^bits + 1 numbers: the slots of bucket h are buckets[h] .. buckets[h + 1]
//   slots    (feature, first entry) pairs, ordered by bucket; one more pair closes the last entry range
//   columns  which output of the block, one byte per weight
//   weights  float32, float16 or int8 (times the block's scale)
//
// A look-up touches three short, neighbouring stretches of memory and no pointer leaves the arrays, so a model is
// memory-mapped and used as it lies on disk. Features with many outputs are stored for all of them (zeros included):
// their entries are then a dense row, added with SIMD.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace tagwood {

enum class WeightType : int { float32 = 0, float16 = 1, int8 = 2 };

inline int64_t weight_size(WeightType type) {
  return type == WeightType::float32 ? 4 : type == WeightType::float16 ? 2 : 1;
}

inline uint32_t bucket_of(int32_t feature, int bits) {
  return bits == 0 ? 0 : (static_cast<uint32_t>(feature) * 0x9e3779b1u) >> (32 - bits);
}

struct PackedBlock {
  std::vector<uint32_t> buckets;
  std::vector<uint32_t> slots;
  std::vector<uint8_t> columns;
  std::vector<uint8_t> weights;
  float scale = 1;
};

// A weight that training kept.
struct Weight {
  int32_t feature;
  int32_t column;
  float value;
};

// Packs the weights of one block; `weights` is reordered.
PackedBlock pack_block(std::vector<Weight> &weights, int n_columns, WeightType type);

// All blocks of a model, as they lie in memory. Offsets of block b: bucket_ptr[b], slot_ptr[b] (in pairs),
// entry_ptr[b].
struct BlocksView {
  const int64_t *bucket_ptr;
  const uint32_t *buckets;
  const int64_t *slot_ptr;
  const uint32_t *slots;
  const int64_t *entry_ptr;
  const uint8_t *columns;
  const void *weights;
  const float *scales;
  WeightType type;
  int64_t n_blocks;
};

} // namespace tagwood
