#include "groups/impute.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

// Two features at a time: {e, g, e, g} * {x, x, y, y}. Written with vectors because compilers turn the plain loop
// into gathers and inserts, which take twice the time.
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

namespace {

constexpr double kTie = 1e-5;            // similarities closer than this are equal
constexpr double kZero = 1e-5;           // sums shorter than this times the number of rows are zero
constexpr double kUnused = 1e-5;         // features whose sum over the rows, of floats, is smaller are not used
constexpr double kRounding = 2e-6;       // error of a similarity in float32
constexpr double kOver = 1 + 1e-6;       // relative error of a distance
constexpr int64_t kLocalLimit = 1 << 23; // indices that one thread copies at most (32 MB)
constexpr int64_t kOwnFeatures = 4; // labels with fewer indices than this times all features use local feature numbers

// Prefetches the first cache lines of a row; the processor prefetches the rest by itself.
void fetch(const Slot &slot) {
  for (int32_t i = 0; i < std::min(slot.size, 64); i += 16) {
    __builtin_prefetch(slot.indices + i);
    __builtin_prefetch(slot.data + i);
  }
}

} // namespace

void LabelSolver::solve(int64_t label) {
  collect(label);
  sum_rows(label);
  start(groups_.label_starts[label]);
  for (int step = 0; step < settings_.steps; ++step) {
    if (pick())
      turn_towards_picks();
    else if (jump_to_the_end(settings_.steps - step))
      return;
    path_.advance(settings_.step_size);
  }
}

void LabelSolver::collect(int64_t label) {
  const CsrView &x = groups_.x;
  slots_.clear();
  group_starts_.assign(1, 0);
  for (int64_t at = groups_.label_indptr[label]; at < groups_.label_indptr[label + 1]; ++at) {
    const int32_t group = groups_.label_groups[at];
    for (int64_t i = groups_.group_indptr[group]; i < groups_.group_indptr[group + 1]; ++i) {
      const int32_t row = groups_.group_rows[i];
      const int64_t begin = x.indptr[row];
      slots_.push_back({x.indices + begin, x.data + begin, static_cast<int32_t>(x.indptr[row + 1] - begin), row});
    }
    if (static_cast<int64_t>(slots_.size()) > group_starts_.back()) // groups without rows are ignored
      group_starts_.push_back(static_cast<int64_t>(slots_.size()));
  }
  known_.assign(slots_.size(), {0, 0, 0, false});
  leads_.assign(n_groups(), -1);
  path_.restart();
  n_picked_ = 0;
}

void LabelSolver::add(const Slot &slot, double weight) {
  for (int32_t i = 0; i < slot.size; ++i)
    sum_[slot.indices[i]] += weight * slot.data[i];
}

void LabelSolver::sum_rows(int64_t label) {
  int64_t total = 0;
  for (const Slot &slot : slots_)
    total += slot.size;
  const int64_t begin = groups_.label_indptr[label], end = groups_.label_indptr[label + 1];
  features_.clear();
  if (total > std::min(kLocalLimit, kOwnFeatures * groups_.x.n_cols)) { // all of e fits as well as the part in use
    sum_.assign(groups_.x.n_cols, 0.0);
    for (int64_t at = begin; at < end; ++at)
      sums_.for_each(groups_.label_groups[at], [&](int32_t feature, float value) { sum_[feature] += value; });
    return;
  }
  features_.resize(std::min(total, groups_.x.n_cols));
  sum_.assign(features_.size(), 0.0);
  int32_t used = 0;
  for (int64_t at = begin; at < end; ++at)
    sums_.for_each(groups_.label_groups[at], [&](int32_t feature, float value) {
      int32_t &id = local_id_[feature];
      if (id < 0) {
        features_[used] = feature;
        id = used++;
      }
      sum_[id] += value;
    });
  features_.resize(used);
  sum_.resize(used);
  use_own_features(total);
}

// Copies the slots' features with local numbers, so that a small label fits in the nearest cache.
void LabelSolver::use_own_features(int64_t total) {
  indices_.resize(total);
  int32_t *out = indices_.data();
  for (Slot &slot : slots_) {
    for (int32_t i = 0; i < slot.size; ++i)
      out[i] = local_id_[slot.indices[i]];
    slot.indices = out;
    out += slot.size;
  }
  for (const int32_t feature : features_)
    local_id_[feature] = -1;
}

