#include "evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "simd.hpp"

namespace tagwood {

namespace {

struct Hit {
  uint32_t begin, end;
  float value;
};

constexpr int kGroup = 64; // features looked up before their weights are added: their cache misses overlap

// Finds the features of one group in the block and asks the memory for their weights.
template <int kWeightSize>
TAGWOOD_INLINE int look_up(const uint32_t *buckets, const uint32_t *slots, int bits, const int32_t *features,
                           const float *values, int n, uint32_t n_slots, uint32_t n_entries, const uint8_t *columns,
                           const uint8_t *weights, Hit *hits) {
  int n_hits = 0;
  for (int i = 0; i < n; ++i) {
    const uint32_t feature = static_cast<uint32_t>(features[i]);
    const uint32_t bucket = bucket_of(features[i], bits);
    const uint32_t last = std::min(buckets[bucket + 1], n_slots);
    for (uint32_t slot = buckets[bucket]; slot < last; ++slot)
      if (slots[2 * slot] == feature) {
        const uint32_t begin = slots[2 * slot + 1];
        hits[n_hits++] = {begin, std::min(slots[2 * slot + 3], n_entries), values[i]};
        __builtin_prefetch(columns + begin);
        __builtin_prefetch(weights + size_t{begin} * kWeightSize);
        break;
      }
  }
  return n_hits;
}

template <class T>
TAGWOOD_INLINE void add_block(const BlocksView &blocks, int64_t block, std::span<const int32_t> features,
                              std::span<const float> values, float *out, int n_outputs) {
  const uint32_t *buckets = blocks.buckets + blocks.bucket_ptr[block];
  const uint32_t *slots = blocks.slots + 2 * blocks.slot_ptr[block];
  const uint8_t *columns = blocks.columns + blocks.entry_ptr[block];
  const T *weights = static_cast<const T *>(blocks.weights) + blocks.entry_ptr[block];
  const int bits =
      std::bit_width(static_cast<uint64_t>(blocks.bucket_ptr[block + 1] - blocks.bucket_ptr[block] - 1)) - 1;
  // Bounds hold whatever the arrays say: a damaged model gives wrong labels, never a crash.
  const uint32_t n_slots = static_cast<uint32_t>(blocks.slot_ptr[block + 1] - blocks.slot_ptr[block] - 1);
  const uint32_t n_entries = static_cast<uint32_t>(blocks.entry_ptr[block + 1] - blocks.entry_ptr[block]);
  const float scale = blocks.scales[block];
  Hit hits[kGroup];
  for (size_t first = 0; first < features.size(); first += kGroup) {
    const int n = static_cast<int>(std::min<size_t>(kGroup, features.size() - first));
    const int n_hits =
        look_up<sizeof(T)>(buckets, slots, bits, features.data() + first, values.data() + first, n, n_slots, n_entries,
                           columns, reinterpret_cast<const uint8_t *>(weights), hits);
    for (int h = 0; h < n_hits; ++h) {
      const float value = hits[h].value * scale;
      const uint32_t begin = hits[h].begin, end = hits[h].end;
      if (static_cast<int>(end - begin) == n_outputs) {
        const T *row = weights + begin;
        for (int c = 0; c < n_outputs; ++c)
          out[c] += value * static_cast<float>(row[c]);
      } else {
        for (uint32_t e = begin; e < end; ++e)
          out[columns[e]] += value * static_cast<float>(weights[e]);
      }
    }
  }
}

TAGWOOD_HOT void add_float32(const BlocksView &b, int64_t block, std::span<const int32_t> f, std::span<const float> v,
                             float *out, int n) {
  add_block<float>(b, block, f, v, out, n);
}
TAGWOOD_HOT void add_float16(const BlocksView &b, int64_t block, std::span<const int32_t> f, std::span<const float> v,
                             float *out, int n) {
  add_block<_Float16>(b, block, f, v, out, n);
}
TAGWOOD_HOT void add_int8(const BlocksView &b, int64_t block, std::span<const int32_t> f, std::span<const float> v,
                          float *out, int n) {
  add_block<int8_t>(b, block, f, v, out, n);
}

TAGWOOD_HOT void hinge_link(float *margins, int n, float base, int power) {
  for (int i = 0; i < n; ++i) {
    const float gap = std::max(0.0f, 1.0f - margins[i]);
    float loss = gap * gap;
    loss = power == 1 ? gap : power == 2 ? loss : power == 3 ? loss * gap : loss * loss;
    margins[i] = base - loss;
  }
}

} // namespace

void evaluate_node(const ModelView &model, int32_t node, std::span<const int32_t> features,
                   std::span<const float> values, float *out) {
  const int n_outputs = model.tree.n_outputs(node);
  std::memcpy(out, model.bias + model.tree.first_output(node), n_outputs * sizeof(float));
  int64_t block = model.tree.block_ptr[node];
  for (int first = 0; first < n_outputs; first += 256, ++block) {
    const int n = std::min(256, n_outputs - first);
    if (model.blocks.type == WeightType::int8)
      add_int8(model.blocks, block, features, values, out + first, n);
    else if (model.blocks.type == WeightType::float16)
      add_float16(model.blocks, block, features, values, out + first, n);
    else
      add_float32(model.blocks, block, features, values, out + first, n);
  }
}

void apply_link(const Link &link, float *margins, int n, float base) {
  if (link.power > 0) {
    hinge_link(margins, n, base, link.power);
    return;
  }
  for (int i = 0; i < n; ++i) {
    const float z = margins[i];
    margins[i] = base + (z > 0 ? -std::log1p(std::exp(-z)) : z - std::log1p(std::exp(z)));
  }
}

} // namespace tagwood
