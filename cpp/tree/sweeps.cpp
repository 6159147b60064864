#include "tree/train.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr size_t kRowsAhead = 16;

typedef float Float16 __attribute__((vector_size(64)));
typedef int32_t Int16 __attribute__((vector_size(64)));
typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));
typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

template <class Float> struct IntOf;
template <> struct IntOf<Float16> {
  using type = Int16;
};
template <> struct IntOf<Float8> {
  using type = Int8;
};
template <> struct IntOf<Float4> {
  using type = Int4;
};

template <class Float> TAGWOOD_INLINE Float load(const float *p) {
  Float v;
  std::memcpy(&v, p, sizeof(Float));
  return v;
}
template <class Float> TAGWOOD_INLINE void store(float *p, const Float &v) { std::memcpy(p, &v, sizeof(Float)); }
template <class Float> TAGWOOD_INLINE Float fill(float value) { return Float{} + value; }

// +1 where the lane's bit is set, -1 elsewhere.
template <class Float> TAGWOOD_INLINE Float signs(uint32_t bits, int first) {
  using Int = typename IntOf<Float>::type;
  Int lane_bit;
  for (size_t l = 0; l < sizeof(Float) / 4; ++l)
    lane_bit[l] = 1 << (first + static_cast<int>(l));
  const Int set = (Int{} + static_cast<int32_t>(bits)) & lane_bit;
  return set != 0 ? fill<Float>(1.0f) : fill<Float>(-1.0f);
}

template <class Float> TAGWOOD_INLINE bool any(const Float &v) {
  using Int = typename IntOf<Float>::type;
  const Int set = v != 0.0f;
  uint64_t words[sizeof(Float) / 8];
  std::memcpy(words, &set, sizeof(Float));
  uint64_t all = 0;
  for (const uint64_t word : words)
    all |= word;
  return all != 0;
}

// Rows are visited in random order, hence the prefetch.
template <int kLanes> TAGWOOD_INLINE void prefetch_row(const LaneArrays &arrays, int64_t row) {
  const int64_t n = arrays.rows.ptr[row + 1] - arrays.rows.ptr[row];
  const uint32_t *features = arrays.rows.features.data() + arrays.rows.ptr[row];
  const float *values = arrays.rows.values[row];
  for (int64_t at = 0; at < n; at += 16) {
    __builtin_prefetch(features + at);
    __builtin_prefetch(values + at);
  }
  __builtin_prefetch(arrays.alpha + row * kLanes);
}

// One sweep of squared hinge over the rows of arrays.sequence; N vectors of lanes side by side. Row is the vector in
// which the weights of a feature are read and written.
template <class Float, int N, class Row = Float> TAGWOOD_INLINE void hinge_sweep(LaneArrays &arrays, LaneState &state) {
  constexpr int kWidth = sizeof(Float) / 4;
  constexpr int kLanes = kWidth * N;
  constexpr int kRowWidth = sizeof(Row) / 4;
  constexpr int R = kLanes / kRowWidth;
  Float bias[N], active[N], largest[N], smallest[N];
  for (int v = 0; v < N; ++v) {
    bias[v] = load<Float>(state.bias + v * kWidth);
    active[v] = load<Float>(state.active + v * kWidth);
    largest[v] = smallest[v] = fill<Float>(0.0f);
  }
  const Float zero = fill<Float>(0.0f);
  const int64_t n_visits = static_cast<int64_t>(arrays.sequence.size());
  const int64_t *ptr = arrays.rows.ptr.data();
  const uint32_t *all_features = arrays.rows.features.data();
  float *weights = arrays.weights;
  const float settled = state.settled;
  arrays.moved.resize(n_visits);
  int32_t *moved = arrays.moved.data();
  for (int64_t visit = 0; visit < n_visits; ++visit) {
    const int64_t row = arrays.sequence[visit];
    if (visit + 2 < n_visits)
      prefetch_row<kLanes>(arrays, arrays.sequence[visit + 2]);
    Row sum[R], second[R]; // two chains of sums, so that one does not wait for the other
    for (int v = 0; v < R; ++v)
      sum[v] = second[v] = fill<Row>(0.0f);
    const uint32_t *const features = all_features + ptr[row];
    const float *const values = arrays.rows.values[row];
    const int64_t n = ptr[row + 1] - ptr[row];
    int64_t at = 0;
    for (; at + 2 <= n; at += 2) {
      const float *w = weights + static_cast<size_t>(features[at]) * kLanes;
      const float *u = weights + static_cast<size_t>(features[at + 1]) * kLanes;
      for (int v = 0; v < R; ++v) {
        sum[v] += load<Row>(w + v * kRowWidth) * values[at];
        second[v] += load<Row>(u + v * kRowWidth) * values[at + 1];
      }
    }
    if (at < n)
      for (int v = 0; v < R; ++v)
        sum[v] += load<Row>(weights + static_cast<size_t>(features[at]) * kLanes + v * kRowWidth) * values[at];
    for (int v = 0; v < R; ++v)
      sum[v] += second[v];
    Float margin[N], step[N];
    std::memcpy(margin, sum, sizeof(margin));
    for (int v = 0; v < N; ++v)
      margin[v] += bias[v] * state.bias_value;
    float *alpha = arrays.alpha + row * kLanes;
    bool moves = false;
    for (int v = 0; v < N; ++v) {
      const Float sign = signs<Float>(arrays.positive[row], v * kWidth);
      const Float old = load<Float>(alpha + v * kWidth);
      Float diagonal;
      if (state.costs) {
        diagonal = load<Float>(state.costs + row * kLanes + v * kWidth);
      } else {
        const Float positive = load<Float>(state.diagonal_positive + v * kWidth);
        diagonal = sign > 0.0f ? positive : fill<Float>(state.diagonal);
      }
      const Float gradient = (sign * margin[v] - 1.0f + old * diagonal) * active[v];
      const Float projected = old > 0.0f ? gradient : (gradient < 0.0f ? gradient : zero);
      largest[v] = projected > largest[v] ? projected : largest[v];
      smallest[v] = projected < smallest[v] ? projected : smallest[v];
      Float next = old - gradient / (diagonal + arrays.rows.squared_norm[row]);
      next = next > 0.0f ? next : zero;
      const Float size = projected < 0.0f ? -projected : projected;
      next = size > settled ? next : old;
      step[v] = (next - old) * sign;
      moves |= any(step[v]);
      store(alpha + v * kWidth, next);
    }
    if (!moves)
      continue;
    *moved++ = static_cast<int32_t>(row);
    for (int v = 0; v < N; ++v)
      bias[v] += step[v] * state.bias_step;
    Row change[R];
    std::memcpy(change, step, sizeof(change));
    for (at = 0; at < n; ++at) {
      float *w = weights + static_cast<size_t>(features[at]) * kLanes;
      for (int v = 0; v < R; ++v)
        store(w + v * kRowWidth, load<Row>(w + v * kRowWidth) + change[v] * values[at]);
    }
  }
  for (int v = 0; v < N; ++v) {
    store(state.bias + v * kWidth, bias[v]);
    store(state.largest + v * kWidth, largest[v]);
    store(state.smallest + v * kWidth, smallest[v]);
  }
  arrays.moved.resize(moved - arrays.moved.data());
}

