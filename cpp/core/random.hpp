// A small seeded generator: the same numbers on every machine and for every number of threads.
#pragma once

#include <cstdint>

namespace tagwood {

inline uint64_t mix(uint64_t x) { // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(mix(seed)) {}
  uint64_t next() { return mix(state++); }
  // A whole number in [0, n), n > 0.
  int64_t below(int64_t n) { return static_cast<int64_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
};

} // namespace tagwood
