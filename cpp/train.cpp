// Dual coordinate descent over lanes.
//
// All outputs of a block see the same rows. The block's rows are copied once into a compact feature space, frequent
// features first; the weights lie as [feature][lane], so that one pass over a row serves every lane with SIMD. A lane
// that has converged hands over its weights and takes the next output. Per block there is no work that grows with the
// number of features of x or of labels outside the block.
#include "train.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "parallel.hpp"
#include "random.hpp"
#include "simd.hpp"

namespace tagwood {

namespace {

typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));
typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

template <class Float> struct IntOf;
template <> struct IntOf<Float8> {
  using type = Int8;
};
template <> struct IntOf<Float4> {
  using type = Int4;
};

struct Item {
  uint32_t feature;
  float value;
};

// The rows of a block in their compact feature space.
struct LocalRows {
  std::vector<int64_t> ptr;
  std::vector<Item> items;
  std::vector<float> squared_norm; // with the constant feature
  std::vector<int32_t> feature_of;
  int64_t size() const { return static_cast<int64_t>(squared_norm.size()); }
};

constexpr int kMaxLanes = 16;

// Everything a thread needs, reused from block to block.
struct Workspace {
  std::vector<int32_t> local_of;       // feature of x -> compact id, -1 between blocks
  std::vector<int32_t> position_of;    // row of x -> place in the block; read only for rows of the block
  std::vector<int32_t> row_of, counts; // place in the block -> row of x; uses of a feature
  LocalRows rows;
  std::unique_ptr<float[]> weights_storage;
  size_t weights_capacity = 0;
  float *weights = nullptr; // [feature][lane], aligned to 64 bytes
  std::vector<float> alpha_storage, cost_storage;
  float *alpha = nullptr;         // [row][lane]
  std::vector<uint16_t> positive; // one bit per lane
  std::vector<int32_t> sequence;  // order of visits, drawn anew for every sweep
  std::vector<Weight> kept;
};

float *aligned(float *p) { return reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63}); }