// The best dual variable of one row for the logistic loss: Newton steps on
// h(z) = q/2 (z - old)^2 + margin (z - old) + z log z + (C - z) log(C - z), kept inside (0, C).
float logistic_step(float old, float margin, float q, float cost, float *violation) {
  const double c = cost, a = q;
  // By symmetry work on the nearer of z and C - z, where the logarithm is steep.
  const bool upper = old > 0.5 * c;
  const double start = upper ? c - old : old, slope = upper ? -margin : margin;
  double z = std::max(start, 1e-12 * c);
  auto gradient = [&](double t) { return a * (t - start) + slope + std::log(t / (c - t)); };
  double g = gradient(z);
  *violation = static_cast<float>(g);
  for (int i = 0; i < 50 && std::abs(g) > 1e-4; ++i) {
    const double next = z - g / (a + c / ((c - z) * z));
    z = next <= 0 ? z * 0.1 : next >= c ? c - (c - z) * 0.1 : next;
    g = gradient(z);
  }
  return static_cast<float>(upper ? c - z : z);
}

template <int kLanes> TAGWOOD_INLINE void logistic_sweep(LaneArrays &arrays, LaneState &state) {
  std::fill(state.largest, state.largest + kLanes, 0.0f);
  std::fill(state.smallest, state.smallest + kLanes, 0.0f);
  arrays.moved.clear(); // every row moves: no part of them is worth a sweep of its own
  for (const int64_t row : arrays.sequence) {
    float margin[kLanes], step[kLanes];
    for (int l = 0; l < kLanes; ++l)
      margin[l] = state.bias[l] * state.bias_value;
    const uint32_t *features = arrays.rows.features.data() + arrays.rows.ptr[row];
    const float *values = arrays.rows.values[row];
    const int64_t n = arrays.rows.ptr[row + 1] - arrays.rows.ptr[row];
    for (int64_t at = 0; at < n; ++at) {
      const float *w = arrays.weights + static_cast<size_t>(features[at]) * kLanes;
      for (int l = 0; l < kLanes; ++l)
        margin[l] += w[l] * values[at];
    }
    for (int l = 0; l < kLanes; ++l) {
      step[l] = 0;
      if (state.active[l] == 0)
        continue;
      const float sign = (arrays.positive[row] >> l) & 1 ? 1.0f : -1.0f;
      const float diagonal = state.costs ? state.costs[row * kLanes + l]
                             : sign > 0  ? state.diagonal_positive[l]
                                         : state.diagonal;
      const float cost = 0.5f / diagonal;
      float &alpha = arrays.alpha[row * kLanes + l];
      float violation;
      const float next = logistic_step(alpha, sign * margin[l], arrays.rows.squared_norm[row], cost, &violation);
      state.largest[l] = std::max(state.largest[l], std::abs(violation));
      step[l] = (next - alpha) * sign;
      alpha = next;
    }
    for (int l = 0; l < kLanes; ++l)
      state.bias[l] += step[l] * state.bias_step;
    for (int64_t at = 0; at < n; ++at) {
      float *w = arrays.weights + static_cast<size_t>(features[at]) * kLanes;
      for (int l = 0; l < kLanes; ++l)
        w[l] += step[l] * values[at];
    }
  }
}

