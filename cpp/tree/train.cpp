#include "tree/train.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/pages.hpp"
#include "core/parallel.hpp"

namespace tagwood {

namespace {

struct Entry {
  int32_t row;
  float weight;
};

// Collects rows without repetition, keeping the largest weight of each.
class Union {
public:
  explicit Union(int64_t n_rows) : place_(n_rows, -1) {}
  void add(int32_t row, float weight) {
    int32_t &place = place_[row];
    if (place < 0) {
      place = static_cast<int32_t>(entries_.size());
      entries_.push_back({row, weight});
    } else {
      entries_[place].weight = std::max(entries_[place].weight, weight);
    }
  }
  std::vector<Entry> take() {
    for (const Entry &e : entries_)
      place_[e.row] = -1;
    std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) { return a.row < b.row; });
    std::vector<Entry> sorted(entries_);
    entries_.clear();
    return sorted;
  }

private:
  std::vector<int32_t> place_;
  std::vector<Entry> entries_;
};

} // namespace

NodeRows node_rows(const CsrView &label_rows, const int32_t *parent, const int32_t *label_ptr, const int32_t *labels,
                   int32_t n_nodes, int64_t n_rows, int threads) {
  std::vector<std::vector<Entry>> entries(n_nodes);
  std::vector<Union> unions(std::max(1, threads), Union(n_rows));
  parallel_chunks(n_nodes, threads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t node = begin; node < end; ++node) {
      for (int32_t at = label_ptr[node]; at < label_ptr[node + 1]; ++at) {
        const auto rows = label_rows.row_indices(labels[at]);
        const auto weights = label_rows.row_data(labels[at]);
        for (size_t i = 0; i < rows.size(); ++i)
          unions[thread].add(rows[i], weights[i]);
      }
      if (label_ptr[node] < label_ptr[node + 1])
        entries[node] = unions[thread].take();
    }
  });
  // Children have larger numbers than their parents, and siblings are adjacent: one pass from the end.
  for (int32_t last = n_nodes - 1; last > 0;) {
    const int32_t above = parent[last];
    int32_t first = last;
    while (first > 1 && parent[first - 1] == above)
      --first;
    for (int32_t child = first; child <= last; ++child)
      for (const Entry &e : entries[child])
        unions[0].add(e.row, e.weight);
    entries[above] = unions[0].take();
    last = first - 1;
  }
  NodeRows out;
  out.ptr.assign(1, 0);
  for (const auto &node : entries)
    out.ptr.push_back(out.ptr.back() + static_cast<int64_t>(node.size()));
  out.rows.reserve(out.ptr.back());
  out.weights.reserve(out.ptr.back());
  for (auto &node : entries) {
    for (const Entry &e : node) {
      out.rows.push_back(e.row);
      out.weights.push_back(e.weight);
    }
    std::vector<Entry>().swap(node);
  }
  return out;
}

namespace {

constexpr float kLeastWeight = 1e-6f;
constexpr int kNarrowSweeps = 3;               // over the rows that a sweep over all rows has moved
constexpr size_t kKeptLimit = size_t{1} << 20; // weights of a block for which a workspace keeps memory

float *aligned(float *p) { return reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63}); }

// One bit per lane: whether its weight is at least `least` in size.
TAGWOOD_INLINE uint32_t large_lanes(const float *weights, int lanes, float least) {
  uint32_t bits = 0;
  for (int lane = 0; lane < lanes; ++lane)
    bits |= static_cast<uint32_t>(std::abs(weights[lane]) >= least) << lane;
  return bits;
}