// What the lanes carry between sweeps.
struct alignas(64) LaneState {
  float bias[kMaxLanes] = {};
  float active[kMaxLanes] = {};  // 1 where the lane has an output
  float largest[kMaxLanes] = {}; // projected gradients of the present sweep
  float smallest[kMaxLanes] = {};
  const float *costs = nullptr;            // [row][lane] 1/(2C) per entry, or null where all are alike
  float diagonal_positive[kMaxLanes] = {}; // the same for the lane's positives
  float diagonal = 0.5f;                   // 1/(2C)
  float settled = 0;                       // smaller projected gradients are left alone
  float bias_value = 1;
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

// Rows are visited at random, so the memory is told in advance.
template <int kLanes> TAGWOOD_INLINE void prefetch_row(const Workspace &ws, int64_t row) {
  const char *begin = reinterpret_cast<const char *>(ws.rows.items.data() + ws.rows.ptr[row]);
  const char *end = reinterpret_cast<const char *>(ws.rows.items.data() + ws.rows.ptr[row + 1]);
  for (; begin < end; begin += 64)
    __builtin_prefetch(begin);
  __builtin_prefetch(ws.alpha + row * kLanes);
}

// One sweep of squared hinge over all rows; N vectors of lanes side by side.
template <class Float, int N> TAGWOOD_INLINE void hinge_sweep(Workspace &ws, LaneState &state) {
  constexpr int kWidth = sizeof(Float) / 4;
  constexpr int kLanes = kWidth * N;
  Float bias[N], active[N], largest[N], smallest[N];
  for (int v = 0; v < N; ++v) {
    bias[v] = load<Float>(state.bias + v * kWidth);
    active[v] = load<Float>(state.active + v * kWidth);
    largest[v] = smallest[v] = fill<Float>(0.0f);
  }
  const Float zero = fill<Float>(0.0f);
  const int64_t n_rows = ws.rows.size();
  const int64_t *ptr = ws.rows.ptr.data();
  const Item *items = ws.rows.items.data();
  float *weights = ws.weights;
  const float settled = state.settled;
  for (int64_t visit = 0; visit < n_rows; ++visit) {
    const int64_t row = ws.sequence[visit];
    if (visit + 2 < n_rows)
      prefetch_row<kLanes>(ws, ws.sequence[visit + 2]);
    Float margin[N], second[N]; // two chains of sums, so that one does not wait for the other
    for (int v = 0; v < N; ++v) {
      margin[v] = bias[v] * state.bias_value;
      second[v] = zero;
    }
    const Item *const begin = items + ptr[row], *const end = items + ptr[row + 1];
    const Item *item = begin;
    for (; end - item >= 2; item += 2) {
      const float *w = weights + static_cast<size_t>(item[0].feature) * kLanes;
      const float *u = weights + static_cast<size_t>(item[1].feature) * kLanes;
      for (int v = 0; v < N; ++v) {
        margin[v] += load<Float>(w + v * kWidth) * item[0].value;
        second[v] += load<Float>(u + v * kWidth) * item[1].value;
      }
    }
    if (item != end)
      for (int v = 0; v < N; ++v)
        margin[v] += load<Float>(weights + static_cast<size_t>(item->feature) * kLanes + v * kWidth) * item->value;
    for (int v = 0; v < N; ++v)
      margin[v] += second[v];
    float *alpha = ws.alpha + row * kLanes;
    Float step[N];
    bool moves = false;
    for (int v = 0; v < N; ++v) {
      const Float sign = signs<Float>(ws.positive[row], v * kWidth);
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
      Float next = old - gradient / (diagonal + ws.rows.squared_norm[row]);
      next = next > 0.0f ? next : zero;
      const Float size = projected < 0.0f ? -projected : projected;
      next = size > settled ? next : old;
      step[v] = (next - old) * sign;
      moves |= any(step[v]);
      store(alpha + v * kWidth, next);
    }
    if (!moves)
      continue;
    for (int v = 0; v < N; ++v)
      bias[v] += step[v] * state.bias_value;
    for (item = begin; item != end; ++item) {
      float *w = weights + static_cast<size_t>(item->feature) * kLanes;
      for (int v = 0; v < N; ++v)
        store(w + v * kWidth, load<Float>(w + v * kWidth) + step[v] * item->value);
    }
  }
  for (int v = 0; v < N; ++v) {
    store(state.bias + v * kWidth, bias[v]);
    store(state.largest + v * kWidth, largest[v]);
    store(state.smallest + v * kWidth, smallest[v]);
  }
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

template <int kLanes> TAGWOOD_INLINE void logistic_sweep(Workspace &ws, LaneState &state) {
  std::fill(state.largest, state.largest + kLanes, 0.0f);
  std::fill(state.smallest, state.smallest + kLanes, 0.0f);
  const int64_t n_rows = ws.rows.size();
  for (int64_t visit = 0; visit < n_rows; ++visit) {
    const int64_t row = ws.sequence[visit];
    float margin[kLanes], step[kLanes];
    for (int l = 0; l < kLanes; ++l)
      margin[l] = state.bias[l] * state.bias_value;
    const Item *begin = ws.rows.items.data() + ws.rows.ptr[row], *end = ws.rows.items.data() + ws.rows.ptr[row + 1];
    for (const Item *item = begin; item != end; ++item) {
      const float *w = ws.weights + static_cast<size_t>(item->feature) * kLanes;
      for (int l = 0; l < kLanes; ++l)
        margin[l] += w[l] * item->value;
    }
    for (int l = 0; l < kLanes; ++l) {
      step[l] = 0;
      if (state.active[l] == 0)
        continue;
      const float sign = (ws.positive[row] >> l) & 1 ? 1.0f : -1.0f;
      const float diagonal = state.costs ? state.costs[row * kLanes + l]
                             : sign > 0  ? state.diagonal_positive[l]
                                         : state.diagonal;
      const float cost = 0.5f / diagonal;
      float &alpha = ws.alpha[row * kLanes + l];
      float violation;
      const float next = logistic_step(alpha, sign * margin[l], ws.rows.squared_norm[row], cost, &violation);
      state.largest[l] = std::max(state.largest[l], std::abs(violation));
      step[l] = (next - alpha) * sign;
      alpha = next;
    }
    for (int l = 0; l < kLanes; ++l)
      state.bias[l] += step[l] * state.bias_value;
    for (const Item *item = begin; item != end; ++item) {
      float *w = ws.weights + static_cast<size_t>(item->feature) * kLanes;
      for (int l = 0; l < kLanes; ++l)
        w[l] += step[l] * item->value;
    }
  }
}

TAGWOOD_HOT void hinge_sweep_4(Workspace &ws, LaneState &s) { hinge_sweep<Float4, 1>(ws, s); }
TAGWOOD_HOT void hinge_sweep_8(Workspace &ws, LaneState &s) { hinge_sweep<Float8, 1>(ws, s); }
TAGWOOD_HOT void hinge_sweep_16(Workspace &ws, LaneState &s) { hinge_sweep<Float8, 2>(ws, s); }
TAGWOOD_HOT void logistic_sweep_4(Workspace &ws, LaneState &s) { logistic_sweep<4>(ws, s); }
TAGWOOD_HOT void logistic_sweep_8(Workspace &ws, LaneState &s) { logistic_sweep<8>(ws, s); }
TAGWOOD_HOT void logistic_sweep_16(Workspace &ws, LaneState &s) { logistic_sweep<16>(ws, s); }

void sweep(Workspace &ws, LaneState &state, int lanes, Loss loss) {
  if (loss == Loss::squared_hinge)
    lanes == 4 ? hinge_sweep_4(ws, state) : lanes == 8 ? hinge_sweep_8(ws, state) : hinge_sweep_16(ws, state);
  else
    lanes == 4 ? logistic_sweep_4(ws, state) : lanes == 8 ? logistic_sweep_8(ws, state) : logistic_sweep_16(ws, state);
}

// Copies the block's rows into the compact space with the most frequent features first.
void copy_rows(const CsrView &x, const int32_t *rows, int64_t n, const TrainOptions &o, Workspace &ws) {
  auto &local = ws.rows;
  ws.local_of.resize(x.n_cols, -1);
  ws.position_of.resize(x.n_rows, -1);
  ws.row_of.assign(rows, rows + n);
  local.feature_of.clear();
  ws.counts.clear();
  int64_t stored = 0;
  for (int64_t i = 0; i < n; ++i)
    for (const int32_t feature : x.row_indices(rows[i])) {
      int32_t &id = ws.local_of[feature];
      if (id < 0) {
        id = static_cast<int32_t>(local.feature_of.size());
        local.feature_of.push_back(feature);
        ws.counts.push_back(0);
      }
      ++ws.counts[id];
      ++stored;
    }
  std::vector<int32_t> &by_count = local.feature_of;
  std::sort(by_count.begin(), by_count.end(), [&](int32_t a, int32_t b) {
    const int32_t ca = ws.counts[ws.local_of[a]], cb = ws.counts[ws.local_of[b]];
    return ca != cb ? ca > cb : a < b;
  });
  for (size_t id = 0; id < by_count.size(); ++id)
    ws.local_of[by_count[id]] = static_cast<int32_t>(id);
  local.ptr.assign(1, 0);
  local.items.resize(stored);
  local.squared_norm.resize(n);
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto features = x.row_indices(ws.row_of[i]);
    const auto values = x.row_data(ws.row_of[i]);
    double norm = o.bias * o.bias;
    for (size_t t = 0; t < features.size(); ++t) {
      local.items[at++] = {static_cast<uint32_t>(ws.local_of[features[t]]), values[t]};
      norm += static_cast<double>(values[t]) * values[t];
    }
    local.ptr.push_back(at);
    local.squared_norm[i] = static_cast<float>(norm);
    ws.position_of[ws.row_of[i]] = static_cast<int32_t>(i);
  }
  for (const int32_t feature : by_count)
    ws.local_of[feature] = -1;
}

class BlockTraining {
public:
  BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, const TrainOptions &o, Workspace &ws)
      : tasks_(tasks), o_(o), ws_(ws), n_features_(x.n_cols), first_output_(tasks.output_ptr[block]),
        n_outputs_(tasks.output_ptr[block + 1] - tasks.output_ptr[block]),
        random_(o.seed ^ mix(static_cast<uint64_t>(tasks.seeds[block]))) {
    rows_ = tasks.rows + tasks.row_begin[block];
    n_rows_ = tasks.row_end[block] - tasks.row_begin[block];
    copy_rows(x, rows_, n_rows_, o, ws);
    lanes_ = n_outputs_ <= 4 ? 4 : n_outputs_ <= 8 ? 8 : 16;
    const size_t n_weights = ws.rows.feature_of.size() * lanes_;
    if (n_weights + 16 > ws.weights_capacity) {
      ws.weights_capacity = n_weights + n_weights / 4 + 16;
      ws.weights_storage.reset(new float[ws.weights_capacity]);
    }
    ws.weights = aligned(ws.weights_storage.get());
    std::fill(ws.weights, ws.weights + n_weights, 0.0f);
    ws.alpha_storage.resize(n_rows_ * lanes_ + 16);
    ws.alpha = aligned(ws.alpha_storage.data());
    ws.positive.assign(n_rows_, 0);
    ws.sequence.resize(n_rows_);
    std::iota(ws.sequence.begin(), ws.sequence.end(), 0);
    ws.kept.clear();
    state_.diagonal = static_cast<float>(0.5 / o.cost);
    state_.bias_value = static_cast<float>(o.bias);
    state_.settled = static_cast<float>(o.tolerance / 4);
    if (tasks.row_weights || !even_positives()) {
      ws.cost_storage.assign(n_rows_ * lanes_ + 16, state_.diagonal);
      costs_ = aligned(ws.cost_storage.data());
      state_.costs = costs_;
    }
  }