// The mean of the rows of groups without the label, (N * mean - sum) / (N - n); that of all rows if there are none.
void LabelSolver::find_background() {
  const double all = static_cast<double>(groups_.group_indptr[groups_.n_groups]);
  const double others = all - static_cast<double>(slots_.size());
  background_.resize(sum_.size());
  for (size_t i = 0; i < sum_.size(); ++i) {
    const double mean = groups_.mean[features_.empty() ? i : features_[i]];
    const double own = others > 0 ? (all * mean - sum_[i]) / others : mean;
    background_[i] = std::abs(sum_[i]) > kUnused ? static_cast<float>(groups_.contrast * own) : 0.0f;
  }
}

// e0 is the normalised sum of all rows of all groups, minus the background unless nothing else is left.
void LabelSolver::start(int32_t place) {
  find_background();
  pairs_.assign(sum_.size(), {0, 0});
  if (!start_from_sum(static_cast<double>(slots_.size())) && !start_from_sum(0) && settings_.steps > 0)
    break_symmetry(place);
  std::fill(sum_.begin(), sum_.end(), 0.0);
}

// Subtracts the background of n_rows rows from the sum; false if nothing is left.
bool LabelSolver::start_from_sum(double n_rows) {
  const int64_t size = static_cast<int64_t>(sum_.size());
  const double norm = std::sqrt(squared_length(sum_.data(), background_.data(), n_rows, size));
  if (!(norm > kZero * static_cast<double>(slots_.size())))
    return false;
  for (int64_t i = 0; i < size; ++i)
    pairs_[i].e = pairs_[i].g = static_cast<float>((sum_[i] - n_rows * background_[i]) / norm);
  return true;
}

// The rows cancel out: e0 is one row of the first group that has rows with features, another one for each label.
void LabelSolver::break_symmetry(int32_t place) {
  for (int64_t group = 0; group < n_groups(); ++group) {
    std::vector<const Slot *> filled;
    for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i)
      if (slots_[i].size > 0)
        filled.push_back(&slots_[i]);
    if (filled.empty())
      continue;
    const Slot &slot = *filled[place % filled.size()];
    for (int32_t i = 0; i < slot.size; ++i)
      pairs_[slot.indices[i]] = {slot.data[i], slot.data[i]};
    return;
  }
}

double LabelSolver::middle(const EmbeddingPath &path, const Known &known) const {
  const Leg &leg = path[known.leg];
  return leg.keep * known.with_e + leg.add * known.with_g;
}

void LabelSolver::measure(int64_t i) {
  if (known_[i].leg == path_.current())
    return;
  const Products found = products(slots_[i].indices, slots_[i].data, slots_[i].size, pairs_.data());
  known_[i].with_e = found.with_e;
  known_[i].with_g = found.with_g;
  known_[i].leg = path_.current();
}

// Whether the picks of a group are certainly the same for the e at the end of `path`: one row ahead of all others, or
// several whose products with e and g are the same.
bool LabelSolver::settled(int64_t group, const EmbeddingPath &path) const {
  if (leads_[group] < 0)
    return false;
  const Known &lead = known_[leads_[group]];
  const double least = middle(path, lead) - path[lead.leg].rest.fall - kTie - kRounding;
  bool holds = true;
  for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i) {
    const Known &other = known_[i];
    if (&other == &lead)
      continue;
    if (other.picked)
      holds &= lead.leg == path.current() && other.leg == lead.leg && other.with_e == lead.with_e &&
               other.with_g == lead.with_g;
    else
      holds &= middle(path, other) + path[other.leg].rest.rise < least;
  }
  return holds;
}

// Measures every slot of the group that may be less than `window` behind its closest one.
void LabelSolver::look_closer(int64_t group, double window) {
  int64_t &lead = leads_[group];
  if (lead < 0)
    lead = group_starts_[group];
  measure(lead);
  double best = similarity(known_[lead]);
  for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i) {
    if (similarity(known_[i]) + path_[known_[i].leg].rest.rise < best - window - kRounding)
      continue;
    measure(i);
    if (similarity(known_[i]) > best) {
      best = similarity(known_[i]);
      lead = i;
    }
  }
}