// Renumbers the features, most frequent first; beyond kMostUses all count as equal.
void number_by_count(Workspace &ws) {
  constexpr int32_t kMostUses = 1023;
  auto &features = ws.rows.feature_of;
  int32_t starts[kMostUses + 2] = {};
  auto group = [&](int32_t id) { return kMostUses - std::min(ws.counts[id], kMostUses); };
  for (size_t id = 0; id < features.size(); ++id)
    ++starts[group(static_cast<int32_t>(id)) + 1];
  for (int32_t g = 0; g <= kMostUses; ++g)
    starts[g + 1] += starts[g];
  ws.by_count.resize(features.size());
  for (size_t id = 0; id < features.size(); ++id) {
    int32_t &at = starts[group(static_cast<int32_t>(id))];
    ws.by_count[at] = features[id];
    ws.local_of[features[id]] = at++;
  }
  std::swap(features, ws.by_count);
}

float squared_norm(std::span<const float> values, double bias_step) {
  double norm = bias_step * bias_step;
  for (const float value : values)
    norm += static_cast<double>(value) * value;
  return static_cast<float>(norm);
}

// Copies the block's rows into the compact space with the most frequent features first.
void copy_rows(const CsrView &x, double bias_step, Workspace &ws) {
  auto &local = ws.rows;
  local.feature_of.clear();
  ws.counts.clear();
  int64_t stored = 0;
  for (const int32_t row : ws.row_of) {
    for (const int32_t feature : x.row_indices(row)) {
      int32_t &id = ws.local_of[feature];
      if (id < 0) {
        id = static_cast<int32_t>(local.feature_of.size());
        local.feature_of.push_back(feature);
        ws.counts.push_back(0);
      }
      ++ws.counts[id];
      ++stored;
    }
  }
  number_by_count(ws);
  local.ptr.assign(1, 0);
  local.features.resize(stored);
  local.values.resize(ws.row_of.size());
  int64_t at = 0;
  for (size_t i = 0; i < ws.row_of.size(); ++i) {
    const auto values = x.row_data(ws.row_of[i]);
    local.squared_norm[i] = squared_norm(values, bias_step);
    local.values[i] = values.data();
    for (const int32_t feature : x.row_indices(ws.row_of[i]))
      local.features[at++] = static_cast<uint32_t>(ws.local_of[feature]);
    local.ptr.push_back(at);
  }
}

// Prepares a block whose rows are read in chunks: they have most features, which keep their numbers, so that rows are
// copied as they are. Their norms are computed when they are read first.
void number_as_in_x(const CsrView &x, Workspace &ws) {
  ws.rows.feature_of.resize(x.n_cols);
  std::iota(ws.rows.feature_of.begin(), ws.rows.feature_of.end(), 0);
  std::iota(ws.local_of.begin(), ws.local_of.end(), 0);
  std::fill(ws.rows.squared_norm.begin(), ws.rows.squared_norm.end(), -1.0f);
}

// Number of stored features of some rows.
int64_t count_entries(const CsrView &x, std::span<const int32_t> rows) {
  int64_t entries = 0;
  for (const int32_t row : rows)
    entries += x.row_size(row);
  return entries;
}

} // namespace

BlockTraining::BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, const TrainOptions &o,
                             Workspace &ws)
    : BlockTraining(x, tasks, block, tasks.rows_of(block), o, ws) {
  if (!tasks.guests.guest)
    return;
  const uint8_t *guest = tasks.guests.guest + tasks.row_begin[block];
  if (std::any_of(guest, guest + n_rows_, [](uint8_t one) { return one != 0; })) {
    guest_ = guest;
    weigh_entries();
  }
}