  TrainedBlock run() {
    TrainedBlock result;
    result.bias.assign(n_outputs_, 0.0f);
    int64_t next = 0;
    int sweeps_of[kMaxLanes] = {};
    for (int lane = 0; lane < lanes_; ++lane)
      output_of_[lane] = -1;
    for (int lane = 0; lane < lanes_ && next < n_outputs_; ++lane)
      start(lane, next++);
    for (int running = static_cast<int>(std::min<int64_t>(lanes_, n_outputs_)); running > 0;) {
      for (int64_t i = n_rows_ - 1; i > 0; --i)
        std::swap(ws_.sequence[i], ws_.sequence[random_.below(i + 1)]);
      sweep(ws_, state_, lanes_, o_.loss);
      for (int lane = 0; lane < lanes_; ++lane) {
        if (output_of_[lane] < 0)
          continue;
        ++sweeps_of[lane];
        ++result.sweeps;
        const bool settled = state_.largest[lane] - state_.smallest[lane] <= o_.tolerance;
        if (!settled && sweeps_of[lane] < o_.max_sweeps)
          continue;
        result.bias[output_of_[lane]] = static_cast<float>(state_.bias[lane] * o_.bias);
        finish(lane);
        sweeps_of[lane] = 0;
        if (next < n_outputs_)
          start(lane, next++);
        else
          --running;
      }
    }
    result.packed = pack_block(ws_.kept, static_cast<int>(n_outputs_), n_features_, o_.weight_type);
    return result;
  }

private:
  // Whether each output's positives weigh the same among themselves, as with tail weights: then no weight is needed per
  // row and lane.
  bool even_positives() const {
    if (!tasks_.positive_weights)
      return true;
    for (int64_t output = first_output_; output < first_output_ + n_outputs_; ++output)
      for (int64_t i = tasks_.positive_begin[output] + 1; i < tasks_.positive_end[output]; ++i)
        if (tasks_.positive_weights[i] != tasks_.positive_weights[i - 1])
          return false;
    return true;
  }

