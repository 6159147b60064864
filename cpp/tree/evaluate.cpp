#include "tree/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#if defined(__SSE2__) && !defined(TAGWOOD_PORTABLE)
#include <emmintrin.h>
#endif

#include "core/parallel.hpp"

namespace tagwood {

namespace {

struct Hit {
  uint32_t begin, end;
  float value;
};

constexpr int kGroup = 64;

// Which of the 32 bytes from `bytes` on equal `wanted`: one bit each.
TAGWOOD_INLINE uint32_t equal_bytes(const uint8_t *bytes, uint8_t wanted) {
#if defined(__SSE2__) && !defined(TAGWOOD_PORTABLE)
  const __m128i all = _mm_set1_epi8(static_cast<char>(wanted));
  const __m128i *from = reinterpret_cast<const __m128i *>(bytes);
  const int low = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(from), all));
  const int high = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(from + 1), all));
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
#else
  uint32_t bits = 0;
  for (int i = 0; i < kBucketScan; ++i)
    bits |= static_cast<uint32_t>(bytes[i] == wanted) << i;
  return bits;
#endif
}

// The sum of the first n of 32 counts.
TAGWOOD_INLINE uint32_t sum_counts(const uint8_t *counts, int n) {
#if defined(__SSE2__) && !defined(TAGWOOD_PORTABLE)
  // 32 bytes of ones, then 32 of zeros: from 32 - n on, the first n bytes are ones.
  alignas(16) static constexpr auto kMask = [] {
    std::array<uint8_t, 2 * kBucketScan> mask{};
    std::fill_n(mask.begin(), kBucketScan, 255);
    return mask;
  }();
  const __m128i *mask = reinterpret_cast<const __m128i *>(kMask.data() + kBucketScan - n);
  const __m128i *from = reinterpret_cast<const __m128i *>(counts);
  const __m128i low = _mm_and_si128(_mm_loadu_si128(from), _mm_loadu_si128(mask));
  const __m128i high = _mm_and_si128(_mm_loadu_si128(from + 1), _mm_loadu_si128(mask + 1));
  const __m128i zero = _mm_setzero_si128();
  const __m128i halves = _mm_add_epi32(_mm_sad_epu8(low, zero), _mm_sad_epu8(high, zero));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(halves) + _mm_cvtsi128_si32(_mm_srli_si128(halves, 8)));
#else
  uint32_t total = 0;
  for (int i = 0; i < n; ++i)
    total += counts[i];
  return total;
#endif
}

// One block with bounds checks: a damaged model gives wrong labels, but never a crash.
template <class T> struct Block {
  const uint32_t *buckets;
  const uint8_t *remainders;
  const uint8_t *counts;
  const uint8_t *columns;
  const T *weights;
  uint32_t n_slots, n_entries;
  float scale;
  int hash_bits, remainder_bits;
  bool is_wide;

  TAGWOOD_INLINE Block(const BlocksView &blocks, int64_t b)
      : buckets(blocks.buckets + 2 * blocks.bucket_ptr[b]), remainders(blocks.remainders + blocks.remainder_ptr[b]),
        counts(blocks.counts + blocks.slot_ptr[b]), columns(blocks.columns + blocks.entry_ptr[b]),
        weights(static_cast<const T *>(blocks.weights) + blocks.entry_ptr[b]),
        n_slots(static_cast<uint32_t>(blocks.slot_ptr[b + 1] - blocks.slot_ptr[b])),
        n_entries(static_cast<uint32_t>(blocks.entry_ptr[b + 1] - blocks.entry_ptr[b])), scale(blocks.scales[b]),
        hash_bits(blocks.feature_bits) {
    const uint64_t table = static_cast<uint64_t>(blocks.bucket_ptr[b + 1] - blocks.bucket_ptr[b] - 1);
    remainder_bits = std::max(0, hash_bits - (static_cast<int>(std::bit_width(table)) - 1));
    is_wide = remainder_bytes(remainder_bits) == 2;
    const int64_t stored = blocks.remainder_ptr[b + 1] - blocks.remainder_ptr[b];
    n_slots = static_cast<uint32_t>(std::min<int64_t>(n_slots, is_wide ? stored / 2 : stored));
  }

  TAGWOOD_INLINE const uint32_t *bucket(uint32_t hash) const { return buckets + 2 * (hash >> remainder_bits); }

  // Finds a feature's entries; false where the block has none. Without branches: whether a feature is present
  // cannot be predicted, and a misprediction costs more than the few instructions saved.
  TAGWOOD_INLINE bool find(uint32_t hash, Hit &hit) const {
    const uint32_t *b = bucket(hash);
    const uint32_t wanted = hash & ((uint32_t{1} << remainder_bits) - 1);
    const uint32_t first = std::min(b[0], n_slots), last = std::max(first, std::min(b[2], n_slots));
    if (last - first > kBucketScan) [[unlikely]]
      return find_in_long_bucket(b[1], first, last, wanted, hit);
    uint32_t equal = equal_bytes(remainders + first, static_cast<uint8_t>(wanted)) &
                     static_cast<uint32_t>((uint64_t{1} << (last - first)) - 1);
    if (is_wide)
      equal &= equal_bytes(remainders + n_slots + first, static_cast<uint8_t>(wanted >> 8));
    const int place = std::countr_zero(equal | (1u << (kBucketScan - 1)));
    hit.begin = std::min(b[1] + sum_counts(counts + first, place) + static_cast<uint32_t>(place), n_entries);
    hit.end = std::min(hit.begin + counts[first + place] + 1u, n_entries);
    return equal != 0;
  }

  bool find_in_long_bucket(uint32_t begin, uint32_t first, uint32_t last, uint32_t wanted, Hit &hit) const {
    for (uint32_t slot = first; slot < last; begin += counts[slot++] + 1u) {
      const uint32_t remainder = remainders[slot] | (is_wide ? remainders[n_slots + slot] << 8 : 0);
      if (remainder != wanted)
        continue;
      hit.begin = std::min(begin, n_entries);
      hit.end = std::min(hit.begin + counts[slot] + 1u, n_entries);
      return true;
    }
    return false;
  }
};