// In each group picks the closest rows, ties included, and keeps their sum; returns whether any pick changed.
bool LabelSolver::pick() {
  bool changed = false;
  for (int64_t group = 0; group < n_groups(); ++group) {
    if (settled(group, path_))
      continue;
    if (group + 1 < n_groups())
      fetch(slots_[group_starts_[group + 1]]);
    look_closer(group, kTie);
    const double least = similarity(known_[leads_[group]]) - kTie;
    for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i) {
      const bool picked = known_[i].leg == path_.current() && similarity(known_[i]) >= least;
      if (picked == known_[i].picked)
        continue;
      changed = true;
      known_[i].picked = picked;
      n_picked_ += picked ? 1 : -1;
      add(slots_[i], picked ? 1.0 : -1.0);
    }
  }
  return changed;
}

// From here on e only turns towards g. Picks that are the same for this e and for the last one are the same for all
// between, since those are combinations of the two: then the last one is taken at once.
bool LabelSolver::jump_to_the_end(int n_steps) {
  EmbeddingPath ahead = path_;
  for (int step = 0; step < n_steps; ++step)
    ahead.advance(settings_.step_size);
  for (int64_t group = 0; group < n_groups(); ++group)
    if (!settled(group, ahead))
      return false;
  path_ = std::move(ahead);
  return true;
}

// The picks have changed: g is the normalised sum of the picked rows less their background, or zero.
void LabelSolver::turn_towards_picks() {
  const int64_t size = static_cast<int64_t>(sum_.size());
  const double n = static_cast<double>(n_picked_);
  const double norm = std::sqrt(squared_length(sum_.data(), background_.data(), n, size));
  const bool has_direction = norm > kZero * n;
  const Leg &leg = path_[path_.current()];
  const Turn t = turn(pairs_.data(), sum_.data(), background_.data(), size, static_cast<float>(leg.keep),
                      static_cast<float>(leg.add), n, has_direction ? 1.0 / norm : 0.0);
  // A row without negative entries gains at most from what g gained; any other row from all that changed.
  const double all = negative_ ? t.risen + t.fallen : 0;
  const Reach turned{kOver * std::sqrt(std::max(all, t.risen)), kOver * std::sqrt(std::max(all, t.fallen))};
  path_.begin_leg(turned, t.ee, t.eg, has_direction);
}

std::vector<Assignment> LabelSolver::assignments() {
  std::vector<Assignment> found;
  for (int64_t group = 0; group < n_groups(); ++group) {
    look_closer(group, kTie);
    const double best = similarity(known_[leads_[group]]);
    const double window = std::max(kTie, settings_.margin * best);
    if (settings_.margin > 0)
      look_closer(group, window);
    const size_t first = found.size();
    double total = 0;
    for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i) {
      const double behind = best - similarity(known_[i]);
      if (known_[i].leg != path_.current() || (behind > kTie && behind >= window))
        continue;
      const double share = behind <= kTie ? 1.0 : 1.0 - behind / window;
      found.push_back({slots_[i].row, static_cast<float>(best - behind), static_cast<float>(share)});
      total += share;
    }
    for (size_t i = first; i < found.size(); ++i)
      found[i].share = static_cast<float>(found[i].share / total);
  }
  std::sort(found.begin(), found.end(), [](const Assignment &a, const Assignment &b) { return a.row < b.row; });
  size_t kept = 0; // a row that gets the label through several groups has it once
  for (size_t i = 0; i < found.size(); ++i)
    if (kept > 0 && found[kept - 1].row == found[i].row) {
      found[kept - 1].similarity = std::max(found[kept - 1].similarity, found[i].similarity);
      found[kept - 1].share = std::min(1.0f, found[kept - 1].share + found[i].share);
    } else {
      found[kept++] = found[i];
    }
  found.resize(kept);
  found.shrink_to_fit();
  return found;
}

std::vector<EmbeddingEntry> LabelSolver::embedding() const {
  const Leg &leg = path_[path_.current()];
  std::vector<EmbeddingEntry> entries;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const float value = static_cast<float>(leg.keep * pairs_[i].e + leg.add * pairs_[i].g);
    if (value != 0.0f)
      entries.push_back({features_.empty() ? static_cast<int32_t>(i) : features_[i], value});
  }
  std::sort(entries.begin(), entries.end(),
            [](const EmbeddingEntry &a, const EmbeddingEntry &b) { return a.feature < b.feature; });
  return entries;
}

} // namespace tagwood