  // Puts an output into a free lane, whose weights are zero.
  void start(int lane, int64_t output) {
    output_of_[lane] = output;
    state_.active[lane] = 1;
    state_.bias[lane] = 0;
    const float alpha = o_.loss == Loss::logistic ? static_cast<float>(1e-8 * o_.cost) : 0.0f;
    for (int64_t row = 0; row < n_rows_; ++row) {
      ws_.alpha[row * lanes_ + lane] = alpha;
      ws_.positive[row] &= static_cast<uint16_t>(~(1u << lane));
    }
    const int64_t begin = tasks_.positive_begin[first_output_ + output];
    const int64_t end = tasks_.positive_end[first_output_ + output];
    const float even = tasks_.positive_weights && begin < end ? std::max(tasks_.positive_weights[begin], 1e-6f) : 1.0f;
    state_.diagonal_positive[lane] = state_.diagonal / even;
    if (costs_)
      for (int64_t i = 0; i < n_rows_; ++i) {
        const float weight = tasks_.row_weights ? tasks_.row_weights[ws_.row_of[i]] : 1.0f;
        costs_[i * lanes_ + lane] = state_.diagonal / std::max(weight, 1e-6f);
      }
    for (int64_t i = begin; i < end; ++i) {
      const int32_t row = tasks_.positives[i];
      const int32_t at = ws_.position_of[row];
      if (at < 0 || at >= n_rows_ || ws_.row_of[at] != row)
        continue; // a positive outside the block's rows
      ws_.positive[at] |= static_cast<uint16_t>(1u << lane);
      if (tasks_.positive_weights && costs_)
        costs_[at * lanes_ + lane] /= std::max(tasks_.positive_weights[i], 1e-6f);
    }
  }