BlockTraining::BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, std::span<const int32_t> rows,
                             const TrainOptions &o, Workspace &ws)
    : x_(x), tasks_(tasks), o_(o), ws_(ws), hash_bits_(feature_bits(x.n_cols)), first_output_(tasks.output_ptr[block]),
      n_outputs_(tasks.output_ptr[block + 1] - tasks.output_ptr[block]),
      random_(o.seed ^ mix(static_cast<uint64_t>(tasks.seeds[block]))) {
  n_rows_ = static_cast<int64_t>(rows.size());
  chunked_ = o.chunk_entries > 0 && count_entries(x, rows) > o.chunk_entries;
  state_.bias_value = static_cast<float>(o.bias);
  state_.bias_step = tasks.start.ptr ? 0.0f : state_.bias_value;
  ws.local_of.resize(x.n_cols, -1);
  ws.position_of.resize(x.n_rows, -1);
  ws.row_of.assign(rows.begin(), rows.end());
  for (int64_t i = 0; i < n_rows_; ++i)
    ws.position_of[rows[i]] = static_cast<int32_t>(i);
  ws.rows.squared_norm.resize(n_rows_);
  chunked_ ? number_as_in_x(x, ws) : copy_rows(x, state_.bias_step, ws);
  lanes_ = n_outputs_ <= 4 ? 4 : n_outputs_ <= 8 ? 8 : 16;
  order_.resize(n_outputs_);
  std::iota(order_.begin(), order_.end(), 0);
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
  ws.trained.resize(n_rows_);
  std::iota(ws.trained.begin(), ws.trained.end(), 0);
  ws.kept.clear();
  threshold_ = static_cast<float>(o.threshold);
  if (tasks.start.ptr)
    read_start(block);
  state_.diagonal = static_cast<float>(0.5 / o.cost);
  state_.settled = static_cast<float>(o.tolerance / 4);
  if (tasks.row_weights || !even_positives())
    weigh_entries();
}

// Gives each row a weight of its own in each lane.
void BlockTraining::weigh_entries() {
  ws_.cost_storage.assign(n_rows_ * lanes_ + 16, state_.diagonal);
  costs_ = aligned(ws_.cost_storage.data());
  state_.costs = costs_;
}

BlockTraining::~BlockTraining() {
  for (const int32_t feature : ws_.rows.feature_of)
    ws_.local_of[feature] = -1;
}

// Sorts the weights to start from by output. Those of features that no row of the block has are kept as they are. Small
// ones are kept, too: they were rounded when they were stored, and updates must not drop them.
void BlockTraining::read_start(int64_t block) {
  const StartWeights &from = tasks_.start;
  const int64_t begin = from.ptr[block], end = from.ptr[block + 1];
  ws_.start_ptr.assign(n_outputs_ + 1, 0);
  for (int64_t i = begin; i < end; ++i)
    if (from.values[i] != 0 && ws_.local_of[from.features[i]] >= 0)
      ++ws_.start_ptr[from.columns[i] + 1];
  std::partial_sum(ws_.start_ptr.begin(), ws_.start_ptr.end(), ws_.start_ptr.begin());
  ws_.start.resize(ws_.start_ptr.back());
  std::vector<int64_t> next(ws_.start_ptr.begin(), ws_.start_ptr.end() - 1);
  for (int64_t i = begin; i < end; ++i) {
    if (from.values[i] == 0) // features of many outputs are stored for all of them
      continue;
    const auto column = static_cast<uint32_t>(from.columns[i]);
    const int32_t local = ws_.local_of[from.features[i]];
    if (local >= 0)
      ws_.start[next[column]++] = {static_cast<uint32_t>(local), column, from.values[i]};
    else
      ws_.kept.push_back({hash_feature(from.features[i], hash_bits_), column, from.values[i]});
    threshold_ = std::min(threshold_, std::abs(from.values[i]));
  }
}

TrainedBlock BlockTraining::run() {
  TrainedBlock result;
  result.bias.assign(n_outputs_, 0.0f);
  // Outputs with as many positives need about as many sweeps: the lanes of a group are done at about the same time.
  auto positives = [&](int64_t output) {
    return tasks_.positive_end[first_output_ + output] - tasks_.positive_begin[first_output_ + output];
  };
  std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) { return positives(a) > positives(b); });
  for (int64_t first = 0; first < n_outputs_; first += lanes_) {
    const int n = fill(first);
    result.visits += settle();
    for (int lane = 0; lane < n; ++lane)
      result.bias[order_[first + lane]] = static_cast<float>(state_.bias[lane] * o_.bias);
    take_weights(first);
  }
  result.packed = pack_block(ws_.kept, ws_.spare, static_cast<int>(n_outputs_), hash_bits_, o_.weight_type);
  if (ws_.kept.capacity() > kKeptLimit) { // few blocks are that large: free the memory
    std::vector<Weight>().swap(ws_.kept);
    std::vector<Weight>().swap(ws_.spare);
  }
  return result;
}

