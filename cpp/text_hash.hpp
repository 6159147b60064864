// 64-bit keys of tokens and n-grams, and a sort for keys and feature ids.
// A key stands for its n-gram everywhere: among 100 million different n-grams two share a key with probability 0.03 %.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tagwood {

static_assert(std::endian::native == std::endian::little, "keys are defined by little-endian loads");

constexpr uint64_t kLengthFactor = 0x9E3779B97F4A7C15ull;
constexpr uint64_t kStep = 0xD6E8FEB86659FD93ull;
constexpr uint64_t kLast = 0xA0761D6478BD642Full;
constexpr uint64_t kLeft = 0xE7037ED1A0B428DBull;
constexpr uint64_t kRight = 0x8EBC6AF09C88C6E3ull;
constexpr uint64_t kWordSeed = 0x589965CC75374CC3ull;
constexpr uint64_t kCharSeed = 0x1D8E4E27C47D124Full;

// High and low half of the product, folded into one.
inline uint64_t fold_product(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Key of `size` bytes; up to 7 bytes after them are read and ignored, so they must be readable.
inline uint64_t hash_bytes(const uint8_t *bytes, int64_t size, uint64_t seed) {
  uint64_t state = seed ^ (static_cast<uint64_t>(size) * kLengthFactor);
  uint64_t block;
  for (; size >= 8; size -= 8, bytes += 8) {
    std::memcpy(&block, bytes, 8);
    state = fold_product(state ^ block, kStep);
  }
  if (size > 0) {
    std::memcpy(&block, bytes, 8);
    state = fold_product(state ^ (block & ((1ull << (8 * size)) - 1)), kStep);
  }
  return fold_product(state, kLast);
}

// Key of an n-gram from the key of its first n - 1 tokens and that of its last one.
inline uint64_t join_keys(uint64_t left, uint64_t right) { return fold_product(left ^ kLeft, right ^ kRight); }

// Sorts values of at most `bits` bits; long lists by radix with `scratch` as the second buffer.
template <class T> void sort_values(std::vector<T> &values, std::vector<T> &scratch, int bits) {
  constexpr int kDigit = 11;
  constexpr size_t kRadix = size_t{1} << kDigit;
  if (values.size() < 256) {
    std::sort(values.begin(), values.end());
    return;
  }
  scratch.resize(values.size());
  size_t counts[kRadix];
  for (int shift = 0; shift < bits; shift += kDigit) {
    std::memset(counts, 0, sizeof counts);
    for (const T value : values)
      ++counts[(value >> shift) & (kRadix - 1)];
    size_t at = 0;
    for (size_t &count : counts) {
      const size_t here = count;
      count = at;
      at += here;
    }
    for (const T value : values)
      scratch[counts[(value >> shift) & (kRadix - 1)]++] = value;
    values.swap(scratch);
  }
}

} // namespace tagwood