  // Takes the weights out of a lane and leaves zeros.
  void finish(int lane) {
    const float threshold = static_cast<float>(o_.threshold);
    const auto &feature_of = ws_.rows.feature_of;
    for (size_t f = 0; f < feature_of.size(); ++f) {
      float &w = ws_.weights[f * lanes_ + lane];
      if (std::abs(w) >= threshold && w != 0)
        ws_.kept.push_back({feature_of[f], static_cast<int32_t>(output_of_[lane]), w});
      w = 0;
    }
    output_of_[lane] = -1;
    state_.active[lane] = 0;
    state_.bias[lane] = 0;
  }

  const TrainTasks &tasks_;
  const TrainOptions &o_;
  Workspace &ws_;
  int64_t n_features_, first_output_, n_outputs_;
  const int32_t *rows_ = nullptr;
  int64_t n_rows_ = 0;
  int lanes_ = 16;
  float *costs_ = nullptr;
  int64_t output_of_[kMaxLanes];
  Random random_;
  LaneState state_;
};

} // namespace

std::vector<TrainedBlock> train_blocks(const CsrView &x, const TrainTasks &tasks, const TrainOptions &o) {
  std::vector<TrainedBlock> results(tasks.n_blocks);
  std::vector<Workspace> workspaces(std::max(1, o.threads));
  // Largest first, so that no thread starts a long block when the others are done.
  std::vector<int64_t> order(tasks.n_blocks);
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](int64_t b) {
    return (tasks.row_end[b] - tasks.row_begin[b]) * (tasks.output_ptr[b + 1] - tasks.output_ptr[b] + 8);
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) > size(b); });
  parallel_chunks(tasks.n_blocks, o.threads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i)
      results[order[i]] = BlockTraining(x, tasks, order[i], o, workspaces[thread]).run();
  });
  return results;
}

} // namespace tagwood