void BlockTraining::train_group(int64_t first) {
  std::fill(ws_.weights, ws_.weights + ws_.rows.feature_of.size() * lanes_, 0.0f);
  fill(first);
  settle();
}

// Trains the outputs in the lanes; returns the visits of rows, counted per lane. After its first sweep a lane moves few
// rows: a sweep over all rows, which alone decides that a lane is done, is followed by some over those that it has
// moved, for the lanes that are not settled there.
int64_t BlockTraining::settle() {
  int64_t visits = 0;
  int running = static_cast<int>(std::count(state_.active, state_.active + lanes_, 1.0f));
  for (int sweeps = 0; running > 0 && sweeps < o_.max_sweeps;) {
    ws_.sequence = ws_.trained;
    visits += running * static_cast<int64_t>(ws_.sequence.size());
    shuffle_and_sweep();
    ++sweeps;
    running = stop_settled();
    float unfinished[kMaxLanes];
    std::copy_n(state_.active, lanes_, unfinished);
    int moving = running;
    const int narrow_sweeps = ws_.moved.empty() ? 0 : kNarrowSweeps;
    for (int narrow = 0; moving > 0 && narrow < narrow_sweeps && sweeps < o_.max_sweeps; ++narrow, ++sweeps) {
      std::swap(ws_.sequence, ws_.moved);
      visits += moving * static_cast<int64_t>(ws_.sequence.size());
      shuffle_and_sweep();
      moving = stop_settled();
    }
    std::copy_n(unfinished, lanes_, state_.active);
  }
  return visits;
}

// Stops the lanes that the last sweep found settled; returns how many go on.
int BlockTraining::stop_settled() {
  int running = 0;
  for (int lane = 0; lane < lanes_; ++lane) {
    if (settled(lane))
      state_.active[lane] = 0;
    running += state_.active[lane] != 0;
  }
  return running;
}

void BlockTraining::group_margins(const CsrView &x, std::span<const int32_t> rows, float *margins) const {
  float bias[kMaxLanes];
  for (int lane = 0; lane < lanes_; ++lane)
    bias[lane] = state_.bias[lane] * state_.bias_value;
  find_margins({x, rows, ws_.weights, ws_.local_of.data(), bias, margins}, lanes_);
}

// Place of a row in the block, or -1.
int32_t BlockTraining::place_of(int32_t row) const {
  const int32_t at = ws_.position_of[row];
  return at >= 0 && at < n_rows_ && ws_.row_of[at] == row ? at : -1;
}

// The user's weight of the row at a place of the block.
float BlockTraining::row_weight(int64_t place) const {
  return tasks_.row_weights ? tasks_.row_weights[ws_.row_of[place]] : 1.0f;
}

// Whether all positives of an output have the same weight, as with `rare_label_weight`: then no weight per row and lane
// is needed.
bool BlockTraining::even_positives() const {
  if (!tasks_.positive_weights)
    return true;
  for (int64_t output = first_output_; output < first_output_ + n_outputs_; ++output)
    for (int64_t i = tasks_.positive_begin[output] + 1; i < tasks_.positive_end[output]; ++i)
      if (tasks_.positive_weights[i] != tasks_.positive_weights[i - 1])
        return false;
  return true;
}

void BlockTraining::shuffle_and_sweep() {
  for (int64_t i = static_cast<int64_t>(ws_.sequence.size()) - 1; i > 0; --i)
    std::swap(ws_.sequence[i], ws_.sequence[random_.below(i + 1)]);
  chunked_ ? sweep_chunks() : sweep(ws_, state_, lanes_, o_.loss);
}

