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

// The first `size` bytes (0 to 8) of eight, the others zero.
inline uint64_t load_bytes(const uint8_t *bytes, int64_t size) {
  uint64_t block;
  std::memcpy(&block, bytes, 8);
  return size <= 0 ? 0 : block & (~uint64_t{0} >> (64 - 8 * std::min<int64_t>(size, 8)));
}

// Key of `size` bytes; up to 15 bytes after them are read and ignored, so they must be readable.
inline uint64_t hash_bytes(const uint8_t *bytes, int64_t size, uint64_t seed) {
  uint64_t state = seed ^ (static_cast<uint64_t>(size) * kLengthFactor);
  do { // nearly every word fits into the first 16 bytes
    state = fold_product(state ^ load_bytes(bytes, size), kStep ^ load_bytes(bytes + 8, size - 8));
    bytes += 16;
    size -= 16;
  } while (size > 0);
  return fold_product(state, kLast);
}

// Key of an n-gram from the key of its first n - 1 tokens and that of its last one.
inline uint64_t join_keys(uint64_t left, uint64_t right) { return fold_product(left ^ kLeft, right ^ kRight); }

// Sorts values of at most `bits` bits; long lists by radix with `scratch` as the second buffer.
template <class T> void sort_values(std::vector<T> &values, std::vector<T> &scratch, int bits) {
  constexpr int kMaxDigit = 11;
  if (values.size() < 128) {
    std::sort(values.begin(), values.end());
    return;
  }
  scratch.resize(values.size());
  const int passes = std::max(1, (bits + kMaxDigit - 1) / kMaxDigit);
  const int digit = (bits + passes - 1) / passes;
  const uint32_t mask = (1u << digit) - 1;
  uint32_t counts[1 << kMaxDigit];
  for (int shift = 0; shift < bits; shift += digit) {
    std::fill_n(counts, mask + 1, 0u);
    for (const T value : values)
      ++counts[(value >> shift) & mask];
    uint32_t at = 0;
    for (uint32_t i = 0; i <= mask; ++i) {
      const uint32_t here = counts[i];
      counts[i] = at;
      at += here;
    }
    for (const T value : values)
      scratch[counts[(value >> shift) & mask]++] = value;
    values.swap(scratch);
  }
}

} // namespace tagwood