// Look-ups wait for memory, so a group of features advances step by step: each step prefetches for the next.
template <class T>
TAGWOOD_INLINE void add_block(const BlocksView &blocks, int64_t b, std::span<const uint32_t> hashes,
                              std::span<const float> values, float *out, int n_outputs) {
  const Block<T> block(blocks, b);
  Hit hits[kGroup + 1];
  for (size_t first = 0; first < hashes.size(); first += kGroup) {
    const size_t last = std::min(first + kGroup, hashes.size());
    for (size_t i = first; i < last; ++i)
      __builtin_prefetch(block.bucket(hashes[i]));
    for (size_t i = first; i < last; ++i) {
      const uint32_t slot = std::min(*block.bucket(hashes[i]), block.n_slots);
      __builtin_prefetch(block.remainders + slot);
      __builtin_prefetch(block.counts + slot);
    }
    int n_hits = 0;
    for (size_t i = first; i < last; ++i) {
      hits[n_hits].value = values[i];
      const bool found = block.find(hashes[i], hits[n_hits]);
      __builtin_prefetch(block.columns + hits[n_hits].begin);
      __builtin_prefetch(block.weights + hits[n_hits].begin);
      n_hits += found;
    }
    for (int h = 0; h < n_hits; ++h) {
      const float value = hits[h].value * block.scale;
      const uint32_t begin = hits[h].begin, end = hits[h].end;
      if (static_cast<int>(end - begin) == n_outputs) {
        const T *row = block.weights + begin;
        for (int c = 0; c < n_outputs; ++c)
          out[c] += value * static_cast<float>(row[c]);
      } else {
        for (uint32_t e = begin; e < end; ++e)
          out[block.columns[e]] += value * static_cast<float>(block.weights[e]);
      }
    }
  }
}

TAGWOOD_HOT void add_float32(const BlocksView &b, int64_t block, std::span<const uint32_t> f, std::span<const float> v,
                             float *out, int n) {
  add_block<float>(b, block, f, v, out, n);
}
TAGWOOD_HOT void add_float16(const BlocksView &b, int64_t block, std::span<const uint32_t> f, std::span<const float> v,
                             float *out, int n) {
  add_block<_Float16>(b, block, f, v, out, n);
}
TAGWOOD_HOT void add_int8(const BlocksView &b, int64_t block, std::span<const uint32_t> f, std::span<const float> v,
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

TAGWOOD_HOT int select(const float *scores, int n, float least, int32_t *places) {
  int found = 0;
  for (int i = 0; i < n; ++i) {
    places[found] = i;
    found += scores[i] >= least;
  }
  return found;
}

} // namespace

void HashedRows::assign(const CsrView &x, int64_t begin, int64_t end, int feature_bits) {
  ptr_.resize(end - begin + 1);
  for (int64_t i = 0; i <= end - begin; ++i)
    ptr_[i] = x.indptr[begin + i] - x.indptr[begin];
  hashes_.resize(ptr_.back());
  values_.resize(ptr_.back());
  const int shift = std::max(0, feature_bits - 8);
  for (int64_t i = 0; i < end - begin; ++i) {
    const auto features = x.row_indices(begin + i);
    const auto values = x.row_data(begin + i);
    uint32_t place[257] = {};
    for (const int32_t feature : features)
      ++place[(hash_feature(feature, feature_bits) >> shift) + 1];
    for (int h = 0; h < 256; ++h)
      place[h + 1] += place[h];
    for (size_t t = 0; t < features.size(); ++t) {
      const uint32_t hash = hash_feature(features[t], feature_bits);
      const int64_t at = ptr_[i] + place[hash >> shift]++;
      hashes_[at] = hash;
      values_[at] = values[t];
    }
  }
}

void evaluate_node(const ModelView &model, int32_t node, std::span<const uint32_t> hashes,
                   std::span<const float> values, float *out) {
  const int n_outputs = model.tree.n_outputs(node);
  std::memcpy(out, model.bias + model.tree.first_output(node), n_outputs * sizeof(float));
  int64_t block = model.tree.block_ptr[node];
  for (int first = 0; first < n_outputs; first += 256, ++block) {
    const int n = std::min(256, n_outputs - first);
    if (model.blocks.type == WeightType::int8)
      add_int8(model.blocks, block, hashes, values, out + first, n);
    else if (model.blocks.type == WeightType::float16)
      add_float16(model.blocks, block, hashes, values, out + first, n);
    else
      add_float32(model.blocks, block, hashes, values, out + first, n);
  }
}

int select_scores(const float *scores, int n, float least, int32_t *places) { return select(scores, n, least, places); }

void apply_link(const Link &link, float *margins, int n, float base) {
  if (link.power > 0) {
    hinge_link(margins, n, base, link.power);
    return;
  }
  for (int i = 0; i < n; ++i) {
    const float z = std::max(-1e30f, margins[i]); // in this order NaN (infinite weights) becomes the smallest score
    margins[i] = base + (z > 0 ? -std::log1p(std::exp(-z)) : z - std::log1p(std::exp(z)));
  }
}

} // namespace tagwood
