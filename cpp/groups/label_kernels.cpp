#include "groups/label_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/simd.hpp"

namespace tagwood {

namespace {

// Two features at a time: {e, g, e, g} * {x, x, y, y}. Written with vectors because what compilers make of the plain
// loop (gathers and inserts) takes twice the time.
using Four = float __attribute__((vector_size(16)));

using Halves = double __attribute__((vector_size(16)));

TAGWOOD_INLINE Four two_pairs(const Pair &p, const Pair &q) {
  double first, second; // one load for e and g
  std::memcpy(&first, &p, sizeof(Pair));
  std::memcpy(&second, &q, sizeof(Pair));
  return std::bit_cast<Four>(Halves{first, second});
}

} // namespace

TAGWOOD_HOT Products products(const int32_t *indices, const float *data, int64_t size, const Pair *pairs) {
  Four a = {0, 0, 0, 0}, b = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    a += two_pairs(pairs[indices[i]], pairs[indices[i + 1]]) * Four{data[i], data[i], data[i + 1], data[i + 1]};
    b += two_pairs(pairs[indices[i + 2]], pairs[indices[i + 3]]) *
         Four{data[i + 2], data[i + 2], data[i + 3], data[i + 3]};
  }
  for (; i < size; ++i)
    a += two_pairs(pairs[indices[i]], {0, 0}) * Four{data[i], data[i], 0, 0};
  a += b;
  return {a[0] + a[2], a[1] + a[3]};
}

TAGWOOD_HOT double squared_length(const double *sum, const float *background, double n_rows, int64_t size) {
  double total = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double value = sum[i] - n_rows * background[i];
    total += value * value;
  }
  return total;
}

TAGWOOD_HOT Turn turn(Pair *pairs, const double *sum, const float *background, int64_t size, float keep, float add,
                      double n_rows, double scale) {
  double ee = 0, eg = 0, risen = 0, fallen = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float e = keep * pairs[i].e + add * pairs[i].g;
    const float g = static_cast<float>(scale * (sum[i] - n_rows * background[i]));
    const double gain = std::max(0.0f, g - pairs[i].g), loss = std::max(0.0f, pairs[i].g - g);
    ee += static_cast<double>(e) * e;
    eg += static_cast<double>(e) * g;
    risen += gain * gain;
    fallen += loss * loss;
    pairs[i] = {e, g};
  }
  return {ee, eg, risen, fallen};
}

} // namespace tagwood