// One sweep in the order of ws.sequence, with the rows of the next visits in memory: the same operations, and so the
// same bits, as with all rows in memory.
void BlockTraining::sweep_chunks() {
  float largest[kMaxLanes] = {}, smallest[kMaxLanes] = {};
  const auto n_visits = static_cast<int64_t>(ws_.sequence.size());
  ws_.moved.clear();
  for (int64_t begin = 0, end = 0; begin < n_visits; begin = end) {
    int64_t entries = 0;
    for (; end < n_visits; ++end) {
      const int64_t size = x_.row_size(ws_.row_of[ws_.sequence[end]]);
      if (end > begin && entries + size > o_.chunk_entries)
        break;
      entries += size;
    }
    load_chunk(begin, end, entries);
    sweep(ws_.chunk, state_, lanes_, o_.loss);
    for (int64_t visit = begin; visit < end; ++visit)
      std::copy_n(ws_.chunk.alpha + (visit - begin) * lanes_, lanes_, ws_.alpha + ws_.sequence[visit] * lanes_);
    for (const int32_t visit : ws_.chunk.moved)
      ws_.moved.push_back(ws_.sequence[begin + visit]);
    for (int lane = 0; lane < lanes_; ++lane) {
      largest[lane] = std::max(largest[lane], state_.largest[lane]);
      smallest[lane] = std::min(smallest[lane], state_.smallest[lane]);
    }
  }
  std::copy_n(largest, lanes_, state_.largest);
  std::copy_n(smallest, lanes_, state_.smallest);
  state_.costs = costs_;
}

// Copies the rows of visits begin .. end into ws.chunk, in the order of the visits; x is read in its own order.
void BlockTraining::load_chunk(int64_t begin, int64_t end, int64_t entries) {
  const int64_t n = end - begin;
  LaneArrays &chunk = ws_.chunk;
  chunk.rows.ptr.resize(n + 1);
  chunk.rows.features.resize(entries);
  chunk.rows.values.resize(n);
  chunk.rows.squared_norm.resize(n);
  chunk.positive.resize(n);
  chunk.sequence.resize(n);
  std::iota(chunk.sequence.begin(), chunk.sequence.end(), 0);
  ws_.chunk_values.resize(entries);
  ws_.chunk_alpha.resize(n * lanes_ + 16);
  ws_.chunk_costs.resize(costs_ ? n * lanes_ + 16 : 0);
  chunk.weights = ws_.weights;
  chunk.alpha = aligned(ws_.chunk_alpha.data());
  float *const costs = costs_ ? aligned(ws_.chunk_costs.data()) : nullptr;
  state_.costs = costs;
  chunk.rows.ptr[0] = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = ws_.sequence[begin + i], at = chunk.rows.ptr[i];
    chunk.rows.ptr[i + 1] = at + x_.row_size(ws_.row_of[place]);
    chunk.rows.values[i] = ws_.chunk_values.data() + at;
    chunk.positive[i] = ws_.positive[place];
    std::copy_n(ws_.alpha + place * lanes_, lanes_, chunk.alpha + i * lanes_);
    if (costs)
      std::copy_n(costs_ + place * lanes_, lanes_, costs + i * lanes_);
  }
  auto &order = ws_.chunk_order;
  order.assign(chunk.sequence.begin(), chunk.sequence.end());
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return ws_.sequence[begin + a] < ws_.sequence[begin + b]; });
  PagesRead pages(x_, o_.mapped);
  for (const int32_t i : order) {
    const int32_t place = ws_.sequence[begin + i], row = ws_.row_of[place];
    const auto features = x_.row_indices(row);
    const auto values = x_.row_data(row);
    std::copy(features.begin(), features.end(), chunk.rows.features.data() + chunk.rows.ptr[i]);
    std::copy(values.begin(), values.end(), ws_.chunk_values.data() + chunk.rows.ptr[i]);
    float &norm = ws_.rows.squared_norm[place];
    if (norm < 0)
      norm = squared_norm(values, state_.bias_step);
    chunk.rows.squared_norm[i] = norm;
    pages.read(row);
  }
  pages.release();
}