// N vectors of lanes side by side. The memory of the next rows is prefetched.
template <class Float, int N> TAGWOOD_INLINE void find_rows(const RowMargins &task, std::vector<int32_t> &ids) {
  constexpr int kWidth = sizeof(Float) / 4;
  constexpr int kLanes = kWidth * N;
  const CsrView &x = task.x;
  for (size_t first = 0; first < task.rows.size(); first += kRowsAhead) {
    const size_t last = std::min(task.rows.size(), first + kRowsAhead);
    size_t n_ids = 0;
    for (size_t i = first; i < last; ++i)
      n_ids += static_cast<size_t>(x.row_size(task.rows[i]));
    if (ids.size() < n_ids)
      ids.resize(n_ids);
    int32_t *id = ids.data();
    for (size_t i = first; i < last; ++i)
      for (const int32_t feature : x.row_indices(task.rows[i])) {
        *id = task.local_of[feature];
        __builtin_prefetch(task.weights + static_cast<size_t>(std::max(*id, 0)) * kLanes);
        ++id;
      }
    id = ids.data();
    for (size_t i = first; i < last; ++i) {
      Float sums[N];
      for (int v = 0; v < N; ++v)
        sums[v] = load<Float>(task.bias + v * kWidth);
      for (const float value : x.row_data(task.rows[i])) {
        if (*id >= 0) {
          const float *w = task.weights + static_cast<size_t>(*id) * kLanes;
          for (int v = 0; v < N; ++v)
            sums[v] += load<Float>(w + v * kWidth) * value;
        }
        ++id;
      }
      for (int v = 0; v < N; ++v)
        store(task.margins + i * kLanes + v * kWidth, sums[v]);
    }
  }
}

TAGWOOD_HOT void find_rows_4(const RowMargins &task, std::vector<int32_t> &ids) { find_rows<Float4, 1>(task, ids); }
TAGWOOD_HOT void find_rows_8(const RowMargins &task, std::vector<int32_t> &ids) { find_rows<Float8, 1>(task, ids); }
TAGWOOD_HOT void find_rows_16(const RowMargins &task, std::vector<int32_t> &ids) { find_rows<Float8, 2>(task, ids); }

TAGWOOD_HOT void hinge_sweep_4(LaneArrays &arrays, LaneState &s) { hinge_sweep<Float4, 1>(arrays, s); }
TAGWOOD_HOT void hinge_sweep_8(LaneArrays &arrays, LaneState &s) { hinge_sweep<Float8, 1>(arrays, s); }
TAGWOOD_HOT void hinge_sweep_16(LaneArrays &arrays, LaneState &s) { hinge_sweep<Float8, 2>(arrays, s); }
#if TAGWOOD_HAS_CLONES
// 16 lanes in one register: the same operations in each lane, and so the same bits.
__attribute__((target("arch=x86-64-v4"))) void hinge_sweep_wide(LaneArrays &arrays, LaneState &s) {
  hinge_sweep<Float8, 2, Float16>(arrays, s);
}
const bool kHasWide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512cd");
#else
void hinge_sweep_wide(LaneArrays &arrays, LaneState &s) { hinge_sweep_16(arrays, s); }
constexpr bool kHasWide = false;
#endif
TAGWOOD_HOT void logistic_sweep_4(LaneArrays &arrays, LaneState &s) { logistic_sweep<4>(arrays, s); }
TAGWOOD_HOT void logistic_sweep_8(LaneArrays &arrays, LaneState &s) { logistic_sweep<8>(arrays, s); }
TAGWOOD_HOT void logistic_sweep_16(LaneArrays &arrays, LaneState &s) { logistic_sweep<16>(arrays, s); }

} // namespace

void sweep(LaneArrays &arrays, LaneState &state, int lanes, Loss loss) {
  if (loss == Loss::squared_hinge)
    lanes == 4   ? hinge_sweep_4(arrays, state)
    : lanes == 8 ? hinge_sweep_8(arrays, state)
    : kHasWide   ? hinge_sweep_wide(arrays, state)
                 : hinge_sweep_16(arrays, state);
  else
    lanes == 4   ? logistic_sweep_4(arrays, state)
    : lanes == 8 ? logistic_sweep_8(arrays, state)
                 : logistic_sweep_16(arrays, state);
}

void find_margins(const RowMargins &task, int lanes) {
  std::vector<int32_t> ids;
  lanes == 4 ? find_rows_4(task, ids) : lanes == 8 ? find_rows_8(task, ids) : find_rows_16(task, ids);
}

} // namespace tagwood