// Puts the outputs from place `first` of the order on into the lanes, whose weights are zero; returns how many.
int BlockTraining::fill(int64_t first) {
  const int n = static_cast<int>(std::min<int64_t>(lanes_, n_outputs_ - first));
  std::fill_n(ws_.alpha, n_rows_ * lanes_, o_.loss == Loss::logistic ? static_cast<float>(1e-8 * o_.cost) : 0.0f);
  std::fill(ws_.positive.begin(), ws_.positive.end(), uint16_t{0});
  std::fill_n(state_.active, kMaxLanes, 0.0f);
  std::fill_n(state_.bias, kMaxLanes, 0.0f);
  for (int lane = 0; lane < n; ++lane)
    start(lane, order_[first + lane]);
  return n;
}

void BlockTraining::start(int lane, int64_t output) {
  state_.active[lane] = 1;
  if (tasks_.start.ptr) {
    for (int64_t i = ws_.start_ptr[output]; i < ws_.start_ptr[output + 1]; ++i)
      ws_.weights[ws_.start[i].hash * lanes_ + lane] = ws_.start[i].value;
    if (o_.bias > 0)
      state_.bias[lane] = tasks_.start.bias[first_output_ + output] / static_cast<float>(o_.bias);
  }
  const int64_t begin = tasks_.positive_begin[first_output_ + output];
  const int64_t end = tasks_.positive_end[first_output_ + output];
  const float even =
      tasks_.positive_weights && begin < end ? std::max(tasks_.positive_weights[begin], kLeastWeight) : 1.0f;
  state_.diagonal_positive[lane] = state_.diagonal / even;
  if (costs_)
    for (int64_t i = 0; i < n_rows_; ++i) {
      const float weight = guest_ && guest_[i] ? 0.0f : row_weight(i);
      costs_[i * lanes_ + lane] = state_.diagonal / std::max(weight, kLeastWeight);
    }
  if (guest_)
    for (int64_t i = tasks_.guests.negative_begin[first_output_ + output];
         i < tasks_.guests.negative_end[first_output_ + output]; ++i)
      welcome(tasks_.guests.negatives[i], lane);
  for (int64_t i = begin; i < end; ++i) {
    const int32_t at = place_of(tasks_.positives[i]);
    if (at < 0)
      continue; // a positive outside the block's rows
    ws_.positive[at] |= static_cast<uint16_t>(1u << lane);
    welcome(tasks_.positives[i], lane);
    if (tasks_.positive_weights && costs_)
      costs_[at * lanes_ + lane] /= std::max(tasks_.positive_weights[i], kLeastWeight);
  }
}

// Gives a row its weight back in a lane where it counts although the block has it as a guest.
void BlockTraining::welcome(int32_t row, int lane) {
  const int32_t at = guest_ ? place_of(row) : -1;
  if (at >= 0 && guest_[at])
    costs_[at * lanes_ + lane] = state_.diagonal / std::max(row_weight(at), kLeastWeight);
}

// Moves the weights out of the lanes and leaves zeros. Most features have no large weight in any lane.
void BlockTraining::take_weights(int64_t first) {
  const auto &feature_of = ws_.rows.feature_of;
  const float least = std::max(threshold_, std::numeric_limits<float>::denorm_min()); // zeros are not kept
  for (size_t f = 0; f < feature_of.size(); ++f) {
    const float *const w = ws_.weights + f * lanes_;
    for (uint32_t large = large_lanes(w, lanes_, least); large; large &= large - 1) {
      const int lane = std::countr_zero(large);
      const auto output = static_cast<uint32_t>(order_[first + lane]);
      ws_.kept.push_back({hash_feature(feature_of[f], hash_bits_), output, w[lane]});
    }
  }
  std::fill_n(ws_.weights, feature_of.size() * lanes_, 0.0f);
}

// Each block is trained on one thread.
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
